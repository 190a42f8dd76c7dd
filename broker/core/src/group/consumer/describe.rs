//! What others ask about a group: ConsumerGroupDescribe, and who may commit and fetch offsets.

use std::rc::Rc;

use strandline_wire::{ErrorCode, Uuid};

use super::assignment::Assignment;
use super::record::{MemberId, MemberMetadata};
use super::request::{ConsumerGroupConfig, GroupError};
use super::state::{ConsumerGroup, ConsumerGroupState};
use super::topics::TopicImage;

/// From this version of OffsetCommit on, a member epoch can be told from a generation.
const COMMIT_BY_EPOCH_VERSION: i16 = 9;

/// A group as ConsumerGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its state.
    pub state: ConsumerGroupState,
    /// The group epoch.
    pub group_epoch: i32,
    /// The epoch of the target assignment.
    pub assignment_epoch: i32,
    /// The assignor's name.
    pub assignor: &'static str,
    /// The members, by id.
    pub members: Vec<MemberDescription>,
}

/// A member as ConsumerGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// Its id.
    pub id: MemberId,
    /// Its epoch.
    pub epoch: i32,
    /// What it says of itself.
    pub metadata: Rc<MemberMetadata>,
    /// What it owns.
    pub assignment: Vec<DescribedTopic>,
    /// What it is meant to own.
    pub target: Vec<DescribedTopic>,
}

impl MemberDescription {
    /// The member type of ConsumerGroupDescribe 1: 0 for the classic protocol, 1 for the consumer protocol.
    pub fn member_type(&self) -> i8 {
        i8::from(self.metadata.classic.is_none())
    }
}

/// The partitions of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedTopic {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// The partitions' numbers.
    pub partitions: Vec<i32>,
}

impl ConsumerGroup {
    /// What ConsumerGroupDescribe answers; topics that are gone are left out.
    pub fn describe(&self, config: &ConsumerGroupConfig, image: &dyn TopicImage) -> GroupDescription {
        let members = self.members.iter().map(|(id, member)| MemberDescription {
            id: id.clone(),
            epoch: member.current.epoch,
            metadata: member.metadata.clone(),
            assignment: described(&member.current.assigned, image),
            target: self
                .targets
                .get(id)
                .map(|target| described(target, image))
                .unwrap_or_default(),
        });
        GroupDescription {
            state: self.state(),
            group_epoch: self.epoch.epoch,
            assignment_epoch: self.target_epoch,
            assignor: self.assignor(config).name(),
            members: members.collect(),
        }
    }

    /// Whether offsets may be committed: by a member at its epoch; by others while there are no members.
    ///
    /// `version` is OffsetCommit's; a transactional commit (TxnOffsetCommit) has none, and need not name a member.
    pub fn commit_allowed(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
        epoch: i32,
        version: Option<i16>,
    ) -> Result<(), GroupError> {
        if epoch < 0 && self.members.is_empty() {
            return Ok(());
        }
        if version.is_none() && epoch == -1 && member_id.is_empty() && instance_id.is_none() {
            return Ok(());
        }
        let Some(member) = self.members.get(member_id) else {
            return Err(self.unknown_member(member_id));
        };
        let is_classic = member.metadata.classic.is_some();
        if !is_classic && version.is_some_and(|version| version < COMMIT_BY_EPOCH_VERSION) {
            let message =
                "OffsetCommit version 9 or above must be used by members using the modern group protocol";
            return Err(GroupError::new(ErrorCode::UnsupportedVersion, message));
        }
        check_member_epoch(epoch, member.current.epoch, is_classic)
    }

    /// Whether offsets may be fetched: by a member at its epoch, and by anyone who does not claim to be one.
    pub fn fetch_allowed(&self, member_id: Option<&str>, epoch: i32) -> Result<(), GroupError> {
        let member_id = match member_id {
            None if epoch < 0 => return Ok(()),
            member_id => member_id.unwrap_or_default(),
        };
        match self.members.get(member_id) {
            None => Err(self.unknown_member(member_id)),
            Some(member) => {
                check_member_epoch(epoch, member.current.epoch, member.metadata.classic.is_some())
            }
        }
    }
}

fn check_member_epoch(received: i32, known: i32, is_classic: bool) -> Result<(), GroupError> {
    if received == known {
        return Ok(());
    }
    let (code, what) = if is_classic {
        (ErrorCode::IllegalGeneration, "generation id")
    } else {
        (ErrorCode::StaleMemberEpoch, "member epoch")
    };
    let message = format!("The received {what} {received} does not match the expected member epoch {known}.");
    Err(GroupError::new(code, message))
}

fn described(assignment: &Assignment, image: &dyn TopicImage) -> Vec<DescribedTopic> {
    let topics = assignment.topics().filter_map(|(id, partitions)| {
        Some(DescribedTopic {
            id,
            name: image.topic_name(id)?.to_owned(),
            partitions: partitions.iter().copied().collect(),
        })
    });
    topics.collect()
}
