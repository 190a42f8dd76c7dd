//! Metadata (3): brokers and topics as the client's listener sees them; creates topics where both sides allow it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use strandline_core::metadata::{ClusterImage, Command, NewTopic, Topic};
use strandline_runtime::local::collect_in_turns;
use strandline_wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use strandline_wire::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use strandline_wire::{ErrorCode, messages, topic_name as names};
use uuid::Uuid;

use super::context::AdminContext;
use super::create_topics;
use super::new_topics;
use super::operations;
use super::text::{Refusal, topic_name};
use super::topology::{address, broker_ids, cluster_id, leader, offline};

/// From this version on topics can be asked for by id.
const VERSION_WITH_TOPIC_IDS: i16 = 12;
/// Before this version a client does not know that a listener can be missing.
const VERSION_WITH_LISTENER_NOT_FOUND: i16 = 6;
/// How long an automatic creation waits for the shards: the client retries what is not there yet.
const AUTO_CREATION_TIMEOUT_MS: i32 = 10_000;

/// Answers from the newest image.
pub async fn handle(context: &AdminContext<'_>, request: MetadataRequest, version: i16) -> MetadataResponse {
    let asked = Asked::new(&request, version).await;
    let refused = match &asked {
        Asked::Names(names) if request.allow_auto_topic_creation && context.config.auto_create_topics => {
            create_missing(context, names).await
        }
        _ => BTreeMap::new(),
    };
    let image = context.image();
    let view = View {
        context,
        image: &image,
        version,
        operations: request.include_topic_authorized_operations,
    };
    let topics = match asked {
        Asked::All => collect_in_turns(image.topics_by_name().map(|topic| view.topic(topic))).await,
        Asked::Names(names) => collect_in_turns(names.iter().map(|name| view.named(name, &refused))).await,
        Asked::Ids(ids) => collect_in_turns(ids.iter().map(|id| view.identified(*id))).await,
        Asked::IdsTooEarly(topics) => {
            let refuse = |(name, id): (String, _)| error_topic(Some(&name), id, ErrorCode::InvalidRequest);
            collect_in_turns(topics.into_iter().map(refuse)).await
        }
    };
    let cluster_operations = match request.include_cluster_authorized_operations {
        true => operations::CLUSTER,
        false => operations::OMITTED,
    };
    MetadataResponse::default()
        .with_brokers(brokers(&image, context.listener))
        .with_cluster_id(Some(cluster_id(&image)))
        .with_controller_id(messages::BrokerId(context.broker_id.0))
        .with_topics(topics)
        .with_cluster_authorized_operations(cluster_operations)
}

/// What a request asks for.
enum Asked {
    All,
    Names(BTreeSet<String>),
    Ids(BTreeSet<Uuid>),
    /// Names as the answer shows them: it knows no null in these versions.
    IdsTooEarly(Vec<(String, Uuid)>),
}

impl Asked {
    async fn new(request: &MetadataRequest, version: i16) -> Self {
        let Some(topics) = &request.topics else {
            return Self::All;
        };
        if topics.is_empty() && version == 0 {
            return Self::All;
        }
        let name = |topic: &MetadataRequestTopic| topic.name.as_ref().map(|name| name.0.to_string());
        // As Kafka: an id counts whatever the name beside it says, which is empty, not null, in Java's admin client.
        let by_id = topics
            .iter()
            .filter(|topic| topic.name.is_none() || !topic.topic_id.is_nil());
        let ids: BTreeSet<Uuid> = collect_in_turns(by_id.map(|topic| topic.topic_id)).await;
        match (ids.is_empty(), version < VERSION_WITH_TOPIC_IDS) {
            (false, true) => Self::IdsTooEarly(
                topics
                    .iter()
                    .map(|topic| (name(topic).unwrap_or_default(), topic.topic_id))
                    .collect(),
            ),
            (false, false) => Self::Ids(ids),
            (true, _) => Self::Names(collect_in_turns(topics.iter().filter_map(name)).await),
        }
    }
}

/// Creates the topics that are missing; gives the reasons of those that could not be.
async fn create_missing(context: &AdminContext<'_>, names: &BTreeSet<String>) -> BTreeMap<String, Refusal> {
    let image = context.image();
    let missing = names
        .iter()
        .filter(|name| image.topic_by_name(name).is_none() && names::validate(name).is_ok());
    let topics: Vec<NewTopic> = missing.map(|name| new_topics::automatic(context, name)).collect();
    let created: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    let command = Command::CreateTopics { topics };
    let decided = create_topics::decide(context, command, false, AUTO_CREATION_TIMEOUT_MS).await;
    let refusals = created
        .into_iter()
        .zip(decided)
        .filter_map(|(name, decided)| Some((name, decided.err()?)));
    // Another client was faster: the topic is there.
    refusals
        .filter(|(_, refusal)| refusal.code != ErrorCode::TopicAlreadyExists)
        .collect()
}

fn brokers(image: &ClusterImage, listener: &str) -> Vec<MetadataResponseBroker> {
    let broker = |broker: &Arc<strandline_core::metadata::Broker>| {
        let (host, port, rack) = address(broker, listener)?;
        let answer = MetadataResponseBroker::default().with_node_id(messages::BrokerId(broker.id.0));
        Some(answer.with_host(host).with_port(port).with_rack(rack))
    };
    image.live_brokers().filter_map(broker).collect()
}

fn error_topic(name: Option<&str>, id: Uuid, code: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic::default()
        .with_error_code(code.code())
        .with_name(name.map(topic_name))
        .with_topic_id(id)
        .with_is_internal(name.is_some_and(names::is_internal))
        .with_topic_authorized_operations(operations::OMITTED)
}

/// What is the same for every topic of an answer.
struct View<'a> {
    context: &'a AdminContext<'a>,
    image: &'a ClusterImage,
    version: i16,
    operations: bool,
}

impl View<'_> {
    fn named(&self, name: &str, refused: &BTreeMap<String, Refusal>) -> MetadataResponseTopic {
        if let Some(topic) = self.image.topic_by_name(name) {
            return self.topic(topic);
        }
        let code = match refused.get(name) {
            Some(refusal) => {
                tracing::warn!(
                    topic = name,
                    code = refusal.code.name(),
                    "not created automatically: {}",
                    refusal.text
                );
                refusal.code
            }
            None if names::validate(name).is_err() => ErrorCode::InvalidTopicException,
            None => ErrorCode::UnknownTopicOrPartition,
        };
        error_topic(Some(name), Uuid::nil(), code)
    }

    fn identified(&self, id: Uuid) -> MetadataResponseTopic {
        match self.image.topic(id) {
            Some(topic) => self.topic(topic),
            None => error_topic(None, id, ErrorCode::UnknownTopicId),
        }
    }

    fn topic(&self, topic: &Topic) -> MetadataResponseTopic {
        let partitions = topic.partitions.iter().zip(0..).map(|(partition, number)| {
            let (mut code, leader_id) = leader(self.image, partition, self.context.listener);
            if code == ErrorCode::ListenerNotFound && self.version < VERSION_WITH_LISTENER_NOT_FOUND {
                code = ErrorCode::LeaderNotAvailable;
            }
            MetadataResponsePartition::default()
                .with_error_code(code.code())
                .with_partition_index(number)
                .with_leader_id(leader_id)
                .with_leader_epoch(partition.leader_epoch.0)
                .with_replica_nodes(broker_ids(&partition.replicas))
                .with_isr_nodes(broker_ids(&partition.isr))
                .with_offline_replicas(offline(self.image, partition))
        });
        MetadataResponseTopic::default()
            .with_name(Some(topic_name(&topic.name)))
            .with_topic_id(topic.id)
            .with_is_internal(names::is_internal(&topic.name))
            .with_partitions(partitions.collect())
            .with_topic_authorized_operations(if self.operations {
                operations::TOPIC
            } else {
                operations::OMITTED
            })
    }
}
