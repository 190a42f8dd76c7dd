//! The slot through which images reach a shard: latest wins.

use std::sync::{Arc, Mutex, PoisonError};

use strandline_core::metadata::ClusterImage;

/// Holds the newest image for one shard. Clones share it.
///
/// The lock is held for a pointer's copy, by the control thread at a change of metadata and by the shard when it is told
/// of one or an admin request asks: never on the path of a produce or fetch, which use the shard's own pointer.
#[derive(Clone, Debug, Default)]
pub struct ImageSlot(Arc<Mutex<Slot>>);

#[derive(Debug, Default)]
struct Slot {
    image: Arc<ClusterImage>,
    announced: bool,
}

impl ImageSlot {
    /// A slot that holds `image`, which nobody is told of.
    pub fn new(image: Arc<ClusterImage>) -> Self {
        Self(Arc::new(Mutex::new(Slot {
            image,
            announced: false,
        })))
    }

    /// Puts a newer image in; true if the shard must be told (it has taken the one before).
    pub fn publish(&self, image: Arc<ClusterImage>) -> bool {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.image = image;
        !std::mem::replace(&mut slot.announced, true)
    }

    /// The newest image; the next one will be announced again.
    pub fn take(&self) -> Arc<ClusterImage> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.announced = false;
        slot.image.clone()
    }

    /// The newest image, for an admin request that must see a change it made itself.
    pub fn latest(&self) -> Arc<ClusterImage> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .image
            .clone()
    }
}
