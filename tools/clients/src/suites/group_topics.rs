//! The group part of row B29 of the field reports: a topic can be read in a group right after its creation, and subscribing to
//! one that is not there creates it only for who allows that.

use std::time::{Duration, Instant};

use super::{create, fresh};
use crate::client::{Check, Client, Produce};
use crate::native::Native;
use crate::raw::Raw;
use crate::record::Record;
use crate::report::Job;
use crate::script::Script;
use crate::tools::Tools;

const PARTITIONS: i32 = 8;
/// The first member of a group waits for others; and a library may look at its metadata anew.
const READ_MAX: Duration = Duration::from_secs(60);
/// Polls of a member whose topic must not come to be: it asks for metadata in the first of them.
const POLLS: usize = 10;

/// A suite for every library.
pub(crate) fn jobs<'a>(tools: &'a Tools, bootstrap: &'a str) -> Vec<Job<'a>> {
    let job = |name: String| {
        Job::new(format!("groups and new topics (B29), {name}"), move || {
            judge(tools, bootstrap, &name)
        })
    };
    Tools::group_libraries().into_iter().map(job).collect()
}

/// Libraries that are told not to create topics, and do not.
const HEED: [&str; 5] = [
    "rdkafka",
    "confluent-kafka",
    "kafkajs",
    "kafka-clients-3.9.2",
    "kafka-clients-4.4.0",
];
/// Libraries that wait for a topic which they have created by subscribing to it.
const CREATE: [&str; 3] = ["kafka-python", "kafka-clients-3.9.2", "kafka-clients-4.4.0"];

fn judge(tools: &Tools, bootstrap: &str, name: &str) -> Vec<Check> {
    let mut checks = vec![(
        "a topic is read right after its creation".to_owned(),
        read_at_once(tools, bootstrap, name),
    )];
    if HEED.contains(&name) {
        checks.push((
            "who subscribes without leave creates nothing".to_owned(),
            not_created(tools, bootstrap, name),
        ));
    }
    if CREATE.contains(&name) {
        checks.push((
            "who subscribes with leave creates the topic".to_owned(),
            created(tools, bootstrap, name),
        ));
    }
    checks
}

fn join(member: &mut Script, topic: &str, more: &str) -> Result<(), String> {
    let head = format!("join topic={topic} group={topic} assignor=range{more}");
    member.request(&head, &[]).map(drop)
}

/// Polls until a record comes.
fn first_record(member: &mut Script) -> Result<(), String> {
    let end = Instant::now() + READ_MAX;
    while Instant::now() < end {
        if !member.request("poll ms=200", &[])?.is_empty() {
            return member.request("leave", &[]).map(drop);
        }
    }
    Err("nothing came".to_owned())
}

fn write(bootstrap: &str, topic: &str) -> Result<(), String> {
    let record = Record::new(Some(b"key"), Some(b"value"));
    Native::new(bootstrap)
        .produce(&Produce::to(topic), &[record])
        .map(drop)
}

fn read_at_once(tools: &Tools, bootstrap: &str, name: &str) -> Result<(), String> {
    let mut member = tools.member(name, bootstrap)?;
    let topic = fresh("new");
    create(tools, bootstrap, &topic, PARTITIONS)?;
    join(&mut member, &topic, "")?;
    write(bootstrap, &topic)?;
    first_record(&mut member)
}

fn not_created(tools: &Tools, bootstrap: &str, name: &str) -> Result<(), String> {
    let mut member = tools.member(name, bootstrap)?;
    let topic = fresh("unwanted");
    // Some libraries say at once that there is no such topic, some go on asking.
    if join(&mut member, &topic, " create=false").is_ok() {
        for _ in 0..POLLS {
            if member.request("poll ms=200", &[]).is_err() {
                break;
            }
        }
    }
    match exists(bootstrap, &topic)? {
        true => Err("it was created".to_owned()),
        false => Ok(()),
    }
}

fn created(tools: &Tools, bootstrap: &str, name: &str) -> Result<(), String> {
    let mut member = tools.member(name, bootstrap)?;
    let topic = fresh("wanted");
    join(&mut member, &topic, " create=true")?;
    let end = Instant::now() + READ_MAX;
    while !exists(bootstrap, &topic)? {
        member.request("poll ms=200", &[])?;
        if Instant::now() > end {
            return Err("it was not created".to_owned());
        }
    }
    write(bootstrap, &topic)?;
    first_record(&mut member)
}

fn exists(bootstrap: &str, topic: &str) -> Result<bool, String> {
    let metadata = Raw::connect(bootstrap)?.metadata(topic, false)?;
    Ok(metadata.topics.first().is_some_and(|topic| topic.error_code == 0))
}
