//! The request schemas of the group APIs served here, as Kafka 4.2 has them, in the order of the keys.

use kafka_protocol::messages;

use super::schema::{INT32, STRING, Schema, array_of, bytes, int8, int32, int64, string, uuid};
use crate::ApiKey;

/// The schema of a group API's request.
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

static OFFSET_COMMIT: Schema = Schema::of::<messages::OffsetCommitRequest>(&[
    string("group id"),
    int32("generation id or member epoch"),
    string("member id"),
    string("group instance id").since(7),
    int64("retention time ms").until(4),
    array_of("topics", &OFFSET_COMMIT_OFFSET_COMMIT_REQUEST_TOPIC),
]);

static OFFSET_COMMIT_OFFSET_COMMIT_REQUEST_TOPIC: Schema =
    Schema::of::<messages::offset_commit_request::OffsetCommitRequestTopic>(&[
        string("name").until(9),
        uuid("topic id").since(10),
        array_of("partitions", &OFFSET_COMMIT_OFFSET_COMMIT_REQUEST_PARTITION),
    ]);

static OFFSET_COMMIT_OFFSET_COMMIT_REQUEST_PARTITION: Schema =
    Schema::of::<messages::offset_commit_request::OffsetCommitRequestPartition>(&[
        int32("partition index"),
        int64("committed offset"),
        int32("committed leader epoch").since(6),
        string("committed metadata"),
    ]);

static OFFSET_FETCH: Schema = Schema::of::<messages::OffsetFetchRequest>(&[
    string("group id").until(7),
    array_of("topics", &OFFSET_FETCH_OFFSET_FETCH_REQUEST_TOPIC).until(7),
    array_of("groups", &OFFSET_FETCH_OFFSET_FETCH_REQUEST_GROUP).since(8),
    int8("require stable").since(7),
]);

static OFFSET_FETCH_OFFSET_FETCH_REQUEST_GROUP: Schema =
    Schema::of::<messages::offset_fetch_request::OffsetFetchRequestGroup>(&[
        string("group id").since(8),
        string("member id").since(9),
        int32("member epoch").since(9),
        array_of("topics", &OFFSET_FETCH_OFFSET_FETCH_REQUEST_TOPICS).since(8),
    ]);

static OFFSET_FETCH_OFFSET_FETCH_REQUEST_TOPICS: Schema =
    Schema::of::<messages::offset_fetch_request::OffsetFetchRequestTopics>(&[
        string("name").since(8).until(9),
        uuid("topic id").since(10),
        array_of("partition indexes", &INT32).since(8),
    ]);

static OFFSET_FETCH_OFFSET_FETCH_REQUEST_TOPIC: Schema =
    Schema::of::<messages::offset_fetch_request::OffsetFetchRequestTopic>(&[
        string("name").until(7),
        array_of("partition indexes", &INT32).until(7),
    ]);

static JOIN_GROUP: Schema = Schema::of::<messages::JoinGroupRequest>(&[
    string("group id"),
    int32("session timeout ms"),
    int32("rebalance timeout ms").since(1),
    string("member id"),
    string("group instance id").since(5),
    string("protocol type"),
    array_of("protocols", &JOIN_GROUP_JOIN_GROUP_REQUEST_PROTOCOL),
    string("reason").since(8),
]);

static JOIN_GROUP_JOIN_GROUP_REQUEST_PROTOCOL: Schema = Schema::of::<
    messages::join_group_request::JoinGroupRequestProtocol,
>(&[string("name"), bytes("metadata")]);

static HEARTBEAT: Schema = Schema::of::<messages::HeartbeatRequest>(&[
    string("group id"),
    int32("generation id"),
    string("member id"),
    string("group instance id").since(3),
]);

static LEAVE_GROUP: Schema = Schema::of::<messages::LeaveGroupRequest>(&[
    string("group id"),
    string("member id").until(2),
    array_of("members", &LEAVE_GROUP_MEMBER_IDENTITY).since(3),
]);

static LEAVE_GROUP_MEMBER_IDENTITY: Schema = Schema::of::<messages::leave_group_request::MemberIdentity>(&[
    string("member id").since(3),
    string("group instance id").since(3),
    string("reason").since(5),
]);

static SYNC_GROUP: Schema = Schema::of::<messages::SyncGroupRequest>(&[
    string("group id"),
    int32("generation id"),
    string("member id"),
    string("group instance id").since(3),
    string("protocol type").since(5),
    string("protocol name").since(5),
    array_of("assignments", &SYNC_GROUP_SYNC_GROUP_REQUEST_ASSIGNMENT),
]);

static SYNC_GROUP_SYNC_GROUP_REQUEST_ASSIGNMENT: Schema = Schema::of::<
    messages::sync_group_request::SyncGroupRequestAssignment,
>(&[string("member id"), bytes("assignment")]);

static DESCRIBE_GROUPS: Schema = Schema::of::<messages::DescribeGroupsRequest>(&[
    array_of("groups", &STRING),
    int8("include authorized operations").since(3),
]);

static LIST_GROUPS: Schema = Schema::of::<messages::ListGroupsRequest>(&[
    array_of("states filter", &STRING).since(4),
    array_of("types filter", &STRING).since(5),
]);

static DELETE_GROUPS: Schema =
    Schema::of::<messages::DeleteGroupsRequest>(&[array_of("groups names", &STRING)]);

static OFFSET_DELETE: Schema = Schema::of::<messages::OffsetDeleteRequest>(&[
    string("group id"),
    array_of("topics", &OFFSET_DELETE_OFFSET_DELETE_REQUEST_TOPIC),
]);

static OFFSET_DELETE_OFFSET_DELETE_REQUEST_TOPIC: Schema =
    Schema::of::<messages::offset_delete_request::OffsetDeleteRequestTopic>(&[
        string("name"),
        array_of("partitions", &OFFSET_DELETE_OFFSET_DELETE_REQUEST_PARTITION),
    ]);

static OFFSET_DELETE_OFFSET_DELETE_REQUEST_PARTITION: Schema =
    Schema::of::<messages::offset_delete_request::OffsetDeleteRequestPartition>(&[int32("partition index")]);

static CONSUMER_GROUP_HEARTBEAT: Schema = Schema::of::<messages::ConsumerGroupHeartbeatRequest>(&[
    string("group id"),
    string("member id"),
    int32("member epoch"),
    string("instance id"),
    string("rack id"),
    int32("rebalance timeout ms"),
    array_of("subscribed topic names", &STRING),
    string("subscribed topic regex").since(1),
    string("server assignor"),
    array_of("topic partitions", &CONSUMER_GROUP_HEARTBEAT_TOPIC_PARTITIONS),
]);

static CONSUMER_GROUP_HEARTBEAT_TOPIC_PARTITIONS: Schema =
    Schema::of::<messages::consumer_group_heartbeat_request::TopicPartitions>(&[
        uuid("topic id"),
        array_of("partitions", &INT32),
    ]);

static CONSUMER_GROUP_DESCRIBE: Schema = Schema::of::<messages::ConsumerGroupDescribeRequest>(&[
    array_of("group ids", &STRING),
    int8("include authorized operations"),
]);
