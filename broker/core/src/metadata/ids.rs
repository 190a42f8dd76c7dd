//! Numbers that must not be mixed up.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many broker ids a node owns: `broker.id = node.id * 1000 + shard`, so at most 999 shards and none to spare.
pub const SHARDS_PER_NODE_MAX: u32 = 999;
const BROKERS_PER_NODE: i32 = 1000;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}

number!(
    /// A node: one process on one machine.
    NodeId(i32)
);
number!(
    /// A Kafka broker, which is one shard of a node.
    BrokerId(i32)
);
number!(
    /// Raised at each change of a partition's leader, and at each registration of the leader.
    LeaderEpoch(i32)
);
number!(
    /// Raised at each change of a partition.
    PartitionEpoch(i32)
);
number!(
    /// Names one registration of a broker: the offset of the command that made it.
    BrokerEpoch(i64)
);
number!(
    /// The place of a command in the quorum's log; the first command has 1.
    MetadataOffset(u64)
);
number!(
    /// What the records of a cluster may say. Raised only once every node understands it, never lowered.
    MetadataVersion(u32)
);

impl MetadataVersion {
    /// A partition has one replica, which leads whether it is fenced or not.
    pub const ONE_REPLICA: Self = Self(0);
    /// Partitions have any number of replicas, with an ISR and an ELR.
    pub const REPLICATION: Self = Self(1);
    /// The newest that this program understands.
    pub const NEWEST: Self = Self::REPLICATION;
}

impl NodeId {
    /// The largest node id whose broker ids fit Kafka's 32 bits.
    pub const MAX: Self = Self(2_147_482);

    /// The broker of a shard of this node.
    pub fn broker(self, shard: u32) -> BrokerId {
        assert!(
            shard <= SHARDS_PER_NODE_MAX,
            "a node has at most {SHARDS_PER_NODE_MAX} shards"
        );
        BrokerId(self.0 * BROKERS_PER_NODE + shard as i32)
    }
}

impl BrokerId {
    /// No broker: the leader of a partition without one.
    pub const NONE: Self = Self(-1);

    /// The node this broker is a shard of.
    pub fn node(self) -> NodeId {
        NodeId(self.0 / BROKERS_PER_NODE)
    }

    /// Its shard's number within the node.
    pub fn shard(self) -> u32 {
        (self.0 % BROKERS_PER_NODE) as u32
    }
}
