//! Members of groups of the consumer protocol (KIP-848), as a test drives them: one heartbeat at a time.

use std::collections::BTreeSet;

use kafka_protocol::messages::consumer_group_describe_response::{DescribedGroup, Member};
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};
use uuid::Uuid;

use super::broker::Broker;
use super::client::Client;
use super::group::{LOAD_IN_PROGRESS, commit_request, coordinator, group_id, text};
use super::topic::name;

pub const INVALID_REQUEST: i16 = 42;
pub const UNSUPPORTED_VERSION: i16 = 35;
pub const FENCED_MEMBER_EPOCH: i16 = 110;
pub const UNRELEASED_INSTANCE_ID: i16 = 111;
pub const UNSUPPORTED_ASSIGNOR: i16 = 112;
pub const STALE_MEMBER_EPOCH: i16 = 113;
pub const INVALID_REGULAR_EXPRESSION: i16 = 128;

/// Partitions by the id of their topic.
pub type Owned = BTreeSet<(Uuid, i32)>;

/// A consumer, on a connection of its own.
pub struct Consumer {
    pub client: Client,
    pub group: String,
    pub id: String,
    pub instance: Option<String>,
    pub epoch: i32,
    pub topics: Vec<String>,
    pub regex: Option<String>,
    /// What it was told last: it gives up the rest at once.
    pub owned: Owned,
}

impl Consumer {
    pub fn new(broker: &Broker, group: &str, id: &str, topics: &[&str]) -> Self {
        Self {
            client: coordinator(broker, group),
            group: group.to_owned(),
            id: id.to_owned(),
            instance: None,
            epoch: 0,
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            regex: None,
            owned: Owned::new(),
        }
    }

    pub fn named(broker: &Broker, group: &str, id: &str, instance: &str, topics: &[&str]) -> Self {
        Self {
            instance: Some(instance.to_owned()),
            ..Self::new(broker, group, id, topics)
        }
    }

    /// A heartbeat that says nothing but who sends it.
    pub fn bare(&self, epoch: i32) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group_id(&self.group))
            .with_member_id(text(&self.id))
            .with_member_epoch(epoch)
            .with_instance_id(self.instance.as_deref().map(text))
            .with_rebalance_timeout_ms(-1)
            .with_subscribed_topic_names(None)
            .with_topic_partitions(None)
    }

    /// A heartbeat that says everything.
    pub fn full(&self) -> ConsumerGroupHeartbeatRequest {
        let topics: BTreeSet<Uuid> = self.owned.iter().map(|(topic, _)| *topic).collect();
        let owned = topics.into_iter().map(|topic| {
            let partitions = self.owned.iter().filter(|(id, _)| *id == topic);
            TopicPartitions::default()
                .with_topic_id(topic)
                .with_partitions(partitions.map(|(_, partition)| *partition).collect())
        });
        self.bare(self.epoch)
            .with_rebalance_timeout_ms(30_000)
            .with_subscribed_topic_names(Some(self.topics.iter().map(|topic| name(topic)).collect()))
            .with_subscribed_topic_regex(self.regex.as_deref().map(text))
            .with_topic_partitions(Some(owned.collect()))
    }

    pub fn send(&mut self, request: &ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse {
        loop {
            let answer = self.client.call(1, request);
            // As its client asks again.
            if answer.error_code != LOAD_IN_PROGRESS {
                return answer;
            }
        }
    }

    /// A full heartbeat, and what it is told becomes what it owns; panics on an error.
    pub fn beat(&mut self) -> ConsumerGroupHeartbeatResponse {
        let answer = self.send(&self.full());
        assert_eq!(answer.error_code, 0, "{}: {:?}", self.id, answer.error_message);
        self.hear(&answer);
        answer
    }

    pub fn hear(&mut self, answer: &ConsumerGroupHeartbeatResponse) {
        self.epoch = answer.member_epoch;
        if let Some(assignment) = &answer.assignment {
            let topics = assignment.topic_partitions.iter();
            self.owned = topics
                .flat_map(|topic| topic.partitions.iter().map(|number| (topic.topic_id, *number)))
                .collect();
        }
    }

    /// The code that a full heartbeat gets.
    pub fn refused(&mut self) -> i16 {
        let answer = self.send(&self.full());
        assert!(answer.error_message.is_some_and(|message| !message.is_empty()));
        assert!(answer.assignment.is_none());
        answer.error_code
    }

    /// Leaves, with -1 for good or with -2 for a while; the code.
    pub fn leave(&mut self, epoch: i32) -> i16 {
        let answer = self.send(&self.bare(epoch));
        if answer.error_code == 0 {
            assert_eq!(answer.member_epoch, epoch);
            self.epoch = 0;
            self.owned.clear();
        }
        answer.error_code
    }

    /// Commits one offset at an epoch; the partition's code.
    pub fn commit(&mut self, version: i16, epoch: i32, topic: &str, partition: i32, offset: i64) -> i16 {
        let request = commit_request(&self.group, topic, partition, offset)
            .with_member_id(text(&self.id))
            .with_generation_id_or_member_epoch(epoch)
            .with_group_instance_id(self.instance.as_deref().map(text));
        self.client.call(version, &request).topics[0].partitions[0].error_code
    }
}

/// Has everyone send heartbeats until nothing changes any more; at no time does a partition have two owners.
pub fn settle(members: &mut [&mut Consumer]) {
    loop {
        let mut moved = false;
        for number in 0..members.len() {
            let before = (members[number].epoch, members[number].owned.clone());
            members[number].beat();
            moved |= before != (members[number].epoch, members[number].owned.clone());
            let all: usize = members.iter().map(|member| member.owned.len()).sum();
            let distinct: BTreeSet<_> = members.iter().flat_map(|member| &member.owned).collect();
            assert_eq!(all, distinct.len(), "a partition has two owners");
        }
        let epochs: BTreeSet<i32> = members.iter().map(|member| member.epoch).collect();
        if !moved && epochs.len() == 1 {
            return;
        }
    }
}

/// The group as ConsumerGroupDescribe shows it; asks again while the coordinator loads.
pub fn describe(client: &mut Client, group: &str) -> DescribedGroup {
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group_id(group)]);
    loop {
        let described = client.call(1, &request).groups.remove(0);
        if described.error_code != LOAD_IN_PROGRESS {
            return described;
        }
    }
}

/// What a described member owns.
pub fn owned(member: &Member) -> Owned {
    let topics = member.assignment.topic_partitions.iter();
    topics
        .flat_map(|topic| topic.partitions.iter().map(|number| (topic.topic_id, *number)))
        .collect()
}
