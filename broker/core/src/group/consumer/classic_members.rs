//! Members of the classic protocol in a group of the consumer protocol (KIP-848, "Online migration"): JoinGroup, SyncGroup,
//! Heartbeat and LeaveGroup.
//!
//! The broker does what the leader did: a join is a heartbeat with a subscription, and is answered at once with the member's
//! epoch as the generation; nobody is the leader. A member learns of a new target by REBALANCE_IN_PROGRESS to its
//! heartbeat, and joins again, with the partitions that it still owns.

use std::rc::Rc;

use bytes::Bytes;
use strandline_wire::ErrorCode;

use super::embedded::{Subscription, by_id, write_assignment};
use super::heartbeat::Subject;
use super::migrate::classic_metadata;
use super::record::{ClassicMemberMetadata, ConsumerRecord, MemberId, MemberMetadata, MemberState};
use super::request::{ConsumerGroupConfig, Effects};
use super::state::{ConsumerGroup, Member};
use super::topics::TopicImage;
use crate::group::classic::{
    Identity, JoinAnswer, JoinRequest, LeaveAnswer, LeavingMember, LeftMember, SyncAnswer, SyncRequest,
};

/// The protocol type of consumers.
const CONSUMER: &str = "consumer";

impl ConsumerGroup {
    /// A JoinGroup, validated. The answer waits for the records.
    pub fn classic_join(
        &mut self,
        now_ms: i64,
        config: &ConsumerGroupConfig,
        request: &JoinRequest,
        image: &dyn TopicImage,
    ) -> Effects<JoinAnswer> {
        self.begin();
        let mut records = Vec::new();
        let id = if request.member_id.is_empty() {
            request.new_member_id()
        } else {
            request.member_id.clone()
        };
        let answer = match self.join_as(now_ms, config, request, &id, image, &mut records) {
            Ok(answer) => answer,
            Err(error) => JoinAnswer::error(id, error),
        };
        self.effects(records, answer)
    }

    fn join_as(
        &mut self,
        now_ms: i64,
        config: &ConsumerGroupConfig,
        request: &JoinRequest,
        id: &MemberId,
        image: &dyn TopicImage,
        records: &mut Vec<ConsumerRecord>,
    ) -> Result<JoinAnswer, ErrorCode> {
        let subject = self.classic_subject(config, request, id)?;
        let malformed = ErrorCode::InconsistentGroupProtocol;
        let first = request.protocols.first().ok_or(malformed)?;
        let subscription = Subscription::read(&first.metadata).map_err(|_| malformed)?;
        // Whoever owns something was a member, and was removed since: others may own it by now. It must lose it all first;
        // joining as if new would make its commits for those partitions good.
        if matches!(subject, Subject::New) && subscription.owned.iter().any(|(_, owned)| !owned.is_empty()) {
            return Err(ErrorCode::UnknownMemberId);
        }
        let old = self.member_of(&subject, id);
        let rebalance_timeout_ms = request.effective_rebalance_timeout_ms();
        let metadata = Rc::new(MemberMetadata {
            instance_id: request
                .instance_id
                .clone()
                .or_else(|| old.metadata.instance_id.clone()),
            rack_id: subscription.rack_id.or_else(|| old.metadata.rack_id.clone()),
            client_id: request.client_id.clone(),
            client_host: request.client_host.clone(),
            topic_names: Rc::new(subscription.topics),
            topic_regex: "".into(),
            rebalance_timeout_ms,
            server_assignor: old.metadata.server_assignor.clone(),
            classic: Some(classic_metadata(request.session_timeout_ms, &request.protocols)),
        });
        let owned = by_id(&subscription.owned, image);
        let subscription_changed =
            self.bring_in(now_ms, config, id, &subject, &old, &metadata, image, records);
        self.follow(config, id, Some(&owned), subscription_changed, image, records);
        // The member must ask for its assignment in time.
        let session_ms = now_ms + i64::from(request.session_timeout_ms);
        self.set_deadlines(id, session_ms, Some(now_ms + i64::from(rebalance_timeout_ms)));
        Ok(JoinAnswer {
            generation: self.members[id].current.epoch,
            protocol_type: Some(CONSUMER.into()),
            protocol_name: Some(first.name.clone()),
            ..JoinAnswer::error(id.clone(), ErrorCode::None)
        })
    }

    /// Whom a JoinGroup is about, if it may join.
    fn classic_subject(
        &self,
        config: &ConsumerGroupConfig,
        request: &JoinRequest,
        id: &MemberId,
    ) -> Result<Subject, ErrorCode> {
        let is_unknown = request.member_id.is_empty();
        let instance_id = request.instance_id.as_ref();
        let holder = instance_id.and_then(|instance_id| self.static_members.get(instance_id));
        let known = self.members.contains_key(id);
        if self.members.len() >= config.size_max && !known && holder.is_none() {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        if !self.supports(request) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if is_unknown && instance_id.is_none() && request.needs_member_id() {
            return Err(ErrorCode::MemberIdRequired);
        }
        match (instance_id, holder) {
            (Some(_), Some(holder)) if is_unknown => Ok(Subject::Replaces(holder.clone())),
            (Some(_), Some(holder)) if holder != id => Err(ErrorCode::FencedInstanceId),
            (Some(_), None) if !is_unknown => Err(ErrorCode::UnknownMemberId),
            _ if known => Ok(Subject::Known),
            _ => Ok(Subject::New),
        }
    }

    /// Whether the member is a consumer with a protocol that all members of the classic protocol support.
    fn supports(&self, request: &JoinRequest) -> bool {
        let supported = |name: &Rc<str>| {
            let mut classic = self
                .members
                .values()
                .filter_map(|member| member.metadata.classic.as_ref());
            classic.all(|other| other.supported_protocols.iter().any(|(theirs, _)| theirs == name))
        };
        *request.protocol_type == *CONSUMER
            && request.protocols.iter().any(|protocol| supported(&protocol.name))
    }

    /// A SyncGroup: the member's assignment, of which it has known since its join.
    pub fn classic_sync(
        &mut self,
        now_ms: i64,
        request: &SyncRequest,
        image: &dyn TopicImage,
    ) -> Effects<SyncAnswer> {
        self.begin();
        let answer = match self.sync(now_ms, request, image) {
            Ok(assignment) => SyncAnswer {
                protocol_type: request.protocol_type.clone(),
                protocol_name: request.protocol_name.clone(),
                assignment,
                ..SyncAnswer::error(ErrorCode::None)
            },
            Err(error) => SyncAnswer::error(error),
        };
        self.effects(Vec::new(), answer)
    }

    fn sync(
        &mut self,
        now_ms: i64,
        request: &SyncRequest,
        image: &dyn TopicImage,
    ) -> Result<Bytes, ErrorCode> {
        let (id, classic) = self.classic_member(&request.identity)?;
        let protocol = classic.supported_protocols.first().map(|(name, _)| name);
        if request
            .protocol_type
            .as_deref()
            .is_some_and(|kind| kind != CONSUMER)
            || (request.protocol_name.is_some() && request.protocol_name.as_ref() != protocol)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let member = &self.members[&id];
        // A member that is to give up partitions finishes that first, and joins again then.
        if self.epoch.epoch > member.current.epoch && member.current.state != MemberState::UnrevokedPartitions
        {
            self.must_join_in_time(&id, now_ms);
            return Err(ErrorCode::RebalanceInProgress);
        }
        let assignment = write_assignment(classic.embedded_version(), &member.current.assigned, image);
        self.set_deadlines(&id, now_ms + i64::from(classic.session_timeout_ms), None);
        Ok(assignment)
    }

    /// A Heartbeat: REBALANCE_IN_PROGRESS if the member should join again.
    pub fn classic_heartbeat(&mut self, now_ms: i64, identity: &Identity) -> Effects<ErrorCode> {
        self.begin();
        let answer = match self.classic_member(identity) {
            Err(error) => error,
            Ok((id, classic)) => {
                let member = &self.members[&id];
                let rebalance_ms = member.rebalance_deadline_ms;
                let should_join = self.should_join(&id, member);
                self.set_deadlines(&id, now_ms + i64::from(classic.session_timeout_ms), rebalance_ms);
                if should_join {
                    self.must_join_in_time(&id, now_ms);
                    ErrorCode::RebalanceInProgress
                } else {
                    ErrorCode::None
                }
            }
        };
        self.effects(Vec::new(), answer)
    }

    /// Whether there is a new target, partitions are to be given up, or all that the member waits for is free.
    fn should_join(&self, id: &MemberId, member: &Member) -> bool {
        let current = &member.current;
        current.epoch < self.epoch.epoch
            || match current.state {
                MemberState::UnrevokedPartitions => true,
                MemberState::UnreleasedPartitions => !self.targets.get(id).is_some_and(|target| {
                    let mut missing = target.iter().filter(|(t, p)| !current.assigned.contains(*t, *p));
                    missing.any(|(topic, partition)| self.is_taken(id, topic, partition))
                }),
                _ => false,
            }
    }

    /// A LeaveGroup.
    pub fn classic_leave(
        &mut self,
        members: &[LeavingMember],
        image: &dyn TopicImage,
    ) -> Effects<LeaveAnswer> {
        self.begin();
        let mut gone: Vec<MemberId> = Vec::new();
        let mut left = Vec::with_capacity(members.len());
        for leaving in members {
            let error = match self.leaving(leaving) {
                Ok(id) if gone.contains(&id) => ErrorCode::UnknownMemberId,
                Ok(id) => {
                    gone.push(id);
                    ErrorCode::None
                }
                Err(error) => error,
            };
            left.push(LeftMember {
                member_id: leaving.member_id.clone(),
                instance_id: leaving.instance_id.clone(),
                error,
            });
        }
        let mut records = Vec::new();
        self.fence(&gone, image, &mut records);
        let answer = LeaveAnswer {
            error: ErrorCode::None,
            members: left,
        };
        self.effects(records, answer)
    }

    fn leaving(&self, leaving: &LeavingMember) -> Result<MemberId, ErrorCode> {
        let id = match &leaving.instance_id {
            None => &leaving.member_id,
            Some(instance_id) => {
                let holder = self
                    .static_members
                    .get(instance_id)
                    .ok_or(ErrorCode::UnknownMemberId)?;
                // An operator names the instance alone.
                if !leaving.member_id.is_empty() && leaving.member_id != *holder {
                    return Err(ErrorCode::FencedInstanceId);
                }
                holder
            }
        };
        match self.members.get(id) {
            Some(member) if member.metadata.classic.is_some() => Ok(id.clone()),
            _ => Err(ErrorCode::UnknownMemberId),
        }
    }

    /// The member of the classic protocol that sends this, at its generation.
    fn classic_member(&self, identity: &Identity) -> Result<(MemberId, ClassicMemberMetadata), ErrorCode> {
        if let Some(instance_id) = &identity.instance_id {
            let holder = self
                .static_members
                .get(instance_id)
                .ok_or(ErrorCode::UnknownMemberId)?;
            if *holder != identity.member_id {
                return Err(ErrorCode::FencedInstanceId);
            }
        }
        let member = self
            .members
            .get(&identity.member_id)
            .ok_or(ErrorCode::UnknownMemberId)?;
        let classic = member
            .metadata
            .classic
            .clone()
            .ok_or(ErrorCode::UnknownMemberId)?;
        if identity.generation != member.current.epoch {
            return Err(ErrorCode::IllegalGeneration);
        }
        Ok((identity.member_id.clone(), classic))
    }

    /// The member was told to join again, and has its rebalance timeout to do so.
    fn must_join_in_time(&mut self, id: &MemberId, now_ms: i64) {
        let member = &self.members[id];
        let timeout_ms = i64::from(member.metadata.rebalance_timeout_ms);
        let deadline_ms = member.rebalance_deadline_ms.unwrap_or(now_ms + timeout_ms);
        self.set_deadlines(id, member.session_deadline_ms, Some(deadline_ms));
    }
}
