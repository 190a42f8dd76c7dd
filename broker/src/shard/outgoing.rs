//! Memory pinned by answers on their way to slow readers.

use std::cell::Cell;
use std::rc::Rc;

use strandline_runtime::local::Event;

/// The bytes of records that answers of this shard may pin at once.
pub(crate) struct Outgoing {
    limit: usize,
    used: Cell<usize>,
    freed: Event,
}

/// Bytes pinned by one answer; given back when it is written or dropped.
pub(crate) struct Loan {
    outgoing: Rc<Outgoing>,
    bytes: usize,
}

impl Outgoing {
    pub(crate) fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self {
            limit,
            used: Cell::new(0),
            freed: Event::new(),
        })
    }

    /// How much an answer may take now; 0 while others hold all of it.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.used.get())
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
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let outgoing = &self.outgoing;
        let was_full = outgoing.room() == 0;
        outgoing.used.set(outgoing.used.get() - self.bytes);
        if was_full {
            outgoing.freed.notify_all();
        }
    }
}
