//! The request schemas of elections and moves of replicas, as Kafka 4.2 has them.

use kafka_protocol::messages;

use super::schema::{INT32, Schema, array_of, int8, int32, string};
use crate::ApiKey;

/// The schema of an API's request.
pub(super) fn schema(api: ApiKey) -> Option<&'static Schema> {
    Some(match api {
        ApiKey::ElectLeaders => &ELECT_LEADERS,
        ApiKey::AlterPartitionReassignments => &ALTER_PARTITION_REASSIGNMENTS,
        ApiKey::ListPartitionReassignments => &LIST_PARTITION_REASSIGNMENTS,
        _ => return None,
    })
}

static ELECT_LEADERS: Schema = Schema::of::<messages::ElectLeadersRequest>(&[
    int8("election type").since(1),
    array_of("topic partitions", &ELECT_LEADERS_TOPIC_PARTITIONS),
    int32("timeout ms"),
]);

static ELECT_LEADERS_TOPIC_PARTITIONS: Schema =
    Schema::of::<messages::elect_leaders_request::TopicPartitions>(&[
        string("topic"),
        array_of("partitions", &INT32),
    ]);

static ALTER_PARTITION_REASSIGNMENTS: Schema = Schema::of::<messages::AlterPartitionReassignmentsRequest>(&[
    int32("timeout ms"),
    int8("allow replication factor change").since(1),
    array_of("topics", &ALTER_PARTITION_REASSIGNMENTS_TOPIC),
]);

static ALTER_PARTITION_REASSIGNMENTS_TOPIC: Schema =
    Schema::of::<messages::alter_partition_reassignments_request::ReassignableTopic>(&[
        string("name"),
        array_of("partitions", &ALTER_PARTITION_REASSIGNMENTS_PARTITION),
    ]);

static ALTER_PARTITION_REASSIGNMENTS_PARTITION: Schema =
    Schema::of::<messages::alter_partition_reassignments_request::ReassignablePartition>(&[
        int32("partition index"),
        array_of("replicas", &INT32),
    ]);

static LIST_PARTITION_REASSIGNMENTS: Schema = Schema::of::<messages::ListPartitionReassignmentsRequest>(&[
    int32("timeout ms"),
    array_of("topics", &LIST_PARTITION_REASSIGNMENTS_TOPICS),
]);

static LIST_PARTITION_REASSIGNMENTS_TOPICS: Schema =
    Schema::of::<messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics>(&[
        string("name"),
        array_of("partition indexes", &INT32),
    ]);
