//! A group goes from the classic protocol to the consumer protocol and back while its members work (KIP-848): a rolling
//! restart with `group.protocol` changed, then the same in reverse. The second half of row B24 of the field reports.

use super::group::{CONSUMER, Group};
use super::{Step, expect, in_turn};
use crate::client::Check;
use crate::report::Job;
use crate::tools::Tools;

const PARTITIONS: i32 = 4;
/// Whose members speak the classic protocol and by which assignor, and whose the consumer protocol.
const PAIRS: [(&str, &str, &str); 6] = [
    ("kafka-clients-4.4.0", "range", "kafka-clients-4.4.0"),
    ("kafka-clients-4.4.0", "cooperative-sticky", "kafka-clients-4.4.0"),
    ("kafka-clients-3.9.2", "range", "kafka-clients-4.4.0"),
    ("confluent-kafka", "range", "confluent-kafka"),
    ("rdkafka", "cooperative-sticky", "rdkafka"),
    ("kafka-python", "range", "kafka-clients-4.4.0"),
];

/// A suite for every pair.
pub(crate) fn jobs<'a>(tools: &'a Tools, bootstrap: &'a str) -> Vec<Job<'a>> {
    let job = |pair: (&'static str, &'static str, &'static str)| {
        let (classic, assignor, consumer) = pair;
        Job::new(
            format!("groups change their protocol, {classic} by {assignor} and {consumer}"),
            move || roll(tools, bootstrap, pair),
        )
    };
    PAIRS.into_iter().map(job).collect()
}

fn is_of_type(group: &Group<'_>, right: &str) -> Result<(), String> {
    expect(&group.listed()?.group_type.as_str(), &right)
}

fn roll(tools: &Tools, bootstrap: &str, (classic, assignor, consumer): (&str, &str, &str)) -> Vec<Check> {
    // The broker says how long a session is as soon as one member speaks the consumer protocol.
    let mut group = match Group::new(tools, bootstrap, consumer, CONSUMER, PARTITIONS) {
        Ok(group) => group,
        Err(why) => return vec![("set-up".to_owned(), Err(why))],
    };
    let steps: [Step<'_, Group<'_>>; 6] = [
        ("two members of the classic protocol share", &|group| {
            group.join_by(classic, assignor)?;
            group.join_by(classic, assignor)?;
            group.balanced()?;
            is_of_type(group, "classic")
        }),
        (
            "one of the consumer protocol joins them, and all work",
            &|group| {
                group.join()?;
                group.all_work()?;
                is_of_type(group, CONSUMER)
            },
        ),
        ("the others are replaced one after the other", &|group| {
            group.oldest_leaves()?;
            group.join()?;
            group.all_work()?;
            group.oldest_leaves()?;
            group.balanced()
        }),
        ("one of the classic protocol comes back, and all work", &|group| {
            group.join_by(classic, assignor)?;
            group.all_work()?;
            is_of_type(group, CONSUMER)
        }),
        ("the last of the consumer protocol leaves", &|group| {
            group.oldest_leaves()?;
            group.join_by(classic, assignor)?;
            group.all_work()?;
            group.oldest_leaves()?;
            group.balanced()?;
            is_of_type(group, "classic")
        }),
        ("nothing was lost, and committed offsets are exact", &|group| {
            group.committed()
        }),
    ];
    in_turn(&mut group, &steps)
}
