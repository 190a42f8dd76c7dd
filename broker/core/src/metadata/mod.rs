//! The cluster's metadata: typed commands, one deterministic `apply`, and the immutable image it makes.
//!
//! A [`Command`] is decided in [`ClusterImage::apply`], never before: whoever proposes one gets apply's own
//! [`Answer`]. Times, ids and random values are in the command. The quorum stores commands and [`Snapshot`]s, each
//! replica applies them in order, and all replicas hold equal images at equal offsets.

mod apply;
mod balance;
mod command;
mod error;
mod ids;
mod image;
mod snapshot;

pub use balance::Balance;
pub use command::{
    Answer, BlockOfProducerIds, Command, ConfigAnswer, ConfigChange, ConfigOperation, ConfigResource,
    CreatedTopic, Election, Endpoint, IsrChange, LinkAddress, NewPartitions, NewTopic, NodeRegistration,
    PartitionLayout, PartitionReference, Reassignment, ShardRegistration, TopicReference,
};
pub use error::ApplyError;
pub use ids::{
    BrokerEpoch, BrokerId, LeaderEpoch, MetadataOffset, MetadataVersion, NodeId, PartitionEpoch,
    SHARDS_PER_NODE_MAX,
};
pub use image::{Broker, ClusterImage, ConfigMap, Node, Partition, Topic};
pub use snapshot::Snapshot;
