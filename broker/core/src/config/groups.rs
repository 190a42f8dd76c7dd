//! Typed values of the group coordinator's keys; none of them can be changed while a node runs, but a group may have its own.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::layers::{Layers, StaticConfig};
use crate::group::consumer::assignor::Assignor;
use crate::group::consumer::{ConsumerGroupConfig, MigrationPolicy};

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
    /// `strandline.metrics.group.partitions.max`.
    pub metrics_partitions_max: usize,
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
            metrics_partitions_max: layers.number("strandline.metrics.group.partitions.max"),
        }
    }
}

/// The keys `group.consumer.*`, and whether groups of the consumer protocol are served.
#[derive(Clone, Debug)]
pub struct ConsumerGroupSettings {
    /// `consumer` is among `group.coordinator.rebalance.protocols`.
    pub is_served: bool,
    /// `group.consumer.migration.policy`.
    pub migration: MigrationPolicy,
    /// What a group has that is not configured by itself.
    pub defaults: Rc<ConsumerGroupConfig>,
    session_timeout_ms: Bounds,
    heartbeat_interval_ms: Bounds,
}

/// What a key of a group may be set to.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// The group's key.
    name: &'static str,
    /// The broker's keys, and their values.
    least: (&'static str, i32),
    most: (&'static str, i32),
    /// The broker's key for groups without a value of their own.
    default: (&'static str, i32),
}

impl Bounds {
    fn check(&self, name: &str, value: i32) -> Result<(), String> {
        let ((least, least_ms), (most, most_ms)) = (self.least, self.most);
        if value < least_ms {
            return Err(format!(
                "{name} must be greater than or equal to {least} ({least_ms})"
            ));
        }
        if value > most_ms {
            return Err(format!("{name} must be less than or equal to {most} ({most_ms})"));
        }
        Ok(())
    }

    fn validate(&self) -> Result<(), String> {
        let ((least, least_ms), (most, most_ms)) = (self.least, self.most);
        if least_ms > most_ms {
            return Err(format!("{least} ({least_ms}) is above {most} ({most_ms})"));
        }
        self.check(self.default.0, self.default.1)
    }
}

impl ConsumerGroupSettings {
    /// Reads what a node was started with.
    pub fn new(node: &StaticConfig) -> Self {
        let nothing = BTreeMap::new();
        let layers = Layers::of_broker(node, &nothing, &nothing);
        let list = |name: &str| -> Vec<String> {
            let text = layers.text(name);
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            items.map(str::to_owned).collect()
        };
        let number = |name: &'static str| (name, layers.number::<i32>(name));
        let assignors = list("group.consumer.assignors");
        let mut assignors: Vec<Assignor> = assignors
            .iter()
            .filter_map(|name| Assignor::from_name(name))
            .collect();
        if assignors.is_empty() {
            assignors = ConsumerGroupConfig::default().assignors;
        }
        Self {
            is_served: list("group.coordinator.rebalance.protocols")
                .iter()
                .any(|protocol| protocol == "consumer"),
            migration: MigrationPolicy::from_name(&layers.text("group.consumer.migration.policy"))
                .unwrap_or_default(),
            session_timeout_ms: Bounds {
                name: "consumer.session.timeout.ms",
                least: number("group.consumer.min.session.timeout.ms"),
                most: number("group.consumer.max.session.timeout.ms"),
                default: number("group.consumer.session.timeout.ms"),
            },
            heartbeat_interval_ms: Bounds {
                name: "consumer.heartbeat.interval.ms",
                least: number("group.consumer.min.heartbeat.interval.ms"),
                most: number("group.consumer.max.heartbeat.interval.ms"),
                default: number("group.consumer.heartbeat.interval.ms"),
            },
            defaults: Rc::new(ConsumerGroupConfig {
                size_max: layers.number("group.consumer.max.size"),
                session_timeout_ms: layers.number("group.consumer.session.timeout.ms"),
                heartbeat_interval_ms: layers.number("group.consumer.heartbeat.interval.ms"),
                regex_refresh_interval_ms: layers.number("group.consumer.regex.refresh.interval.ms"),
                assignors,
            }),
        }
    }

    /// Whether the values fit together.
    ///
    /// # Errors
    /// The text for the operator.
    pub fn validate(&self) -> Result<(), String> {
        self.session_timeout_ms.validate()?;
        self.heartbeat_interval_ms.validate()
    }

    /// Whether a group may have this value; of other keys, and of what is no number, somebody else judges.
    ///
    /// # Errors
    /// The text for the client.
    pub fn check(&self, key: &str, value: &str) -> Result<(), String> {
        let bounds = [&self.session_timeout_ms, &self.heartbeat_interval_ms];
        let bounds = bounds.into_iter().find(|bounds| bounds.name == key);
        match bounds.zip(value.trim().parse().ok()) {
            Some((bounds, value)) => bounds.check(key, value),
            None => Ok(()),
        }
    }

    /// What a group with this configuration of its own is configured with.
    pub fn of_group(&self, own: Option<&BTreeMap<String, String>>) -> Rc<ConsumerGroupConfig> {
        let Some(own) = own else {
            return self.defaults.clone();
        };
        let number = |bounds: &Bounds| own.get(bounds.name)?.trim().parse().ok();
        let (session_ms, heartbeat_ms) = (
            number(&self.session_timeout_ms),
            number(&self.heartbeat_interval_ms),
        );
        let defaults = ConsumerGroupConfig::clone(&self.defaults);
        Rc::new(defaults.with_group(session_ms, heartbeat_ms))
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
        let consumer = ConsumerGroupSettings::new(&StaticConfig::default());
        assert!(consumer.is_served);
        assert_eq!(consumer.migration, MigrationPolicy::Bidirectional);
        assert_eq!(*consumer.defaults, ConsumerGroupConfig::default());
        assert_eq!(consumer.validate(), Ok(()));
    }

    #[test]
    fn groups_stay_within_the_brokers_bounds() {
        let node = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            ConsumerGroupSettings::new(&StaticConfig(pairs.collect()))
        };
        let settings = node(&[("group.consumer.session.timeout.ms", "50000")]);
        let session = "consumer.session.timeout.ms";
        assert!(
            settings
                .check(session, "44999")
                .unwrap_err()
                .contains("group.consumer.min.session.timeout.ms")
        );
        assert!(
            settings
                .check(session, "60001")
                .unwrap_err()
                .contains("group.consumer.max.session.timeout.ms")
        );
        assert_eq!(settings.check(session, " 60000 "), Ok(()));
        let own = BTreeMap::from([(session.to_owned(), "60000".to_owned())]);
        let of_group = settings.of_group(Some(&own));
        assert_eq!(
            (of_group.session_timeout_ms, of_group.heartbeat_interval_ms),
            (60_000, 5_000)
        );
        assert_eq!(settings.of_group(None).session_timeout_ms, 50_000);
        for bad in [
            [("group.consumer.session.timeout.ms", "1000")].as_slice(),
            &[("group.consumer.heartbeat.interval.ms", "20000")],
            &[("group.consumer.max.session.timeout.ms", "1000")],
        ] {
            assert!(node(bad).validate().is_err(), "{bad:?}");
        }
    }
}
