//! Heartbeats in parts: members that come together share a target, and what happens between the parts.

use std::collections::BTreeSet;

use strandline_wire::ErrorCode;

use super::record::ConsumerRecord;
use super::testing::{Rig, Topics, assignment, beat, join};
use super::{
    Assignment, ConsumerGroupState, Heartbeat, HeartbeatAnswer, HeartbeatRequest, LEAVE_STATIC_EPOCH,
    PendingHeartbeat,
};

impl Rig {
    pub(super) fn begin(&mut self, request: &HeartbeatRequest<'_>) -> PendingHeartbeat {
        let effects = self
            .group
            .begin_heartbeat(self.now_ms, &self.config, request, &self.topics);
        match self.store(effects).unwrap() {
            Heartbeat::Awaits(pending) => pending,
            Heartbeat::Answered(answer) => panic!("{answer:?}"),
        }
    }

    pub(super) fn finish(
        &mut self,
        pending: &PendingHeartbeat,
    ) -> Result<HeartbeatAnswer, super::GroupError> {
        let effects = self
            .group
            .finish_heartbeat(self.now_ms, &self.config, pending, &self.topics);
        self.store(effects)
    }

    pub(super) fn assign(&mut self) -> bool {
        let effects = self.group.assign(&self.config, &self.topics);
        self.store(effects)
    }

    /// How many targets the log has.
    fn targets(&self) -> usize {
        let is_target = |record: &&ConsumerRecord| matches!(record, ConsumerRecord::TargetEpoch(_));
        self.log.iter().filter(is_target).count()
    }
}

#[test]
fn members_that_come_together_share_a_target() {
    const MEMBERS: usize = 300;
    let mut rig = Rig::new(&[("t", MEMBERS as i32)]);
    let ids: Vec<String> = (0..MEMBERS).map(|number| format!("m{number:03}")).collect();
    let pending: Vec<_> = ids.iter().map(|id| rig.begin(&join(id, &["t"]))).collect();
    assert_eq!(
        (rig.targets(), rig.group.state()),
        (0, ConsumerGroupState::Assigning)
    );
    assert!(rig.assign());
    for pending in &pending {
        let answer = rig.finish(pending).unwrap();
        assert_eq!(answer.member_epoch, MEMBERS as i32);
        assert_eq!(answer.assignment.map(|assignment| assignment.len()), Some(1));
    }
    assert_eq!(
        (rig.targets(), rig.group.state()),
        (1, ConsumerGroupState::Stable)
    );
    // Of each member no more than what it is, its target, and what it has; of the group an epoch for each.
    assert_eq!(rig.log.len(), 4 * MEMBERS + 1);
    assert!(!rig.assign(), "nothing has changed since");
}

#[test]
fn who_finds_no_target_computes_it() {
    let mut rig = Rig::new(&[("t", 2)]);
    let t = rig.topics.id("t");
    let pending = rig.begin(&join("a", &["t"]));
    let answer = rig.finish(&pending).unwrap();
    assert_eq!(
        (answer.member_epoch, answer.assignment),
        (1, Some(assignment(&[(t, &[0, 1])])))
    );
    assert_eq!(rig.targets(), 1);
}

#[test]
fn a_heartbeat_that_changes_nothing_waits_for_nothing() {
    let mut rig = Rig::new(&[("t", 2)]);
    rig.join("a", &["t"]);
    let effects = rig
        .group
        .begin_heartbeat(rig.now_ms, &rig.config, &beat("a", 1), &rig.topics);
    assert!(matches!(rig.store(effects), Ok(Heartbeat::Answered(answer)) if answer.member_epoch == 1));
    // Once others have changed the group it waits with them.
    let joins = rig.begin(&join("b", &["t"]));
    let beats = rig.begin(&beat("a", 1));
    rig.assign();
    assert_eq!(rig.finish(&joins).unwrap().member_epoch, 2);
    assert_eq!(
        rig.finish(&beats).unwrap().assignment.unwrap().len(),
        1,
        "it is to give one up"
    );
    assert_eq!(rig.targets(), 2);
}

#[test]
fn who_was_removed_meanwhile_is_no_member() {
    let mut rig = Rig::new(&[("t", 2)]);
    rig.join("a", &["t"]);
    let joins = rig.begin(&join("b", &["t"]));
    rig.leave("b");
    rig.assign();
    assert_eq!(rig.finish(&joins).unwrap_err().code, ErrorCode::UnknownMemberId);
    assert_eq!(rig.group.len(), 1);

    // Its session counts from when it was heard.
    let silent = rig.begin(&join("c", &["t"]));
    assert_eq!(rig.pass(rig.config.session_timeout_ms).len(), 2);
    assert_eq!(rig.finish(&silent).unwrap_err().code, ErrorCode::UnknownMemberId);
}

#[test]
fn who_left_for_a_while_stays_away() {
    let mut rig = Rig::new(&[("t", 2)]);
    let named = |id, epoch| HeartbeatRequest {
        instance_id: Some("i"),
        ..beat(id, epoch)
    };
    rig.send(&HeartbeatRequest {
        instance_id: Some("i"),
        ..join("a", &["t"])
    })
    .unwrap();
    let other = rig.begin(&join("b", &["t"]));
    let beats = rig.begin(&named("a", 1));
    rig.send(&named("a", LEAVE_STATIC_EPOCH)).unwrap();
    assert_eq!(rig.finish(&beats).unwrap_err().code, ErrorCode::UnknownMemberId);
    assert_eq!(rig.group.members["a"].current.epoch, LEAVE_STATIC_EPOCH);
    rig.finish(&other).unwrap();
    // And comes back as it did before.
    let again = HeartbeatRequest {
        instance_id: Some("i"),
        ..join("a2", &["t"])
    };
    assert_eq!(rig.send(&again).unwrap().member_epoch, 2);
}

#[test]
fn what_was_owned_is_old_once_another_heartbeat_was_heard() {
    let mut rig = Rig::new(&[("t", 6)]);
    let t = rig.topics.id("t");
    rig.join("a", &["t"]);
    // It joins again, as one does that was fenced, and owns nothing; its own retry overtakes it and gets its partitions back.
    let other = rig.begin(&join("b", &["t"]));
    let first = rig.begin(&join("a", &["t"]));
    let retried = rig.begin(&join("a", &["t"]));
    rig.assign();
    rig.finish(&other).unwrap();
    let answer = rig.finish(&retried).unwrap();
    assert_eq!(answer.assignment, Some(assignment(&[(t, &[0, 1, 2])])));
    rig.join("c", &["t"]);
    // The first one must not say now that the member owns nothing of what it was given since.
    let answer = rig.finish(&first).unwrap();
    let member = &rig.group.members["a"];
    assert_eq!(answer.assignment, Some(member.current.assigned.clone()));
    assert!(
        !member.current.pending_revocation.is_empty(),
        "what it was given it still has to give up"
    );
    assert_ne!(member.current.assigned, Assignment::default());
}

/// Five thousand members that join in a hundred batches, leave and come again: a target each time for all of them, and a
/// heartbeat of one that is where it should be looks at nobody else.
#[test]
fn a_group_of_five_thousand_members_settles_by_few_targets() {
    const MEMBERS: usize = 5_000;
    let mut group = super::ConsumerGroup::new("g");
    let (config, topics) = (
        super::ConsumerGroupConfig::default(),
        Topics::new(&[("t", MEMBERS as i32)]),
    );
    let ids: Vec<String> = (0..MEMBERS).map(|number| format!("m{number:04}")).collect();
    let mut epochs = vec![0; MEMBERS];
    let mut owned: Vec<Option<Assignment>> = vec![Some(Assignment::default()); MEMBERS];
    let mut targets = 0;
    for batch in ids.chunks(MEMBERS / 100) {
        let pending: Vec<_> = batch
            .iter()
            .map(|id| {
                match group
                    .begin_heartbeat(0, &config, &join(id, &["t"]), &topics)
                    .answer
                {
                    Ok(Heartbeat::Awaits(pending)) => pending,
                    other => panic!("{other:?}"),
                }
            })
            .collect();
        targets += usize::from(group.assign(&config, &topics).answer);
        for pending in &pending {
            group
                .finish_heartbeat(0, &config, pending, &topics)
                .answer
                .unwrap();
        }
    }
    assert_eq!((group.len(), targets), (MEMBERS, 100));
    // Everyone tells what it has until nothing moves.
    for _ in 0..4 {
        for (number, id) in ids.iter().enumerate() {
            let epoch = group.members[id.as_str()].current.epoch;
            let request = HeartbeatRequest {
                owned: owned[number].clone(),
                ..beat(id, epoch)
            };
            let answer = group.heartbeat(0, &config, &request, &topics).answer.unwrap();
            epochs[number] = answer.member_epoch;
            if answer.assignment.is_some() {
                owned[number] = answer.assignment;
            }
        }
    }
    assert_eq!(group.state(), ConsumerGroupState::Stable);
    assert!(epochs.iter().all(|epoch| *epoch == MEMBERS as i32));
    let parts: BTreeSet<_> = owned.iter().flatten().flat_map(Assignment::iter).collect();
    assert_eq!(parts.len(), MEMBERS);
    let taken = group.bytes();
    assert!(taken < MEMBERS * 2_048, "{taken} bytes");
    // One that has nothing new to say is answered without a record, and without an allocation for the others.
    let request = beat(&ids[17], epochs[17]);
    let allocated = allocation_counter::measure(|| {
        assert!(group.heartbeat(0, &config, &request, &topics).records.is_empty());
    });
    assert!(allocated.bytes_total < 4_096, "{allocated:?}");
}
