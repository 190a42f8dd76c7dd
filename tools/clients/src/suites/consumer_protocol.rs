//! Row B24 of the field reports: patterns of the consumer protocol (KIP-848).

use std::time::{Duration, Instant};

use super::fresh;
use super::group::CONSUMER;
use super::groups::CONSUMER_PROTOCOL;
use crate::raw::Raw;
use crate::report::Job;
use crate::script::Script;
use crate::tools::Tools;

/// A topic that a pattern matches is found within 20 s; what cannot be seen in time has another reason.
const FOUND_MAX: Duration = Duration::from_secs(40);
/// For so long a pattern that matches nothing must give nothing.
const NOTHING_FOR: Duration = Duration::from_secs(3);

/// A suite for every library: patterns that the broker matches.
pub(crate) fn jobs<'a>(tools: &'a Tools, bootstrap: &'a str) -> Vec<Job<'a>> {
    let job = |name: &'static str| {
        Job::new(format!("patterns of the broker (B24), {name}"), move || {
            let whole = matches_whole_names(tools, bootstrap, name);
            let found = finds_new_topics(tools, bootstrap, name);
            vec![
                ("`^name*` is not a prefix".to_owned(), whole),
                ("a new topic that matches is assigned".to_owned(), found),
            ]
        })
    };
    CONSUMER_PROTOCOL.into_iter().map(job).collect()
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
