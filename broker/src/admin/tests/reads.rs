use strandline_wire::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use strandline_wire::messages::describe_cluster_request::DescribeClusterRequest;
use strandline_wire::messages::describe_topic_partitions_request::{
    Cursor, DescribeTopicPartitionsRequest, TopicRequest,
};
use strandline_wire::messages::find_coordinator_request::FindCoordinatorRequest;
use strandline_wire::messages::list_config_resources_request::ListConfigResourcesRequest;

use super::super::text::{string, topic_name};
use super::super::{
    create_topics, describe_cluster, describe_topic_partitions, find_coordinator, list_config_resources,
};
use super::*;

fn with_topics(topics: &[(&str, i32)]) -> Cluster {
    let mut cluster = Cluster::new(2, &[]);
    let topic = |(name, partitions): &(&str, i32)| {
        let topic = CreatableTopic::default().with_name(topic_name(name));
        topic.with_num_partitions(*partitions).with_replication_factor(1)
    };
    let request = CreateTopicsRequest::default().with_topics(topics.iter().map(topic).collect());
    cluster.run(async |context| create_topics::handle(context, request, 7).await);
    cluster
}

#[test]
fn the_cluster_is_described_for_brokers_only() {
    let mut cluster = with_topics(&[]);
    let mut ask = |kind| {
        let request = DescribeClusterRequest::default().with_endpoint_type(kind);
        cluster.run(async |context| describe_cluster::handle(context, request, 2).await)
    };
    let answer = ask(1);
    assert_eq!(
        (answer.error_code, answer.brokers.len(), answer.controller_id.0),
        (0, 2, 1000)
    );
    assert_eq!(
        (
            answer.brokers[0].host.as_str(),
            answer.brokers[0].rack.as_ref().unwrap().as_str()
        ),
        ("h", "node-1")
    );
    assert_eq!((ask(2).error_code, ask(3).error_code), (114, 115));
}

/// Names and partition numbers of each page, following the cursor.
fn pages(cluster: &mut Cluster, names: &[&str], limit: i32) -> Vec<Vec<(String, Vec<i32>)>> {
    let mut pages = Vec::new();
    let mut cursor: Option<Cursor> = None;
    loop {
        let topics = names
            .iter()
            .map(|name| TopicRequest::default().with_name(topic_name(name)))
            .collect();
        let request = DescribeTopicPartitionsRequest::default()
            .with_topics(topics)
            .with_response_partition_limit(limit)
            .with_cursor(cursor.take());
        let answer =
            cluster.run(async |context| describe_topic_partitions::handle(context, request, 0).await);
        let page = answer.topics.iter().map(|topic| {
            let numbers = topic
                .partitions
                .iter()
                .map(|partition| partition.partition_index)
                .collect();
            (topic.name.as_ref().unwrap().to_string(), numbers)
        });
        pages.push(page.collect());
        match answer.next_cursor {
            None => return pages,
            Some(next) => {
                cursor = Some(
                    Cursor::default()
                        .with_topic_name(next.topic_name)
                        .with_partition_index(next.partition_index),
                );
            }
        }
    }
}

#[test]
fn pages_of_partitions_follow_the_cursor() {
    let mut cluster = with_topics(&[("a", 3), ("b", 2), ("c", 1)]);
    let whole = pages(&mut cluster, &[], 100);
    assert_eq!(whole.len(), 1);
    let topic = |name: &str, numbers: &[i32]| (name.to_owned(), numbers.to_vec());
    assert_eq!(
        whole[0],
        [topic("a", &[0, 1, 2]), topic("b", &[0, 1]), topic("c", &[0])]
    );
    let twos = pages(&mut cluster, &[], 2);
    let expected = [
        vec![topic("a", &[0, 1])],
        vec![topic("a", &[2]), topic("b", &[0])],
        vec![topic("b", &[1]), topic("c", &[0])],
    ];
    assert_eq!(twos, expected);
    let named = pages(&mut cluster, &["c", "a", "missing"], 3);
    assert_eq!(
        named,
        [
            vec![topic("a", &[0, 1, 2])],
            vec![topic("c", &[0]), topic("missing", &[])]
        ]
    );
}

#[test]
fn a_cursor_outside_of_what_is_asked_is_refused() {
    let mut cluster = with_topics(&[("a", 3), ("b", 2)]);
    let mut ask = |names: &[&str], topic: &str, partition: i32| {
        let named = |name: &&str| TopicRequest::default().with_name(topic_name(name));
        let cursor = Cursor::default()
            .with_topic_name(topic_name(topic))
            .with_partition_index(partition);
        let request = DescribeTopicPartitionsRequest::default()
            .with_topics(names.iter().map(named).collect())
            .with_response_partition_limit(10)
            .with_cursor(Some(cursor));
        let answer =
            cluster.run(async |context| describe_topic_partitions::handle(context, request, 0).await);
        answer
            .topics
            .iter()
            .map(|topic| (topic.error_code, topic.partitions.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(ask(&["a"], "b", 0), [(42, 0)]);
    assert_eq!(ask(&["a", "b"], "a", -1), [(42, 0), (42, 0)]);
    assert!(ask(&[], "a", -1).is_empty());
    assert_eq!(ask(&["a", "b"], "b", 1), [(0, 1)]);
    // Beyond the last partition, and of a topic that is gone: what follows is told.
    assert_eq!(ask(&[], "a", 9), [(0, 0), (0, 2)]);
    assert_eq!(ask(&[], "aa", 1), [(0, 2)]);
}

#[test]
fn resources_are_listed_by_type() {
    let mut cluster = with_topics(&[("a", 1)]);
    let mut ask = |types: &[i8], version| {
        let request = ListConfigResourcesRequest::default().with_resource_types(types.to_vec());
        let answer =
            cluster.run(async |context| list_config_resources::handle(context, request, version).await);
        let names = answer
            .config_resources
            .iter()
            .map(|resource| (resource.resource_type, resource.resource_name.to_string()));
        (answer.error_code, names.collect::<Vec<_>>())
    };
    assert_eq!(ask(&[], 0), (0, vec![]));
    assert_eq!(ask(&[2], 1), (0, vec![(2, "a".to_owned())]));
    assert_eq!(ask(&[], 1).1.len(), 5);
    assert_eq!(ask(&[3], 1).0, 35);
}

#[test]
fn a_groups_coordinator_leads_its_partition_which_the_first_look_creates() {
    let mut cluster = Cluster::new(2, &[("offsets.topic.num.partitions", "5")]);
    let mut ask = |version| {
        let request = FindCoordinatorRequest::default()
            .with_key(string("group"))
            .with_coordinator_keys(vec![string("group"), string("consumers-0")]);
        cluster.run(async |context| find_coordinator::handle(context, request, version).await)
    };
    let (single, batch) = (ask(3), ask(5));
    let image = cluster.image();
    let topic = image.topic_by_name("__consumer_offsets").unwrap();
    assert_eq!(topic.partitions.len(), 5);
    assert_eq!(topic.configs["cleanup.policy"], "compact");
    assert_eq!(topic.configs["segment.bytes"], "104857600");
    // The hash of "group" is 98,629,247.
    let leader = image.broker(topic.partitions[2].leader).unwrap();
    assert_eq!((single.error_code, single.node_id.0), (0, leader.id.0));
    assert_eq!(
        (single.host.as_str(), single.port),
        ("h", 9092 + leader.id.0 % 1000)
    );
    let found = &batch.coordinators[0];
    assert_eq!((found.key.as_str(), found.node_id), ("group", single.node_id));
    assert_eq!(batch.coordinators[1].error_code, 0);
}

#[test]
fn without_brokers_the_coordinator_is_not_available() {
    let mut cluster = Cluster::new(1, &[]);
    cluster.images.publish(Arc::new(ClusterImage::default()));
    let request = FindCoordinatorRequest::default().with_key(string("g"));
    let answer = cluster.run(async |context| find_coordinator::handle(context, request, 2).await);
    assert_eq!((answer.error_code, answer.node_id.0), (15, -1));
    assert!(answer.error_message.is_some());
}

#[test]
fn transactional_ids_are_refused_with_a_code_that_no_client_retries() {
    let mut cluster = with_topics(&[]);
    let mut ask = |kind, version| {
        let request = FindCoordinatorRequest::default()
            .with_key(string("g"))
            .with_key_type(kind)
            .with_coordinator_keys(vec![string("g"), string("h")]);
        cluster.run(async |context| find_coordinator::handle(context, request, version).await)
    };
    assert_eq!((ask(1, 3).error_code, ask(2, 3).error_code), (53, 42));
    let batch = ask(1, 4);
    assert_eq!(batch.coordinators.len(), 2);
    assert!(
        batch
            .coordinators
            .iter()
            .all(|answer| answer.error_code == 53 && answer.error_message.is_some())
    );
}
