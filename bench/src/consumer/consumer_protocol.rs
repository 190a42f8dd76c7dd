//! The group protocol of KIP-848: one heartbeat for joining, living, giving back and leaving; the broker assigns.

use super::membership::{Membership, Pulse, REBALANCE_TIMEOUT_MS};
use crate::client::blocking::refuse;
use crate::client::{ClientError, TopicLayout};
use std::collections::BTreeMap;
use strandline_wire::messages::consumer_group_heartbeat_request::TopicPartitions;
use strandline_wire::messages::consumer_group_heartbeat_response::Assignment;
use strandline_wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicName};
use strandline_wire::protocol::StrBytes;
use strandline_wire::{ApiKey, Uuid};

/// The epochs of a member that joins and of one that leaves.
const JOINING: i32 = 0;
const LEAVING: i32 = -1;

impl Membership {
    /// Joins with nothing; what it is given may come with a later heartbeat only, when others have given it back.
    pub(super) fn join_by_heartbeat(&mut self, layout: &TopicLayout) -> Result<Vec<i32>, ClientError> {
        if self.member_id.is_empty() {
            // The member names itself (version 1).
            let id = Uuid::from_u128(fastrand::u128(..));
            self.member_id = StrBytes::from_string(id.to_string());
        }
        let topics = layout
            .topics
            .iter()
            .map(|topic| TopicName(StrBytes::from_string(topic.clone())))
            .collect();
        let request = self
            .pulse_request(JOINING)
            .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
            .with_subscribed_topic_names(Some(topics))
            .with_topic_partitions(Some(Vec::new()));
        let assignment = self.exchange(&request)?;
        match assignment {
            Some(assignment) => self.take(&assignment, layout),
            None => Ok(Vec::new()),
        }
    }

    /// Tells that it lives.
    pub(super) fn pulse(&mut self, layout: &TopicLayout) -> Result<Pulse, ClientError> {
        let request = self.pulse_request(self.generation);
        match self.exchange(&request)? {
            None => Ok(Pulse::Same),
            Some(assignment) => Ok(Pulse::Assigned(partitions_of(&assignment, layout)?)),
        }
    }

    /// Tells which partitions it reads now; another assignment may be the answer.
    pub(super) fn acknowledge(&mut self, held: &[i32], layout: &TopicLayout) -> Result<Pulse, ClientError> {
        let mut by_topic: BTreeMap<usize, Vec<i32>> = BTreeMap::new();
        for &partition in held {
            let (topic, index) = layout.place(partition);
            by_topic.entry(topic).or_default().push(index);
        }
        let owned = by_topic
            .into_iter()
            .map(|(topic, partitions)| {
                TopicPartitions::default()
                    .with_topic_id(layout.topic_ids[topic])
                    .with_partitions(partitions)
            })
            .collect();
        let request = self
            .pulse_request(self.generation)
            .with_topic_partitions(Some(owned));
        match self.exchange(&request)? {
            None => Ok(Pulse::Same),
            Some(assignment) => {
                let partitions = partitions_of(&assignment, layout)?;
                Ok(if partitions == held {
                    Pulse::Same
                } else {
                    Pulse::Assigned(partitions)
                })
            }
        }
    }

    /// Leaves, so that the others need not wait for the session to end.
    pub(super) fn leave_by_heartbeat(&mut self) -> Result<(), ClientError> {
        let request = self.pulse_request(LEAVING);
        self.exchange(&request).map(drop)
    }

    fn take(&mut self, assignment: &Assignment, layout: &TopicLayout) -> Result<Vec<i32>, ClientError> {
        let partitions = partitions_of(assignment, layout)?;
        // What it reads is what it was given: the coordinator waits for this before it moves anything else.
        match self.acknowledge(&partitions, layout)? {
            Pulse::Assigned(other) => Ok(other),
            _ => Ok(partitions),
        }
    }

    /// What every heartbeat has; what is left out has not changed.
    fn pulse_request(&self, epoch: i32) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(self.group.clone())
            .with_member_id(self.member_id.clone())
            .with_member_epoch(epoch)
            .with_rebalance_timeout_ms(-1)
            .with_subscribed_topic_names(None)
            .with_topic_partitions(None)
    }

    fn exchange(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> Result<Option<Assignment>, ClientError> {
        let answer: ConsumerGroupHeartbeatResponse = self
            .coordinator()?
            .call(ApiKey::ConsumerGroupHeartbeat, request)?;
        refuse(
            "the group's heartbeat",
            answer.error_code,
            answer.error_message.map(|text| text.to_string()),
        )?;
        if let Some(id) = answer.member_id {
            self.member_id = id;
        }
        self.generation = answer.member_epoch;
        Ok(answer.assignment)
    }
}

/// The partitions of an assignment, counted through all topics.
fn partitions_of(assignment: &Assignment, layout: &TopicLayout) -> Result<Vec<i32>, ClientError> {
    let mut partitions = Vec::new();
    for topic in &assignment.topic_partitions {
        let place = layout.topic_ids.iter().position(|id| *id == topic.topic_id);
        let place = place.ok_or_else(|| {
            ClientError::NotReady("the group was assigned a topic that it did not ask for".to_owned())
        })?;
        partitions.extend(
            topic
                .partitions
                .iter()
                .map(|index| place as i32 * layout.each + index),
        );
    }
    partitions.sort_unstable();
    Ok(partitions)
}
