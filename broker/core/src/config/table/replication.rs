//! Replication, leader election, quotas and metrics.

use super::super::key::{Effect, Key, Kind};

const OWN_STORAGE: Effect =
    Effect::Without("the log is stored in another way than Kafka's: see docs/format.md");
const OWN_THREADS: Effect = Effect::Without("a shard is one thread: use strandline.shards");
const PUSHED: Effect = Effect::Without("followers fetch nothing: leaders push, see docs/replication.md");
pub(super) const DYNAMIC: Effect =
    Effect::Partly("the quorum goes by a topic's value and the cluster's dynamic one, not by a node's file");
const QUOTAS: Effect = Effect::Without("quotas are not served yet");
const JMX: Effect = Effect::Without("metrics are served at /metrics instead");

pub(super) const KEYS: &[Key] = &[
    Key::broker(
        "alter.log.dirs.replication.quota.window.num",
        Kind::Int,
        Some("11"),
    )
    .at_least(1)
    .effect(QUOTAS)
    .doc("Samples kept for the quota on moves between directories."),
    Key::broker(
        "alter.log.dirs.replication.quota.window.size.seconds",
        Kind::Int,
        Some("1"),
    )
    .at_least(1)
    .effect(QUOTAS)
    .doc("Length of one sample of the quota on moves between directories."),
    Key::broker("auto.leader.rebalance.enable", Kind::Boolean, Some("true"))
        .doc("Whether leadership is moved back to the preferred replicas by itself."),
    Key::broker("background.threads", Kind::Int, Some("10"))
        .cluster_wide()
        .at_least(1)
        .effect(OWN_THREADS)
        .doc("Threads for background work."),
    Key::broker("kafka.metrics.polling.interval.secs", Kind::Int, Some("10"))
        .at_least(1)
        .effect(JMX)
        .doc("How often metrics reporters are polled."),
    Key::broker("kafka.metrics.reporters", Kind::List, Some(""))
        .effect(JMX)
        .doc("Classes that report metrics."),
    Key::broker("leader.imbalance.check.interval.seconds", Kind::Long, Some("300"))
        .at_least(1)
        .doc("How often the balance of leaderships is looked at."),
    Key::broker("metric.reporters", Kind::List, Some(""))
        .cluster_wide()
        .effect(JMX)
        .doc("Classes that report metrics."),
    Key::broker("metrics.num.samples", Kind::Int, Some("2"))
        .at_least(1)
        .effect(JMX)
        .doc("Samples kept for a metric."),
    Key::broker("metrics.recording.level", Kind::String, Some("INFO"))
        .effect(JMX)
        .doc("Which metrics are recorded."),
    Key::broker("metrics.sample.window.ms", Kind::Long, Some("30000"))
        .at_least(1)
        .effect(JMX)
        .doc("Length of one sample of a metric."),
    Key::broker("num.replica.alter.log.dirs.threads", Kind::Int, None)
        .effect(OWN_THREADS)
        .doc("Threads that move replicas between directories."),
    Key::broker("num.replica.fetchers", Kind::Int, Some("1"))
        .cluster_wide()
        .at_least(1)
        .effect(PUSHED)
        .doc("Threads that fetch from each leader."),
    Key::broker("quota.window.num", Kind::Int, Some("11"))
        .at_least(1)
        .effect(QUOTAS)
        .doc("Samples kept for client quotas."),
    Key::broker("quota.window.size.seconds", Kind::Int, Some("1"))
        .at_least(1)
        .effect(QUOTAS)
        .doc("Length of one sample of client quotas."),
    Key::broker("replica.fetch.backoff.ms", Kind::Int, Some("1000"))
        .at_least(0)
        .effect(PUSHED)
        .doc("The pause after a failed fetch of a follower."),
    Key::broker("replica.fetch.max.bytes", Kind::Int, Some("1048576"))
        .at_least(0)
        .effect(PUSHED)
        .doc("How much a follower fetches of a partition at once."),
    Key::broker("replica.fetch.min.bytes", Kind::Int, Some("1"))
        .effect(PUSHED)
        .doc("How little a follower waits for."),
    Key::broker("replica.fetch.response.max.bytes", Kind::Int, Some("10485760"))
        .at_least(0)
        .effect(PUSHED)
        .doc("How much a follower fetches in all at once."),
    Key::broker("replica.fetch.wait.max.ms", Kind::Int, Some("500"))
        .effect(PUSHED)
        .doc("How long a follower's fetch waits for data."),
    Key::broker(
        "replica.high.watermark.checkpoint.interval.ms",
        Kind::Long,
        Some("5000"),
    )
    .effect(OWN_STORAGE)
    .doc("How often high watermarks are written."),
    Key::broker("replica.lag.time.max.ms", Kind::Long, Some("30000"))
        .doc("How long a follower may lag before it leaves the in-sync set."),
    Key::broker("replica.selector.class", Kind::String, None)
        .effect(Effect::Without("consumers read from leaders"))
        .doc("The class that chooses the replica a consumer reads from."),
    Key::broker("replica.socket.receive.buffer.bytes", Kind::Int, Some("65536"))
        .effect(PUSHED)
        .doc("Size of a follower's receive buffer."),
    Key::broker("replica.socket.timeout.ms", Kind::Int, Some("30000"))
        .effect(PUSHED)
        .doc("How long a follower's request may take."),
    Key::broker("replication.quota.window.num", Kind::Int, Some("11"))
        .at_least(1)
        .effect(QUOTAS)
        .doc("Samples kept for replication quotas."),
    Key::broker("replication.quota.window.size.seconds", Kind::Int, Some("1"))
        .at_least(1)
        .effect(QUOTAS)
        .doc("Length of one sample of replication quotas."),
    Key::broker("telemetry.max.bytes", Kind::Int, Some("1048576"))
        .at_least(1)
        .effect(Effect::Without("client telemetry is not served"))
        .doc("The largest push of client metrics."),
    Key::broker("unclean.leader.election.enable", Kind::Boolean, Some("false"))
        .cluster_wide()
        .effect(DYNAMIC)
        .doc("The default of a topic's `unclean.leader.election.enable`."),
    Key::broker("unclean.leader.election.interval.ms", Kind::Long, Some("300000"))
        .at_least(1)
        .effect(Effect::Without(
            "an unclean election is held as soon as it may be",
        ))
        .internal()
        .doc("How often partitions without a leader are looked at."),
];
