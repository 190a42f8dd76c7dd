//! The node, its role, and the metadata quorum.

use super::super::key::{Check, Effect, Key, Kind};

const OWN_PACE: Effect = Effect::Without("the quorum paces itself by controller.quorum.election.timeout.ms");
const OWN_STORE: Effect = Effect::Without("the metadata lives in quorum.redb, which keeps itself small");
const OWN_FIGURES: Effect = Effect::Without("the controller logs no figures of its own");
const QUOTAS: Effect = Effect::Without("quotas are not served yet");

pub(super) const KEYS: &[Key] = &[
    Key::broker("broker.heartbeat.interval.ms", Kind::Int, Some("2000"))
        .doc("How often a node tells the quorum's leader that it lives."),
    Key::broker("broker.id", Kind::Int, Some("-1"))
        .effect(Effect::Partly(
            "it is read as node.id; the id of a shard is node.id * 1000 + shard",
        ))
        .doc("The older name of node.id. DescribeConfigs shows the id of the shard that was asked."),
    Key::broker("broker.rack", Kind::String, None).doc(
        "The failure domain of the node, told to clients as the rack of each of its shards. Without \
             it, `node-` and the node's id.",
    ),
    Key::broker("broker.session.timeout.ms", Kind::Int, Some("9000"))
        .doc("How long a node may be silent before it is taken for dead."),
    Key::broker("controlled.shutdown.enable", Kind::Boolean, Some("true"))
        .effect(Effect::Without(
            "a node of several always hands over, and waits at most 5 s for it",
        ))
        .doc("Whether a node hands its leaderships over before it stops."),
    Key::broker("controller.listener.names", Kind::List, Some("CONTROLLER"))
        .effect(Effect::Partly(
            "those of a node that is alone stay closed, the others carry the protocol of our own controllers",
        ))
        .doc("The names, among `listeners`, of those that controllers use."),
    Key::broker(
        "controller.performance.always.log.threshold.ms",
        Kind::Long,
        Some("2000"),
    )
    .at_least(0)
    .effect(OWN_FIGURES)
    .internal()
    .doc("Metadata changes slower than this are logged."),
    Key::broker(
        "controller.performance.sample.period.ms",
        Kind::Long,
        Some("60000"),
    )
    .at_least(100)
    .effect(OWN_FIGURES)
    .internal()
    .doc("How often figures of the controller are logged."),
    Key::broker("controller.quorum.append.linger.ms", Kind::Int, Some("25"))
        .at_least(0)
        .effect(Effect::Without("a change is written as it comes"))
        .doc("How long the quorum's leader gathers changes before it writes them."),
    Key::broker("controller.quorum.auto.join.enable", Kind::Boolean, Some("false"))
        .effect(Effect::Without("a new node waits to be let in by strandctl cluster add"))
        .doc("Whether a new controller joins the voters by itself."),
    Key::broker("controller.quorum.bootstrap.servers", Kind::List, Some(""))
        .effect(Effect::Without("the voters are named by controller.quorum.voters"))
        .doc("Where to find the quorum."),
    Key::broker(
        "controller.quorum.election.backoff.max.ms",
        Kind::Int,
        Some("1000"),
    )
    .at_least(0)
    .effect(OWN_PACE)
    .doc("The longest pause between two elections."),
    Key::broker("controller.quorum.election.timeout.ms", Kind::Int, Some("1000"))
        .at_least(0)
        .doc("How long nobody stands for election after the last word of a leader, and up to as long again."),
    Key::broker("controller.quorum.fetch.timeout.ms", Kind::Int, Some("2000"))
        .at_least(0)
        .effect(OWN_PACE)
        .doc("How long a voter does without its leader before it calls an election."),
    Key::broker("controller.quorum.request.timeout.ms", Kind::Int, Some("2000"))
        .at_least(0)
        .effect(OWN_PACE)
        .doc("How long a request of the quorum may take."),
    Key::broker("controller.quorum.retry.backoff.ms", Kind::Int, Some("20"))
        .at_least(0)
        .effect(OWN_PACE)
        .doc("The pause before a request of the quorum is sent again."),
    Key::broker("controller.quorum.voters", Kind::List, Some(""))
        .doc(
            "The voters that found the quorum, as id@host:port; a node's own entry tells where its controller listens. A \
             quorum that exists knows better. Empty, or with this node only: the node is alone.",
        ),
    Key::broker("controller.quota.window.num", Kind::Int, Some("11"))
        .at_least(1)
        .effect(QUOTAS)
        .doc("Samples kept for the quota on metadata changes."),
    Key::broker("controller.quota.window.size.seconds", Kind::Int, Some("1"))
        .at_least(1)
        .effect(QUOTAS)
        .doc("Length of one sample of the quota on metadata changes."),
    Key::broker("controller.socket.timeout.ms", Kind::Int, Some("30000"))
        .effect(OWN_PACE)
        .doc("How long a connection to a controller may be silent."),
    Key::broker("initial.broker.registration.timeout.ms", Kind::Int, Some("60000"))
        .effect(Effect::Without("a node tries to register until it is stopped"))
        .doc("How long a node tries to register before it gives up."),
    Key::broker("internal.metadata.delete.delay.millis", Kind::Long, Some("60000"))
        .effect(OWN_STORE)
        .internal()
        .doc("How long old metadata files stay."),
    Key::broker("internal.metadata.log.segment.bytes", Kind::Int, None)
        .effect(OWN_STORE)
        .internal()
        .doc("Size of a segment of the metadata log, in tests."),
    Key::broker(
        "internal.metadata.max.batch.size.in.bytes",
        Kind::Int,
        Some("8388608"),
    )
    .effect(OWN_STORE)
    .internal()
    .doc("The largest batch of the metadata log."),
    Key::broker(
        "internal.metadata.max.fetch.size.in.bytes",
        Kind::Int,
        Some("8388608"),
    )
    .effect(OWN_STORE)
    .internal()
    .doc("The largest fetch of the metadata log."),
    Key::broker("metadata.log.dir", Kind::String, None)
        .effect(Effect::Refused(
            "the metadata lives in the first entry of log.dirs",
        ))
        .doc("Where the metadata log lives."),
    Key::broker(
        "metadata.log.max.record.bytes.between.snapshots",
        Kind::Long,
        Some("20971520"),
    )
    .at_least(1)
    .effect(OWN_STORE)
    .doc("How much metadata is written between two snapshots."),
    Key::broker(
        "metadata.log.max.snapshot.interval.ms",
        Kind::Long,
        Some("3600000"),
    )
    .at_least(0)
    .effect(OWN_STORE)
    .doc("The longest time between two snapshots of the metadata."),
    Key::broker("metadata.log.segment.bytes", Kind::Int, Some("1073741824"))
        .at_least(8_388_608)
        .effect(OWN_STORE)
        .doc("Size of a segment of the metadata log."),
    Key::broker("metadata.log.segment.ms", Kind::Long, Some("604800000"))
        .effect(OWN_STORE)
        .doc("Age at which a segment of the metadata log is closed."),
    Key::broker("metadata.max.idle.interval.ms", Kind::Int, Some("500"))
        .at_least(0)
        .effect(OWN_PACE)
        .doc("How often an idle quorum writes a record to show that it lives."),
    Key::broker("metadata.max.retention.bytes", Kind::Long, Some("104857600"))
        .effect(OWN_STORE)
        .doc("How much old metadata is kept."),
    Key::broker("metadata.max.retention.ms", Kind::Long, Some("604800000"))
        .effect(OWN_STORE)
        .doc("For how long old metadata is kept."),
    Key::broker("node.id", Kind::Int, Some("1"))
        .at_least(0)
        .doc("The node. Its shards are the brokers node.id * 1000 + shard. At most 2,147,482."),
    Key::broker("process.roles", Kind::List, Some("broker,controller"))
        .check(Check::OneOf(&["broker", "controller"]))
        .effect(Effect::Partly("a node is always both"))
        .doc("The roles of the node: broker, controller, or both."),
    Key::broker(
        "server.max.startup.time.ms",
        Kind::Long,
        Some("9223372036854775807"),
    )
    .at_least(0)
    .effect(Effect::Without("a start takes what its logs need"))
    .internal()
    .doc("How long a start may take."),
    Key::broker("unstable.api.versions.enable", Kind::Boolean, Some("false"))
        .effect(Effect::Without("only released versions are served"))
        .internal()
        .doc("Whether versions of APIs that are not released are served."),
    Key::broker("unstable.feature.versions.enable", Kind::Boolean, Some("false"))
        .effect(Effect::Without("only released versions are served"))
        .internal()
        .doc("Whether features that are not released are served."),
];
