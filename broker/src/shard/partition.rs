//! A partition that this shard leads: its log, its replica state, and who waits for either.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use strandline_core::metadata::BrokerId;
use strandline_core::replica::message::{Open, Opened};
use strandline_core::replica::{
    AckQueue, Acknowledgement, Acks, AlterPartition, Assignment, LeaderEvent, LeaderLog, LeaderReplica,
};
use strandline_runtime::local::Event;
use strandline_runtime::{Monotonic, Runtime};
use strandline_storage::disk::Disk;
use strandline_storage::{AppendError, Appended, Log};
use strandline_wire::ErrorCode;
use strandline_wire::batch::ValidatedBatch;

use super::records_ack::RecordsAck;
use super::watch::{FetchWatch, Watching};
use crate::handlers::produce::PendingProduce;
use crate::replica::Stream;

/// Who waits for an acknowledgement.
pub(crate) enum AckWaiter {
    /// A place in a produce request.
    Produce {
        request: Rc<PendingProduce>,
        item: usize,
    },
    /// Records of the shard's own.
    Records(Rc<RecordsAck>),
}

impl AckWaiter {
    fn complete(&self, now: Monotonic) {
        match self {
            Self::Produce { request, item } => request.complete(*item, now),
            Self::Records(ack) => ack.end(Ok(())),
        }
    }

    fn fail(&self, code: ErrorCode, reason: &str, now: Monotonic) {
        match self {
            Self::Produce { request, item } => request.fail(*item, code, reason, now),
            Self::Records(ack) => ack.end(Err(code)),
        }
    }
}

/// A partition led here.
pub(crate) struct Partition<D: Disk> {
    pub(crate) number: i32,
    pub(crate) log: Log<D>,
    replica: RefCell<LeaderReplica>,
    /// What followers were sent; empty with one replica.
    streams: RefCell<Vec<Rc<Stream<D>>>>,
    /// What a request gets whose time is up, of a partition with other replicas.
    timeout_code: Option<Rc<Cell<ErrorCode>>>,
    waiting_for_leader: RefCell<AckQueue<AckWaiter>>,
    waiting_for_all: RefCell<AckQueue<AckWaiter>>,
    watches: RefCell<Vec<Rc<FetchWatch>>>,
    /// Bytes appended, and bytes of them below the high watermark, since this shard leads.
    appended_bytes: Cell<u64>,
    readable_bytes: Cell<u64>,
    lost: Cell<Option<ErrorCode>>,
    /// A follower told how far it is, or the partition was lost.
    follower_news: Event,
}

impl<D: Disk> Partition<D> {
    /// `broker` leads `log` as `assignment` says; the epoch starts at the log's end.
    pub(crate) fn lead(
        number: i32,
        log: Log<D>,
        broker: BrokerId,
        assignment: Assignment,
        lag_time_max_ms: i64,
        now: Monotonic,
    ) -> Self {
        let is_replicated = assignment.replicas.len() > 1;
        let replica = LeaderReplica::lead(
            broker,
            assignment,
            ends_of(&log),
            log.high_watermark(),
            lag_time_max_ms,
            now.millis(),
        );
        log.set_high_watermark(replica.high_watermark());
        let timeout_code = is_replicated.then(|| Rc::new(Cell::new(replica.timeout_code(Acks::All))));
        Self {
            number,
            log,
            streams: RefCell::default(),
            timeout_code,
            replica: RefCell::new(replica),
            waiting_for_leader: RefCell::default(),
            waiting_for_all: RefCell::default(),
            watches: RefCell::default(),
            appended_bytes: Cell::new(0),
            readable_bytes: Cell::new(0),
            lost: Cell::new(None),
            follower_news: Event::new(),
        }
    }

    pub(crate) fn leader_epoch(&self) -> i32 {
        self.replica.borrow().leader_epoch().0
    }

    /// How many are in sync.
    pub(crate) fn in_sync(&self) -> usize {
        self.replica.borrow().isr().len()
    }

    /// The followers, and how many records each lacks.
    pub(crate) fn lags(&self) -> Vec<(BrokerId, u64)> {
        self.replica.borrow().lags().collect()
    }

    pub(crate) fn high_watermark(&self) -> i64 {
        self.replica.borrow().high_watermark()
    }

    /// Where read-committed readers stop; without transactions, the high watermark.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.high_watermark()
    }

    /// Whether the latest offset may be told (KIP-207).
    pub(crate) fn latest_is_known(&self) -> bool {
        self.replica.borrow().latest_is_known()
    }

    /// Completes once the latest offset may be told, or the partition is lost.
    pub(crate) async fn until_latest_is_known(&self) {
        let watch = Rc::new(FetchWatch::default());
        let _watching = self.watch(&watch);
        loop {
            watch.arm(1);
            if self.latest_is_known() || self.lost().is_some() {
                return;
            }
            watch.wait().await;
        }
    }

    /// Where the last of the replicas that serve starts.
    fn low_watermark(&self) -> i64 {
        let start = self.log.start_offset();
        self.replica.borrow().low_watermark().min(start)
    }

    /// Completes once every replica that serves starts at `offset` or above; with where the last of them starts.
    ///
    /// # Errors
    /// Why the partition is not served from here any more.
    pub(crate) async fn started_everywhere(&self, offset: i64) -> Result<i64, ErrorCode> {
        loop {
            let news = self.follower_news.wait();
            if let Some(code) = self.lost() {
                return Err(code);
            }
            let low_watermark = self.low_watermark();
            if low_watermark >= offset {
                return Ok(low_watermark);
            }
            news.await;
        }
    }

    /// The largest leader epoch at or below `epoch`, and where the next one starts; `None` for an epoch above all.
    /// One older than everything kept ends where the log starts, as in Kafka.
    pub(crate) fn end_offset_for_epoch(&self, epoch: i32) -> Option<(i32, i64)> {
        if epoch < 0 || epoch > self.leader_epoch() {
            return None;
        }
        let known = self.log.end_offset_for_epoch(epoch);
        Some(known.unwrap_or((epoch, self.log.start_offset())))
    }

    /// Why this partition is no longer served from here.
    pub(crate) fn lost(&self) -> Option<ErrorCode> {
        self.lost.get()
    }

    /// A count that grows with every readable byte; a fetch that finds it unchanged has missed nothing.
    pub(crate) fn readable_bytes(&self) -> u64 {
        self.readable_bytes.get()
    }

    pub(crate) fn append<R: Runtime>(
        self: &Rc<Self>,
        batch: &ValidatedBatch<'_>,
        runtime: &R,
    ) -> Result<Appended, AppendError> {
        let appended = self.log.append(batch)?;
        self.appended_bytes
            .set(self.appended_bytes.get() + batch.bytes.len() as u64);
        if self.is_replicated() {
            // Followers may have it before this shard's own flush.
            self.step(LeaderEvent::Log(ends_of(&self.log)), runtime.now());
            self.news();
        }
        Ok(appended)
    }

    /// Whether it has other replicas, by the image it began with or a later one.
    pub(crate) fn is_replicated(&self) -> bool {
        self.timeout_code.is_some()
    }

    /// What a request with `acks=all` gets whose time is up, where that may be something of its own.
    pub(crate) fn timeout_code(&self) -> Option<Rc<Cell<ErrorCode>>> {
        self.timeout_code.clone()
    }

    /// Takes an event, and does all that follows from it but what is returned.
    pub(crate) fn step(self: &Rc<Self>, event: LeaderEvent, now: Monotonic) -> Option<AlterPartition> {
        let from_follower = matches!(event, LeaderEvent::Ack(_) | LeaderEvent::Assigned(_));
        let effects = self.replica.borrow_mut().step(event, now.millis());
        if from_follower {
            self.follower_news.notify_all();
        }
        if let Some(code) = &self.timeout_code {
            code.set(self.replica.borrow().timeout_code(Acks::All));
        }
        if let Some(high_watermark) = effects.high_watermark {
            self.reached(high_watermark, now);
        }
        effects.alter_partition
    }

    /// The image assigns it so, in the same leader epoch.
    pub(crate) fn assigned(
        self: &Rc<Self>,
        assignment: Assignment,
        now: Monotonic,
    ) -> Option<AlterPartition> {
        self.streams.borrow_mut().retain(|stream| {
            let stays = assignment.replica(stream.peer()).is_some();
            if !stays {
                stream.end();
            }
            stays
        });
        self.step(LeaderEvent::Assigned(assignment), now)
    }

    /// A follower asks for frames; `None` for one that is not to be answered.
    pub(crate) fn open(&self, open: &Open) -> Option<Opened> {
        let known = self.log.end_offset_for_epoch(open.last_epoch);
        self.replica.borrow_mut().open(open, known)
    }

    /// A follower is sent frames from now on, by its newest open.
    pub(crate) fn stream_to(self: &Rc<Self>, stream: Rc<Stream<D>>) {
        {
            let mut streams = self.streams.borrow_mut();
            if let Some(at) = streams.iter().position(|known| known.peer() == stream.peer()) {
                streams.swap_remove(at).end();
            }
            streams.push(stream.clone());
        }
        stream.news(self);
    }

    /// Followers must hear of something: frames, the high watermark, the start.
    fn news(self: &Rc<Self>) {
        for stream in &*self.streams.borrow() {
            stream.news(self);
        }
    }

    /// Whether an append with these `acks` may be tried.
    ///
    /// # Errors
    /// NOT_ENOUGH_REPLICAS for `acks=all` while the ISR does not suffice.
    pub(crate) fn may_append(&self, acks: Acks) -> Result<(), ErrorCode> {
        self.replica.borrow().may_append(acks)
    }

    /// Whether everything below `end` is acknowledged already.
    pub(crate) fn is_acknowledged(&self, acks: Acks, end: i64) -> bool {
        self.replica.borrow().acknowledgement(acks, end) == Acknowledgement::Given
    }

    /// Completes `waiter` once everything below `end` is acknowledged, or the partition is lost.
    pub(crate) fn wait_for_ack(
        &self,
        acks: Acks,
        end: i64,
        waiter: AckWaiter,
        now: impl FnOnce() -> Monotonic,
    ) {
        let stands = self.replica.borrow().acknowledgement(acks, end);
        if stands == Acknowledgement::NotEnoughReplicas {
            let reason = "on all replicas in sync, which are fewer than min.insync.replicas asks for";
            return waiter.fail(ErrorCode::NotEnoughReplicasAfterAppend, reason, now());
        }
        match acks {
            Acks::None => {}
            Acks::Leader => self.waiting_for_leader.borrow_mut().push(end, waiter),
            Acks::All => self.waiting_for_all.borrow_mut().push(end, waiter),
        }
    }

    /// Enters a fetch that waits for bytes of this partition.
    pub(crate) fn watch(&self, watch: &Rc<FetchWatch>) -> Watching<'_> {
        self.watches.borrow_mut().push(watch.clone());
        Watching {
            list: &self.watches,
            watch: watch.clone(),
        }
    }

    /// The log's acknowledged end moved: called by the journal in the poll that completed the flush, so that answers
    /// leave without another round through the executor.
    pub(crate) fn advance(self: &Rc<Self>, now: Monotonic) {
        let ends = ends_of(&self.log);
        complete(&self.waiting_for_leader, ends.own_end, now);
        // Only acks and time change the ISR.
        let _none = self.step(LeaderEvent::Log(ends), now);
    }

    fn reached(self: &Rc<Self>, high_watermark: i64, now: Monotonic) {
        self.log.set_high_watermark(high_watermark);
        self.news();
        complete(&self.waiting_for_all, high_watermark, now);
        let readable = self.appended_bytes.get();
        let more = readable - self.readable_bytes.replace(readable);
        for watch in &*self.watches.borrow() {
            match more {
                // Appended before this shard led in this epoch, and acknowledged only now.
                0 => watch.interrupt(),
                _ => watch.more(more),
            }
        }
    }

    /// The start offset moved: parked fetches look again, and followers follow.
    pub(crate) fn start_moved(self: &Rc<Self>) {
        self.news();
        for watch in &*self.watches.borrow() {
            watch.interrupt();
        }
    }

    /// This shard serves the partition no longer: whoever waits gets `code`.
    pub(crate) fn lose(&self, code: ErrorCode, reason: &str, now: Monotonic) {
        self.lost.set(Some(code));
        self.follower_news.notify_all();
        for stream in self.streams.borrow_mut().drain(..) {
            stream.end();
        }
        for queue in [&self.waiting_for_leader, &self.waiting_for_all] {
            let waiters: Vec<AckWaiter> = queue.borrow_mut().drain().collect();
            for waiter in waiters {
                waiter.fail(code, reason, now);
            }
        }
        for watch in &*self.watches.borrow() {
            watch.interrupt();
        }
    }
}

fn ends_of<D: Disk>(log: &Log<D>) -> LeaderLog {
    LeaderLog {
        start: log.start_offset(),
        end: log.end_offset(),
        own_end: log.acknowledged_end(),
    }
}

fn complete(queue: &RefCell<AckQueue<AckWaiter>>, end: i64, now: Monotonic) {
    loop {
        // The borrow ends before the waiter is told.
        let covered = queue.borrow_mut().pop_covered(end);
        let Some(waiter) = covered else { return };
        waiter.complete(now);
    }
}
