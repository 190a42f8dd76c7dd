//! What a group takes in memory, kept as it changes so that it may be asked for after every call.

use super::assignment::Assignment;
use super::record::{ConsumerRecord, ResolvedRegex};
use super::state::{ConsumerGroup, Member};

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

fn of_member(member: &Member) -> usize {
    let metadata = &member.metadata;
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
    let (assigned, pending) = (&member.current.assigned, &member.current.pending_revocation);
    let owned = OWNER_BYTES * (assigned.len() + pending.len());
    MEMBER_BYTES
        + strings
        + names.sum::<usize>()
        + protocols.sum::<usize>()
        + of_assignment(assigned)
        + of_assignment(pending)
        + owned
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
