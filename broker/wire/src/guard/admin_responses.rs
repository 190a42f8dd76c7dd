//! The response schemas of the admin APIs served here, as Kafka 4.2 has them, in the order of the keys.

use kafka_protocol::messages;

use super::group_responses;
use super::schema::{Schema, array_of, int8, int16, int32, int64, string, uuid};
use crate::ApiKey;

/// The schema of an admin API's response.
pub(super) fn schema(api: ApiKey) -> Option<&'static Schema> {
    Some(match api {
        ApiKey::CreateTopics => &CREATE_TOPICS,
        ApiKey::DeleteTopics => &DELETE_TOPICS,
        ApiKey::DeleteRecords => &DELETE_RECORDS,
        ApiKey::DescribeConfigs => &DESCRIBE_CONFIGS,
        ApiKey::AlterConfigs => &ALTER_CONFIGS,
        ApiKey::DescribeLogDirs => &DESCRIBE_LOG_DIRS,
        ApiKey::CreatePartitions => &CREATE_PARTITIONS,
        ApiKey::IncrementalAlterConfigs => &INCREMENTAL_ALTER_CONFIGS,
        ApiKey::ListConfigResources => &LIST_CONFIG_RESOURCES,
        _ => return group_responses::schema(api),
    })
}

static CREATE_TOPICS: Schema = Schema::of::<messages::CreateTopicsResponse>(&[
    int32("throttle time ms"),
    array_of("topics", &CREATE_TOPICS_CREATABLE_TOPIC_RESULT),
]);

static CREATE_TOPICS_CREATABLE_TOPIC_RESULT: Schema =
    Schema::of::<messages::create_topics_response::CreatableTopicResult>(&[
        string("name"),
        uuid("topic id").since(7),
        int16("error code"),
        string("error message"),
        int16("topic config error code").tagged(0).since(5),
        int32("num partitions").since(5),
        int16("replication factor").since(5),
        array_of("configs", &CREATE_TOPICS_CREATABLE_TOPIC_CONFIGS).since(5),
    ]);

static CREATE_TOPICS_CREATABLE_TOPIC_CONFIGS: Schema =
    Schema::of::<messages::create_topics_response::CreatableTopicConfigs>(&[
        string("name").since(5),
        string("value").since(5),
        int8("read only").since(5),
        int8("config source").since(5),
        int8("is sensitive").since(5),
    ]);

static DELETE_TOPICS: Schema = Schema::of::<messages::DeleteTopicsResponse>(&[
    int32("throttle time ms"),
    array_of("responses", &DELETE_TOPICS_DELETABLE_TOPIC_RESULT),
]);

static DELETE_TOPICS_DELETABLE_TOPIC_RESULT: Schema =
    Schema::of::<messages::delete_topics_response::DeletableTopicResult>(&[
        string("name"),
        uuid("topic id").since(6),
        int16("error code"),
        string("error message").since(5),
    ]);

static DELETE_RECORDS: Schema = Schema::of::<messages::DeleteRecordsResponse>(&[
    int32("throttle time ms"),
    array_of("topics", &DELETE_RECORDS_DELETE_RECORDS_TOPIC_RESULT),
]);

static DELETE_RECORDS_DELETE_RECORDS_TOPIC_RESULT: Schema =
    Schema::of::<messages::delete_records_response::DeleteRecordsTopicResult>(&[
        string("name"),
        array_of("partitions", &DELETE_RECORDS_DELETE_RECORDS_PARTITION_RESULT),
    ]);

static DELETE_RECORDS_DELETE_RECORDS_PARTITION_RESULT: Schema =
    Schema::of::<messages::delete_records_response::DeleteRecordsPartitionResult>(&[
        int32("partition index"),
        int64("low watermark"),
        int16("error code"),
    ]);

static DESCRIBE_CONFIGS: Schema = Schema::of::<messages::DescribeConfigsResponse>(&[
    int32("throttle time ms"),
    array_of("results", &DESCRIBE_CONFIGS_DESCRIBE_CONFIGS_RESULT),
]);

static DESCRIBE_CONFIGS_DESCRIBE_CONFIGS_RESULT: Schema =
    Schema::of::<messages::describe_configs_response::DescribeConfigsResult>(&[
        int16("error code"),
        string("error message"),
        int8("resource type"),
        string("resource name"),
        array_of("configs", &DESCRIBE_CONFIGS_DESCRIBE_CONFIGS_RESOURCE_RESULT),
    ]);

static DESCRIBE_CONFIGS_DESCRIBE_CONFIGS_RESOURCE_RESULT: Schema =
    Schema::of::<messages::describe_configs_response::DescribeConfigsResourceResult>(&[
        string("name"),
        string("value"),
        int8("read only"),
        int8("config source"),
        int8("is sensitive"),
        array_of("synonyms", &DESCRIBE_CONFIGS_DESCRIBE_CONFIGS_SYNONYM),
        int8("config type").since(3),
        string("documentation").since(3),
    ]);

static DESCRIBE_CONFIGS_DESCRIBE_CONFIGS_SYNONYM: Schema =
    Schema::of::<messages::describe_configs_response::DescribeConfigsSynonym>(&[
        string("name"),
        string("value"),
        int8("source"),
    ]);

static ALTER_CONFIGS: Schema = Schema::of::<messages::AlterConfigsResponse>(&[
    int32("throttle time ms"),
    array_of("responses", &ALTER_CONFIGS_ALTER_CONFIGS_RESOURCE_RESPONSE),
]);

static ALTER_CONFIGS_ALTER_CONFIGS_RESOURCE_RESPONSE: Schema =
    Schema::of::<messages::alter_configs_response::AlterConfigsResourceResponse>(&[
        int16("error code"),
        string("error message"),
        int8("resource type"),
        string("resource name"),
    ]);

static DESCRIBE_LOG_DIRS: Schema = Schema::of::<messages::DescribeLogDirsResponse>(&[
    int32("throttle time ms"),
    int16("error code").since(3),
    array_of("results", &DESCRIBE_LOG_DIRS_DESCRIBE_LOG_DIRS_RESULT),
]);

static DESCRIBE_LOG_DIRS_DESCRIBE_LOG_DIRS_RESULT: Schema =
    Schema::of::<messages::describe_log_dirs_response::DescribeLogDirsResult>(&[
        int16("error code"),
        string("log dir"),
        array_of("topics", &DESCRIBE_LOG_DIRS_DESCRIBE_LOG_DIRS_TOPIC),
        int64("total bytes").since(4),
        int64("usable bytes").since(4),
    ]);

static DESCRIBE_LOG_DIRS_DESCRIBE_LOG_DIRS_TOPIC: Schema =
    Schema::of::<messages::describe_log_dirs_response::DescribeLogDirsTopic>(&[
        string("name"),
        array_of("partitions", &DESCRIBE_LOG_DIRS_DESCRIBE_LOG_DIRS_PARTITION),
    ]);

static DESCRIBE_LOG_DIRS_DESCRIBE_LOG_DIRS_PARTITION: Schema =
    Schema::of::<messages::describe_log_dirs_response::DescribeLogDirsPartition>(&[
        int32("partition index"),
        int64("partition size"),
        int64("offset lag"),
        int8("is future key"),
    ]);

static CREATE_PARTITIONS: Schema = Schema::of::<messages::CreatePartitionsResponse>(&[
    int32("throttle time ms"),
    array_of("results", &CREATE_PARTITIONS_CREATE_PARTITIONS_TOPIC_RESULT),
]);

static CREATE_PARTITIONS_CREATE_PARTITIONS_TOPIC_RESULT: Schema =
    Schema::of::<messages::create_partitions_response::CreatePartitionsTopicResult>(&[
        string("name"),
        int16("error code"),
        string("error message"),
    ]);

static INCREMENTAL_ALTER_CONFIGS: Schema = Schema::of::<messages::IncrementalAlterConfigsResponse>(&[
    int32("throttle time ms"),
    array_of(
        "responses",
        &INCREMENTAL_ALTER_CONFIGS_ALTER_CONFIGS_RESOURCE_RESPONSE,
    ),
]);

static INCREMENTAL_ALTER_CONFIGS_ALTER_CONFIGS_RESOURCE_RESPONSE: Schema =
    Schema::of::<messages::incremental_alter_configs_response::AlterConfigsResourceResponse>(&[
        int16("error code"),
        string("error message"),
        int8("resource type"),
        string("resource name"),
    ]);

static LIST_CONFIG_RESOURCES: Schema = Schema::of::<messages::ListConfigResourcesResponse>(&[
    int32("throttle time ms"),
    int16("error code"),
    array_of("config resources", &LIST_CONFIG_RESOURCES_CONFIG_RESOURCE),
]);

static LIST_CONFIG_RESOURCES_CONFIG_RESOURCE: Schema =
    Schema::of::<messages::list_config_resources_response::ConfigResource>(&[
        string("resource name"),
        int8("resource type").since(1),
    ]);
