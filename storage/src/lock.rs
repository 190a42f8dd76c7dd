//! A lock between tasks of one thread, held over awaits.

use std::cell::Cell;

use strandline_runtime::local::Event;

/// Who holds it has what it guards alone until the guard is dropped.
pub(crate) struct Lock {
    held: Cell<bool>,
    freed: Event,
}

/// Holds a [`Lock`].
pub(crate) struct Held<'a>(&'a Lock);

impl Lock {
    pub(crate) fn new() -> Self {
        Self {
            held: Cell::new(false),
            freed: Event::new(),
        }
    }

    /// Completes once nobody else holds it.
    pub(crate) async fn hold(&self) -> Held<'_> {
        loop {
            let freed = self.freed.wait();
            if !self.held.replace(true) {
                return Held(self);
            }
            freed.await;
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.set(false);
        self.0.freed.notify_all();
    }
}
