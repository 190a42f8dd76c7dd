//! Segments: the files of a log, written in runs by write-back or as extents.

pub(crate) mod files;
pub(crate) mod index;
pub(crate) mod large;
pub(crate) mod read_ahead;
pub(crate) mod write;

use crate::format::checkpoint::SegmentCheckpoint;
use crate::format::index::Index;

/// One segment in memory.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// What the checkpoint says of it; `valid_length` is flushed.
    pub(crate) meta: SegmentCheckpoint,
    /// Its index, as far as it was built; see [`Index::covered`].
    pub(crate) index: Index,
    /// Whether an index file may exist.
    pub(crate) index_on_disk: bool,
    /// What the index file covers.
    pub(crate) index_saved: u64,
}

impl Segment {
    /// A segment of an earlier open: its index comes from its file at the first read.
    pub(crate) fn known(meta: SegmentCheckpoint) -> Self {
        Self {
            meta,
            index: Index::new(),
            index_on_disk: true,
            index_saved: 0,
        }
    }

    /// The same segment, with an index of only what comes behind: that of a large segment is not copied for each write.
    pub(crate) fn continued(&self) -> Self {
        Self {
            meta: self.meta,
            index: Index {
                covered: self.meta.valid_length,
                ..Index::new()
            },
            index_on_disk: self.index_on_disk,
            index_saved: self.index_saved,
        }
    }

    /// A segment without a file yet.
    pub(crate) fn new(meta: SegmentCheckpoint) -> Self {
        Self {
            meta,
            index: Index::new(),
            index_on_disk: false,
            index_saved: 0,
        }
    }
}

/// How a new segment begins: decided when its first frame is appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentStart {
    pub(crate) base_offset: i64,
    pub(crate) number: u64,
    pub(crate) first_timestamp: i64,
    pub(crate) created_ms: i64,
    /// The producers as of its base: number and content of the snapshot file; `None` without producers.
    pub(crate) snapshot: Option<(u64, Vec<u8>)>,
}

impl SegmentStart {
    pub(crate) fn meta(&self) -> SegmentCheckpoint {
        SegmentCheckpoint {
            base_offset: self.base_offset,
            end_offset: self.base_offset,
            number: self.number,
            max_timestamp: -1,
            max_timestamp_offset: -1,
            first_timestamp: self.first_timestamp,
            created_ms: self.created_ms,
            appended_ms: self.created_ms,
            snapshot: self.snapshot.as_ref().map_or(0, |(number, _)| *number),
            ..SegmentCheckpoint::default()
        }
    }
}
