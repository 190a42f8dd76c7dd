//! What a group takes in memory, kept as it changes so that it may be asked for after every call.

use super::assignment::Assignment;
use super::record::{ConsumerRecord, MemberMetadata, ResolvedRegex};
use super::request::HeartbeatRequest;
use super::state::{ConsumerGroup, Member};
use crate::group::classic::{Growth, JoinRequest};

/// A member's places in the books of its group, and the allocations around its strings.
const MEMBER_BYTES: usize = 768;
/// A name's place in a set, and its own allocation.
const NAME_BYTES: usize = 64;
/// A topic's place in an assignment.
const TOPIC_BYTES: usize = 64;
/// A partition's place in an assignment.
const PARTITION_BYTES: usize = 8;
/// An owned partition's place among those of the group.
const OWNER_BYTES: usize = 64;

impl ConsumerGroup {
    /// About what its members, targets and regular expressions take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// By how much a heartbeat may let the group grow, its assignment apart. A member that is known by its id or by its static
    /// name takes its own place.
    pub fn growth(&self, request: &HeartbeatRequest<'_>) -> Growth {
        let known = self.members.get(request.member_id);
        let holder = || self.members.get(self.static_members.get(request.instance_id?)?);
        self.growth_of(known.or_else(holder), request.said_bytes())
    }

    /// The same of a JoinGroup.
    pub fn growth_of_join(&self, join: &JoinRequest) -> Growth {
        let known = self.members.get(&join.member_id);
        let holder = || {
            self.members
                .get(self.static_members.get(join.instance_id.as_deref()?)?)
        };
        self.growth_of(known.or_else(holder), join.profile_bytes())
    }

    fn growth_of(&self, known: Option<&Member>, said: usize) -> Growth {
        match known {
            None => Growth {
                bytes: MEMBER_BYTES + said,
                is_new: true,
            },
            Some(member) => Growth {
                bytes: said.saturating_sub(of_metadata(&member.metadata)),
                is_new: false,
            },
        }
    }

    /// What stands under a record's key now.
    pub(super) fn bytes_under(&self, record: &ConsumerRecord) -> usize {
        match record {
            ConsumerRecord::Member(id, _) | ConsumerRecord::Current(id, _) => self
                .members
                .get(id)
                .map_or(0, |member| id.len() + of_member(member)),
            ConsumerRecord::Target(id, _) => self.targets.get(id).map_or(0, of_assignment),
            ConsumerRecord::Regex(regex, _) => {
                let resolved = self.regexes.get(regex);
                resolved.map_or(0, |resolved| regex.len() + of_regex(resolved))
            }
            ConsumerRecord::GroupEpoch(_)
            | ConsumerRecord::TopicMetadata(_)
            | ConsumerRecord::TargetEpoch(_) => 0,
        }
    }
}

impl ConsumerRecord {
    /// About what it takes, and no less than its key and its value in the log.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Member(id, value) => MEMBER_BYTES + id.len() + value.as_deref().map_or(0, of_metadata),
            Self::Target(id, value) => MEMBER_BYTES + id.len() + value.as_ref().map_or(0, of_assignment),
            Self::Current(id, value) => {
                let parts = value.as_ref();
                let parts = parts.map_or(0, |value| {
                    of_assignment(&value.assigned) + of_assignment(&value.pending_revocation)
                });
                MEMBER_BYTES + id.len() + parts
            }
            Self::Regex(regex, value) => MEMBER_BYTES + regex.len() + value.as_deref().map_or(0, of_regex),
            Self::GroupEpoch(_) | Self::TopicMetadata(_) | Self::TargetEpoch(_) => NAME_BYTES,
        }
    }
}

impl HeartbeatRequest<'_> {
    /// What the member says of itself takes.
    pub fn said_bytes(&self) -> usize {
        let texts = [
            self.topic_regex,
            self.instance_id,
            self.rack_id,
            self.server_assignor,
        ];
        let texts = texts.into_iter().flatten().map(str::len);
        let names = self.topic_names.iter().flatten();
        let names = names.map(|name| NAME_BYTES + name.len());
        self.client_id.len() + self.client_host.len() + texts.sum::<usize>() + names.sum::<usize>()
    }
}

fn of_member(member: &Member) -> usize {
    let (assigned, pending) = (&member.current.assigned, &member.current.pending_revocation);
    let owned = OWNER_BYTES * (assigned.len() + pending.len());
    MEMBER_BYTES + of_metadata(&member.metadata) + of_assignment(assigned) + of_assignment(pending) + owned
}

fn of_metadata(metadata: &MemberMetadata) -> usize {
    let optional = [
        &metadata.instance_id,
        &metadata.rack_id,
        &metadata.server_assignor,
    ];
    let strings = optional
        .into_iter()
        .flatten()
        .map(|text| text.len())
        .sum::<usize>()
        + metadata.client_id.len()
        + metadata.client_host.len()
        + metadata.topic_regex.len();
    let names = metadata.topic_names.iter().map(|name| NAME_BYTES + name.len());
    let protocols = metadata
        .classic
        .iter()
        .flat_map(|classic| &classic.supported_protocols);
    let protocols = protocols.map(|(name, metadata)| NAME_BYTES + name.len() + metadata.len());
    strings + names.sum::<usize>() + protocols.sum::<usize>()
}

fn of_assignment(assignment: &Assignment) -> usize {
    TOPIC_BYTES * assignment.topics().len() + PARTITION_BYTES * assignment.len()
}

fn of_regex(resolved: &ResolvedRegex) -> usize {
    let topics = resolved.topics.iter().map(|name| NAME_BYTES + name.len());
    MEMBER_BYTES + topics.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::super::request::HeartbeatRequest;
    use super::super::testing::{Rig, join};

    #[test]
    fn what_a_group_takes_grows_with_it_and_goes_with_it() {
        let mut rig = Rig::new(&[("t", 100)]);
        assert_eq!(rig.group.bytes(), 0);
        rig.join("a", &["t"]);
        let one = rig.group.bytes();
        assert!(one > 100 * super::OWNER_BYTES);
        let long = "x".repeat(10_000);
        rig.send(&HeartbeatRequest {
            client_id: &long,
            topic_regex: Some("t.*"),
            ..join("b", &["t"])
        })
        .unwrap();
        assert!(rig.group.bytes() > one + 10_000);
        rig.leave("b");
        rig.beat("a", 1);
        assert_eq!(rig.group.bytes(), one);
        rig.leave("a");
        assert_eq!(rig.group.bytes(), 0);
    }
}
