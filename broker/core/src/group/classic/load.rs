//! From the last record of a group back to the group.

use std::rc::Rc;

use super::ClassicGroup;
use super::config::ClassicConfig;
use super::effects::Effects;
use super::members::{Member, Profile};
use super::rebalance::Cause;
use super::record::{GroupRecord, MemberRecord};
use super::request::Protocol;
use super::state::GroupState;

impl ClassicGroup {
    /// The group as its last record has it. Members keep their ids and assignments, and their sessions count from
    /// `now_ms`. With more of them than `group.max.size` a rebalance begins, after which the last ones are left out.
    pub fn load(config: Rc<ClassicConfig>, record: &GroupRecord, now_ms: i64, effects: &mut Effects) -> Self {
        let mut group = Self::new(config, now_ms);
        group.has_record = true;
        group.generation = record.generation;
        group.protocol_type = record.protocol_type.clone().filter(|kind| !kind.is_empty());
        group.protocol_name = record.protocol_name.clone();
        group.state_since_ms = record.state_since_ms.filter(|&since_ms| since_ms >= 0);
        let protocol = group.protocol_name.clone().unwrap_or_default();
        for member in &record.members {
            // A record with one id twice was not written by a coordinator; the first one stands.
            let instance = member.instance_id.as_deref();
            let instance = instance.and_then(|instance| group.members.seat_of_instance(instance));
            if instance.is_some() || group.members.seat_of(&member.member_id).is_some() {
                continue;
            }
            let seat = group.members.insert(loaded_member(member, &protocol));
            group.members.renew_session(seat, now_ms);
        }
        if let Some(leader) = &record.leader {
            group.members.set_leader(leader);
        }
        group.learn_subscribed_topics();
        if !group.members.is_empty() {
            group.protocol_name.get_or_insert_default();
            group.state = GroupState::Stable;
        }
        if group.members.len() > group.config.size_max {
            let cause = Cause::plain("has more members than allowed");
            group.prepare_rebalance(&cause, now_ms, effects);
        }
        group
    }
}

fn loaded_member(record: &MemberRecord, protocol: &Rc<str>) -> Member {
    let rebalance_timeout_ms = if record.rebalance_timeout_ms > 0 {
        record.rebalance_timeout_ms
    } else {
        record.session_timeout_ms
    };
    let profile = Profile {
        client_id: record.client_id.clone(),
        client_host: record.client_host.clone(),
        session_timeout_ms: record.session_timeout_ms,
        rebalance_timeout_ms,
        protocols: vec![Protocol {
            name: protocol.clone(),
            metadata: record.subscription.clone(),
        }],
    };
    let instance_id = record.instance_id.clone();
    Member::new(
        record.member_id.clone(),
        instance_id,
        profile,
        record.assignment.clone(),
    )
}
