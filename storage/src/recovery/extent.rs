//! Applying an extent: the segment it stands in goes on with it.

use crate::disk::Disk;
use crate::format::piece::Extent;
use crate::log::state::{LogState, OpenSegment};
use crate::segment::{Segment, SegmentStart};

/// Extends the log's segments by an extent.
pub(super) fn add_extent<D: Disk>(
    state: &mut LogState<D>,
    extent: &Extent,
    now_ms: i64,
) -> Result<(), &'static str> {
    let continues = state
        .segments
        .last()
        .is_some_and(|last| last.meta.number == extent.segment_number);
    if !continues {
        let start = SegmentStart {
            base_offset: extent.segment_base,
            number: extent.segment_number,
            first_timestamp: extent.segment_first_timestamp,
            created_ms: now_ms,
            snapshot: None,
        };
        // Known: the open that wrote the extent may have saved an index too, before it died.
        let mut segment = Segment::known(start.meta());
        segment.meta.snapshot = extent.segment_snapshot;
        state.segments.push(segment);
    }
    let segment = state.segments.last_mut().expect("there is one now");
    let meta = &mut segment.meta;
    if meta.valid_length != extent.position || meta.end_offset != extent.base_offset {
        return Err("an extent does not follow what its segment holds");
    }
    meta.valid_length += extent.length;
    meta.end_offset = extent.end_offset;
    meta.payload_bytes += extent.payload_bytes;
    // The piece does not say; it is no older than the last checkpoint.
    meta.appended_ms = now_ms;
    if extent.max_timestamp > meta.max_timestamp {
        meta.max_timestamp = extent.max_timestamp;
        meta.max_timestamp_offset = extent.max_timestamp_offset;
    }
    let open = OpenSegment {
        base_offset: meta.base_offset,
        payload_bytes: meta.payload_bytes,
        first_timestamp: meta.first_timestamp,
        created_ms: meta.created_ms,
    };
    state.open_segment = Some(open);
    state.next_file_number = state
        .next_file_number
        .max(extent.segment_number + 1)
        .max(extent.segment_snapshot + 1);
    for batch in extent
        .producers
        .iter()
        .filter(|batch| batch.base_offset >= state.end_offset)
    {
        state.producers.apply(batch, now_ms);
    }
    if extent.end_offset > state.end_offset {
        state.end_offset = extent.end_offset;
        state.last_origin = extent.last_origin;
    }
    if extent.leader_epoch > state.epochs.latest() {
        state.epochs.begin(extent.leader_epoch, extent.base_offset);
    }
    Ok(())
}
