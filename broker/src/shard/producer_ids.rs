//! Producer ids for idempotent producers, out of blocks that the control thread allocates.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use strandline_core::metadata::BrokerId;
use strandline_wire::ErrorCode;

use super::signal::Signal;
use crate::node::context::ControlClient;

/// The block in use. Ids left at a stop are never used: a gap costs nothing, a second use loses data.
#[derive(Default)]
pub(crate) struct ProducerIds {
    block: RefCell<Range<i64>>,
    asking: Cell<bool>,
    answered: RefCell<Vec<std::rc::Rc<Signal>>>,
}

impl ProducerIds {
    /// An id that no other producer has or had.
    pub(crate) async fn next(
        &self,
        control: &ControlClient,
        broker: BrokerId,
    ) -> Result<i64, (ErrorCode, String)> {
        loop {
            if let Some(id) = self.block.borrow_mut().next() {
                return Ok(id);
            }
            if self.asking.replace(true) {
                // Someone asks for a block already; many producers starting at once need one, not one each.
                let answered = std::rc::Rc::new(Signal::default());
                self.answered.borrow_mut().push(answered.clone());
                answered.wait().await;
                continue;
            }
            let asking = Asking(self);
            let block = control.allocate_producer_ids(broker).await?;
            *self.block.borrow_mut() = block;
            drop(asking);
        }
    }
}

/// Ends the asking however it ends, also when its client goes away.
struct Asking<'a>(&'a ProducerIds);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asking.set(false);
        for waiting in self.0.answered.take() {
            waiting.set();
        }
    }
}
