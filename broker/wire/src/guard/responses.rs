//! The response schemas of the APIs served here, as Kafka 4.2 has them, in the order of the keys. Those of the admin APIs are
//! in [`super::admin_responses`].

use kafka_protocol::messages;

use super::schema::{
    INT32, Schema, array_of, bytes, int8, int16, int32, int64, nullable_structure, string, structure, uuid,
};
use super::{admin_responses, move_responses, quorum_responses};
use crate::ApiKey;

/// The schema of an API's response, `None` for an API that is not served here.
pub(super) fn schema(api: ApiKey) -> Option<&'static Schema> {
    Some(match api {
        ApiKey::Produce => &PRODUCE,
        ApiKey::Fetch => &FETCH,
        ApiKey::ListOffsets => &LIST_OFFSETS,
        ApiKey::Metadata => &METADATA,
        ApiKey::FindCoordinator => &FIND_COORDINATOR,
        ApiKey::ApiVersions => &API_VERSIONS,
        ApiKey::InitProducerId => &INIT_PRODUCER_ID,
        ApiKey::OffsetForLeaderEpoch => &OFFSET_FOR_LEADER_EPOCH,
        ApiKey::DescribeCluster => &DESCRIBE_CLUSTER,
        ApiKey::DescribeTopicPartitions => &DESCRIBE_TOPIC_PARTITIONS,
        _ => {
            return admin_responses::schema(api)
                .or_else(|| quorum_responses::schema(api))
                .or_else(|| move_responses::schema(api));
        }
    })
}

static PRODUCE: Schema = Schema::of::<messages::ProduceResponse>(&[
    array_of("responses", &PRODUCE_TOPIC_PRODUCE_RESPONSE),
    int32("throttle time ms"),
    array_of("node endpoints", &PRODUCE_NODE_ENDPOINT)
        .tagged(0)
        .since(10),
]);

static PRODUCE_NODE_ENDPOINT: Schema = Schema::of::<messages::produce_response::NodeEndpoint>(&[
    int32("node id").since(10),
    string("host").since(10),
    int32("port").since(10),
    string("rack").since(10),
]);

static PRODUCE_TOPIC_PRODUCE_RESPONSE: Schema =
    Schema::of::<messages::produce_response::TopicProduceResponse>(&[
        string("name").until(12),
        uuid("topic id").since(13),
        array_of("partition responses", &PRODUCE_PARTITION_PRODUCE_RESPONSE),
    ]);

static PRODUCE_PARTITION_PRODUCE_RESPONSE: Schema =
    Schema::of::<messages::produce_response::PartitionProduceResponse>(&[
        int32("index"),
        int16("error code"),
        int64("base offset"),
        int64("log append time ms"),
        int64("log start offset").since(5),
        array_of("record errors", &PRODUCE_BATCH_INDEX_AND_ERROR_MESSAGE).since(8),
        string("error message").since(8),
        structure("current leader", &PRODUCE_LEADER_ID_AND_EPOCH)
            .tagged(0)
            .since(10),
    ]);

static PRODUCE_LEADER_ID_AND_EPOCH: Schema = Schema::of::<messages::produce_response::LeaderIdAndEpoch>(&[
    int32("leader id").since(10),
    int32("leader epoch").since(10),
]);

static PRODUCE_BATCH_INDEX_AND_ERROR_MESSAGE: Schema =
    Schema::of::<messages::produce_response::BatchIndexAndErrorMessage>(&[
        int32("batch index").since(8),
        string("batch index error message").since(8),
    ]);

static FETCH: Schema = Schema::of::<messages::FetchResponse>(&[
    int32("throttle time ms"),
    int16("error code").since(7),
    int32("session id").since(7),
    array_of("responses", &FETCH_FETCHABLE_TOPIC_RESPONSE),
    array_of("node endpoints", &FETCH_NODE_ENDPOINT)
        .tagged(0)
        .since(16),
]);

static FETCH_NODE_ENDPOINT: Schema = Schema::of::<messages::fetch_response::NodeEndpoint>(&[
    int32("node id").since(16),
    string("host").since(16),
    int32("port").since(16),
    string("rack").since(16),
]);

static FETCH_FETCHABLE_TOPIC_RESPONSE: Schema =
    Schema::of::<messages::fetch_response::FetchableTopicResponse>(&[
        string("topic").until(12),
        uuid("topic id").since(13),
        array_of("partitions", &FETCH_PARTITION_DATA),
    ]);

static FETCH_PARTITION_DATA: Schema = Schema::of::<messages::fetch_response::PartitionData>(&[
    int32("partition index"),
    int16("error code"),
    int64("high watermark"),
    int64("last stable offset"),
    int64("log start offset").since(5),
    structure("diverging epoch", &FETCH_EPOCH_END_OFFSET)
        .tagged(0)
        .since(12),
    structure("current leader", &FETCH_LEADER_ID_AND_EPOCH)
        .tagged(1)
        .since(12),
    structure("snapshot id", &FETCH_SNAPSHOT_ID).tagged(2).since(12),
    array_of("aborted transactions", &FETCH_ABORTED_TRANSACTION),
    int32("preferred read replica").since(11),
    bytes("records"),
]);

static FETCH_ABORTED_TRANSACTION: Schema = Schema::of::<messages::fetch_response::AbortedTransaction>(&[
    int64("producer id"),
    int64("first offset"),
]);

static FETCH_SNAPSHOT_ID: Schema =
    Schema::of::<messages::fetch_response::SnapshotId>(&[int64("end offset"), int32("epoch")]);

static FETCH_LEADER_ID_AND_EPOCH: Schema = Schema::of::<messages::fetch_response::LeaderIdAndEpoch>(&[
    int32("leader id").since(12),
    int32("leader epoch").since(12),
]);

static FETCH_EPOCH_END_OFFSET: Schema = Schema::of::<messages::fetch_response::EpochEndOffset>(&[
    int32("epoch").since(12),
    int64("end offset").since(12),
]);

static LIST_OFFSETS: Schema = Schema::of::<messages::ListOffsetsResponse>(&[
    int32("throttle time ms").since(2),
    array_of("topics", &LIST_OFFSETS_LIST_OFFSETS_TOPIC_RESPONSE),
]);

static LIST_OFFSETS_LIST_OFFSETS_TOPIC_RESPONSE: Schema =
    Schema::of::<messages::list_offsets_response::ListOffsetsTopicResponse>(&[
        string("name"),
        array_of("partitions", &LIST_OFFSETS_LIST_OFFSETS_PARTITION_RESPONSE),
    ]);

static LIST_OFFSETS_LIST_OFFSETS_PARTITION_RESPONSE: Schema =
    Schema::of::<messages::list_offsets_response::ListOffsetsPartitionResponse>(&[
        int32("partition index"),
        int16("error code"),
        int64("timestamp"),
        int64("offset"),
        int32("leader epoch").since(4),
    ]);

static METADATA: Schema = Schema::of::<messages::MetadataResponse>(&[
    int32("throttle time ms").since(3),
    array_of("brokers", &METADATA_METADATA_RESPONSE_BROKER),
    string("cluster id").since(2),
    int32("controller id").since(1),
    array_of("topics", &METADATA_METADATA_RESPONSE_TOPIC),
    int32("cluster authorized operations").since(8).until(10),
    int16("error code").since(13),
]);

static METADATA_METADATA_RESPONSE_TOPIC: Schema =
    Schema::of::<messages::metadata_response::MetadataResponseTopic>(&[
        int16("error code"),
        string("name"),
        uuid("topic id").since(10),
        int8("is internal").since(1),
        array_of("partitions", &METADATA_METADATA_RESPONSE_PARTITION),
        int32("topic authorized operations").since(8),
    ]);

static METADATA_METADATA_RESPONSE_PARTITION: Schema =
    Schema::of::<messages::metadata_response::MetadataResponsePartition>(&[
        int16("error code"),
        int32("partition index"),
        int32("leader id"),
        int32("leader epoch").since(7),
        array_of("replica nodes", &INT32),
        array_of("isr nodes", &INT32),
        array_of("offline replicas", &INT32).since(5),
    ]);

static METADATA_METADATA_RESPONSE_BROKER: Schema =
    Schema::of::<messages::metadata_response::MetadataResponseBroker>(&[
        int32("node id"),
        string("host"),
        int32("port"),
        string("rack").since(1),
    ]);

static FIND_COORDINATOR: Schema = Schema::of::<messages::FindCoordinatorResponse>(&[
    int32("throttle time ms").since(1),
    int16("error code").until(3),
    string("error message").since(1).until(3),
    int32("node id").until(3),
    string("host").until(3),
    int32("port").until(3),
    array_of("coordinators", &FIND_COORDINATOR_COORDINATOR).since(4),
]);

static FIND_COORDINATOR_COORDINATOR: Schema =
    Schema::of::<messages::find_coordinator_response::Coordinator>(&[
        string("key").since(4),
        int32("node id").since(4),
        string("host").since(4),
        int32("port").since(4),
        int16("error code").since(4),
        string("error message").since(4),
    ]);

static API_VERSIONS: Schema = Schema::of::<messages::ApiVersionsResponse>(&[
    int16("error code"),
    array_of("api keys", &API_VERSIONS_API_VERSION),
    int32("throttle time ms").since(1),
    array_of("supported features", &API_VERSIONS_SUPPORTED_FEATURE_KEY)
        .tagged(0)
        .since(3),
    int64("finalized features epoch").tagged(1).since(3),
    array_of("finalized features", &API_VERSIONS_FINALIZED_FEATURE_KEY)
        .tagged(2)
        .since(3),
    int8("zk migration ready").tagged(3).since(3),
]);

static API_VERSIONS_FINALIZED_FEATURE_KEY: Schema =
    Schema::of::<messages::api_versions_response::FinalizedFeatureKey>(&[
        string("name").since(3),
        int16("max version level").since(3),
        int16("min version level").since(3),
    ]);

static API_VERSIONS_SUPPORTED_FEATURE_KEY: Schema =
    Schema::of::<messages::api_versions_response::SupportedFeatureKey>(&[
        string("name").since(3),
        int16("min version").since(3),
        int16("max version").since(3),
    ]);

static API_VERSIONS_API_VERSION: Schema = Schema::of::<messages::api_versions_response::ApiVersion>(&[
    int16("api key"),
    int16("min version"),
    int16("max version"),
]);

static INIT_PRODUCER_ID: Schema = Schema::of::<messages::InitProducerIdResponse>(&[
    int32("throttle time ms"),
    int16("error code"),
    int64("producer id"),
    int16("producer epoch"),
    int64("ongoing txn producer id").since(6),
    int16("ongoing txn producer epoch").since(6),
]);

static OFFSET_FOR_LEADER_EPOCH: Schema = Schema::of::<messages::OffsetForLeaderEpochResponse>(&[
    int32("throttle time ms"),
    array_of("topics", &OFFSET_FOR_LEADER_EPOCH_OFFSET_FOR_LEADER_TOPIC_RESULT),
]);

static OFFSET_FOR_LEADER_EPOCH_OFFSET_FOR_LEADER_TOPIC_RESULT: Schema =
    Schema::of::<messages::offset_for_leader_epoch_response::OffsetForLeaderTopicResult>(&[
        string("topic"),
        array_of("partitions", &OFFSET_FOR_LEADER_EPOCH_EPOCH_END_OFFSET),
    ]);

static OFFSET_FOR_LEADER_EPOCH_EPOCH_END_OFFSET: Schema =
    Schema::of::<messages::offset_for_leader_epoch_response::EpochEndOffset>(&[
        int16("error code"),
        int32("partition"),
        int32("leader epoch"),
        int64("end offset"),
    ]);

static DESCRIBE_CLUSTER: Schema = Schema::of::<messages::DescribeClusterResponse>(&[
    int32("throttle time ms"),
    int16("error code"),
    string("error message"),
    int8("endpoint type").since(1),
    string("cluster id"),
    int32("controller id"),
    array_of("brokers", &DESCRIBE_CLUSTER_DESCRIBE_CLUSTER_BROKER),
    int32("cluster authorized operations"),
]);

static DESCRIBE_CLUSTER_DESCRIBE_CLUSTER_BROKER: Schema =
    Schema::of::<messages::describe_cluster_response::DescribeClusterBroker>(&[
        int32("broker id"),
        string("host"),
        int32("port"),
        string("rack"),
        int8("is fenced").since(2),
    ]);

static DESCRIBE_TOPIC_PARTITIONS: Schema = Schema::of::<messages::DescribeTopicPartitionsResponse>(&[
    int32("throttle time ms"),
    array_of(
        "topics",
        &DESCRIBE_TOPIC_PARTITIONS_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_TOPIC,
    ),
    nullable_structure("next cursor", &DESCRIBE_TOPIC_PARTITIONS_CURSOR),
]);

static DESCRIBE_TOPIC_PARTITIONS_CURSOR: Schema = Schema::of::<
    messages::describe_topic_partitions_response::Cursor,
>(&[string("topic name"), int32("partition index")]);

static DESCRIBE_TOPIC_PARTITIONS_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_TOPIC: Schema =
    Schema::of::<messages::describe_topic_partitions_response::DescribeTopicPartitionsResponseTopic>(&[
        int16("error code"),
        string("name"),
        uuid("topic id"),
        int8("is internal"),
        array_of(
            "partitions",
            &DESCRIBE_TOPIC_PARTITIONS_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_PARTITION,
        ),
        int32("topic authorized operations"),
    ]);

static DESCRIBE_TOPIC_PARTITIONS_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_PARTITION: Schema =
    Schema::of::<messages::describe_topic_partitions_response::DescribeTopicPartitionsResponsePartition>(&[
        int16("error code"),
        int32("partition index"),
        int32("leader id"),
        int32("leader epoch"),
        array_of("replica nodes", &INT32),
        array_of("isr nodes", &INT32),
        array_of("eligible leader replicas", &INT32),
        array_of("last known elr", &INT32),
        array_of("offline replicas", &INT32),
    ]);
