//! The response schemas of the group APIs served here, as Kafka 4.2 has them, in the order of the keys.

use kafka_protocol::messages;

use super::schema::{
    INT32, STRING, Schema, array_of, bytes, int8, int16, int32, int64, nullable_structure, string, structure,
    uuid,
};
use crate::ApiKey;

/// The schema of a group API's response.
pub(super) fn schema(api: ApiKey) -> Option<&'static Schema> {
    Some(match api {
        ApiKey::OffsetCommit => &OFFSET_COMMIT,
        ApiKey::OffsetFetch => &OFFSET_FETCH,
        ApiKey::JoinGroup => &JOIN_GROUP,
        ApiKey::Heartbeat => &HEARTBEAT,
        ApiKey::LeaveGroup => &LEAVE_GROUP,
        ApiKey::SyncGroup => &SYNC_GROUP,
        ApiKey::DescribeGroups => &DESCRIBE_GROUPS,
        ApiKey::ListGroups => &LIST_GROUPS,
        ApiKey::DeleteGroups => &DELETE_GROUPS,
        ApiKey::OffsetDelete => &OFFSET_DELETE,
        ApiKey::ConsumerGroupHeartbeat => &CONSUMER_GROUP_HEARTBEAT,
        ApiKey::ConsumerGroupDescribe => &CONSUMER_GROUP_DESCRIBE,
        _ => return None,
    })
}

static OFFSET_COMMIT: Schema = Schema::of::<messages::OffsetCommitResponse>(&[
    int32("throttle time ms").since(3),
    array_of("topics", &OFFSET_COMMIT_OFFSET_COMMIT_RESPONSE_TOPIC),
]);

static OFFSET_COMMIT_OFFSET_COMMIT_RESPONSE_TOPIC: Schema =
    Schema::of::<messages::offset_commit_response::OffsetCommitResponseTopic>(&[
        string("name").until(9),
        uuid("topic id").since(10),
        array_of("partitions", &OFFSET_COMMIT_OFFSET_COMMIT_RESPONSE_PARTITION),
    ]);

static OFFSET_COMMIT_OFFSET_COMMIT_RESPONSE_PARTITION: Schema =
    Schema::of::<messages::offset_commit_response::OffsetCommitResponsePartition>(&[
        int32("partition index"),
        int16("error code"),
    ]);

static OFFSET_FETCH: Schema = Schema::of::<messages::OffsetFetchResponse>(&[
    int32("throttle time ms").since(3),
    array_of("topics", &OFFSET_FETCH_OFFSET_FETCH_RESPONSE_TOPIC).until(7),
    int16("error code").since(2).until(7),
    array_of("groups", &OFFSET_FETCH_OFFSET_FETCH_RESPONSE_GROUP).since(8),
]);

static OFFSET_FETCH_OFFSET_FETCH_RESPONSE_GROUP: Schema =
    Schema::of::<messages::offset_fetch_response::OffsetFetchResponseGroup>(&[
        string("group id").since(8),
        array_of("topics", &OFFSET_FETCH_OFFSET_FETCH_RESPONSE_TOPICS).since(8),
        int16("error code").since(8),
    ]);

static OFFSET_FETCH_OFFSET_FETCH_RESPONSE_TOPICS: Schema =
    Schema::of::<messages::offset_fetch_response::OffsetFetchResponseTopics>(&[
        string("name").since(8).until(9),
        uuid("topic id").since(10),
        array_of("partitions", &OFFSET_FETCH_OFFSET_FETCH_RESPONSE_PARTITIONS).since(8),
    ]);

static OFFSET_FETCH_OFFSET_FETCH_RESPONSE_PARTITIONS: Schema =
    Schema::of::<messages::offset_fetch_response::OffsetFetchResponsePartitions>(&[
        int32("partition index").since(8),
        int64("committed offset").since(8),
        int32("committed leader epoch").since(8),
        string("metadata").since(8),
        int16("error code").since(8),
    ]);

static OFFSET_FETCH_OFFSET_FETCH_RESPONSE_TOPIC: Schema =
    Schema::of::<messages::offset_fetch_response::OffsetFetchResponseTopic>(&[
        string("name").until(7),
        array_of("partitions", &OFFSET_FETCH_OFFSET_FETCH_RESPONSE_PARTITION).until(7),
    ]);

static OFFSET_FETCH_OFFSET_FETCH_RESPONSE_PARTITION: Schema =
    Schema::of::<messages::offset_fetch_response::OffsetFetchResponsePartition>(&[
        int32("partition index").until(7),
        int64("committed offset").until(7),
        int32("committed leader epoch").since(5).until(7),
        string("metadata").until(7),
        int16("error code").until(7),
    ]);

static JOIN_GROUP: Schema = Schema::of::<messages::JoinGroupResponse>(&[
    int32("throttle time ms").since(2),
    int16("error code"),
    int32("generation id"),
    string("protocol type").since(7),
    string("protocol name"),
    string("leader"),
    int8("skip assignment").since(9),
    string("member id"),
    array_of("members", &JOIN_GROUP_JOIN_GROUP_RESPONSE_MEMBER),
]);

static JOIN_GROUP_JOIN_GROUP_RESPONSE_MEMBER: Schema =
    Schema::of::<messages::join_group_response::JoinGroupResponseMember>(&[
        string("member id"),
        string("group instance id").since(5),
        bytes("metadata"),
    ]);

static HEARTBEAT: Schema =
    Schema::of::<messages::HeartbeatResponse>(&[int32("throttle time ms").since(1), int16("error code")]);

static LEAVE_GROUP: Schema = Schema::of::<messages::LeaveGroupResponse>(&[
    int32("throttle time ms").since(1),
    int16("error code"),
    array_of("members", &LEAVE_GROUP_MEMBER_RESPONSE).since(3),
]);

static LEAVE_GROUP_MEMBER_RESPONSE: Schema = Schema::of::<messages::leave_group_response::MemberResponse>(&[
    string("member id").since(3),
    string("group instance id").since(3),
    int16("error code").since(3),
]);

static SYNC_GROUP: Schema = Schema::of::<messages::SyncGroupResponse>(&[
    int32("throttle time ms").since(1),
    int16("error code"),
    string("protocol type").since(5),
    string("protocol name").since(5),
    bytes("assignment"),
]);

static DESCRIBE_GROUPS: Schema = Schema::of::<messages::DescribeGroupsResponse>(&[
    int32("throttle time ms").since(1),
    array_of("groups", &DESCRIBE_GROUPS_DESCRIBED_GROUP),
]);

static DESCRIBE_GROUPS_DESCRIBED_GROUP: Schema =
    Schema::of::<messages::describe_groups_response::DescribedGroup>(&[
        int16("error code"),
        string("error message").since(6),
        string("group id"),
        string("group state"),
        string("protocol type"),
        string("protocol data"),
        array_of("members", &DESCRIBE_GROUPS_DESCRIBED_GROUP_MEMBER),
        int32("authorized operations").since(3),
    ]);

static DESCRIBE_GROUPS_DESCRIBED_GROUP_MEMBER: Schema =
    Schema::of::<messages::describe_groups_response::DescribedGroupMember>(&[
        string("member id"),
        string("group instance id").since(4),
        string("client id"),
        string("client host"),
        bytes("member metadata"),
        bytes("member assignment"),
    ]);

static LIST_GROUPS: Schema = Schema::of::<messages::ListGroupsResponse>(&[
    int32("throttle time ms").since(1),
    int16("error code"),
    array_of("groups", &LIST_GROUPS_LISTED_GROUP),
]);

static LIST_GROUPS_LISTED_GROUP: Schema = Schema::of::<messages::list_groups_response::ListedGroup>(&[
    string("group id"),
    string("protocol type"),
    string("group state").since(4),
    string("group type").since(5),
]);

static DELETE_GROUPS: Schema = Schema::of::<messages::DeleteGroupsResponse>(&[
    int32("throttle time ms"),
    array_of("results", &DELETE_GROUPS_DELETABLE_GROUP_RESULT),
]);

static DELETE_GROUPS_DELETABLE_GROUP_RESULT: Schema = Schema::of::<
    messages::delete_groups_response::DeletableGroupResult,
>(&[string("group id"), int16("error code")]);

static OFFSET_DELETE: Schema = Schema::of::<messages::OffsetDeleteResponse>(&[
    int16("error code"),
    int32("throttle time ms"),
    array_of("topics", &OFFSET_DELETE_OFFSET_DELETE_RESPONSE_TOPIC),
]);

static OFFSET_DELETE_OFFSET_DELETE_RESPONSE_TOPIC: Schema =
    Schema::of::<messages::offset_delete_response::OffsetDeleteResponseTopic>(&[
        string("name"),
        array_of("partitions", &OFFSET_DELETE_OFFSET_DELETE_RESPONSE_PARTITION),
    ]);

static OFFSET_DELETE_OFFSET_DELETE_RESPONSE_PARTITION: Schema =
    Schema::of::<messages::offset_delete_response::OffsetDeleteResponsePartition>(&[
        int32("partition index"),
        int16("error code"),
    ]);

static CONSUMER_GROUP_HEARTBEAT: Schema = Schema::of::<messages::ConsumerGroupHeartbeatResponse>(&[
    int32("throttle time ms"),
    int16("error code"),
    string("error message"),
    string("member id"),
    int32("member epoch"),
    int32("heartbeat interval ms"),
    nullable_structure("assignment", &CONSUMER_GROUP_HEARTBEAT_ASSIGNMENT),
]);

static CONSUMER_GROUP_HEARTBEAT_ASSIGNMENT: Schema =
    Schema::of::<messages::consumer_group_heartbeat_response::Assignment>(&[array_of(
        "topic partitions",
        &CONSUMER_GROUP_HEARTBEAT_TOPIC_PARTITIONS,
    )]);

static CONSUMER_GROUP_HEARTBEAT_TOPIC_PARTITIONS: Schema =
    Schema::of::<messages::consumer_group_heartbeat_response::TopicPartitions>(&[
        uuid("topic id"),
        array_of("partitions", &INT32),
    ]);

static CONSUMER_GROUP_DESCRIBE: Schema = Schema::of::<messages::ConsumerGroupDescribeResponse>(&[
    int32("throttle time ms"),
    array_of("groups", &CONSUMER_GROUP_DESCRIBE_DESCRIBED_GROUP),
]);

static CONSUMER_GROUP_DESCRIBE_DESCRIBED_GROUP: Schema =
    Schema::of::<messages::consumer_group_describe_response::DescribedGroup>(&[
        int16("error code"),
        string("error message"),
        string("group id"),
        string("group state"),
        int32("group epoch"),
        int32("assignment epoch"),
        string("assignor name"),
        array_of("members", &CONSUMER_GROUP_DESCRIBE_MEMBER),
        int32("authorized operations"),
    ]);

static CONSUMER_GROUP_DESCRIBE_MEMBER: Schema =
    Schema::of::<messages::consumer_group_describe_response::Member>(&[
        string("member id"),
        string("instance id"),
        string("rack id"),
        int32("member epoch"),
        string("client id"),
        string("client host"),
        array_of("subscribed topic names", &STRING),
        string("subscribed topic regex"),
        structure("assignment", &CONSUMER_GROUP_DESCRIBE_ASSIGNMENT),
        structure("target assignment", &CONSUMER_GROUP_DESCRIBE_ASSIGNMENT),
        int8("member type").since(1),
    ]);

static CONSUMER_GROUP_DESCRIBE_ASSIGNMENT: Schema =
    Schema::of::<messages::consumer_group_describe_response::Assignment>(&[array_of(
        "topic partitions",
        &CONSUMER_GROUP_DESCRIBE_TOPIC_PARTITIONS,
    )]);

static CONSUMER_GROUP_DESCRIBE_TOPIC_PARTITIONS: Schema =
    Schema::of::<messages::consumer_group_describe_response::TopicPartitions>(&[
        uuid("topic id"),
        string("topic name"),
        array_of("partitions", &INT32),
    ]);
