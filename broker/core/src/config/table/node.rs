//! The node, its role, and the metadata quorum.

use super::super::key::{Check, Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key::broker("broker.heartbeat.interval.ms", Kind::Int, Some("2000")).doc(""),
    Key::broker("broker.id", Kind::Int, Some("-1")).doc(""),
    Key::broker("broker.rack", Kind::String, None).doc(""),
    Key::broker("broker.session.timeout.ms", Kind::Int, Some("9000")).doc(""),
    Key::broker("controlled.shutdown.enable", Kind::Boolean, Some("true")).doc(""),
    Key::broker("controller.listener.names", Kind::List, Some("CONTROLLER")).doc(""),
    Key::broker(
        "controller.performance.always.log.threshold.ms",
        Kind::Long,
        Some("2000"),
    )
    .at_least(0)
    .internal()
    .doc(""),
    Key::broker(
        "controller.performance.sample.period.ms",
        Kind::Long,
        Some("60000"),
    )
    .at_least(100)
    .internal()
    .doc(""),
    Key::broker("controller.quorum.append.linger.ms", Kind::Int, Some("25"))
        .at_least(0)
        .doc(""),
    Key::broker("controller.quorum.auto.join.enable", Kind::Boolean, Some("false")).doc(""),
    Key::broker("controller.quorum.bootstrap.servers", Kind::List, Some("")).doc(""),
    Key::broker(
        "controller.quorum.election.backoff.max.ms",
        Kind::Int,
        Some("1000"),
    )
    .at_least(0)
    .doc(""),
    Key::broker("controller.quorum.election.timeout.ms", Kind::Int, Some("1000"))
        .at_least(0)
        .doc(""),
    Key::broker("controller.quorum.fetch.timeout.ms", Kind::Int, Some("2000"))
        .at_least(0)
        .doc(""),
    Key::broker("controller.quorum.request.timeout.ms", Kind::Int, Some("2000"))
        .at_least(0)
        .doc(""),
    Key::broker("controller.quorum.retry.backoff.ms", Kind::Int, Some("20"))
        .at_least(0)
        .doc(""),
    Key::broker("controller.quorum.voters", Kind::List, Some("")).doc(""),
    Key::broker("controller.quota.window.num", Kind::Int, Some("11"))
        .at_least(1)
        .doc(""),
    Key::broker("controller.quota.window.size.seconds", Kind::Int, Some("1"))
        .at_least(1)
        .doc(""),
    Key::broker("controller.socket.timeout.ms", Kind::Int, Some("30000")).doc(""),
    Key::broker("initial.broker.registration.timeout.ms", Kind::Int, Some("60000")).doc(""),
    Key::broker("internal.metadata.delete.delay.millis", Kind::Long, Some("60000"))
        .internal()
        .doc(""),
    Key::broker("internal.metadata.log.segment.bytes", Kind::Int, None)
        .internal()
        .doc(""),
    Key::broker(
        "internal.metadata.max.batch.size.in.bytes",
        Kind::Int,
        Some("8388608"),
    )
    .internal()
    .doc(""),
    Key::broker(
        "internal.metadata.max.fetch.size.in.bytes",
        Kind::Int,
        Some("8388608"),
    )
    .internal()
    .doc(""),
    Key::broker("metadata.log.dir", Kind::String, None).doc(""),
    Key::broker(
        "metadata.log.max.record.bytes.between.snapshots",
        Kind::Long,
        Some("20971520"),
    )
    .at_least(1)
    .doc(""),
    Key::broker(
        "metadata.log.max.snapshot.interval.ms",
        Kind::Long,
        Some("3600000"),
    )
    .at_least(0)
    .doc(""),
    Key::broker("metadata.log.segment.bytes", Kind::Int, Some("1073741824"))
        .at_least(8_388_608)
        .doc(""),
    Key::broker("metadata.log.segment.ms", Kind::Long, Some("604800000")).doc(""),
    Key::broker("metadata.max.idle.interval.ms", Kind::Int, Some("500"))
        .at_least(0)
        .doc(""),
    Key::broker("metadata.max.retention.bytes", Kind::Long, Some("104857600")).doc(""),
    Key::broker("metadata.max.retention.ms", Kind::Long, Some("604800000")).doc(""),
    Key::broker("node.id", Kind::Int, Some("1")).at_least(0).doc(""),
    Key::broker("process.roles", Kind::List, Some("broker,controller"))
        .check(Check::OneOf(&["broker", "controller"]))
        .doc(""),
    Key::broker(
        "server.max.startup.time.ms",
        Kind::Long,
        Some("9223372036854775807"),
    )
    .at_least(0)
    .internal()
    .doc(""),
    Key::broker("unstable.api.versions.enable", Kind::Boolean, Some("false"))
        .internal()
        .doc(""),
    Key::broker("unstable.feature.versions.enable", Kind::Boolean, Some("false"))
        .internal()
        .doc(""),
];
