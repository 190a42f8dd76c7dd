//! Online upgrade and downgrade (KIP-848): a group changes its protocol while its members do, one by one.
//!
//! When the first member of the consumer protocol joins a classic group of consumers, the group becomes a consumer group
//! with the members and assignments it has; the members that speak the classic protocol are served by `classic_members`.
//! When the last member of the consumer protocol has left, the group becomes a classic one again.

use std::rc::Rc;

use bytes::Bytes;
use strandline_wire::ErrorCode;

use super::assignment::Assignment;
use super::embedded::{Assigned, Subscription, by_id, write_assignment};
use super::record::{
    ClassicMemberMetadata, ConsumerRecord, CurrentAssignment, GroupEpoch, MemberId, MemberMetadata,
    MemberState,
};
use super::request::{ConsumerGroupConfig, Effects, GroupError};
use super::state::ConsumerGroup;
use super::topics::TopicImage;
use crate::group::classic::{MigratingMember, Protocol};

/// `group.consumer.migration.policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigrationPolicy {
    /// Neither way.
    Disabled,
    /// Back to the classic protocol only.
    Downgrade,
    /// To the consumer protocol only.
    Upgrade,
    /// Both ways.
    #[default]
    Bidirectional,
}

impl MigrationPolicy {
    /// The policy of a name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        let names = [
            ("disabled", Self::Disabled),
            ("downgrade", Self::Downgrade),
            ("upgrade", Self::Upgrade),
            ("bidirectional", Self::Bidirectional),
        ];
        let found = names
            .into_iter()
            .find(|(known, _)| name.eq_ignore_ascii_case(known));
        found.map(|(_, policy)| policy)
    }

    /// Whether classic groups may become consumer groups.
    pub const fn allows_upgrade(self) -> bool {
        matches!(self, Self::Upgrade | Self::Bidirectional)
    }

    /// Whether consumer groups may become classic groups.
    pub const fn allows_downgrade(self) -> bool {
        matches!(self, Self::Downgrade | Self::Bidirectional)
    }
}

impl ConsumerGroup {
    /// The consumer group that takes the place of a classic group, with its records. They belong in one batch with the
    /// tombstone of the classic group before them, and with what the heartbeat that asked for it changes after them.
    ///
    /// # Errors
    /// GROUP_ID_NOT_FOUND, as in Kafka, if the members are too many or not consumers, or their assignor keeps data of its
    /// own in the assignments, which would be lost.
    pub fn upgraded(
        id: &str,
        generation: i32,
        members: &[MigratingMember],
        now_ms: i64,
        config: &ConsumerGroupConfig,
        image: &dyn TopicImage,
    ) -> Result<(Self, Effects<()>), GroupError> {
        let refused = |reason: &str| {
            let message = format!("Cannot upgrade classic group {id} to consumer group because {reason}.");
            GroupError::new(ErrorCode::GroupIdNotFound, message)
        };
        if members.len() > config.size_max {
            return Err(refused("the group size exceeds the consumer group maximum size"));
        }
        let mut read = Vec::with_capacity(members.len());
        for member in members {
            let parts = metadata_of(member).zip(Assigned::read(&member.assignment).ok());
            let Some((metadata, assigned)) = parts else {
                return Err(refused("the embedded consumer protocol is malformed"));
            };
            if assigned.has_user_data {
                return Err(refused(
                    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default \
                     assignor before re-attempting the upgrade",
                ));
            }
            read.push((
                member.member_id.clone(),
                Rc::new(metadata),
                by_id(&assigned.partitions, image),
            ));
        }
        let mut group = Self::new(id);
        let records = group.take_over(generation, read, image);
        group.loaded(now_ms, config);
        let effects = group.effects(records, ());
        Ok((group, effects))
    }

    fn take_over(
        &mut self,
        generation: i32,
        members: Vec<(MemberId, Rc<MemberMetadata>, Assignment)>,
        image: &dyn TopicImage,
    ) -> Vec<ConsumerRecord> {
        let mut records = Vec::new();
        for (id, metadata, _) in &members {
            self.emit(
                &mut records,
                ConsumerRecord::Member(id.clone(), Some(metadata.clone())),
            );
        }
        let epoch = GroupEpoch {
            epoch: generation,
            metadata_hash: self.compute_metadata_hash(image),
        };
        self.emit(&mut records, ConsumerRecord::GroupEpoch(Some(epoch)));
        let mut assigned = Vec::with_capacity(members.len());
        for (id, _, assignment) in members {
            // A leader may have given a partition to two members; here it has one owner.
            let assignment = assignment.filtered(|topic, partition| {
                assigned
                    .iter()
                    .all(|(_, other): &(MemberId, Assignment)| !other.contains(topic, partition))
            });
            let target = ConsumerRecord::Target(id.clone(), Some(assignment.clone()));
            self.emit(&mut records, target);
            assigned.push((id, assignment));
        }
        self.emit(&mut records, ConsumerRecord::TargetEpoch(Some(generation)));
        for (id, assigned) in assigned {
            let current = CurrentAssignment {
                epoch: generation,
                previous_epoch: generation,
                state: MemberState::Stable,
                assigned,
                pending_revocation: Assignment::default(),
            };
            self.emit(&mut records, ConsumerRecord::Current(id, Some(current)));
        }
        records
    }

    /// Whether only members of the classic protocol are left, so that the group should become a classic one.
    pub fn may_downgrade(&self) -> bool {
        !self.members.is_empty()
            && self
                .members
                .values()
                .all(|member| member.metadata.classic.is_some())
    }

    /// The members with their targets, for the classic group that takes this one's place at the generation
    /// [`Self::epoch`]. If it can, [`Self::dissolve`] this one, and have the members rejoin.
    pub fn migrating_members(&self, image: &dyn TopicImage) -> Vec<MigratingMember> {
        let members = self.members.iter().filter_map(|(id, member)| {
            let metadata = &member.metadata;
            let classic = metadata.classic.as_ref()?;
            let target = self.targets.get(id).cloned().unwrap_or_default();
            Some(MigratingMember {
                member_id: id.clone(),
                instance_id: metadata.instance_id.clone(),
                client_id: metadata.client_id.clone(),
                client_host: metadata.client_host.clone(),
                session_timeout_ms: classic.session_timeout_ms,
                rebalance_timeout_ms: metadata.rebalance_timeout_ms,
                protocols: classic
                    .supported_protocols
                    .iter()
                    .map(|(name, metadata)| Protocol {
                        name: name.clone(),
                        metadata: Bytes::copy_from_slice(metadata),
                    })
                    .collect(),
                assignment: write_assignment(classic.embedded_version(), &target, image),
            })
        });
        members.collect()
    }

    /// The tombstones of everything, members included. The classic group's record follows them in the same batch. They belong
    /// to the step before, in [`Self::take_back`] too.
    pub fn dissolve(&mut self) -> Vec<ConsumerRecord> {
        let mut records = Vec::new();
        let ids: Vec<MemberId> = self.members.keys().cloned().collect();
        for id in &ids {
            self.remove(id, &mut records);
        }
        self.bury(&mut records);
        records
    }
}

impl ClassicMemberMetadata {
    /// The version of the consumers' own protocol that the member speaks.
    pub(super) fn embedded_version(&self) -> i16 {
        let first = self.supported_protocols.first();
        first
            .and_then(|(_, metadata)| Subscription::read(metadata).ok())
            .map_or(0, |subscription| subscription.version)
    }
}

/// What the member says of itself; the same in all its protocols.
fn metadata_of(member: &MigratingMember) -> Option<MemberMetadata> {
    let subscription = Subscription::read(&member.protocols.first()?.metadata).ok()?;
    Some(MemberMetadata {
        instance_id: member.instance_id.clone(),
        rack_id: subscription.rack_id,
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        topic_names: Rc::new(subscription.topics),
        topic_regex: "".into(),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        server_assignor: None,
        classic: Some(classic_metadata(member.session_timeout_ms, &member.protocols)),
    })
}

pub(super) fn classic_metadata(session_timeout_ms: i32, protocols: &[Protocol]) -> ClassicMemberMetadata {
    let protocols = protocols.iter();
    ClassicMemberMetadata {
        session_timeout_ms,
        supported_protocols: protocols
            .map(|protocol| (protocol.name.clone(), Rc::from(&protocol.metadata[..])))
            .collect(),
    }
}
