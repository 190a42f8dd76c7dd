//! Between the protocols (KIP-848): a group of consumers may go over to the consumer protocol and back with its members.

use std::rc::Rc;

use bytes::Bytes;

use super::ClassicGroup;
use super::config::ClassicConfig;
use super::effects::Effects;
use super::members::{Member, Profile};
use super::rebalance::Cause;
use super::record::GroupRecord;
use super::request::Protocol;
use super::state::GroupState;
use super::subscription::CONSUMER;

/// A member with all that goes over with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigratingMember {
    /// The member's id.
    pub member_id: Rc<str>,
    /// Its instance id, if it is a static member.
    pub instance_id: Option<Rc<str>>,
    /// Its client id.
    pub client_id: Rc<str>,
    /// Where its client is.
    pub client_host: Rc<str>,
    /// How long it may be silent, in milliseconds.
    pub session_timeout_ms: i32,
    /// How long it needs to rejoin, in milliseconds.
    pub rebalance_timeout_ms: i32,
    /// What it can follow, the preferred one first.
    pub protocols: Vec<Protocol>,
    /// Its assignment.
    pub assignment: Bytes,
}

impl ClassicGroup {
    /// Whether it is a group of consumers, which alone can go over.
    pub fn is_of_consumers(&self) -> bool {
        self.uses_consumer_protocol()
    }

    /// Its members, for the group that takes its place. [`Self::die`] with REBALANCE_IN_PROGRESS then has those that wait
    /// rejoin there.
    pub fn migrating_members(&self) -> Vec<MigratingMember> {
        let members = self.members.iter().map(|(_, member)| MigratingMember {
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.profile.client_id.clone(),
            client_host: member.profile.client_host.clone(),
            session_timeout_ms: member.profile.session_timeout_ms,
            rebalance_timeout_ms: member.profile.rebalance_timeout_ms,
            protocols: member.profile.protocols.clone(),
            assignment: member.assignment().clone(),
        });
        members.collect()
    }

    /// The stable classic group that takes the place of a consumer group whose members all speak the classic protocol, and
    /// its record. `None` if these members cannot be one group: there are none, two have one id, or they share no protocol.
    pub fn downgraded(
        config: Rc<ClassicConfig>,
        generation: i32,
        members: Vec<MigratingMember>,
        now_ms: i64,
    ) -> Option<(Self, GroupRecord)> {
        let mut group = Self::new(config, now_ms);
        group.generation = generation;
        group.protocol_type = Some(CONSUMER.into());
        for member in members {
            let instance = member.instance_id.as_deref();
            let instance = instance.and_then(|instance| group.members.seat_of_instance(instance));
            if instance.is_some() || group.members.seat_of(&member.member_id).is_some() {
                return None;
            }
            let profile = Profile {
                client_id: member.client_id,
                client_host: member.client_host,
                session_timeout_ms: member.session_timeout_ms,
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                protocols: member.protocols,
            };
            let member = Member::new(member.member_id, member.instance_id, profile, member.assignment);
            let seat = group.members.insert(member);
            group.members.renew_session(seat, now_ms);
        }
        group.protocol_name = Some(group.members.select_protocol()?);
        group.learn_subscribed_topics();
        group.state = GroupState::Stable;
        group.has_record = true;
        let record = group.current_record();
        Some((group, record))
    }

    /// Has all members rejoin, where the last member of the consumer protocol has left and what it owned is to be assigned.
    pub fn rebalance_after_downgrade(&mut self, now_ms: i64, effects: &mut Effects) {
        let cause = Cause::plain("was a consumer group until now");
        self.rebalance_or_complete_join(&cause, now_ms, effects);
    }
}
