//! What both assignors promise, for any members, subscriptions, topics and earlier targets.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::group::consumer::testing::assignment;

const fn topic(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// A member to be: its topics, whether it is static, its target so far.
#[derive(Clone, Debug, Default)]
struct Joined {
    id: String,
    instance_id: Option<String>,
    topics: BTreeSet<u128>,
    target: Assignment,
}

fn joined(id: &str, topics: &[u128]) -> Joined {
    Joined {
        id: id.to_owned(),
        topics: topics.iter().copied().collect(),
        ..Joined::default()
    }
}

fn run(assignor: Assignor, members: &mut [Joined], counts: &[(u128, i32)]) {
    let counts: BTreeMap<u128, i32> = counts.iter().copied().collect();
    let subscribed: PartitionCounts = members
        .iter()
        .flat_map(|member| &member.topics)
        .filter_map(|number| Some((topic(*number), *counts.get(number)?)))
        .collect();
    let views: Vec<AssignorMember<'_>> = members
        .iter()
        .map(|member| AssignorMember {
            id: &member.id,
            instance_id: member.instance_id.as_deref(),
            topics: member
                .topics
                .iter()
                .map(|number| topic(*number))
                .filter(|topic| subscribed.contains_key(topic))
                .collect(),
            target: &member.target,
        })
        .collect();
    let targets = assignor.assign(&views, &subscribed);
    assert_eq!(targets.len(), members.len());
    for (member, target) in members.iter_mut().zip(targets) {
        member.target = target;
    }
    every_partition_once(members, &subscribed);
}

fn every_partition_once(members: &[Joined], subscribed: &PartitionCounts) {
    let mut owned = BTreeSet::new();
    for member in members {
        for (id, number) in member.target.iter() {
            assert!(owned.insert((id, number)), "{id} {number} twice");
            assert!(member.topics.contains(&id.as_u128()), "not subscribed to {id}");
        }
    }
    let all: BTreeSet<(Uuid, i32)> = subscribed
        .iter()
        .flat_map(|(topic, count)| (0..*count).map(|number| (*topic, number)))
        .collect();
    assert_eq!(owned, all);
}

fn balanced_where_equal(members: &[Joined]) {
    for one in members {
        for other in members.iter().filter(|other| other.topics == one.topics) {
            assert!(one.target.len().abs_diff(other.target.len()) <= 1);
        }
    }
}

/// How many partitions changed hands from a member that is still there.
fn moved(before: &[Joined], after: &[Joined]) -> usize {
    let old: BTreeMap<&str, &Assignment> = before.iter().map(|m| (m.id.as_str(), &m.target)).collect();
    let lost = |member: &Joined| {
        let old = old.get(member.id.as_str())?;
        Some(
            old.iter()
                .filter(|(t, n)| !member.target.contains(*t, *n))
                .count(),
        )
    };
    after.iter().filter_map(lost).sum()
}

#[test]
fn names() {
    assert_eq!(Assignor::from_name("uniform"), Some(Assignor::Uniform));
    assert_eq!(Assignor::from_name("range"), Some(Assignor::Range));
    assert_eq!(Assignor::from_name("Uniform"), None);
}

#[test]
fn range_splits_topics_alike_with_static_members_first() {
    let mut members = [
        joined("m0", &[1, 2]),
        joined("m1", &[1, 2]),
        joined("m2", &[1, 2]),
    ];
    members[2].instance_id = Some("z".to_owned());
    run(Assignor::Range, &mut members, &[(1, 4), (2, 4)]);
    assert_eq!(
        members[2].target,
        assignment(&[(topic(1), &[0, 1]), (topic(2), &[0, 1])])
    );
    assert_eq!(
        members[0].target,
        assignment(&[(topic(1), &[2]), (topic(2), &[2])])
    );
    assert_eq!(
        members[1].target,
        assignment(&[(topic(1), &[3]), (topic(2), &[3])])
    );
}

#[test]
fn range_with_more_members_than_partitions() {
    let mut members = [joined("m0", &[1]), joined("m1", &[1, 2]), joined("m2", &[2])];
    run(Assignor::Range, &mut members, &[(1, 1), (2, 1)]);
    assert_eq!(members[0].target, assignment(&[(topic(1), &[0])]));
    assert_eq!(members[1].target, assignment(&[(topic(2), &[0])]));
    assert!(members[2].target.is_empty());
}

#[test]
fn uniform_spreads_each_topic() {
    let mut members = [joined("m0", &[1, 2]), joined("m1", &[1, 2])];
    run(Assignor::Uniform, &mut members, &[(1, 4), (2, 4)]);
    assert_eq!(
        members[0].target,
        assignment(&[(topic(1), &[0, 2]), (topic(2), &[0, 2])])
    );
}

#[test]
fn uniform_keeps_the_odd_partition_where_it_is() {
    let mut members = vec![joined("m0", &[1]), joined("m1", &[1]), joined("m2", &[1])];
    members[2].target = assignment(&[(topic(1), &[0, 1])]);
    members[0].target = assignment(&[(topic(1), &[2])]);
    members[1].target = assignment(&[(topic(1), &[3])]);
    let before = members.clone();
    run(Assignor::Uniform, &mut members, &[(1, 4)]);
    assert_eq!(moved(&before, &members), 0);
}

#[test]
fn uniform_with_different_subscriptions_leaves_the_narrow_ones_their_share() {
    // m0 may only have topic 1; m1 then takes more of topic 2.
    let mut members = [joined("m0", &[1]), joined("m1", &[1, 2])];
    run(Assignor::Uniform, &mut members, &[(1, 4), (2, 4)]);
    assert_eq!(members[0].target, assignment(&[(topic(1), &[0, 1, 2, 3])]));
    assert_eq!(members[1].target, assignment(&[(topic(2), &[0, 1, 2, 3])]));
}

#[test]
fn targets_that_overlap_after_a_half_written_change_are_mended() {
    for topics in [[&[1u128][..], &[1]], [&[1], &[1, 2]]] {
        let mut members = [joined("m0", topics[0]), joined("m1", topics[1])];
        members[0].target = assignment(&[(topic(1), &[0, 1, 2])]);
        members[1].target = assignment(&[(topic(1), &[2, 3])]);
        run(Assignor::Uniform, &mut members, &[(1, 4), (2, 1)]);
    }
}

#[test]
fn nobody_and_nothing() {
    for assignor in [Assignor::Uniform, Assignor::Range] {
        run(assignor, &mut [], &[(1, 4)]);
        let mut members = [joined("m0", &[]), joined("m1", &[7])];
        run(assignor, &mut members, &[(1, 4)]);
        assert!(members.iter().all(|member| member.target.is_empty()));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Join(BTreeSet<u128>, bool),
    Leave(prop::sample::Index),
    Subscribe(prop::sample::Index, BTreeSet<u128>),
    Grow(u128, i32),
    Drop(u128),
}

fn subscription(same: bool) -> BoxedStrategy<BTreeSet<u128>> {
    if same {
        return Just((1..=4).collect()).boxed();
    }
    prop::collection::btree_set(1u128..=4, 0..=4).boxed()
}

fn steps(same: bool) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (subscription(same), any::<bool>()).prop_map(|(topics, fixed)| Step::Join(topics, fixed)),
        2 => any::<prop::sample::Index>().prop_map(Step::Leave),
        1 => (any::<prop::sample::Index>(), subscription(same)).prop_map(|(who, topics)| Step::Subscribe(who, topics)),
        1 => (1u128..=4, 1..12i32).prop_map(|(topic, count)| Step::Grow(topic, count)),
        1 => (1u128..=4).prop_map(Step::Drop),
    ];
    vec(step, 1..30)
}

fn play(assignor: Assignor, steps: Vec<Step>, mut check: impl FnMut(&Step, &[Joined], &[Joined])) {
    let mut members: Vec<Joined> = Vec::new();
    let mut counts: BTreeMap<u128, i32> = [(1, 5), (2, 3), (3, 8)].into();
    for (number, step) in steps.into_iter().enumerate() {
        match &step {
            Step::Join(topics, fixed) => members.push(Joined {
                id: format!("m{:02}", (number * 7) % 30),
                instance_id: fixed.then(|| format!("i{number}")),
                topics: topics.clone(),
                target: Assignment::default(),
            }),
            Step::Leave(_) | Step::Subscribe(..) if members.is_empty() => continue,
            Step::Leave(who) => drop(members.remove(who.index(members.len()))),
            Step::Subscribe(who, topics) => {
                let who = who.index(members.len());
                members[who].topics = topics.clone();
            }
            Step::Grow(topic, count) => *counts.entry(*topic).or_default() += *count,
            Step::Drop(topic) => drop(counts.remove(topic)),
        }
        let before = members.clone();
        let counts: Vec<(u128, i32)> = counts.iter().map(|(topic, count)| (*topic, *count)).collect();
        run(assignor, &mut members, &counts);
        check(&step, &before, &members);
    }
}

proptest! {
    #[test]
    fn uniform_is_balanced_and_moves_no_more_than_it_must(steps in steps(true)) {
        play(Assignor::Uniform, steps, |step, before, after| {
            balanced_where_equal(after);
            // Nothing but what new members, or members that had less, must get.
            let most = after.iter().map(|member| member.target.len()).max().unwrap_or_default();
            let excess: usize = before.iter().map(|member| member.target.len().saturating_sub(most)).sum();
            match step {
                Step::Leave(_) => assert_eq!(moved(before, after), 0),
                Step::Join(..) if before.len() > 1 => {
                    let newest = after.last().map_or(0, |member| member.target.len());
                    assert_eq!(moved(before, after), newest);
                }
                Step::Grow(..) => assert!(moved(before, after) <= excess),
                _ => {}
            }
        });
    }

    #[test]
    fn uniform_with_any_subscriptions_is_balanced_where_they_are_equal(steps in steps(false)) {
        play(Assignor::Uniform, steps, |_, _, after| {
            balanced_where_equal(after);
            for giver in after {
                for taker in after {
                    let shared = giver.target.topics().any(|(topic, _)| taker.topics.contains(&topic.as_u128()));
                    assert!(!shared || giver.target.len() < taker.target.len() + 2);
                }
            }
        });
    }

    #[test]
    fn uniform_settles(steps in steps(false)) {
        play(Assignor::Uniform, steps, |_, _, after| {
            let mut again = after.to_vec();
            let counts = again.iter().flat_map(|m| m.target.iter()).fold(
                BTreeMap::<u128, i32>::new(), |mut counts, (topic, number)| {
                    let count = counts.entry(topic.as_u128()).or_default();
                    *count = (*count).max(number + 1);
                    counts
                });
            run(Assignor::Uniform, &mut again, &counts.into_iter().collect::<Vec<_>>());
            assert_eq!(moved(after, &again), 0);
        });
    }

    #[test]
    fn range_gives_each_topic_in_ranges_of_equal_length(steps in steps(false)) {
        play(Assignor::Range, steps, |_, _, after| {
            for number in 1..=4 {
                let subscribers = after.iter().filter(|member| member.topics.contains(&number));
                let mut lengths = BTreeSet::new();
                for member in subscribers {
                    let numbers: Vec<i32> =
                        member.target.iter().filter(|(id, _)| *id == topic(number)).map(|(_, n)| n).collect();
                    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
                    lengths.insert(numbers.len());
                }
                assert!(lengths.last().unwrap_or(&0) - lengths.first().unwrap_or(&0) <= 1);
            }
        });
    }
}
