//! A member of a group by the `rdkafka` crate, in a process of its own so that it can be killed: this program, started
//! with `--drive-rdkafka`, behind the part of the line protocol that `python/driver.py` describes for members.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;

use crate::native::is_passing;

/// Serves requests until the end of stdin.
pub(crate) fn serve() -> Result<(), String> {
    let mut member: Option<BaseConsumer> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let mut words = line.split(' ');
        let command = words.next().unwrap_or_default();
        let options: BTreeMap<&str, &str> = words.filter_map(|word| word.split_once('=')).collect();
        let answer = match command {
            "join" => join(&options).map(|joined| {
                member = Some(joined);
                Vec::new()
            }),
            "leave" => {
                member = None;
                Ok(Vec::new())
            }
            _ => match &member {
                Some(member) => ask(member, command, &options),
                None => Err("no member".to_owned()),
            },
        };
        let mut out = std::io::stdout().lock();
        let written = match answer {
            Ok(lines) => {
                let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
                write!(out, "ok {}\n{text}", lines.len())
            }
            Err(why) => writeln!(out, "error {}", why.replace('\n', " ")),
        };
        written
            .and_then(|()| out.flush())
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn join(options: &BTreeMap<&str, &str>) -> Result<BaseConsumer, String> {
    let option = |name: &str| options.get(name).copied();
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", option("bootstrap").unwrap_or_default())
        .set("group.id", option("group").unwrap_or_default())
        .set(
            "enable.auto.commit",
            if option("auto").is_some() { "true" } else { "false" },
        )
        .set("auto.commit.interval.ms", "100")
        .set("auto.offset.reset", "earliest");
    if let Some(create) = option("create") {
        config.set("allow.auto.create.topics", create);
    }
    match option("assignor").unwrap_or("range") {
        // The broker assigns, and says how often to send heartbeats.
        "consumer" => config.set("group.protocol", "consumer"),
        assignor => config
            .set("session.timeout.ms", "6000")
            .set("heartbeat.interval.ms", "500")
            .set("partition.assignment.strategy", assignor),
    };
    let consumer: BaseConsumer = config.create().map_err(text)?;
    // What begins with a caret the library takes for a pattern.
    let topic = option("pattern").or(option("topic")).unwrap_or_default();
    consumer.subscribe(&[topic]).map_err(text)?;
    Ok(consumer)
}

fn ask(member: &BaseConsumer, command: &str, options: &BTreeMap<&str, &str>) -> Result<Vec<String>, String> {
    match command {
        "poll" => {
            let ms = options
                .get("ms")
                .and_then(|ms| ms.parse().ok())
                .unwrap_or_default();
            poll(member, Duration::from_millis(ms))
        }
        "assigned" => {
            let assigned = member.assignment().map_err(text)?;
            Ok(assigned
                .elements()
                .iter()
                .map(|element| element.partition().to_string())
                .collect())
        }
        "commit" => match member.commit_consumer_state(CommitMode::Sync) {
            Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => Ok(Vec::new()),
            Err(KafkaError::ConsumerCommit(
                RDKafkaErrorCode::RebalanceInProgress
                | RDKafkaErrorCode::AssignmentLost
                | RDKafkaErrorCode::IllegalGeneration
                | RDKafkaErrorCode::UnknownMemberId
                | RDKafkaErrorCode::StaleMemberEpoch
                | RDKafkaErrorCode::FencedMemberEpoch
                | RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::WaitingForCoordinator
                | RDKafkaErrorCode::OperationTimedOut,
            )) => Ok(vec!["retry".to_owned()]),
            Err(error) => Err(text(error)),
        },
        other => Err(format!("{other} is no command")),
    }
}

fn poll(member: &BaseConsumer, span: Duration) -> Result<Vec<String>, String> {
    let end = Instant::now() + span;
    let mut came = Vec::new();
    // Waits for the first record, and takes what else is there.
    loop {
        let left = match came.is_empty() {
            true => end.saturating_duration_since(Instant::now()),
            false => Duration::ZERO,
        };
        match member.poll(left) {
            Some(Ok(message)) => came.push(format!("{} {}", message.partition(), message.offset())),
            Some(Err(error)) if is_passing(&error) => {
                if Instant::now() >= end {
                    return Ok(came);
                }
            }
            Some(Err(error)) => return Err(text(error)),
            None if came.is_empty() && Instant::now() < end => {}
            None => return Ok(came),
        }
    }
}

fn text(error: KafkaError) -> String {
    error.to_string()
}
