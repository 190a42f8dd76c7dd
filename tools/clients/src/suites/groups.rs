//! Consumers in groups: every library joins, shares, loses a member to kill -9, and resumes where it committed.

use super::group::{CONSUMER, Group};
use super::in_turn;
use crate::broker::signal;
use crate::client::Check;
use crate::report::Job;
use crate::tools::Tools;

const PARTITIONS: i32 = 4;
/// Libraries that also rebalance cooperatively (KIP-429).
const COOPERATIVE: [&str; 4] = [
    "rdkafka",
    "confluent-kafka",
    "kafka-clients-3.9.2",
    "kafka-clients-4.4.0",
];
/// Libraries that speak the consumer protocol (KIP-848), in its final form.
pub(super) const CONSUMER_PROTOCOL: [&str; 3] = ["rdkafka", "confluent-kafka", "kafka-clients-4.4.0"];

/// A suite for every library and every way in which it shares.
pub(crate) fn jobs<'a>(tools: &'a Tools, bootstrap: &'a str) -> Vec<Job<'a>> {
    let mut kinds = Vec::new();
    for name in Tools::group_libraries() {
        let is_in = |list: &[&str]| list.contains(&name.as_str());
        let cooperative = is_in(&COOPERATIVE).then_some("cooperative-sticky");
        let consumer = is_in(&CONSUMER_PROTOCOL).then_some(CONSUMER);
        let assignors = ["range"].into_iter().chain(cooperative).chain(consumer);
        kinds.extend(assignors.map(|assignor| (name.clone(), assignor)));
    }
    let job = |(name, assignor): (String, &'static str)| {
        Job::new(format!("groups, {name} by {assignor}"), move || {
            scenario(tools, bootstrap, &name, assignor)
        })
    };
    kinds.into_iter().map(job).collect()
}

fn scenario(tools: &Tools, bootstrap: &str, name: &str, assignor: &str) -> Vec<Check> {
    let mut group = match Group::new(tools, bootstrap, name, assignor, PARTITIONS) {
        Ok(group) => group,
        Err(why) => return vec![("set-up".to_owned(), Err(why))],
    };
    in_turn(
        &mut group,
        &[
            ("one member has every partition", &Group::alone),
            ("two members share, and read everything", &|group| {
                group.join()?;
                group.balanced()
            }),
            (
                "one is stopped for longer than its session, and comes back",
                &paused,
            ),
            ("one is killed, the other takes over", &killed),
            ("committed offsets are exact", &Group::committed),
            ("a new member resumes where they committed", &Group::resumed),
        ],
    )
}

/// The process of a member stands still until the other one has everything, and goes on.
fn paused(group: &mut Group<'_>) -> Result<(), String> {
    let paused = group.members.pop().ok_or("no member")?;
    signal("-STOP", paused.process_id())?;
    let taken_over = taken_over(group);
    signal("-CONT", paused.process_id())?;
    taken_over?;
    group.members.push(paused);
    group.balanced()
}

/// The process of a member dies without a word.
fn killed(group: &mut Group<'_>) -> Result<(), String> {
    drop(group.members.pop());
    taken_over(group)?;
    group.write_and_read()
}

fn taken_over(group: &mut Group<'_>) -> Result<(), String> {
    group.until("taken over", |_, seen| {
        seen[0].assigned.len() == PARTITIONS as usize
    })
}
