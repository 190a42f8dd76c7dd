//! Typed values of the group coordinator's keys; none of them can be changed while a node runs.

use std::collections::BTreeMap;

use super::layers::{Layers, StaticConfig};

/// The keys `group.*` and `offsets.*` of the classic protocol and of committed offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub session_timeout_max_ms: i32,
    /// `group.min.session.timeout.ms`.
    pub session_timeout_min_ms: i32,
    /// `group.max.size`.
    pub size_max: usize,
    /// `offset.metadata.max.bytes`; what Kafka counts are UTF-16 units.
    pub offset_metadata_max: usize,
    /// `offsets.commit.timeout.ms`.
    pub commit_timeout_ms: u64,
    /// `offsets.load.buffer.size`, in bytes.
    pub load_buffer_bytes: usize,
    /// `offsets.retention.check.interval.ms`.
    pub retention_check_interval_ms: u64,
    /// `offsets.retention.minutes`, in milliseconds.
    pub retention_ms: i64,
    /// `offsets.topic.compression.codec`: the number that a batch's attributes have for it.
    pub topic_compression: i16,
    /// `offsets.topic.num.partitions`.
    pub topic_partitions: i32,
    /// `offsets.topic.replication.factor`.
    pub topic_replication_factor: i16,
    /// `offsets.topic.segment.bytes`.
    pub topic_segment_bytes: u64,
}

impl GroupSettings {
    /// Reads what a node was started with.
    pub fn new(node: &StaticConfig) -> Self {
        let nothing = BTreeMap::new();
        let layers = Layers::of_broker(node, &nothing, &nothing);
        Self {
            initial_rebalance_delay_ms: layers.number("group.initial.rebalance.delay.ms"),
            session_timeout_max_ms: layers.number("group.max.session.timeout.ms"),
            session_timeout_min_ms: layers.number("group.min.session.timeout.ms"),
            size_max: layers.number("group.max.size"),
            offset_metadata_max: layers.number("offset.metadata.max.bytes"),
            commit_timeout_ms: layers.number("offsets.commit.timeout.ms"),
            load_buffer_bytes: layers.number("offsets.load.buffer.size"),
            retention_check_interval_ms: layers.number("offsets.retention.check.interval.ms"),
            retention_ms: layers
                .number::<i64>("offsets.retention.minutes")
                .saturating_mul(60_000),
            topic_compression: layers.number("offsets.topic.compression.codec"),
            topic_partitions: layers.number("offsets.topic.num.partitions"),
            topic_replication_factor: layers.number("offsets.topic.replication.factor"),
            topic_segment_bytes: layers.number("offsets.topic.segment.bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_kafkas() {
        let settings = GroupSettings::new(&StaticConfig::default());
        assert_eq!(settings.initial_rebalance_delay_ms, 3_000);
        assert_eq!(
            (settings.session_timeout_min_ms, settings.session_timeout_max_ms),
            (6_000, 1_800_000)
        );
        assert_eq!(settings.retention_ms, 7 * 24 * 3_600_000);
        assert_eq!(
            (settings.topic_partitions, settings.topic_replication_factor),
            (50, 3)
        );
        assert_eq!(
            (settings.offset_metadata_max, settings.commit_timeout_ms),
            (4_096, 5_000)
        );
    }
}
