//! What a log says of its segments, those in memory alone included.

use super::Log;
use super::run::Run;
use super::state::LogState;
use crate::disk::Disk;
use crate::format::checkpoint::SegmentCheckpoint;
use crate::types::Offset;

/// One segment of a log. Timestamps and times in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its first offset.
    pub base_offset: Offset,
    /// The offset after its last one.
    pub end_offset: Offset,
    /// Its payload, in bytes.
    pub payload_bytes: u64,
    /// The largest timestamp in it; -1 when there is none.
    pub max_timestamp: i64,
    /// The largest timestamp of its first batch; -1 when that has none.
    pub first_timestamp: i64,
    /// When it got its first batch, by the broker's clock.
    pub created_ms: i64,
    /// When it got its last one.
    pub appended_ms: i64,
    /// Whether appends go on in it.
    pub is_active: bool,
}

impl SegmentInfo {
    /// The age of what is in it: its largest timestamp, or where batches have none, the time of the last append.
    pub fn largest_timestamp(&self) -> i64 {
        match self.max_timestamp {
            none if none < 0 => self.appended_ms,
            largest => largest,
        }
    }

    fn of(meta: &SegmentCheckpoint) -> Self {
        Self {
            base_offset: meta.base_offset,
            end_offset: meta.end_offset,
            payload_bytes: meta.payload_bytes,
            max_timestamp: meta.max_timestamp,
            first_timestamp: meta.first_timestamp,
            created_ms: meta.created_ms,
            appended_ms: meta.appended_ms,
            is_active: false,
        }
    }

    /// The segment that a run in memory opens, without the run.
    fn begun_by<D: Disk>(run: &Run<D>) -> Self {
        let start = run.segment.as_ref();
        Self {
            base_offset: run.base_offset,
            end_offset: run.base_offset,
            payload_bytes: 0,
            max_timestamp: -1,
            first_timestamp: start.map_or(-1, |start| start.first_timestamp),
            created_ms: start.map_or(run.appended_ms, |start| start.created_ms),
            appended_ms: run.appended_ms,
            is_active: false,
        }
    }
}

impl<D: Disk> LogState<D> {
    /// The segments that hold something readable, oldest first; the last ones may be in memory alone.
    pub(crate) fn segment_infos(&self, infos: &mut Vec<SegmentInfo>) {
        infos.clear();
        infos.extend(self.segments.iter().map(|segment| SegmentInfo::of(&segment.meta)));
        for run in self.runs_in_no_segment() {
            if run.segment.is_some() || infos.is_empty() {
                infos.push(SegmentInfo::begun_by(run));
            }
            if let Some(info) = infos.last_mut() {
                info.end_offset = run.end_offset;
                info.payload_bytes += run.payload_bytes;
                info.max_timestamp = info.max_timestamp.max(run.max_timestamp);
                info.appended_ms = info.appended_ms.max(run.appended_ms);
            }
        }
        infos.retain(|info| info.end_offset > self.start_offset);
        if let (Some(newest), Some(open)) = (infos.last_mut(), &self.open_segment) {
            newest.is_active = newest.base_offset == open.base_offset;
        }
    }

    fn runs_in_no_segment(&self) -> impl Iterator<Item = &Run<D>> {
        let on_disk = self
            .segments
            .last()
            .map_or(Offset::MIN, |last| last.meta.end_offset);
        self.runs.iter().filter(move |run| run.end_offset > on_disk)
    }
}

impl<D: Disk> Log<D> {
    /// Payload bytes of the log, as far as it is readable; whole segments counted.
    pub fn size_bytes(&self) -> u64 {
        self.segments().iter().map(|segment| segment.payload_bytes).sum()
    }

    /// The segments that hold something readable, oldest first; the last ones may be in memory alone.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let mut infos = Vec::new();
        self.inner.state.borrow().segment_infos(&mut infos);
        infos
    }
}
