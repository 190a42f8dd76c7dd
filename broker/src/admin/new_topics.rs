//! Topics that nobody asked for by CreateTopics: those that a first use creates.

use std::collections::{BTreeMap, BTreeSet};

use strandline_core::config::GroupSettings;
use strandline_core::group::offsets::OFFSETS_TOPIC;
use strandline_core::metadata::{
    BrokerId, ClusterImage, ConfigMap, MetadataVersion, NewTopic, PartitionLayout,
};

use super::context::AdminContext;

const OFFSETS_TOPIC_FACTOR: &str = "offsets.topic.replication.factor";

/// The topic of this name, as its first use creates it: by the node's defaults, or as the group coordinator needs it.
pub(super) fn automatic(context: &AdminContext<'_>, name: &str) -> NewTopic {
    let config = context.config;
    let (partitions, replication_factor, configs) = match name {
        OFFSETS_TOPIC => {
            let groups = GroupSettings::new(&config.static_config);
            let is_set = config.static_config.0.contains_key(OFFSETS_TOPIC_FACTOR);
            let replicas = groups
                .topic_replication_factor
                .min(replicas_max(&context.image(), is_set));
            (groups.topic_partitions, replicas, offsets_topic_configs(&groups))
        }
        _ => (
            config.num_partitions,
            config.default_replication_factor,
            BTreeMap::new(),
        ),
    };
    NewTopic {
        name: name.to_owned(),
        id: context.random_id(),
        layout: PartitionLayout::Automatic {
            partitions,
            replication_factor,
        },
        configs,
    }
}

/// As many replicas as an internal topic can have now: it must not wait for brokers that never come. Unless they are asked for,
/// there are none on the same node: they would cost every commit another flush of the same disk.
fn replicas_max(image: &ClusterImage, is_set: bool) -> i16 {
    if image.metadata_version() == MetadataVersion::ONE_REPLICA {
        return 1;
    }
    let brokers = image.live_brokers().map(|broker| broker.id);
    let places = match is_set {
        true => brokers.count(),
        false => brokers.map(BrokerId::node).collect::<BTreeSet<_>>().len(),
    };
    i16::try_from(places).unwrap_or(i16::MAX).max(1)
}

/// The latest record of each key is all that counts, so nothing goes by age.
fn offsets_topic_configs(groups: &GroupSettings) -> ConfigMap {
    let segment_bytes = groups.topic_segment_bytes.to_string();
    [
        ("cleanup.policy", "compact"),
        ("compression.type", "producer"),
        ("segment.bytes", &segment_bytes),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}
