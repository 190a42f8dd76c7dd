//! A produce between its append and its answer.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::BytesMut;
use strandline_core::fetch_session::TopicKey;
use strandline_runtime::{Monotonic, Runtime};
use strandline_storage::disk::Disk;
use strandline_wire::frame::{begin_frame, encode_response_header, end_frame};
use strandline_wire::produce::{
    ProducePartitionResponse, ProduceRequest, ProduceResponse, TopicRef, encode_response,
};
use strandline_wire::{ApiKey, ErrorCode, Grouped};

use super::append::Refusal;
use crate::connection::Close;
use crate::handlers::Request;
use crate::shard::{Loan, Metrics, Shard, Signal, node_endpoints};

const KEY: i16 = ApiKey::Produce.key();
/// About what one of the record errors takes that refuse a batch.
const RECORD_ERROR_BYTES: usize = 128;

struct Item {
    answer: ProducePartitionResponse<'static>,
    waits: bool,
    /// What it is answered when its time is up, where that depends.
    timeout_code: Option<Rc<Cell<ErrorCode>>>,
}

impl Item {
    fn new(answer: ProducePartitionResponse<'static>) -> Self {
        Self {
            answer,
            waits: false,
            timeout_code: None,
        }
    }
}

/// The answer of a produce, as far as it is known, and how many of its partitions are still awaited.
pub(crate) struct PendingProduce {
    version: i16,
    correlation_id: i32,
    deadline: Monotonic,
    items: RefCell<Grouped<TopicKey, Item>>,
    /// What they take, and the memory lent for that.
    bytes: Cell<usize>,
    loan: RefCell<Loan>,
    waiting: Cell<usize>,
    /// Wakes the writer of the connection.
    writer: Rc<Signal>,
    arrived: Monotonic,
    started: Monotonic,
    appended: Cell<Monotonic>,
    done: Cell<Monotonic>,
}

impl PendingProduce {
    pub(super) fn new<R: Runtime, D: Disk>(
        request: &Request<R, D>,
        writer: Rc<Signal>,
        deadline: Monotonic,
        loan: Loan,
    ) -> Self {
        let started = request.shard.runtime.now();
        Self {
            version: request.version,
            correlation_id: request.correlation_id,
            deadline,
            items: RefCell::default(),
            bytes: Cell::new(loan.bytes()),
            loan: RefCell::new(loan),
            waiting: Cell::new(0),
            writer,
            arrived: request.arrived,
            started,
            appended: Cell::new(started),
            done: Cell::new(started),
        }
    }

    /// What the answer to `asked` takes at least.
    pub(super) fn bytes_of(asked: &ProduceRequest<'_>) -> usize {
        asked.topics.item_count() * size_of::<Item>() + asked.topics.group_count() * size_of::<TopicKey>()
    }

    /// What the answer takes, in bytes; it does not change once every partition is entered.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    pub(super) fn begin_topic(&self, key: TopicKey) {
        self.items.borrow_mut().begin(key);
    }

    /// Enters an appended partition; its number within the answer.
    pub(super) fn accept(
        &self,
        index: i32,
        base_offset: i64,
        log_append_time_ms: i64,
        log_start_offset: i64,
    ) -> usize {
        let answer = ProducePartitionResponse {
            base_offset,
            log_append_time_ms,
            log_start_offset,
            ..ProducePartitionResponse::error(index, ErrorCode::None)
        };
        let mut items = self.items.borrow_mut();
        items.push(Item::new(answer));
        items.item_count() - 1
    }

    /// Enters a refused partition.
    pub(super) fn refuse(&self, index: i32, refusal: Refusal) {
        let text = match &refusal.reason {
            Cow::Borrowed(_) => 0,
            Cow::Owned(reason) => reason.len(),
        };
        self.bytes
            .set(self.bytes.get() + text + refusal.record_errors.len() * RECORD_ERROR_BYTES);
        let answer = ProducePartitionResponse {
            log_start_offset: refusal.log_start_offset,
            record_errors: refusal.record_errors,
            error_message: Some(refusal.reason),
            current_leader: refusal.leader,
            ..ProducePartitionResponse::error(index, refusal.code)
        };
        self.items.borrow_mut().push(Item::new(answer));
    }

    /// The answer waits for this partition.
    pub(super) fn await_ack(&self, item: usize, timeout_code: Option<Rc<Cell<ErrorCode>>>) {
        let mut items = self.items.borrow_mut();
        let item = &mut items.items_mut()[item];
        item.waits = true;
        item.timeout_code = timeout_code;
        self.waiting.set(self.waiting.get() + 1);
    }

    /// Every partition is entered.
    pub(super) fn appended(&self, now: Monotonic) {
        self.appended.set(now);
        let mut loan = self.loan.borrow_mut();
        if loan.bytes() != self.bytes() {
            loan.set(self.bytes());
            loan.count(self.bytes());
        }
        drop(loan);
        if self.is_done() {
            self.done.set(now);
        }
    }

    /// A partition is acknowledged.
    pub(crate) fn complete(&self, item: usize, now: Monotonic) {
        self.end_wait(item, now, |_| {});
    }

    /// A partition will not be acknowledged.
    pub(crate) fn fail(&self, item: usize, code: ErrorCode, reason: &str, now: Monotonic) {
        self.end_wait(item, now, |answer| {
            *answer = ProducePartitionResponse {
                error_message: Some(Cow::Owned(reason.to_owned())),
                ..ProducePartitionResponse::error(answer.index, code)
            };
        });
    }

    fn end_wait(
        &self,
        item: usize,
        now: Monotonic,
        change: impl FnOnce(&mut ProducePartitionResponse<'static>),
    ) {
        {
            let mut items = self.items.borrow_mut();
            let item = &mut items.items_mut()[item];
            if !std::mem::replace(&mut item.waits, false) {
                // It timed out before.
                return;
            }
            change(&mut item.answer);
        }
        self.waiting.set(self.waiting.get() - 1);
        if self.is_done() {
            self.done.set(now);
            self.writer.set();
        }
    }

    /// Whether the answer can be written.
    pub(crate) fn is_done(&self) -> bool {
        self.waiting.get() == 0
    }

    /// Whether its client's timeout has passed while it waits.
    pub(crate) fn is_overdue(&self, now: Monotonic) -> bool {
        !self.is_done() && now >= self.deadline
    }

    /// Answers the partitions that are still awaited: they may or may not be acknowledged later.
    pub(crate) fn time_out(&self, now: Monotonic) {
        let count = self.items.borrow().item_count();
        for item in 0..count {
            let code = self.items.borrow().items()[item].timeout_code.clone();
            let code = code.map_or(ErrorCode::RequestTimedOut, |code| code.get());
            let reason = match code {
                ErrorCode::RequestTimedOut => "not durable within the request's timeout",
                _ => "fewer replicas are in sync than min.insync.replicas asks for",
            };
            self.fail(item, code, reason, now);
        }
    }

    /// The error code of each partition.
    pub(super) fn codes(&self) -> Vec<ErrorCode> {
        self.items
            .borrow()
            .items()
            .iter()
            .map(|item| item.answer.error_code)
            .collect()
    }

    pub(super) fn first_error(&self) -> Option<ErrorCode> {
        self.codes().into_iter().find(|code| !code.is_none())
    }

    /// Appends the response frame to `out`, and counts it.
    pub(crate) fn encode<R: Runtime, D: Disk>(
        &self,
        shard: &Shard<R, D>,
        listener: &str,
        out: &mut BytesMut,
    ) -> Result<(), Close> {
        let items = self.items.borrow();
        let mut topics = Grouped::with_capacity(items.group_count(), items.item_count());
        let mut leaders = Vec::new();
        for (key, items) in items.iter() {
            topics.begin(match key {
                TopicKey::Name(name) => TopicRef::Name(name),
                TopicKey::Id(id) => TopicRef::Id(*id),
            });
            for item in items {
                leaders.extend(item.answer.current_leader.map(|leader| leader.leader_id));
                topics.push(item.answer.clone());
            }
        }
        shard
            .metrics
            .answered_with(KEY, items.items().iter().map(|item| item.answer.error_code));
        let image = if leaders.is_empty() {
            None
        } else {
            Some(shard.image())
        };
        let node_endpoints = match &image {
            Some(image) => node_endpoints(image, listener, leaders.into_iter()),
            None => Vec::new(),
        };
        let response = ProduceResponse {
            topics,
            throttle_time_ms: 0,
            node_endpoints,
        };
        let frame = begin_frame(out);
        encode_response_header(out, KEY, self.version, self.correlation_id);
        encode_response(out, self.version, &response)?;
        Ok(end_frame(out, frame, 0)?)
    }

    /// Counts how long each phase took; its answer was written at `now`.
    pub(crate) fn count_phases(&self, metrics: &Metrics, now: Monotonic) {
        let (appended, done) = (self.appended.get(), self.done.get());
        metrics.produced(
            self.started.since(self.arrived),
            appended.since(self.started),
            done.since(appended),
            now.since(done),
        );
    }
}
