//! Members that leave, and members that are made to.

use strandline_wire::ErrorCode;

use super::assignment::Assignment;
use super::heartbeat::fenced_instance;
use super::record::{ConsumerRecord, CurrentAssignment, MemberId};
use super::request::{
    Effects, FenceReason, FencedMember, GroupError, HeartbeatAnswer, HeartbeatRequest, LEAVE_STATIC_EPOCH,
};
use super::state::ConsumerGroup;
use super::topics::TopicImage;

impl ConsumerGroup {
    /// A heartbeat with the epoch -1 or -2.
    pub(super) fn leave(
        &mut self,
        request: &HeartbeatRequest<'_>,
        image: &dyn TopicImage,
        records: &mut Vec<ConsumerRecord>,
    ) -> Result<HeartbeatAnswer, GroupError> {
        self.must_exist()?;
        let id = match request.instance_id {
            None => match self.members.get_key_value(request.member_id) {
                Some((id, _)) => id.clone(),
                None => return Err(self.unknown_member(request.member_id)),
            },
            Some(instance_id) => match self.static_members.get(instance_id) {
                Some(holder) if **holder == *request.member_id => holder.clone(),
                Some(holder) => return Err(fenced_instance(request.member_id, instance_id, holder)),
                None => {
                    let message = format!("Instance id {instance_id} is unknown.");
                    return Err(GroupError::new(ErrorCode::UnknownMemberId, message));
                }
            },
        };
        if request.member_epoch == LEAVE_STATIC_EPOCH {
            self.leave_for_a_while(&id, records);
        } else {
            self.fence(std::slice::from_ref(&id), image, records);
        }
        Ok(HeartbeatAnswer {
            member_id: id,
            member_epoch: request.member_epoch,
            heartbeat_interval_ms: 0,
            assignment: None,
        })
    }

    /// The member keeps its partitions until its session ends; only those that it was to give up are given up.
    fn leave_for_a_while(&mut self, id: &MemberId, records: &mut Vec<ConsumerRecord>) {
        let member = &self.members[id];
        let session_ms = member.session_deadline_ms;
        let away = CurrentAssignment {
            epoch: LEAVE_STATIC_EPOCH,
            pending_revocation: Assignment::default(),
            ..member.current.clone()
        };
        self.emit(records, ConsumerRecord::Current(id.clone(), Some(away)));
        self.set_deadlines(id, session_ms, None);
    }

    /// Removes the members whose session ended or who gave up nothing in time.
    pub fn tick(&mut self, now_ms: i64, image: &dyn TopicImage) -> Effects<Vec<FencedMember>> {
        self.begin();
        let mut records = Vec::new();
        let fenced: Vec<FencedMember> = self
            .due(now_ms)
            .into_iter()
            .map(|id| {
                let reason = if self.members[&id].session_deadline_ms <= now_ms {
                    FenceReason::SessionExpired
                } else {
                    FenceReason::RebalanceTimedOut
                };
                FencedMember { id, reason }
            })
            .collect();
        let ids: Vec<MemberId> = fenced.iter().map(|member| member.id.clone()).collect();
        self.fence(&ids, image, &mut records);
        self.effects(records, fenced)
    }

    /// Removes members; what they had goes to others at those's next heartbeats.
    pub(super) fn fence(
        &mut self,
        ids: &[MemberId],
        image: &dyn TopicImage,
        records: &mut Vec<ConsumerRecord>,
    ) {
        if ids.is_empty() {
            return;
        }
        for id in ids {
            self.remove(id, records);
        }
        self.forget_regexes(records);
        let metadata_hash = self.compute_metadata_hash(image);
        self.bump_epoch(metadata_hash, records);
    }

    /// The tombstones of a member, in the order in which any beginning of them is a sound group.
    pub(super) fn remove(&mut self, id: &MemberId, records: &mut Vec<ConsumerRecord>) {
        self.emit(records, ConsumerRecord::Current(id.clone(), None));
        self.emit(records, ConsumerRecord::Target(id.clone(), None));
        self.emit(records, ConsumerRecord::Member(id.clone(), None));
    }

    /// Deletes the group: NON_EMPTY_GROUP while it has members.
    pub fn delete(&mut self) -> Result<Vec<ConsumerRecord>, GroupError> {
        self.begin();
        self.must_exist()?;
        if !self.members.is_empty() {
            let message = "The group is not empty.";
            return Err(GroupError::new(ErrorCode::NonEmptyGroup, message));
        }
        let mut records = Vec::new();
        self.bury(&mut records);
        Ok(records)
    }

    /// The tombstones of a group without members.
    pub(super) fn bury(&mut self, records: &mut Vec<ConsumerRecord>) {
        // Left over if the broker stopped between the tombstones of a member.
        let targets: Vec<MemberId> = self.targets.keys().cloned().collect();
        for id in targets {
            self.emit(records, ConsumerRecord::Target(id, None));
        }
        self.emit(records, ConsumerRecord::TargetEpoch(None));
        self.forget_regexes(records);
        if self.has_topic_metadata {
            self.emit(records, ConsumerRecord::TopicMetadata(false));
        }
        self.emit(records, ConsumerRecord::GroupEpoch(None));
    }
}
