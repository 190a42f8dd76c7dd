//! Retention: raises the start offset over whole segments that are too old or too many.

use std::time::Duration;

use strandline_runtime::Runtime;

use super::Worker;
use crate::disk::Disk;
use crate::log::SegmentInfo;
use crate::log::change::raise_start;
use crate::options::LogSettings;
use crate::types::Offset;

/// What of a log retention deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Where the log starts afterwards.
    pub start_offset: Offset,
    /// How many of the oldest segments go because the log is larger than `retention.bytes`.
    pub by_size: usize,
    /// How many behind those because they are older than `retention.ms`.
    pub by_time: usize,
}

/// Decides as Kafka does: first the oldest segments as long as the rest still has `retention.bytes`, then those whose largest
/// timestamp is older than `retention.ms`, one without timestamps by its last append. The newest segment too: the next append
/// opens another. Nothing at or above the high watermark goes, hence no segment that reaches it.
///
/// `segments`: all that hold readable records, oldest first, up to `end_offset`.
pub fn decide(
    segments: &[SegmentInfo],
    (high_watermark, end_offset): (Offset, Offset),
    settings: &LogSettings,
    now_ms: i64,
) -> Option<Deletion> {
    if !settings.deletes {
        return None;
    }
    let ends_at = |at: usize| segments.get(at + 1).map_or(end_offset, |next| next.base_offset);
    let may_go = |at: usize| at < segments.len() && ends_at(at) <= high_watermark;

    let mut gone = 0;
    if let Ok(keep) = u64::try_from(settings.retention_bytes) {
        let size: u64 = segments.iter().map(|segment| segment.payload_bytes).sum();
        let mut over = size.checked_sub(keep);
        while may_go(gone) {
            over = over.and_then(|over| over.checked_sub(segments[gone].payload_bytes));
            if over.is_none() {
                break;
            }
            gone += 1;
        }
    }
    let by_size = gone;
    if settings.retention_ms >= 0 {
        let is_old =
            |at: usize| now_ms.saturating_sub(segments[at].largest_timestamp()) > settings.retention_ms;
        while may_go(gone) && is_old(gone) {
            gone += 1;
        }
    }
    (gone > 0).then(|| Deletion {
        start_offset: ends_at(gone - 1),
        by_size,
        by_time: gone - by_size,
    })
}

/// The job: a round of all logs every `log.retention.check.interval.ms`.
pub(super) async fn run<R: Runtime, D: Disk>(worker: Worker<R, D>) {
    let options = &worker.shard.options;
    let interval = Duration::from_millis(options.retention_check_ms.max(1));
    worker
        .rest(Duration::from_millis(options.initial_task_delay_ms))
        .await;
    while !worker.is_over() {
        round(&worker).await;
        worker.rest(interval).await;
    }
}

/// A checkpoint takes what changed in one go, without giving way: no more logs than this change between two.
const LOGS_PER_CHECKPOINT: usize = 256;

async fn round<R: Runtime, D: Disk>(worker: &Worker<R, D>) {
    let shard = &worker.shard;
    let mut segments = Vec::new();
    let mut last = None;
    let mut changed = 0;
    while let Some(log) = worker.next_log(last).await {
        last = Some(log.id);
        let decided = {
            let state = log.state.borrow();
            state.segment_infos(&mut segments);
            let ends = (state.high_watermark, state.end_offset);
            decide(&segments, ends, &state.settings, (shard.clock.wall_ms)())
        };
        let Some(deletion) = decided else { continue };
        let gone = deletion.by_size + deletion.by_time;
        let bytes: u64 = segments[..gone].iter().map(|segment| segment.payload_bytes).sum();
        // Deleted or set aside since: nothing is left to do.
        if raise_start(shard, &log, deletion.start_offset).is_err() {
            continue;
        }
        shard.want_cleanup();
        shard
            .counters
            .retention_segments_by_size
            .add(deletion.by_size as u64);
        shard
            .counters
            .retention_segments_by_time
            .add(deletion.by_time as u64);
        shard.counters.retention_bytes.add(bytes);
        tracing::info!(
            log = %log.id,
            start_offset = deletion.start_offset,
            by_size = deletion.by_size,
            by_time = deletion.by_time,
            bytes,
            "retention deletes segments"
        );
        changed += 1;
        if changed == LOGS_PER_CHECKPOINT {
            changed = 0;
            worker.checkpointed().await;
        }
    }
    shard.counters.retention_rounds.add(1);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(
        base_offset: Offset,
        end_offset: Offset,
        payload_bytes: u64,
        max_timestamp: i64,
    ) -> SegmentInfo {
        SegmentInfo {
            base_offset,
            end_offset,
            payload_bytes,
            max_timestamp,
            first_timestamp: max_timestamp,
            created_ms: 0,
            appended_ms: 0,
            is_active: false,
        }
    }

    fn settings(retention_ms: i64, retention_bytes: i64) -> LogSettings {
        LogSettings {
            retention_ms,
            retention_bytes,
            ..LogSettings::default()
        }
    }

    /// Three segments of 100 bytes and 10 records, as old as their number says.
    fn three() -> Vec<SegmentInfo> {
        vec![
            segment(0, 10, 100, 1000),
            segment(10, 20, 100, 2000),
            segment(20, 30, 100, 3000),
        ]
    }

    fn start(
        segments: &[SegmentInfo],
        high_watermark: Offset,
        settings: &LogSettings,
        now: i64,
    ) -> Option<Offset> {
        decide(segments, (high_watermark, 30), settings, now).map(|deletion| deletion.start_offset)
    }

    #[test]
    fn a_segment_goes_once_its_largest_timestamp_is_older_than_retention_ms() {
        let of = |now| start(&three(), 30, &settings(500, -1), now);
        assert_eq!(of(1500), None, "exactly as old is not older");
        assert_eq!(of(1501), Some(10));
        assert_eq!(of(2501), Some(20));
        assert_eq!(of(3501), Some(30), "the newest one too");
        assert_eq!(start(&three(), 30, &settings(-1, -1), i64::MAX), None);
        assert_eq!(start(&three(), 30, &settings(0, -1), 3001), Some(30));
    }

    #[test]
    fn time_stops_at_the_first_segment_that_is_not_old() {
        let mut segments = three();
        segments[1].max_timestamp = 1_000_000;
        assert_eq!(start(&segments, 30, &settings(500, -1), 10_000), Some(10));
        assert_eq!(start(&segments, 30, &settings(500, -1), 1_000_501), Some(30));
    }

    #[test]
    fn a_segment_without_timestamps_is_as_old_as_its_last_append() {
        let mut segments = three();
        segments[0].max_timestamp = -1;
        segments[0].appended_ms = 900;
        assert_eq!(start(&segments, 30, &settings(500, -1), 1400), None);
        assert_eq!(start(&segments, 30, &settings(500, -1), 1401), Some(10));
    }

    #[test]
    fn size_takes_whole_segments_and_leaves_at_least_retention_bytes() {
        let of = |bytes| start(&three(), 30, &settings(-1, bytes), 0);
        assert_eq!(of(301), None);
        assert_eq!(of(300), None);
        assert_eq!(of(201), None);
        assert_eq!(of(200), Some(10));
        assert_eq!(of(101), Some(10));
        assert_eq!(of(100), Some(20));
        assert_eq!(of(0), Some(30));
    }

    #[test]
    fn nothing_that_reaches_the_high_watermark_goes() {
        for settings in [settings(0, -1), settings(-1, 0)] {
            assert_eq!(start(&three(), 9, &settings, 10_000), None);
            assert_eq!(start(&three(), 10, &settings, 10_000), Some(10));
            assert_eq!(start(&three(), 29, &settings, 10_000), Some(20));
        }
    }

    #[test]
    fn only_the_policy_delete_deletes() {
        let compacts = LogSettings {
            deletes: false,
            ..settings(0, 0)
        };
        assert_eq!(start(&three(), 30, &compacts, 10_000), None);
    }

    fn logs() -> impl Strategy<Value = (Vec<SegmentInfo>, Offset, Offset)> {
        let one = (1..20i64, 0..3i64, 0..50u64, -1..200i64, 0..200i64);
        (prop::collection::vec(one, 0..8), 0..5i64, 0..40i64).prop_map(|(parts, mut base, below)| {
            let mut segments = Vec::new();
            let mut end = base;
            for (records, gap, bytes, timestamp, appended_ms) in parts {
                segments.push(SegmentInfo {
                    appended_ms,
                    ..segment(base, base + records, bytes, timestamp)
                });
                end = base + records;
                // What a cleaner leaves out at the end of a segment.
                base = end + gap;
            }
            (segments, (end - below).max(0), end)
        })
    }

    proptest! {
        #[test]
        fn what_goes_is_the_most_that_may_go_and_no_more(
            (segments, high_watermark, end) in logs(),
            retention_ms in -1..200i64,
            retention_bytes in -1..300i64,
            now in 0..300i64,
        ) {
            let settings = settings(retention_ms, retention_bytes);
            let decided = decide(&segments, (high_watermark, end), &settings, now);
            let (by_size, by_time) = decided.map_or((0, 0), |deletion| (deletion.by_size, deletion.by_time));
            prop_assert_eq!(decided.is_some(), by_size + by_time > 0);
            let gone = by_size + by_time;
            let ends_at = |at: usize| segments.get(at + 1).map_or(end, |next| next.base_offset);
            if let Some(deletion) = decided {
                prop_assert_eq!(deletion.start_offset, ends_at(gone - 1));
                prop_assert!(deletion.start_offset <= high_watermark);
            }
            let left = |from: usize| segments[from..].iter().map(|s| s.payload_bytes as i64).sum::<i64>();
            let is_old = |s: &SegmentInfo| now - s.largest_timestamp() > retention_ms;
            prop_assert!(by_size == 0 || left(by_size) >= retention_bytes);
            prop_assert!(by_size == 0 || retention_bytes >= 0);
            prop_assert!(by_time == 0 || retention_ms >= 0);
            prop_assert!(segments[by_size..gone].iter().all(is_old));
            // The next one stays for a reason.
            if gone < segments.len() && ends_at(gone) <= high_watermark {
                prop_assert!(retention_ms < 0 || !is_old(&segments[gone]));
                if by_time == 0 {
                    prop_assert!(retention_bytes < 0 || left(gone + 1) < retention_bytes);
                }
            }
        }
    }
}
