//! Reading ahead: while a sequential reader is busy with what it has, the disk brings what it wants next.

use super::Log;
use crate::disk::{Disk, OpenMode};
use crate::format::names;
use crate::segment::index::FrameReader;
use crate::segment::read_ahead::{Coming, Known};
use crate::types::Offset;

/// The most that is brought for one reader: a partition's share of a fetch by default, and what surrounds it.
const AHEAD_BYTES_MAX: usize = (1 << 20) + super::read::READ_MARGIN_BYTES;

impl<D: Disk> Log<D> {
    /// Brings `bytes` from the batch at `offset` on into memory, where a read named that offset as
    /// [`super::ReadResult::behind`]. A read that comes meanwhile waits for it. Verifies nothing: the read does.
    pub async fn read_ahead(&self, offset: Offset, bytes: usize) {
        let shard = &self.shard;
        let bytes = bytes
            .saturating_add(super::read::READ_MARGIN_BYTES)
            .min(AHEAD_BYTES_MAX);
        let Some((number, base_offset, end)) = self.segment_of(offset) else {
            return;
        };
        let key = (self.inner.log_id, number);
        let Some(coming) = Coming::begin(&shard.read_ahead, key, offset) else {
            return;
        };
        let (position, chunk) = coming.left();
        let path = shard
            .log_folder(self.inner.id, self.inner.log_id)
            .join(names::segment(base_offset, number));
        let file = shard
            .files
            .get(&shard.disk, &path, self.inner.log_id, number, OpenMode::ReadWrite)
            .await;
        // Whatever is wrong, the read meets it, and says so.
        let Ok(file) = file else { return };
        let mut reader = FrameReader::new(file, self.inner.key, position, end)
            .counted(&shard.budget)
            .with_chunk(Some(chunk));
        if reader.load(bytes).await.is_ok()
            && let Some(chunk) = reader.into_chunk()
        {
            coming.arrived(chunk);
        }
    }

    /// Number, base offset and valid length of the segment that holds `offset`.
    fn segment_of(&self, offset: Offset) -> Option<(u64, Offset, u64)> {
        let state = self.inner.state.borrow();
        let at = state
            .segments
            .partition_point(|segment| segment.meta.end_offset <= offset);
        let meta = &state.segments.get(at)?.meta;
        (meta.base_offset <= offset).then_some((meta.number, meta.base_offset, meta.valid_length))
    }

    /// What an earlier read left of the segment for a reader at `offset`, once it is there.
    pub(super) async fn left(&self, number: u64, offset: Offset) -> Option<Known<D::ReadBuffer>> {
        let key = (self.inner.log_id, number);
        loop {
            let arrived = {
                let mut read_ahead = self.shard.read_ahead.borrow_mut();
                if !read_ahead.is_coming(key, offset) {
                    return read_ahead.take(key, offset);
                }
                read_ahead.arrived()
            };
            arrived.await;
        }
    }
}
