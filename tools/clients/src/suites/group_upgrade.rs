//! A group goes from the classic protocol to the consumer protocol and back while its members work (KIP-848): a rolling
//! restart with `group.protocol` changed, then the same in reverse. The second half of row B24 of the field reports.

use super::expect;
use super::groups::{CONSUMER, Group};
use crate::client::Check;
use crate::report::Report;
use crate::tools::Tools;

/// Whose members speak the classic protocol and by which assignor, and whose the consumer protocol.
const PAIRS: [(&str, &str, &str); 6] = [
    ("kafka-clients-4.4.0", "range", "kafka-clients-4.4.0"),
    ("kafka-clients-4.4.0", "cooperative-sticky", "kafka-clients-4.4.0"),
    ("kafka-clients-3.9.2", "range", "kafka-clients-4.4.0"),
    ("confluent-kafka", "range", "confluent-kafka"),
    ("rdkafka", "cooperative-sticky", "rdkafka"),
    ("kafka-python", "range", "kafka-clients-4.4.0"),
];

/// Runs the suite for every pair, all at once: most of it is waiting for heartbeats.
pub(crate) fn run(report: &mut Report, tools: &Tools, bootstrap: &str) {
    report.side_by_side(
        &PAIRS,
        |(classic, assignor, consumer)| {
            format!("groups change their protocol, {classic} by {assignor} and {consumer}")
        },
        |pair| roll(tools, bootstrap, *pair),
    );
}

/// A step of the roll, and what it shows.
type Step<'a> = (&'a str, &'a dyn Fn(&mut Group<'_>) -> Result<(), String>);

fn roll(tools: &Tools, bootstrap: &str, (classic, assignor, consumer): (&str, &str, &str)) -> Vec<Check> {
    // The broker says how long a session is as soon as one member speaks the consumer protocol.
    let mut group = match Group::new(tools, bootstrap, consumer, CONSUMER) {
        Ok(group) => group,
        Err(why) => return vec![("set-up".to_owned(), Err(why))],
    };
    let steps: [Step<'_>; 6] = [
        ("two members of the classic protocol share", &|group| {
            group.join_by(classic, assignor)?;
            group.join_by(classic, assignor)?;
            group.balanced()?;
            expect(&group.group_type()?, &"classic".to_owned())
        }),
        (
            "one of the consumer protocol joins them, and all work",
            &|group| {
                group.join()?;
                group.all_work()?;
                expect(&group.group_type()?, &CONSUMER.to_owned())
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
            expect(&group.group_type()?, &CONSUMER.to_owned())
        }),
        ("the last of the consumer protocol leaves", &|group| {
            group.oldest_leaves()?;
            group.join_by(classic, assignor)?;
            group.all_work()?;
            group.oldest_leaves()?;
            group.balanced()?;
            expect(&group.group_type()?, &"classic".to_owned())
        }),
        ("nothing was lost, and committed offsets are exact", &|group| {
            group.committed()
        }),
    ];
    let mut checks = Vec::new();
    for (what, run) in steps {
        let outcome = run(&mut group);
        let passed = outcome.is_ok();
        checks.push((what.to_owned(), outcome));
        // What follows builds on it.
        if !passed {
            break;
        }
    }
    checks
}
