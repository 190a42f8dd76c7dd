//! Replication, leader election, quotas and metrics.

use super::super::key::{Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key::broker(
        "alter.log.dirs.replication.quota.window.num",
        Kind::Int,
        Some("11"),
    )
    .at_least(1)
    .doc(""),
    Key::broker(
        "alter.log.dirs.replication.quota.window.size.seconds",
        Kind::Int,
        Some("1"),
    )
    .at_least(1)
    .doc(""),
    Key::broker("auto.leader.rebalance.enable", Kind::Boolean, Some("true")).doc(""),
    Key::broker("background.threads", Kind::Int, Some("10"))
        .cluster_wide()
        .at_least(1)
        .doc(""),
    Key::broker("kafka.metrics.polling.interval.secs", Kind::Int, Some("10"))
        .at_least(1)
        .doc(""),
    Key::broker("kafka.metrics.reporters", Kind::List, Some("")).doc(""),
    Key::broker("leader.imbalance.check.interval.seconds", Kind::Long, Some("300"))
        .at_least(1)
        .doc(""),
    Key::broker("metric.reporters", Kind::List, Some(""))
        .cluster_wide()
        .doc(""),
    Key::broker("metrics.num.samples", Kind::Int, Some("2"))
        .at_least(1)
        .doc(""),
    Key::broker("metrics.recording.level", Kind::String, Some("INFO")).doc(""),
    Key::broker("metrics.sample.window.ms", Kind::Long, Some("30000"))
        .at_least(1)
        .doc(""),
    Key::broker("num.replica.alter.log.dirs.threads", Kind::Int, None).doc(""),
    Key::broker("num.replica.fetchers", Kind::Int, Some("1"))
        .cluster_wide()
        .at_least(1)
        .doc(""),
    Key::broker("quota.window.num", Kind::Int, Some("11"))
        .at_least(1)
        .doc(""),
    Key::broker("quota.window.size.seconds", Kind::Int, Some("1"))
        .at_least(1)
        .doc(""),
    Key::broker("replica.fetch.backoff.ms", Kind::Int, Some("1000"))
        .at_least(0)
        .doc(""),
    Key::broker("replica.fetch.max.bytes", Kind::Int, Some("1048576"))
        .at_least(0)
        .doc(""),
    Key::broker("replica.fetch.min.bytes", Kind::Int, Some("1")).doc(""),
    Key::broker("replica.fetch.response.max.bytes", Kind::Int, Some("10485760"))
        .at_least(0)
        .doc(""),
    Key::broker("replica.fetch.wait.max.ms", Kind::Int, Some("500")).doc(""),
    Key::broker(
        "replica.high.watermark.checkpoint.interval.ms",
        Kind::Long,
        Some("5000"),
    )
    .doc(""),
    Key::broker("replica.lag.time.max.ms", Kind::Long, Some("30000")).doc(""),
    Key::broker("replica.selector.class", Kind::String, None).doc(""),
    Key::broker("replica.socket.receive.buffer.bytes", Kind::Int, Some("65536")).doc(""),
    Key::broker("replica.socket.timeout.ms", Kind::Int, Some("30000")).doc(""),
    Key::broker("replication.quota.window.num", Kind::Int, Some("11"))
        .at_least(1)
        .doc(""),
    Key::broker("replication.quota.window.size.seconds", Kind::Int, Some("1"))
        .at_least(1)
        .doc(""),
    Key::broker("telemetry.max.bytes", Kind::Int, Some("1048576"))
        .at_least(1)
        .doc(""),
    Key::broker("unclean.leader.election.enable", Kind::Boolean, Some("false"))
        .cluster_wide()
        .doc(""),
    Key::broker("unclean.leader.election.interval.ms", Kind::Long, Some("300000"))
        .at_least(1)
        .internal()
        .doc(""),
];
