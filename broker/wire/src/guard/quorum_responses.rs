//! The response schemas of the APIs about the metadata quorum, as Kafka 4.2 has them.

use kafka_protocol::messages;

use super::schema::{Schema, array_of, int16, int32, int64, string, uuid};
use crate::ApiKey;

/// The schema of an API's response.
pub(super) fn schema(api: ApiKey) -> Option<&'static Schema> {
    Some(match api {
        ApiKey::DescribeQuorum => &DESCRIBE_QUORUM,
        ApiKey::UnregisterBroker => &UNREGISTER_BROKER,
        ApiKey::AddRaftVoter => &ADD_RAFT_VOTER,
        ApiKey::RemoveRaftVoter => &REMOVE_RAFT_VOTER,
        _ => return None,
    })
}

static DESCRIBE_QUORUM: Schema = Schema::of::<messages::DescribeQuorumResponse>(&[
    int16("error code"),
    string("error message").since(2),
    array_of("topics", &DESCRIBE_QUORUM_TOPIC_DATA),
    array_of("nodes", &DESCRIBE_QUORUM_NODE).since(2),
]);

static DESCRIBE_QUORUM_TOPIC_DATA: Schema = Schema::of::<messages::describe_quorum_response::TopicData>(&[
    string("topic name"),
    array_of("partitions", &DESCRIBE_QUORUM_PARTITION_DATA),
]);

static DESCRIBE_QUORUM_PARTITION_DATA: Schema =
    Schema::of::<messages::describe_quorum_response::PartitionData>(&[
        int32("partition index"),
        int16("error code"),
        string("error message").since(2),
        int32("leader id"),
        int32("leader epoch"),
        int64("high watermark"),
        array_of("current voters", &DESCRIBE_QUORUM_REPLICA_STATE),
        array_of("observers", &DESCRIBE_QUORUM_REPLICA_STATE),
    ]);

static DESCRIBE_QUORUM_REPLICA_STATE: Schema =
    Schema::of::<messages::describe_quorum_response::ReplicaState>(&[
        int32("replica id"),
        uuid("replica directory id").since(2),
        int64("log end offset"),
        int64("last fetch timestamp").since(1),
        int64("last caught up timestamp").since(1),
    ]);

static DESCRIBE_QUORUM_NODE: Schema = Schema::of::<messages::describe_quorum_response::Node>(&[
    int32("node id"),
    array_of("listeners", &DESCRIBE_QUORUM_LISTENER),
]);

static DESCRIBE_QUORUM_LISTENER: Schema = Schema::of::<messages::describe_quorum_response::Listener>(&[
    string("name"),
    string("host"),
    int16("port"),
]);

static UNREGISTER_BROKER: Schema = Schema::of::<messages::UnregisterBrokerResponse>(&[
    int32("throttle time ms"),
    int16("error code"),
    string("error message"),
]);

static ADD_RAFT_VOTER: Schema = Schema::of::<messages::AddRaftVoterResponse>(&[
    int32("throttle time ms"),
    int16("error code"),
    string("error message"),
]);

static REMOVE_RAFT_VOTER: Schema = Schema::of::<messages::RemoveRaftVoterResponse>(&[
    int32("throttle time ms"),
    int16("error code"),
    string("error message"),
]);
