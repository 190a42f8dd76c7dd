//! Which part of a log is dirty, and whether that is enough to clean it. Pure; the rules are Kafka's.

use crate::types::Offset;

/// When a topic's logs are cleaned, and what then goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompactionSettings {
    /// `min.cleanable.dirty.ratio`: above this share of dirty bytes a log is cleaned.
    pub min_dirty_ratio: f64,
    /// `min.compaction.lag.ms`: how long a record stays uncleaned at least.
    pub min_lag_ms: i64,
    /// `max.compaction.lag.ms`: after how long a log is cleaned whatever its dirty ratio.
    pub max_lag_ms: i64,
    /// `delete.retention.ms`: how long a tombstone stays after the cleaning that first met it.
    pub delete_retention_ms: i64,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self {
            min_dirty_ratio: 0.5,
            min_lag_ms: 0,
            max_lag_ms: i64::MAX,
            delete_retention_ms: 86_400_000,
        }
    }
}

/// What the choice needs to know of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentFacts {
    pub(crate) base_offset: Offset,
    pub(crate) end_offset: Offset,
    pub(crate) payload_bytes: u64,
    pub(crate) first_timestamp: i64,
    pub(crate) max_timestamp: i64,
}

/// A log as a cleaner sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dirtiness {
    /// Everything below is clean.
    pub first_dirty: Offset,
    /// Nothing from here on may be cleaned: a segment's base.
    pub first_uncleanable: Offset,
    /// Bytes of the clean segments.
    pub clean_bytes: u64,
    /// Bytes of the segments that may be cleaned and have dirty records.
    pub dirty_bytes: u64,
    /// For how long it has been due by `max.compaction.lag.ms`, in milliseconds.
    pub overdue_ms: i64,
}

impl Dirtiness {
    /// The dirty share of what may be cleaned.
    pub fn ratio(&self) -> f64 {
        match self.clean_bytes + self.dirty_bytes {
            0 => 0.0,
            total => self.dirty_bytes as f64 / total as f64,
        }
    }

    /// Whether the log is to be cleaned.
    pub fn is_due(&self, settings: &CompactionSettings) -> bool {
        self.dirty_bytes > 0 && (self.overdue_ms > 0 || self.ratio() > settings.min_dirty_ratio)
    }
}

/// Looks at a log of these segments, oldest first, of which the last is the active one. `cleaned_to` is how far it was
/// cleaned, `bound` what no cleaning may reach: the high watermark, or the first offset of a transaction that is open.
pub(crate) fn look(
    segments: &[SegmentFacts],
    (start, end): (Offset, Offset),
    cleaned_to: Offset,
    bound: Offset,
    settings: &CompactionSettings,
    now_ms: i64,
) -> Dirtiness {
    // Behind the end a log was cut: whatever came since is dirty, and who knows what else.
    let first_dirty = if cleaned_to > end {
        start
    } else {
        cleaned_to.max(start)
    };
    let closed = segments.split_last().map_or(&[][..], |(_, closed)| closed);
    let young = now_ms.saturating_sub(settings.min_lag_ms);
    let may_be_cleaned = |segment: &&SegmentFacts| {
        let is_clean = segment.end_offset <= first_dirty;
        let is_young = settings.min_lag_ms > 0 && segment.max_timestamp > young;
        segment.end_offset <= bound && (is_clean || !is_young)
    };
    let cleanable = closed.iter().take_while(may_be_cleaned);
    let mut found = Dirtiness {
        first_dirty,
        first_uncleanable: first_dirty,
        ..Dirtiness::default()
    };
    let until = now_ms.saturating_sub(settings.max_lag_ms.max(0));
    for segment in cleanable {
        if segment.end_offset <= first_dirty {
            found.clean_bytes += segment.payload_bytes;
            continue;
        }
        found.dirty_bytes += segment.payload_bytes;
        found.first_uncleanable = segment.end_offset;
    }
    let dirty = closed.iter().filter(|segment| segment.end_offset > first_dirty);
    let oldest = dirty
        .map(|segment| segment.first_timestamp)
        .filter(|time| *time > 0)
        .min();
    found.overdue_ms = oldest.map_or(0, |oldest| until.saturating_sub(oldest).max(0));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three segments of ten offsets and 100 bytes with timestamps 1000, 2000, 3000, and the active one.
    fn segments() -> Vec<SegmentFacts> {
        (0..4)
            .map(|at| SegmentFacts {
                base_offset: at * 10,
                end_offset: at * 10 + 10,
                payload_bytes: 100,
                first_timestamp: at * 1000 + 1000,
                max_timestamp: at * 1000 + 1500,
            })
            .collect()
    }

    fn looked(cleaned_to: Offset, bound: Offset, settings: CompactionSettings, now_ms: i64) -> Dirtiness {
        look(&segments(), (0, 40), cleaned_to, bound, &settings, now_ms)
    }

    #[test]
    fn the_active_segment_and_what_is_not_acknowledged_stay() {
        let all = looked(0, 40, CompactionSettings::default(), 9000);
        assert_eq!((all.first_dirty, all.first_uncleanable), (0, 30));
        assert_eq!((all.clean_bytes, all.dirty_bytes), (0, 300));
        assert!(all.is_due(&CompactionSettings::default()));
        let bound = looked(0, 29, CompactionSettings::default(), 9000);
        assert_eq!((bound.first_uncleanable, bound.dirty_bytes), (20, 200));
        assert_eq!(looked(0, 9, CompactionSettings::default(), 9000).dirty_bytes, 0);
        let only_active = look(
            &segments()[..1],
            (0, 10),
            0,
            10,
            &CompactionSettings::default(),
            9000,
        );
        assert_eq!((only_active.dirty_bytes, only_active.ratio()), (0, 0.0));
        assert_eq!(
            look(&[], (5, 5), 0, 5, &CompactionSettings::default(), 0).first_dirty,
            5
        );
    }

    #[test]
    fn the_ratio_is_that_of_bytes_and_must_be_passed() {
        let settings = |min_dirty_ratio| CompactionSettings {
            min_dirty_ratio,
            ..Default::default()
        };
        let third = looked(20, 40, settings(0.3), 9000);
        assert_eq!((third.clean_bytes, third.dirty_bytes), (200, 100));
        assert!(third.is_due(&settings(0.3)) && !third.is_due(&settings(0.34)));
        let half = look(&segments()[1..], (10, 40), 20, 40, &settings(0.5), 9000);
        assert_eq!(half.ratio(), 0.5);
        assert!(!half.is_due(&settings(0.5)), "not above it");
        let clean = looked(30, 40, settings(0.0), 9000);
        assert!(!clean.is_due(&settings(0.0)));
        // A round that ended inside a segment leaves all of it dirty.
        assert_eq!(looked(15, 40, settings(0.5), 9000).dirty_bytes, 200);
    }

    #[test]
    fn young_records_wait() {
        let settings = CompactionSettings {
            min_lag_ms: 1000,
            ..Default::default()
        };
        let found = looked(0, 40, settings, 3000);
        assert_eq!((found.first_uncleanable, found.dirty_bytes), (10, 100));
        assert_eq!(looked(0, 40, settings, 2499).dirty_bytes, 0);
        assert_eq!(looked(0, 40, settings, 2500).dirty_bytes, 100);
        // What is clean already does not count as young.
        let found = looked(20, 40, settings, 2500);
        assert_eq!((found.clean_bytes, found.dirty_bytes), (200, 0));
    }

    #[test]
    fn old_records_do_not_wait_for_the_ratio() {
        let settings = CompactionSettings {
            min_dirty_ratio: 1.0,
            max_lag_ms: 5000,
            ..Default::default()
        };
        let due = |cleaned_to, now_ms| {
            let found = looked(cleaned_to, 40, settings, now_ms);
            (found.overdue_ms, found.is_due(&settings))
        };
        assert_eq!(due(0, 6000), (0, false));
        assert_eq!(due(0, 6001), (1, true));
        assert_eq!(due(10, 6001), (0, false), "the oldest is clean");
        assert_eq!(due(10, 7500), (500, true));
    }

    #[test]
    fn a_log_that_was_cut_or_moved_on_is_looked_at_from_its_start() {
        let found = look(
            &segments()[..2],
            (0, 20),
            35,
            20,
            &CompactionSettings::default(),
            9000,
        );
        assert_eq!(found.first_dirty, 0);
        let found = look(
            &segments()[1..],
            (12, 40),
            5,
            40,
            &CompactionSettings::default(),
            9000,
        );
        assert_eq!((found.first_dirty, found.dirty_bytes), (12, 200));
    }
}
