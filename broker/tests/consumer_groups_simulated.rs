//! Groups of the consumer protocol on virtual time: power cuts in a rebalance, a slow replay, sessions that end, topics that
//! a pattern finds later.

#![allow(clippy::unwrap_used)]

#[path = "support/simulated.rs"]
mod simulated;
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    FindCoordinatorRequest,
};
use simulated::{FETCH_VERSION, SimClient, config, name};
use strandline::config::BrokerConfig;
use strandline::node::simulated as node;
use strandline_runtime::Runtime;
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_storage::disk::sim::Latency;
use strandline_storage::disk::{SimDisk, SimDiskOptions};
use support::batch::{Record, decode_all};
use support::group::{LOAD_IN_PROGRESS, UNKNOWN_MEMBER_ID, group_id, text};
use uuid::Uuid;

const GROUP: &str = "g";
const HEARTBEAT: Duration = Duration::from_secs(5);
const SESSION: Duration = Duration::from_secs(45);

fn small() -> Arc<BrokerConfig> {
    config(&[("offsets.topic.num.partitions", "3")])
}

/// Makes the topic of the groups.
async fn find(client: &mut SimClient) {
    let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(GROUP)]);
    assert_eq!(client.ask(4, &request).await.coordinators[0].error_code, 0);
}

/// A consumer that acts at once on what it is told.
#[derive(Clone, Default)]
struct Consumer {
    id: String,
    topics: Vec<&'static str>,
    regex: Option<&'static str>,
    epoch: i32,
    owned: BTreeSet<(Uuid, i32)>,
}

impl Consumer {
    fn new(id: &str, topics: &[&'static str]) -> Self {
        Self {
            id: id.to_owned(),
            topics: topics.to_vec(),
            ..Self::default()
        }
    }

    fn request(&self) -> ConsumerGroupHeartbeatRequest {
        let owned = self.owned.iter().map(|(topic, partition)| {
            TopicPartitions::default()
                .with_topic_id(*topic)
                .with_partitions(vec![*partition])
        });
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group_id(GROUP))
            .with_member_id(text(&self.id))
            .with_member_epoch(self.epoch)
            .with_rebalance_timeout_ms(60_000)
            .with_subscribed_topic_names(Some(self.topics.iter().map(|topic| name(topic)).collect()))
            .with_subscribed_topic_regex(self.regex.map(text))
            .with_topic_partitions(Some(owned.collect()))
    }

    fn hear(&mut self, answer: &ConsumerGroupHeartbeatResponse) {
        assert_eq!(answer.error_code, 0, "{}: {:?}", self.id, answer.error_message);
        assert!(answer.member_epoch >= self.epoch, "epochs never go back");
        self.epoch = answer.member_epoch;
        if let Some(assignment) = &answer.assignment {
            let topics = assignment.topic_partitions.iter();
            let owned =
                topics.flat_map(|topic| topic.partitions.iter().map(|number| (topic.topic_id, *number)));
            self.owned = owned.collect();
        }
    }

    async fn beat(&mut self, runtime: &SimRuntime, client: &mut SimClient) {
        loop {
            let answer = client.ask(1, &self.request()).await;
            if answer.error_code != LOAD_IN_PROGRESS {
                return self.hear(&answer);
            }
            runtime.sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Everyone sends heartbeats until nothing moves; no partition has two owners at any time.
async fn settle(runtime: &SimRuntime, client: &mut SimClient, members: &mut [Consumer]) {
    loop {
        let before: Vec<_> = members.iter().map(|member| member.epoch).collect();
        for number in 0..members.len() {
            members[number].beat(runtime, client).await;
            let all: usize = members.iter().map(|member| member.owned.len()).sum();
            let distinct: BTreeSet<_> = members.iter().flat_map(|member| &member.owned).collect();
            assert_eq!(all, distinct.len(), "a partition has two owners");
        }
        let after: Vec<_> = members.iter().map(|member| member.epoch).collect();
        if before == after && after.iter().all(|epoch| *epoch == after[0]) {
            return;
        }
    }
}

/// A power cut in the middle of a rebalance, with a heartbeat on its way.
fn crash(seed: u64) -> u64 {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime("node");
    let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
    let on_disk = disk.clone();
    let mut members = simulation.run_until(async move {
        let node = node::start(&runtime, &on_disk, small()).await.unwrap();
        node.ready.await.unwrap();
        let mut client = SimClient::connect(&runtime).await;
        client.create("t", 6, &[]).await;
        find(&mut client).await;
        let mut members = vec![
            Consumer::new("a", &["t"]),
            Consumer::new("b", &["t"]),
            Consumer::new("c", &["t"]),
        ];
        members[0].beat(&runtime, &mut client).await;
        // How far the rebalance is that the others begin.
        for step in 0..seed as usize % 7 {
            members[(step + 1) % 3].beat(&runtime, &mut client).await;
        }
        let on_its_way = members[(seed as usize + 1) % 3].request();
        client.send(1, &on_its_way).await;
        runtime.sleep(Duration::from_micros(40 * seed)).await;
        members
    });
    disk.crash();
    simulation.kill_host("node");
    let runtime = simulation.runtime("node");
    let disk = disk.attach(runtime.clone());
    simulation.run_until(async move {
        let node = node::start(&runtime, &disk, small()).await.unwrap();
        node.ready.await.unwrap();
        let mut client = SimClient::connect(&runtime).await;
        // Each one goes on with what it was told and knows.
        settle(&runtime, &mut client, &mut members).await;
        assert!(members.iter().all(|member| member.owned.len() == 2));
        node.client.stop();
        node.ended.await.unwrap().unwrap();
    });
    simulation.trace_hash()
}

#[test]
fn a_rebalance_survives_power_cuts() {
    for seed in 1..=21 {
        assert_eq!(crash(seed), crash(seed), "seed {seed} repeats");
    }
}

#[test]
fn while_it_loads_a_coordinator_says_so() {
    let simulation = Simulation::new(5);
    let runtime = simulation.runtime("node");
    let slow = SimDiskOptions {
        read: Latency::micros(3_000_000, 3_000_000),
        ..SimDiskOptions::default()
    };
    let disk = SimDisk::new(runtime.clone(), slow);
    let on_disk = disk.clone();
    let mut member = simulation.run_until(async move {
        let node = node::start(&runtime, &on_disk, small()).await.unwrap();
        node.ready.await.unwrap();
        let mut client = SimClient::connect(&runtime).await;
        client.create("t", 2, &[]).await;
        find(&mut client).await;
        let mut member = Consumer::new("m", &["t"]);
        member.beat(&runtime, &mut client).await;
        node.client.stop();
        node.ended.await.unwrap().unwrap();
        member
    });
    simulation.kill_host("node");
    let runtime = simulation.runtime("node");
    let disk = disk.attach(runtime.clone());
    simulation.run_until(async move {
        let node = node::start(&runtime, &disk, small()).await.unwrap();
        node.ready.await.unwrap();
        let mut client = SimClient::connect(&runtime).await;
        let request = member.request();
        let answer = client.ask(1, &request).await;
        assert_eq!((answer.error_code, answer.member_id), (LOAD_IN_PROGRESS, None));
        // What is wrong whatever the group is may be said at once.
        let answer = client.ask(1, &request.with_group_id(group_id(""))).await;
        assert_eq!(answer.error_code, 42);
        let describe = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group_id(GROUP)]);
        assert_eq!(
            client.ask(1, &describe).await.groups[0].error_code,
            LOAD_IN_PROGRESS
        );
        let (epoch, owned) = (member.epoch, member.owned.clone());
        member.beat(&runtime, &mut client).await;
        assert_eq!((member.epoch, member.owned), (epoch, owned));
        node.client.stop();
        node.ended.await.unwrap().unwrap();
    });
}

/// Field report B24: a topic that a pattern matches is found within 20 s, a session ends after 45 s and not before, and a member
/// that lives is not disturbed by a restart.
#[test]
fn time_brings_topics_and_takes_members() {
    let disk = SimDiskOptions::default();
    simulated::with_node(7, disk, small(), |runtime, node| async move {
        node.ready.await.unwrap();
        let mut client = SimClient::connect(&runtime).await;
        client.create("topic-1", 1, &[]).await;
        find(&mut client).await;
        let mut member = Consumer::new("m", &[]);
        member.regex = Some("^topic.*");
        member.beat(&runtime, &mut client).await;
        assert_eq!(member.owned.len(), 1);
        for (topic, partitions) in [("topic-2", 3), ("other", 1), ("topic-3", 2)] {
            let before = member.owned.len();
            client.create(topic, partitions, &[]).await;
            let mut waited = Duration::ZERO;
            while waited < Duration::from_secs(20) && member.owned.len() == before {
                runtime.sleep(HEARTBEAT).await;
                waited += HEARTBEAT;
                member.beat(&runtime, &mut client).await;
            }
            let found = if topic == "other" { 0 } else { partitions as usize };
            assert_eq!(member.owned.len(), before + found, "{topic}");
        }

        let mut silent = Consumer::new("silent", &["topic-2"]);
        silent.beat(&runtime, &mut client).await;
        let mut members = vec![member, silent];
        settle(&runtime, &mut client, &mut members).await;
        let mut silent = members.pop().unwrap();
        assert!(!silent.owned.is_empty());
        let mut waited = Duration::ZERO;
        while waited + HEARTBEAT < SESSION {
            runtime.sleep(HEARTBEAT).await;
            waited += HEARTBEAT;
            members[0].beat(&runtime, &mut client).await;
        }
        assert_eq!(members[0].epoch, silent.epoch, "it is still a member");
        runtime.sleep(2 * HEARTBEAT).await;
        settle(&runtime, &mut client, &mut members).await;
        assert_eq!(members[0].owned.len(), 6);
        let answer = client.ask(1, &silent.request()).await;
        assert_eq!(answer.error_code, UNKNOWN_MEMBER_ID);
        // As a client does then: it joins again with nothing.
        silent = Consumer::new("silent", &["topic-2"]);
        members.push(silent);
        settle(&runtime, &mut client, &mut members).await;
        assert!(!members[1].owned.is_empty());
    });
}

/// A target is made from all members: one for each member that joins would be work by the square of their number, and the
/// last of thousands would wait for longer than a request may take.
#[test]
fn members_that_join_at_once_share_targets() {
    const MEMBERS: usize = 600;
    let one = config(&[("offsets.topic.num.partitions", "1")]);
    let targets = simulated::with_node(3, SimDiskOptions::default(), one, |runtime, node| async move {
        node.ready.await.unwrap();
        let mut client = SimClient::connect(&runtime).await;
        client.create("t", MEMBERS as i32, &[]).await;
        find(&mut client).await;
        let mut members = Vec::new();
        for number in 0..MEMBERS {
            let consumer = Consumer::new(&format!("m{number:04}"), &["t"]);
            members.push((consumer, SimClient::connect(&runtime).await));
        }
        for (consumer, client) in &mut members {
            client.send(1, &consumer.request()).await;
        }
        for (consumer, client) in &mut members {
            let answer = client.receive::<ConsumerGroupHeartbeatRequest>(1).await;
            consumer.hear(&answer);
        }
        let targets = targets_stored(&mut client).await;
        // And all of them get their part.
        let mut owned = 0;
        while owned < MEMBERS {
            owned = 0;
            for (consumer, client) in &mut members {
                consumer.beat(&runtime, client).await;
                owned += consumer.owned.len();
            }
        }
        let epochs: BTreeSet<i32> = members.iter().map(|(consumer, _)| consumer.epoch).collect();
        assert_eq!(epochs.len(), 1, "{epochs:?}");
        assert!(members.iter().all(|(consumer, _)| consumer.owned.len() == 1));
        targets
    });
    assert!((1..=MEMBERS / 10).contains(&targets), "{targets} targets");
}

/// How many target assignments the log of the groups has: records by the key of ConsumerGroupTargetAssignmentMetadata.
async fn targets_stored(client: &mut SimClient) -> usize {
    let (mut offset, mut targets) = (0, 0);
    loop {
        let mut request = simulated::fetch_request("__consumer_offsets", 1 << 20, 0);
        request.topics[0].partitions[0].fetch_offset = offset;
        let answer = client.ask(FETCH_VERSION, &request).await;
        let partition = &answer.responses[0].partitions[0];
        assert_eq!(partition.error_code, 0);
        let batches = decode_all(partition.records.as_ref().map_or(&[], |records| records));
        let Some(last) = batches.last() else {
            return targets;
        };
        offset = last.last_offset() + 1;
        let records = batches.iter().flat_map(|batch| &batch.records);
        let is_target = |record: &&Record| record.key.as_deref().is_some_and(|key| key.starts_with(&[0, 6]));
        targets += records.filter(is_target).count();
    }
}
