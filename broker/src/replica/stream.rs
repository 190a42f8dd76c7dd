//! What one follower of one partition was sent.

use std::cell::Cell;
use std::rc::Rc;

use strandline_core::link::Window;
use strandline_core::metadata::BrokerId;
use strandline_storage::disk::Disk;

use super::Downlink;
use crate::shard::Partition;

/// A follower that has opened a partition.
pub(crate) struct Stream<D: Disk> {
    pub(super) downlink: Rc<Downlink<D>>,
    /// Which open of the follower.
    pub(super) open: u32,
    /// The next offset to send.
    pub(super) next: Cell<i64>,
    pub(super) sent_high_watermark: Cell<i64>,
    pub(super) sent_start: Cell<i64>,
    /// Whose credit its frames take: behind the tail, one of its own.
    pub(super) window: Cell<Window>,
    /// Whether the link will look at it.
    pub(super) queued: Cell<bool>,
    /// The follower opened anew, or the partition is not led here any more.
    ended: Cell<bool>,
}

impl<D: Disk> Stream<D> {
    pub(super) fn new(downlink: Rc<Downlink<D>>, open: u32, next: i64, window: Window) -> Self {
        Self {
            downlink,
            open,
            next: Cell::new(next),
            sent_high_watermark: Cell::new(-1),
            sent_start: Cell::new(-1),
            window: Cell::new(window),
            queued: Cell::new(false),
            ended: Cell::new(false),
        }
    }

    /// The follower's shard.
    pub(crate) fn peer(&self) -> BrokerId {
        self.downlink.session.peer
    }

    /// The follower must hear of something.
    pub(crate) fn news(self: &Rc<Self>, partition: &Rc<Partition<D>>) {
        self.downlink.news(partition, self);
    }

    /// Nothing is sent any more.
    pub(crate) fn end(&self) {
        self.ended.set(true);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.get()
    }
}
