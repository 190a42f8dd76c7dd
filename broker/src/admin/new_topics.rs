//! Topics that nobody asked for by CreateTopics: those that a first use creates.

use std::collections::BTreeMap;

use strandline_core::config::GroupSettings;
use strandline_core::group::offsets::OFFSETS_TOPIC;
use strandline_core::metadata::{ClusterImage, ConfigMap, MetadataVersion, NewTopic, PartitionLayout};

use super::context::AdminContext;

/// The topic of this name, as its first use creates it: by the node's defaults, or as the group coordinator needs it.
pub(super) fn automatic(context: &AdminContext<'_>, name: &str) -> NewTopic {
    let config = context.config;
    let (partitions, replication_factor, configs) = match name {
        OFFSETS_TOPIC => {
            let groups = GroupSettings::new(&config.static_config);
            let replicas = groups
                .topic_replication_factor
                .min(replicas_max(&context.image()));
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

/// As many replicas as an internal topic can have now: it must not wait for brokers that never come.
fn replicas_max(image: &ClusterImage) -> i16 {
    match image.metadata_version() {
        MetadataVersion::ONE_REPLICA => 1,
        _ => i16::try_from(image.live_brokers().count())
            .unwrap_or(i16::MAX)
            .max(1),
    }
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
