//! Row B24 of the field reports, and the end of a broker: what is particular to the consumer protocol (KIP-848).

use std::path::Path;
use std::time::{Duration, Instant};

use super::fresh;
use super::groups::{CONSUMER, CONSUMER_PROTOCOL, Group};
use crate::broker::Broker;
use crate::client::Check;
use crate::raw::Raw;
use crate::report::Report;
use crate::script::Script;
use crate::tools::Tools;

/// A topic that a pattern matches is found within 20 s; what cannot be seen in time has another reason.
const FOUND_MAX: Duration = Duration::from_secs(40);
/// For so long a pattern that matches nothing must give nothing.
const NOTHING_FOR: Duration = Duration::from_secs(3);
/// Polls between a join and the end of the broker: the rebalance is on its way.
const POLLS: usize = 2;

/// Patterns that the broker matches.
pub(crate) fn patterns(report: &mut Report, tools: &Tools, bootstrap: &str) {
    for name in CONSUMER_PROTOCOL {
        report.begin(&format!("patterns of the broker (B24), {name}"));
        report.check(
            "`^name*` is not a prefix",
            matches_whole_names(tools, bootstrap, name),
        );
        report.check(
            "a new topic that matches is assigned",
            finds_new_topics(tools, bootstrap, name),
        );
        report.end();
    }
}

/// A broker that is killed in the middle of a rebalance.
pub(crate) fn broker_dies(report: &mut Report, tools: &Tools, broker: &Path, scratch: &Path) {
    report.side_by_side(
        &CONSUMER_PROTOCOL,
        |name| format!("consumer protocol, the broker is killed, {name}"),
        |name| outlive(tools, broker, scratch, name),
    );
}

fn outlive(tools: &Tools, broker: &Path, scratch: &Path, name: &str) -> Vec<Check> {
    let mut node = match Broker::start(broker, scratch, 1) {
        Ok(node) => node,
        Err(why) => return vec![("set-up".to_owned(), Err(why))],
    };
    let bootstrap = node.bootstrap();
    let rebalance = || -> Result<(), String> {
        let mut group = Group::new(tools, &bootstrap, name, CONSUMER)?;
        group.alone()?;
        group.join()?;
        group.poll_each(POLLS)?;
        node.die_and_return()?;
        group.balanced()?;
        group.committed()?;
        group.resumed()
    };
    let outcome = { rebalance }();
    vec![
        ("killed in a rebalance, nothing is lost".to_owned(), outcome),
        ("stops cleanly after that".to_owned(), node.stop()),
    ]
}

fn member(tools: &Tools, bootstrap: &str, name: &str, pattern: &str) -> Result<Script, String> {
    let mut member = tools.member(name, bootstrap)?;
    let group = fresh("pattern");
    member.request(
        &format!("join topic=- group={group} assignor={CONSUMER} pattern={pattern}"),
        &[],
    )?;
    Ok(member)
}

/// How many partitions it has once it polled.
fn assigned(member: &mut Script) -> Result<usize, String> {
    member.request("poll ms=200", &[])?;
    Ok(member.request("assigned", &[])?.len())
}

fn matches_whole_names(tools: &Tools, bootstrap: &str, name: &str) -> Result<(), String> {
    let topic = fresh("whole");
    Raw::connect(bootstrap)?.create_topic(&format!("{topic}-1"), 2, &[])?;
    let mut member = member(tools, bootstrap, name, &format!("^{topic}*"))?;
    let end = Instant::now() + NOTHING_FOR;
    while Instant::now() < end {
        let count = assigned(&mut member)?;
        if count > 0 {
            return Err(format!("it has {count} partitions"));
        }
    }
    member.request("leave", &[]).map(drop)
}

fn finds_new_topics(tools: &Tools, bootstrap: &str, name: &str) -> Result<(), String> {
    let topic = fresh("found");
    let mut raw = Raw::connect(bootstrap)?;
    raw.create_topic(&format!("{topic}-1"), 2, &[])?;
    let mut member = member(tools, bootstrap, name, &format!("^{topic}.*"))?;
    let mut until = |wanted: usize| -> Result<(), String> {
        let end = Instant::now() + FOUND_MAX;
        loop {
            let count = assigned(&mut member)?;
            if count == wanted {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("{count} of {wanted} partitions"));
            }
        }
    };
    until(2)?;
    raw.create_topic(&format!("{topic}-2"), 3, &[])?;
    until(5)?;
    member.request("leave", &[]).map(drop)
}
