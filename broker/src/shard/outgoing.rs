//! Memory that answers hold on their way to slow readers.

use std::cell::Cell;
use std::rc::Rc;

use strandline_runtime::local::Event;
use strandline_storage::{MemoryBudget, Reservation};

/// Answers below this are not counted one by one in the shard's memory.
const COUNTED_BYTES_MIN: usize = 64 << 10;
/// Answers up to this size find room as long as there is any. Larger ones leave half of it, and go alone in this part of it,
/// so that a client which does not read large answers keeps nobody from small ones.
const SMALL_BYTES: usize = 16 << 10;
const ALONE_PART: usize = 8;

/// The bytes that answers of this shard may hold at once.
pub(crate) struct Outgoing {
    budget: MemoryBudget,
    limit: usize,
    used: Cell<usize>,
    waiting: Cell<usize>,
    freed: Event,
}

/// A request that waits until its answer fits.
pub(crate) struct Waiting<'a>(&'a Outgoing);

/// Bytes held by one answer; given back when it is written or dropped.
pub(crate) struct Loan {
    outgoing: Rc<Outgoing>,
    bytes: usize,
    counted: Option<Reservation>,
}

impl Outgoing {
    pub(crate) fn new(budget: MemoryBudget, limit: usize) -> Rc<Self> {
        Rc::new(Self {
            budget,
            limit,
            used: Cell::new(0),
            waiting: Cell::new(0),
            freed: Event::new(),
        })
    }

    /// How much an answer may take now; 0 while others hold all of it.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.used.get())
    }

    /// Whether an answer of about `bytes` may be begun.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        let used = self.used.get();
        if bytes <= SMALL_BYTES {
            return used < self.limit;
        }
        used + bytes <= self.limit / 2 || used <= self.limit / ALONE_PART
    }

    /// Enters a request that waits.
    pub(crate) fn enter(&self) -> Waiting<'_> {
        self.waiting.set(self.waiting.get() + 1);
        Waiting(self)
    }

    /// Whether a request waits for what others hold.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.get() > 0
    }

    /// Completes when room may have come.
    pub(crate) fn freed(&self) -> impl Future<Output = ()> + use<> {
        self.freed.wait()
    }

    pub(crate) fn lend(self: &Rc<Self>, bytes: usize) -> Loan {
        self.used.set(self.used.get() + bytes);
        Loan {
            outgoing: self.clone(),
            bytes,
            counted: None,
        }
    }

    /// Lends for an answer whose memory nothing else counts.
    pub(crate) fn lend_counted(self: &Rc<Self>, bytes: usize) -> Loan {
        let mut loan = self.lend(bytes);
        loan.count(bytes);
        loan
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}

impl Loan {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The answer holds `bytes` now.
    pub(crate) fn set(&mut self, bytes: usize) {
        let outgoing = &self.outgoing;
        let before = outgoing.used.get();
        let now = before - self.bytes + bytes;
        outgoing.used.set(now);
        self.bytes = bytes;
        if now < before && before > outgoing.limit / ALONE_PART && now < outgoing.limit {
            outgoing.freed.notify_all();
        }
    }

    /// `bytes` of it are counted nowhere else in the shard's memory.
    pub(crate) fn count(&mut self, bytes: usize) {
        let before = self.counted.as_ref().map_or(0, Reservation::bytes);
        if bytes >= COUNTED_BYTES_MIN && bytes as u64 != before {
            self.counted = Some(self.outgoing.budget.charge(bytes as u64));
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_loan_follows_what_its_answer_holds() {
        let budget = MemoryBudget::new(1 << 30);
        let outgoing = Outgoing::new(budget.clone(), 1 << 20);
        let mut large = outgoing.lend(1 << 20);
        assert_eq!(outgoing.room(), 0);
        let mut freed = Box::pin(outgoing.freed());
        let small = outgoing.lend(10);
        drop(small);
        assert!((&mut freed).now_or_never().is_none(), "still full");
        large.count(1 << 20);
        assert_eq!(budget.used(), 1 << 20);
        large.set(1 << 10);
        assert!(freed.now_or_never().is_some());
        assert_eq!(outgoing.room(), (1 << 20) - (1 << 10));
        drop(large);
        assert_eq!((outgoing.room(), budget.used()), (1 << 20, 0));
    }

    #[test]
    fn large_answers_leave_room_for_small_ones() {
        let outgoing = Outgoing::new(MemoryBudget::new(1 << 30), 1 << 20);
        assert!(outgoing.fits(10 << 20), "alone");
        let large = outgoing.lend(400 << 10);
        assert!(!outgoing.fits(200 << 10));
        assert!(outgoing.fits(100 << 10));
        assert!(outgoing.fits(SMALL_BYTES));
        let mut freed = Box::pin(outgoing.freed());
        assert!((&mut freed).now_or_never().is_none());
        drop(large);
        assert!(freed.now_or_never().is_some());
    }
}
