//! The response schemas of elections and moves of replicas, as Kafka 4.2 has them.

use kafka_protocol::messages;

use super::schema::{INT32, Schema, array_of, int8, int16, int32, string};
use crate::ApiKey;

/// The schema of an API's response.
pub(super) fn schema(api: ApiKey) -> Option<&'static Schema> {
    Some(match api {
        ApiKey::ElectLeaders => &ELECT_LEADERS,
        ApiKey::AlterPartitionReassignments => &ALTER_PARTITION_REASSIGNMENTS,
        ApiKey::ListPartitionReassignments => &LIST_PARTITION_REASSIGNMENTS,
        _ => return None,
    })
}

static ELECT_LEADERS: Schema = Schema::of::<messages::ElectLeadersResponse>(&[
    int32("throttle time ms"),
    int16("error code").since(1),
    array_of("replica election results", &ELECT_LEADERS_RESULT),
]);

static ELECT_LEADERS_RESULT: Schema =
    Schema::of::<messages::elect_leaders_response::ReplicaElectionResult>(&[
        string("topic"),
        array_of("partition result", &ELECT_LEADERS_PARTITION_RESULT),
    ]);

static ELECT_LEADERS_PARTITION_RESULT: Schema =
    Schema::of::<messages::elect_leaders_response::PartitionResult>(&[
        int32("partition id"),
        int16("error code"),
        string("error message"),
    ]);

static ALTER_PARTITION_REASSIGNMENTS: Schema =
    Schema::of::<messages::AlterPartitionReassignmentsResponse>(&[
        int32("throttle time ms"),
        int8("allow replication factor change").since(1),
        int16("error code"),
        string("error message"),
        array_of("responses", &ALTER_PARTITION_REASSIGNMENTS_TOPIC),
    ]);

static ALTER_PARTITION_REASSIGNMENTS_TOPIC: Schema =
    Schema::of::<messages::alter_partition_reassignments_response::ReassignableTopicResponse>(&[
        string("name"),
        array_of("partitions", &ALTER_PARTITION_REASSIGNMENTS_PARTITION),
    ]);

static ALTER_PARTITION_REASSIGNMENTS_PARTITION: Schema =
    Schema::of::<messages::alter_partition_reassignments_response::ReassignablePartitionResponse>(&[
        int32("partition index"),
        int16("error code"),
        string("error message"),
    ]);

static LIST_PARTITION_REASSIGNMENTS: Schema = Schema::of::<messages::ListPartitionReassignmentsResponse>(&[
    int32("throttle time ms"),
    int16("error code"),
    string("error message"),
    array_of("topics", &LIST_PARTITION_REASSIGNMENTS_TOPIC),
]);

static LIST_PARTITION_REASSIGNMENTS_TOPIC: Schema =
    Schema::of::<messages::list_partition_reassignments_response::OngoingTopicReassignment>(&[
        string("name"),
        array_of("partitions", &LIST_PARTITION_REASSIGNMENTS_PARTITION),
    ]);

static LIST_PARTITION_REASSIGNMENTS_PARTITION: Schema =
    Schema::of::<messages::list_partition_reassignments_response::OngoingPartitionReassignment>(&[
        int32("partition index"),
        array_of("replicas", &INT32),
        array_of("adding replicas", &INT32),
        array_of("removing replicas", &INT32),
    ]);
