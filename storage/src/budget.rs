//! The shard's byte budget: append buffers, cached frames, journal pages and connections draw from one number.
//!
//! Whoever waits for room is back-pressured; nothing dirty is ever dropped to make some. Clean cached frames
//! are, through the hook that the store sets.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use strandline_runtime::local::Event;

type Evict = Box<dyn Fn(u64)>;

struct Shared {
    limit: u64,
    used: Cell<u64>,
    freed: Event,
    evict: RefCell<Option<Evict>>,
}

/// The budget. Clones are handles of one budget.
#[derive(Clone)]
pub struct MemoryBudget(Rc<Shared>);

/// Bytes taken from the budget; given back on drop.
pub struct Reservation {
    budget: MemoryBudget,
    bytes: u64,
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self(Rc::new(Shared {
            limit,
            used: Cell::new(0),
            freed: Event::new(),
            evict: RefCell::new(None),
        }))
    }

    /// What may be used in all, in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// What is in use, in bytes.
    pub fn used(&self) -> u64 {
        self.0.used.get()
    }

    /// Takes `bytes` when they fit, dropping clean cached frames if that helps.
    pub fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        if !self.has_room(bytes) {
            return None;
        }
        Some(self.charge(bytes))
    }

    /// Takes `bytes` as soon as they fit. More than the limit fits when nothing else is in use.
    pub async fn reserve(&self, bytes: u64) -> Reservation {
        loop {
            let freed = self.0.freed.wait();
            if let Some(reservation) = self.try_reserve(bytes) {
                return reservation;
            }
            freed.await;
        }
    }

    /// Takes `bytes` whether they fit or not: for memory that [`crate::Store::admit`] has let in.
    pub fn charge(&self, bytes: u64) -> Reservation {
        self.0.used.set(self.0.used.get() + bytes);
        Reservation {
            budget: self.clone(),
            bytes,
        }
    }

    /// Takes `bytes` in any case, once clean cached frames have made room where they can: for memory that another bound holds
    /// small, as that on answers does.
    pub fn claim(&self, bytes: u64) -> Reservation {
        self.has_room(bytes);
        self.charge(bytes)
    }

    /// Whether `bytes` fit, after clean cached frames have made room where they can.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let wanted = self.used().saturating_add(bytes);
        if wanted > self.0.limit
            && let Some(evict) = &*self.0.evict.borrow()
        {
            evict(wanted - self.0.limit);
        }
        self.used().saturating_add(bytes) <= self.0.limit || self.used() == 0
    }

    /// Happens whenever bytes come back.
    pub(crate) fn freed(&self) -> &Event {
        &self.0.freed
    }

    /// Sets what drops clean cached frames of at least so many bytes.
    pub(crate) fn set_evict(&self, evict: impl Fn(u64) + 'static) {
        *self.0.evict.borrow_mut() = Some(Box::new(evict));
    }

    /// Forgets the hook; it holds the store alive.
    pub(crate) fn clear_evict(&self) {
        *self.0.evict.borrow_mut() = None;
    }
}

impl Reservation {
    /// Its size, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let shared = &self.budget.0;
        assert!(
            shared.used.get() >= self.bytes,
            "a reservation was counted when it was made"
        );
        shared.used.set(shared.used.get() - self.bytes);
        shared.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_reservation_waits_for_room_and_gives_it_back() {
        let budget = MemoryBudget::new(100);
        let first = budget.try_reserve(80).expect("fits");
        assert!(budget.try_reserve(30).is_none());
        let mut waiting = Box::pin(budget.reserve(30));
        assert!((&mut waiting).now_or_never().is_none());
        drop(first);
        assert_eq!(waiting.now_or_never().expect("room").bytes(), 30);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn an_oversized_reservation_fits_alone() {
        let budget = MemoryBudget::new(100);
        let large = budget.try_reserve(500).expect("nothing else is in use");
        assert!(budget.try_reserve(1).is_none());
        drop(large);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn clean_frames_make_room() {
        let budget = MemoryBudget::new(100);
        let cached = RefCell::new(Some(budget.charge(90)));
        budget.set_evict(move |_| drop(cached.borrow_mut().take()));
        assert!(budget.try_reserve(50).is_some());
    }
}
