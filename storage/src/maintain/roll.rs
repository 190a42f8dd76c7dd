//! When a segment is old enough for a new one to begin, pure.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::options::LogSettings;
use crate::types::Offset;

/// The age from which on a batch opens a new segment: `segment.ms` less the segment's jitter. The jitter comes from the log's
/// key and the segment's base, so that it is the same after a restart, and different for logs that began together.
pub(crate) fn roll_after_ms(settings: &LogSettings, log_key: u64, base_offset: Offset) -> i64 {
    // What is to be compacted within a time must have left the segment that appends go to.
    let after = match settings.compacts {
        true => settings.segment_ms.min(settings.compaction.max_lag_ms),
        false => settings.segment_ms,
    };
    let range = settings.segment_jitter_ms.min(after);
    if range <= 0 {
        return after;
    }
    let drawn = xxh3_64_with_seed(&base_offset.to_le_bytes(), log_key);
    after - (drawn % range as u64) as i64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_compacted_log_rolls_within_its_longest_lag() {
        let mut settings = settings(1000, 0);
        settings.compaction.max_lag_ms = 300;
        assert_eq!(roll_after_ms(&settings, 1, 0), 1000);
        settings.compacts = true;
        assert_eq!(roll_after_ms(&settings, 1, 0), 300);
    }

    fn settings(segment_ms: i64, segment_jitter_ms: i64) -> LogSettings {
        LogSettings {
            segment_ms,
            segment_jitter_ms,
            ..LogSettings::default()
        }
    }

    proptest! {
        #[test]
        fn the_jitter_shortens_a_segment_by_less_than_itself(
            segment_ms in 1..i64::MAX,
            jitter_ms in 0..i64::MAX,
            key in any::<u64>(),
            base in 0..i64::MAX,
        ) {
            let after = roll_after_ms(&settings(segment_ms, jitter_ms), key, base);
            prop_assert!(after <= segment_ms);
            prop_assert!(after > 0);
            prop_assert!(jitter_ms == 0 || segment_ms - after < jitter_ms);
        }
    }

    #[test]
    fn logs_that_began_together_end_their_segments_apart() {
        let settings = settings(1_000_000, 100_000);
        let mut ages: Vec<i64> = (0..100).map(|key| roll_after_ms(&settings, key, 0)).collect();
        ages.sort_unstable();
        ages.dedup();
        assert!(ages.len() > 90, "{} different ages", ages.len());
        assert!(ages.last().unwrap() - ages.first().unwrap() > 50_000);
    }
}
