//! The request schemas of the APIs served here, as Kafka 4.2 has them, in the order of the keys. Those of the group APIs are in
//! [`super::group_requests`].

use kafka_protocol::messages;

use super::schema::{
    INT8, INT32, STRING, Schema, array_of, bytes, int8, int16, int32, int64, nullable_structure, string,
    structure, uuid,
};
use super::{group_requests, move_requests, quorum_requests};
use crate::ApiKey;

/// The schema of an API's request, `None` for an API that is not served here.
pub(super) fn schema(api: ApiKey) -> Option<&'static Schema> {
    Some(match api {
        ApiKey::Produce => &PRODUCE,
        ApiKey::Fetch => &FETCH,
        ApiKey::ListOffsets => &LIST_OFFSETS,
        ApiKey::Metadata => &METADATA,
        ApiKey::FindCoordinator => &FIND_COORDINATOR,
        ApiKey::ApiVersions => &API_VERSIONS,
        ApiKey::CreateTopics => &CREATE_TOPICS,
        ApiKey::DeleteTopics => &DELETE_TOPICS,
        ApiKey::DeleteRecords => &DELETE_RECORDS,
        ApiKey::InitProducerId => &INIT_PRODUCER_ID,
        ApiKey::OffsetForLeaderEpoch => &OFFSET_FOR_LEADER_EPOCH,
        ApiKey::DescribeConfigs => &DESCRIBE_CONFIGS,
        ApiKey::AlterConfigs => &ALTER_CONFIGS,
        ApiKey::DescribeLogDirs => &DESCRIBE_LOG_DIRS,
        ApiKey::CreatePartitions => &CREATE_PARTITIONS,
        ApiKey::IncrementalAlterConfigs => &INCREMENTAL_ALTER_CONFIGS,
        ApiKey::DescribeCluster => &DESCRIBE_CLUSTER,
        ApiKey::ListConfigResources => &LIST_CONFIG_RESOURCES,
        ApiKey::DescribeTopicPartitions => &DESCRIBE_TOPIC_PARTITIONS,
        _ => {
            return group_requests::schema(api)
                .or_else(|| quorum_requests::schema(api))
                .or_else(|| move_requests::schema(api));
        }
    })
}

static PRODUCE: Schema = Schema::of::<messages::ProduceRequest>(&[
    string("transactional id"),
    int16("acks"),
    int32("timeout ms"),
    array_of("topic data", &PRODUCE_TOPIC_PRODUCE_DATA),
]);

static PRODUCE_TOPIC_PRODUCE_DATA: Schema = Schema::of::<messages::produce_request::TopicProduceData>(&[
    string("name").until(12),
    uuid("topic id").since(13),
    array_of("partition data", &PRODUCE_PARTITION_PRODUCE_DATA),
]);

static PRODUCE_PARTITION_PRODUCE_DATA: Schema =
    Schema::of::<messages::produce_request::PartitionProduceData>(&[int32("index"), bytes("records")]);

static FETCH: Schema = Schema::of::<messages::FetchRequest>(&[
    string("cluster id").tagged(0).since(12),
    int32("replica id").until(14),
    structure("replica state", &FETCH_REPLICA_STATE)
        .tagged(1)
        .since(15),
    int32("max wait ms"),
    int32("min bytes"),
    int32("max bytes"),
    int8("isolation level"),
    int32("session id").since(7),
    int32("session epoch").since(7),
    array_of("topics", &FETCH_FETCH_TOPIC),
    array_of("forgotten topics data", &FETCH_FORGOTTEN_TOPIC).since(7),
    string("rack id").since(11),
]);

static FETCH_FORGOTTEN_TOPIC: Schema = Schema::of::<messages::fetch_request::ForgottenTopic>(&[
    string("topic").since(7).until(12),
    uuid("topic id").since(13),
    array_of("partitions", &INT32).since(7),
]);

static FETCH_FETCH_TOPIC: Schema = Schema::of::<messages::fetch_request::FetchTopic>(&[
    string("topic").until(12),
    uuid("topic id").since(13),
    array_of("partitions", &FETCH_FETCH_PARTITION),
]);

static FETCH_FETCH_PARTITION: Schema = Schema::of::<messages::fetch_request::FetchPartition>(&[
    int32("partition"),
    int32("current leader epoch").since(9),
    int64("fetch offset"),
    int32("last fetched epoch").since(12),
    int64("log start offset").since(5),
    int32("partition max bytes"),
    uuid("replica directory id").tagged(0).since(17),
    int64("high watermark").tagged(1).since(18),
]);

static FETCH_REPLICA_STATE: Schema = Schema::of::<messages::fetch_request::ReplicaState>(&[
    int32("replica id").since(15),
    int64("replica epoch").since(15),
]);

static LIST_OFFSETS: Schema = Schema::of::<messages::ListOffsetsRequest>(&[
    int32("replica id"),
    int8("isolation level").since(2),
    array_of("topics", &LIST_OFFSETS_LIST_OFFSETS_TOPIC),
    int32("timeout ms").since(10),
]);

static LIST_OFFSETS_LIST_OFFSETS_TOPIC: Schema =
    Schema::of::<messages::list_offsets_request::ListOffsetsTopic>(&[
        string("name"),
        array_of("partitions", &LIST_OFFSETS_LIST_OFFSETS_PARTITION),
    ]);

static LIST_OFFSETS_LIST_OFFSETS_PARTITION: Schema =
    Schema::of::<messages::list_offsets_request::ListOffsetsPartition>(&[
        int32("partition index"),
        int32("current leader epoch").since(4),
        int64("timestamp"),
    ]);

static METADATA: Schema = Schema::of::<messages::MetadataRequest>(&[
    array_of("topics", &METADATA_METADATA_REQUEST_TOPIC),
    int8("allow auto topic creation").since(4),
    int8("include cluster authorized operations").since(8).until(10),
    int8("include topic authorized operations").since(8),
]);

static METADATA_METADATA_REQUEST_TOPIC: Schema =
    Schema::of::<messages::metadata_request::MetadataRequestTopic>(&[
        uuid("topic id").since(10),
        string("name"),
    ]);

static FIND_COORDINATOR: Schema = Schema::of::<messages::FindCoordinatorRequest>(&[
    string("key").until(3),
    int8("key type").since(1),
    array_of("coordinator keys", &STRING).since(4),
]);

static API_VERSIONS: Schema = Schema::of::<messages::ApiVersionsRequest>(&[
    string("client software name").since(3),
    string("client software version").since(3),
]);

static CREATE_TOPICS: Schema = Schema::of::<messages::CreateTopicsRequest>(&[
    array_of("topics", &CREATE_TOPICS_CREATABLE_TOPIC),
    int32("timeout ms"),
    int8("validate only"),
]);

static CREATE_TOPICS_CREATABLE_TOPIC: Schema =
    Schema::of::<messages::create_topics_request::CreatableTopic>(&[
        string("name"),
        int32("num partitions"),
        int16("replication factor"),
        array_of("assignments", &CREATE_TOPICS_CREATABLE_REPLICA_ASSIGNMENT),
        array_of("configs", &CREATE_TOPICS_CREATABLE_TOPIC_CONFIG),
    ]);

static CREATE_TOPICS_CREATABLE_TOPIC_CONFIG: Schema =
    Schema::of::<messages::create_topics_request::CreatableTopicConfig>(&[string("name"), string("value")]);

static CREATE_TOPICS_CREATABLE_REPLICA_ASSIGNMENT: Schema =
    Schema::of::<messages::create_topics_request::CreatableReplicaAssignment>(&[
        int32("partition index"),
        array_of("broker ids", &INT32),
    ]);

static DELETE_TOPICS: Schema = Schema::of::<messages::DeleteTopicsRequest>(&[
    array_of("topics", &DELETE_TOPICS_DELETE_TOPIC_STATE).since(6),
    array_of("topic names", &STRING).until(5),
    int32("timeout ms"),
]);

static DELETE_TOPICS_DELETE_TOPIC_STATE: Schema = Schema::of::<
    messages::delete_topics_request::DeleteTopicState,
>(&[string("name").since(6), uuid("topic id").since(6)]);

static DELETE_RECORDS: Schema = Schema::of::<messages::DeleteRecordsRequest>(&[
    array_of("topics", &DELETE_RECORDS_DELETE_RECORDS_TOPIC),
    int32("timeout ms"),
]);

static DELETE_RECORDS_DELETE_RECORDS_TOPIC: Schema =
    Schema::of::<messages::delete_records_request::DeleteRecordsTopic>(&[
        string("name"),
        array_of("partitions", &DELETE_RECORDS_DELETE_RECORDS_PARTITION),
    ]);

static DELETE_RECORDS_DELETE_RECORDS_PARTITION: Schema = Schema::of::<
    messages::delete_records_request::DeleteRecordsPartition,
>(&[int32("partition index"), int64("offset")]);

static INIT_PRODUCER_ID: Schema = Schema::of::<messages::InitProducerIdRequest>(&[
    string("transactional id"),
    int32("transaction timeout ms"),
    int64("producer id").since(3),
    int16("producer epoch").since(3),
    int8("enable2 pc").since(6),
    int8("keep prepared txn").since(6),
]);

static OFFSET_FOR_LEADER_EPOCH: Schema = Schema::of::<messages::OffsetForLeaderEpochRequest>(&[
    int32("replica id").since(3),
    array_of("topics", &OFFSET_FOR_LEADER_EPOCH_OFFSET_FOR_LEADER_TOPIC),
]);

static OFFSET_FOR_LEADER_EPOCH_OFFSET_FOR_LEADER_TOPIC: Schema =
    Schema::of::<messages::offset_for_leader_epoch_request::OffsetForLeaderTopic>(&[
        string("topic"),
        array_of("partitions", &OFFSET_FOR_LEADER_EPOCH_OFFSET_FOR_LEADER_PARTITION),
    ]);

static OFFSET_FOR_LEADER_EPOCH_OFFSET_FOR_LEADER_PARTITION: Schema =
    Schema::of::<messages::offset_for_leader_epoch_request::OffsetForLeaderPartition>(&[
        int32("partition"),
        int32("current leader epoch"),
        int32("leader epoch"),
    ]);

static DESCRIBE_CONFIGS: Schema = Schema::of::<messages::DescribeConfigsRequest>(&[
    array_of("resources", &DESCRIBE_CONFIGS_DESCRIBE_CONFIGS_RESOURCE),
    int8("include synonyms"),
    int8("include documentation").since(3),
]);

static DESCRIBE_CONFIGS_DESCRIBE_CONFIGS_RESOURCE: Schema =
    Schema::of::<messages::describe_configs_request::DescribeConfigsResource>(&[
        int8("resource type"),
        string("resource name"),
        array_of("configuration keys", &STRING),
    ]);

static ALTER_CONFIGS: Schema = Schema::of::<messages::AlterConfigsRequest>(&[
    array_of("resources", &ALTER_CONFIGS_ALTER_CONFIGS_RESOURCE),
    int8("validate only"),
]);

static ALTER_CONFIGS_ALTER_CONFIGS_RESOURCE: Schema =
    Schema::of::<messages::alter_configs_request::AlterConfigsResource>(&[
        int8("resource type"),
        string("resource name"),
        array_of("configs", &ALTER_CONFIGS_ALTERABLE_CONFIG),
    ]);

static ALTER_CONFIGS_ALTERABLE_CONFIG: Schema =
    Schema::of::<messages::alter_configs_request::AlterableConfig>(&[string("name"), string("value")]);

static DESCRIBE_LOG_DIRS: Schema = Schema::of::<messages::DescribeLogDirsRequest>(&[array_of(
    "topics",
    &DESCRIBE_LOG_DIRS_DESCRIBABLE_LOG_DIR_TOPIC,
)]);

static DESCRIBE_LOG_DIRS_DESCRIBABLE_LOG_DIR_TOPIC: Schema =
    Schema::of::<messages::describe_log_dirs_request::DescribableLogDirTopic>(&[
        string("topic"),
        array_of("partitions", &INT32),
    ]);

static CREATE_PARTITIONS: Schema = Schema::of::<messages::CreatePartitionsRequest>(&[
    array_of("topics", &CREATE_PARTITIONS_CREATE_PARTITIONS_TOPIC),
    int32("timeout ms"),
    int8("validate only"),
]);

static CREATE_PARTITIONS_CREATE_PARTITIONS_TOPIC: Schema =
    Schema::of::<messages::create_partitions_request::CreatePartitionsTopic>(&[
        string("name"),
        int32("count"),
        array_of("assignments", &CREATE_PARTITIONS_CREATE_PARTITIONS_ASSIGNMENT),
    ]);

static CREATE_PARTITIONS_CREATE_PARTITIONS_ASSIGNMENT: Schema = Schema::of::<
    messages::create_partitions_request::CreatePartitionsAssignment,
>(&[array_of("broker ids", &INT32)]);

static INCREMENTAL_ALTER_CONFIGS: Schema = Schema::of::<messages::IncrementalAlterConfigsRequest>(&[
    array_of("resources", &INCREMENTAL_ALTER_CONFIGS_ALTER_CONFIGS_RESOURCE),
    int8("validate only"),
]);

static INCREMENTAL_ALTER_CONFIGS_ALTER_CONFIGS_RESOURCE: Schema =
    Schema::of::<messages::incremental_alter_configs_request::AlterConfigsResource>(&[
        int8("resource type"),
        string("resource name"),
        array_of("configs", &INCREMENTAL_ALTER_CONFIGS_ALTERABLE_CONFIG),
    ]);

static INCREMENTAL_ALTER_CONFIGS_ALTERABLE_CONFIG: Schema =
    Schema::of::<messages::incremental_alter_configs_request::AlterableConfig>(&[
        string("name"),
        int8("config operation"),
        string("value"),
    ]);

static DESCRIBE_CLUSTER: Schema = Schema::of::<messages::DescribeClusterRequest>(&[
    int8("include cluster authorized operations"),
    int8("endpoint type").since(1),
    int8("include fenced brokers").since(2),
]);

static LIST_CONFIG_RESOURCES: Schema =
    Schema::of::<messages::ListConfigResourcesRequest>(&[array_of("resource types", &INT8).since(1)]);

static DESCRIBE_TOPIC_PARTITIONS: Schema = Schema::of::<messages::DescribeTopicPartitionsRequest>(&[
    array_of("topics", &DESCRIBE_TOPIC_PARTITIONS_TOPIC_REQUEST),
    int32("response partition limit"),
    nullable_structure("cursor", &DESCRIBE_TOPIC_PARTITIONS_CURSOR),
]);

static DESCRIBE_TOPIC_PARTITIONS_CURSOR: Schema = Schema::of::<
    messages::describe_topic_partitions_request::Cursor,
>(&[string("topic name"), int32("partition index")]);

static DESCRIBE_TOPIC_PARTITIONS_TOPIC_REQUEST: Schema =
    Schema::of::<messages::describe_topic_partitions_request::TopicRequest>(&[string("name")]);
