//! The answers of one connection, in the order of its requests.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::BytesMut;
use strandline_runtime::Monotonic;
use strandline_storage::BatchSlice;
use strandline_storage::disk::Disk;
use strandline_wire::fetch::FetchFrame;

use crate::handlers::produce::PendingProduce;
use crate::shard::{Loan, Signal};

/// An answer, ready or to come.
pub(crate) enum Answer<D: Disk> {
    /// A whole response frame.
    Frame(BytesMut, Loan),
    /// A fetch response whose records stay where they are.
    Fetch(FetchFrame<BatchSlice<D>>, Loan),
    /// A produce that waits for its flush.
    Produce(Rc<PendingProduce>),
}

impl<D: Disk> Answer<D> {
    fn is_ready(&self) -> bool {
        match self {
            Self::Frame(..) | Self::Fetch(..) => true,
            Self::Produce(pending) => pending.is_done(),
        }
    }

    /// What it takes while it waits here, besides records.
    fn bytes(&self) -> usize {
        match self {
            Self::Frame(frame, _) => frame.len(),
            Self::Fetch(..) => 0,
            Self::Produce(pending) => pending.bytes(),
        }
    }
}

/// The queue between reader and writer.
pub(crate) struct Outbox<D: Disk> {
    queue: RefCell<VecDeque<Answer<D>>>,
    /// What the answers in the queue take.
    bytes: Cell<usize>,
    /// Whether the writer holds answers that are not wholly written.
    writing: Cell<bool>,
    /// Wakes the writer; shared with the produce requests in flight.
    pub(crate) news: Rc<Signal>,
    /// Whether the reader waits for room here.
    pub(super) reader_waits: Cell<bool>,
}

impl<D: Disk> Default for Outbox<D> {
    fn default() -> Self {
        Self {
            queue: RefCell::default(),
            bytes: Cell::new(0),
            writing: Cell::new(false),
            news: Rc::default(),
            reader_waits: Cell::new(false),
        }
    }
}

impl<D: Disk> Outbox<D> {
    /// Adds the answer of the newest request.
    pub(crate) fn push(&self, answer: Answer<D>) {
        let ready = answer.is_ready();
        let mut queue = self.queue.borrow_mut();
        let is_next = queue.is_empty();
        self.bytes.set(self.bytes.get() + answer.bytes());
        queue.push_back(answer);
        drop(queue);
        if ready && is_next {
            self.news.set();
        }
    }

    /// The oldest answer, if it is ready.
    pub(super) fn pop_ready(&self) -> Option<Answer<D>> {
        let mut queue = self.queue.borrow_mut();
        if !queue.front()?.is_ready() {
            return None;
        }
        self.writing.set(true);
        let answer = queue.pop_front()?;
        self.bytes.set(self.bytes.get() - answer.bytes());
        Some(answer)
    }

    /// The writer has written all it took.
    pub(super) fn written(&self) {
        self.writing.set(false);
    }

    /// Whether every request so far is answered and its answer written.
    pub(super) fn is_idle(&self) -> bool {
        !self.writing.get() && self.queue.borrow().is_empty()
    }

    /// How many answers wait.
    pub(super) fn len(&self) -> usize {
        self.queue.borrow().len()
    }

    /// What the answers that wait take, in bytes, besides records.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Drops every answer.
    pub(super) fn clear(&self) {
        self.bytes.set(0);
        // Taken out first: what an answer's end wakes may look here.
        drop(self.queue.take());
    }

    /// Ends the waiting of produce requests whose time is over.
    pub(super) fn expire(&self, now: Monotonic) {
        let overdue: Vec<Rc<PendingProduce>> = self
            .queue
            .borrow()
            .iter()
            .filter_map(|answer| match answer {
                Answer::Produce(pending) if pending.is_overdue(now) => Some(pending.clone()),
                _ => None,
            })
            .collect();
        for pending in overdue {
            pending.time_out(now);
        }
    }
}
