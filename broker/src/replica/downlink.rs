//! The leader's end of a link: sends a follower's shard the frames of all partitions that it follows here.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use strandline_core::link::{CreditSender, LinkFrames, LinkMessage, Window};
use strandline_core::metadata::{BrokerId, LeaderEpoch};
use strandline_runtime::local::Event;
use strandline_runtime::mailbox::{SendError, Sender};
use strandline_runtime::{Queue, Runtime};
use strandline_storage::disk::Disk;
use strandline_storage::format::frame::FrameHeader;
use strandline_storage::{BatchSlice, ReadError, ReadRequest};

use super::{Delivery, FULL_PAUSE, Session, Stream, reference};
use crate::shard::{Partition, Shard, Signal};

/// Frames of one message, at most; a larger one goes alone.
const MESSAGE_BYTES_MAX: u64 = 256 << 10;

/// A link of one registration of this shard to one of a follower's shard.
pub(crate) struct Downlink<D: Disk> {
    pub(crate) session: Session,
    sender: Sender<Delivery>,
    tail: Lane<D>,
    catch_up: Lane<D>,
    ended: Cell<bool>,
    over: Event,
}

/// A follower of a partition that waits to be sent something.
type Waiting<D> = (Rc<Partition<D>>, Rc<Stream<D>>);

/// One of its windows: who waits to be sent something, and the credit for it.
struct Lane<D: Disk> {
    credit: RefCell<CreditSender>,
    waiting: RefCell<VecDeque<Waiting<D>>>,
    wake: Signal,
}

impl<D: Disk> Default for Lane<D> {
    fn default() -> Self {
        Self {
            credit: RefCell::default(),
            waiting: RefCell::default(),
            wake: Signal::default(),
        }
    }
}

/// What a look at a stream came to.
enum Sent {
    /// Nothing more to send now.
    All,
    /// There is more.
    More,
    /// The follower has no memory for it yet.
    NoCredit,
    /// The follower's mailbox is full.
    Full,
    /// The follower's shard is gone.
    Gone,
}

impl<D: Disk> Downlink<D> {
    pub(super) fn new(session: Session, sender: Sender<Delivery>) -> Self {
        Self {
            session,
            sender,
            tail: Lane::default(),
            catch_up: Lane::default(),
            ended: Cell::new(false),
            over: Event::new(),
        }
    }

    fn lane(&self, window: Window) -> &Lane<D> {
        match window {
            Window::Tail => &self.tail,
            Window::CatchUp => &self.catch_up,
        }
    }

    /// Something happened that the follower must hear of: more frames, a higher watermark, another start.
    pub(crate) fn news(&self, partition: &Rc<Partition<D>>, stream: &Rc<Stream<D>>) {
        if !stream.queued.replace(true) {
            let lane = self.lane(stream.window.get());
            lane.waiting
                .borrow_mut()
                .push_back((partition.clone(), stream.clone()));
            lane.wake.set();
        }
    }

    /// The follower has reserved so many bytes in all.
    pub(crate) fn granted(&self, window: Window, bytes: u64) {
        let lane = self.lane(window);
        if let Err(error) = lane.credit.borrow_mut().granted(bytes) {
            tracing::warn!(peer = self.session.peer.0, %error, "a follower takes credit back");
        }
        lane.wake.set();
    }

    /// Says something that takes no credit; what finds no room is said again by whoever waits for it.
    pub(super) fn say(&self, from: BrokerId, message: LinkMessage) {
        let _ = self.sender.send(Delivery {
            from,
            epoch: self.session.own,
            to: self.session.epoch,
            message,
            body: Bytes::new(),
        });
    }

    /// Another registration of the peer, or the shard's own end.
    pub(super) fn end(&self) {
        self.ended.set(true);
        self.over.notify_all();
        for lane in [&self.tail, &self.catch_up] {
            lane.waiting.borrow_mut().clear();
            lane.wake.set();
        }
    }

    /// Completes once it has ended.
    pub(crate) async fn until_ended(&self) {
        let over = self.over.wait();
        if !self.ended.get() {
            over.await;
        }
    }

    /// Starts the tasks of both windows.
    pub(super) fn start<R: Runtime>(self: &Rc<Self>, shard: &Rc<Shard<R, D>>) {
        for window in [Window::Tail, Window::CatchUp] {
            let queue = match window {
                Window::Tail => Queue::Latency,
                Window::CatchUp => Queue::WriteBack,
            };
            shard
                .runtime
                .spawn(queue, self.clone().run(shard.clone(), window));
        }
    }

    async fn run<R: Runtime>(self: Rc<Self>, shard: Rc<Shard<R, D>>, window: Window) {
        let lane = self.lane(window);
        while !self.ended.get() {
            shard.unpaused().await;
            let next = lane.waiting.borrow_mut().pop_front();
            let Some((partition, stream)) = next else {
                lane.wake.wait().await;
                continue;
            };
            stream.queued.set(false);
            match self.send(&shard, &partition, &stream).await {
                Sent::All => {}
                Sent::More => self.news(&partition, &stream),
                Sent::NoCredit => {
                    self.first(lane, partition, stream);
                    lane.wake.wait().await;
                }
                Sent::Full => {
                    self.first(lane, partition, stream);
                    shard.runtime.sleep(FULL_PAUSE).await;
                }
                Sent::Gone => self.end(),
            }
            shard.runtime.yield_if_needed().await;
        }
    }

    /// Looks at it again before the others, unless somebody entered it meanwhile.
    fn first(&self, lane: &Lane<D>, partition: Rc<Partition<D>>, stream: Rc<Stream<D>>) {
        if !stream.queued.replace(true) {
            lane.waiting.borrow_mut().push_front((partition, stream));
        }
    }

    async fn send<R: Runtime>(
        &self,
        shard: &Shard<R, D>,
        partition: &Partition<D>,
        stream: &Stream<D>,
    ) -> Sent {
        if stream.has_ended() {
            return Sent::All;
        }
        let log = &partition.log;
        let (next, end) = (stream.next.get(), log.end_offset());
        if next >= end {
            return self.tell(shard, partition, stream);
        }
        let window = stream.window.get();
        let lane = self.lane(window);
        if !lane.credit.borrow().admits(1) {
            return Sent::NoCredit;
        }
        let available = lane.credit.borrow().available();
        let request = ReadRequest {
            offset: next,
            max_bytes: available.clamp(1, MESSAGE_BYTES_MAX) as usize,
            upper_bound: end,
            at_least_one: true,
        };
        let frames = match log.read_frames(request).await {
            Ok(read) => read.batches,
            Err(ReadError::OutOfRange { start, .. }) if next < start => {
                // Deleted meanwhile: a frame from further on makes the follower ask anew.
                stream.next.set(start);
                return Sent::More;
            }
            Err(error) => {
                tracing::error!(partition = %log.id(), follower = self.session.peer.0, %error, "cannot be replicated");
                stream.end();
                return Sent::All;
            }
        };
        if stream.has_ended() || stream.next.get() != next {
            return Sent::All;
        }
        let Some(last) = frames.last().and_then(|last| FrameHeader::decode(last).ok()) else {
            return Sent::All;
        };
        let bytes: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
        // One that is larger than all credit goes alone, once the window is empty.
        if !lane.credit.borrow().admits(bytes) {
            return Sent::NoCredit;
        }
        let head = head(partition, stream, window);
        match self.deliver(shard, LinkMessage::Frames(head), joined(&frames)) {
            Ok(()) => {}
            Err(failed) => return failed,
        }
        lane.credit.borrow_mut().sent(bytes);
        stream.next.set(last.end_offset());
        stream.sent_high_watermark.set(head.high_watermark);
        stream.sent_start.set(head.log_start);
        if last.end_offset() < log.end_offset() {
            return Sent::More;
        }
        // From here on it has what the others have.
        stream.window.set(Window::Tail);
        Sent::All
    }

    /// Tells a follower that has all frames of the high watermark and the start, where they moved.
    fn tell<R: Runtime>(&self, shard: &Shard<R, D>, partition: &Partition<D>, stream: &Stream<D>) -> Sent {
        let head = head(partition, stream, Window::Tail);
        let known = (stream.sent_high_watermark.get(), stream.sent_start.get());
        if known == (head.high_watermark, head.log_start) {
            return Sent::All;
        }
        match self.deliver(shard, LinkMessage::Frames(head), Bytes::new()) {
            Ok(()) => {
                stream.sent_high_watermark.set(head.high_watermark);
                stream.sent_start.set(head.log_start);
                Sent::All
            }
            Err(failed) => failed,
        }
    }

    fn deliver<R: Runtime>(
        &self,
        shard: &Shard<R, D>,
        message: LinkMessage,
        body: Bytes,
    ) -> Result<(), Sent> {
        let sent = self.sender.send(Delivery {
            from: shard.broker_id,
            epoch: self.session.own,
            to: self.session.epoch,
            message,
            body,
        });
        sent.map_err(|error| match error {
            SendError::Full(_) => Sent::Full,
            SendError::Closed(_) => Sent::Gone,
        })
    }
}

fn head<D: Disk>(partition: &Partition<D>, stream: &Stream<D>, window: Window) -> LinkFrames {
    LinkFrames {
        partition: reference(partition.log.id()),
        leader_epoch: LeaderEpoch(partition.leader_epoch()),
        open: stream.open,
        window,
        high_watermark: partition.high_watermark(),
        log_start: partition.log.start_offset(),
    }
}

fn joined<D: Disk>(frames: &[BatchSlice<D>]) -> Bytes {
    let mut body = BytesMut::with_capacity(frames.iter().map(|frame| frame.len()).sum());
    for frame in frames {
        body.extend_from_slice(frame);
    }
    body.freeze()
}
