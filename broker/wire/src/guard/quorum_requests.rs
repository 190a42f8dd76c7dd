//! The request schemas of the APIs about the metadata quorum, as Kafka 4.2 has them.

use kafka_protocol::messages;

use super::schema::{Schema, array_of, int16, int32, string, uuid};
use crate::ApiKey;

/// The schema of an API's request.
pub(super) fn schema(api: ApiKey) -> Option<&'static Schema> {
    Some(match api {
        ApiKey::DescribeQuorum => &DESCRIBE_QUORUM,
        ApiKey::UnregisterBroker => &UNREGISTER_BROKER,
        ApiKey::AddRaftVoter => &ADD_RAFT_VOTER,
        ApiKey::RemoveRaftVoter => &REMOVE_RAFT_VOTER,
        _ => return None,
    })
}

static DESCRIBE_QUORUM: Schema =
    Schema::of::<messages::DescribeQuorumRequest>(&[array_of("topics", &DESCRIBE_QUORUM_TOPIC_DATA)]);

static DESCRIBE_QUORUM_TOPIC_DATA: Schema = Schema::of::<messages::describe_quorum_request::TopicData>(&[
    string("topic name"),
    array_of("partitions", &DESCRIBE_QUORUM_PARTITION_DATA),
]);

static DESCRIBE_QUORUM_PARTITION_DATA: Schema =
    Schema::of::<messages::describe_quorum_request::PartitionData>(&[int32("partition index")]);

static UNREGISTER_BROKER: Schema = Schema::of::<messages::UnregisterBrokerRequest>(&[int32("broker id")]);

static ADD_RAFT_VOTER: Schema = Schema::of::<messages::AddRaftVoterRequest>(&[
    string("cluster id"),
    int32("timeout ms"),
    int32("voter id"),
    uuid("voter directory id"),
    array_of("listeners", &ADD_RAFT_VOTER_LISTENER),
]);

static ADD_RAFT_VOTER_LISTENER: Schema = Schema::of::<messages::add_raft_voter_request::Listener>(&[
    string("name"),
    string("host"),
    int16("port"),
]);

static REMOVE_RAFT_VOTER: Schema = Schema::of::<messages::RemoveRaftVoterRequest>(&[
    string("cluster id"),
    int32("voter id"),
    uuid("voter directory id"),
]);
