//! Row B42 of the field reports: a node that looks like 32 brokers, and what that costs a client.

use super::library::read_back;
use super::{expect, fresh};
use crate::broker::Broker;
use crate::client::{Client, Consume, Produce};
use crate::native::Native;
use crate::raw::Raw;
use crate::record::Record;
use crate::report::Report;
use crate::script::Script;
use crate::tools::Tools;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const PARTITIONS: i32 = 16;
/// So that the journals of 32 shards do not decide whether the disk is large enough: a node stops appends while less
/// than twice their size is free.
const SETTINGS: [&str; 2] = [
    "strandline.journal.bytes=8388608",
    "group.initial.rebalance.delay.ms=0",
];
/// A consumer of one partition needs the bootstrap connection, the leader's, and one to ask for metadata.
const CONNECTIONS_MAX: usize = 3;
/// How often the sockets of a client are looked at while it reads.
const SAMPLES_EVERY: Duration = Duration::from_millis(20);
/// How many looks it takes at least before the last record is written.
const SAMPLES_MIN: usize = 25;
/// Records that a member of a group gets one after the other.
const FOLLOWED: usize = 11;
/// Ten times what a record may take from its acknowledgement to the member of a group: kafkajs once took the 5 s that a fetch
/// waits, as soon as other brokers led the other partitions.
const LAG_MEDIAN_MAX: Duration = Duration::from_millis(500);
/// Until a member has all partitions.
const ASSIGNED_MAX: Duration = Duration::from_secs(60);

/// Starts nodes of several sizes and lets every library work on each.
pub(crate) fn run(report: &mut Report, tools: &Tools, broker: &Path, scratch: &Path) {
    report.begin("many shards (B42)");
    for shards in [1, 16, 32] {
        if let Err(why) = one_size(report, tools, broker, scratch, shards) {
            report.check(&format!("{shards} shards"), Err(why));
        }
    }
    report.end();
}

fn one_size(
    report: &mut Report,
    tools: &Tools,
    broker: &Path,
    scratch: &Path,
    shards: usize,
) -> Result<(), String> {
    let mut node = Broker::start_set(broker, scratch, shards, &SETTINGS)?;
    let list = node.bootstrap();
    let bootstrap = list.split(',').next().unwrap_or(&list);
    let topic = fresh("many-shards");
    expect(
        &Raw::connect(bootstrap)?.create_topic(&topic, PARTITIONS, &[])?,
        &0,
    )?;
    let mut all = tools.clients(bootstrap)?;
    for client in &mut all {
        let name = client.name().to_owned();
        let outcome = every_partition(client.as_mut(), &fresh(&format!("spread-{shards}")));
        report.check(
            &format!("{shards} shards: {name} reaches every partition"),
            outcome,
        );
    }
    for mut script in tools
        .scripts(bootstrap)?
        .into_iter()
        .filter(|script| script.can_consume())
    {
        let name = script.name().to_owned();
        let outcome = connections(&mut script, &mut *all[0], &topic, &node).and_then(|(sockets, threads)| {
            report.note(&format!(
                "{shards} shards: {name} holds {sockets} connections to read one partition, {threads} threads"
            ));
            if sockets <= CONNECTIONS_MAX {
                Ok(())
            } else {
                Err(format!("{sockets} connections"))
            }
        });
        report.check(
            &format!("{shards} shards: {name} reads one partition over few connections"),
            outcome,
        );
    }
    for (name, outcome) in followed(tools, bootstrap) {
        let outcome = outcome.and_then(|lag| {
            report.note(&format!(
                "{shards} shards: a record comes to a member by {name} {:.1} ms after it was acknowledged (median)",
                lag.as_secs_f64() * 1e3
            ));
            match lag <= LAG_MEDIAN_MAX {
                true => Ok(()),
                false => Err(format!("{lag:?} after it was acknowledged (median)")),
            }
        });
        report.check(&format!("{shards} shards: {name} follows in a group"), outcome);
    }
    report.check(&format!("{shards} shards: stops cleanly"), node.stop());
    Ok(())
}

/// For every library, all at once: the median of what a record takes from its acknowledgement to a member of a group, when records
/// come seldom, to one of many partitions.
fn followed(tools: &Tools, bootstrap: &str) -> Vec<(String, Result<Duration, String>)> {
    let names = Tools::group_libraries();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = names
            .iter()
            .map(|name| scope.spawn(move || follow(tools, bootstrap, name)))
            .collect();
        let joined = |run: std::thread::ScopedJoinHandle<'_, Result<Duration, String>>| {
            run.join().unwrap_or_else(|_| Err("it panicked".to_owned()))
        };
        running.into_iter().map(joined).collect()
    });
    names.into_iter().zip(outcomes).collect()
}

fn follow(tools: &Tools, bootstrap: &str, name: &str) -> Result<Duration, String> {
    let topic = fresh("followed");
    Raw::connect(bootstrap)?.create_topic(&topic, PARTITIONS, &[])?;
    let mut member = tools.member(name, bootstrap)?;
    // kafkajs has its fetches wait for as long as by default.
    let head = format!("join topic={topic} group={topic} assignor=range wait_ms=5000");
    member.request(&head, &[])?;
    let end = Instant::now() + ASSIGNED_MAX;
    loop {
        member.request("poll ms=100", &[])?;
        let count = member.request("assigned", &[])?.len();
        if count == PARTITIONS as usize {
            break;
        }
        if Instant::now() > end {
            return Err(format!("it was given {count} of {PARTITIONS} partitions"));
        }
    }
    let mut writer = Native::new(bootstrap);
    let mut lags = Vec::new();
    for _ in 0..FOLLOWED {
        // On its way before the record is there.
        member.ask("poll ms=30000", &[])?;
        let record = Record::new(None, Some(b"value")).partition(i64::from(PARTITIONS) / 2);
        writer.produce(&Produce::to(&topic), &[record])?;
        let acknowledged = Instant::now();
        expect(&member.answer()?.len(), &1)?;
        lags.push(acknowledged.elapsed());
    }
    member.request("leave", &[])?;
    lags.sort_unstable();
    Ok(lags[FOLLOWED / 2])
}

fn every_partition(client: &mut dyn Client, topic: &str) -> Result<(), String> {
    // Made by the first produce; then one record to each partition.
    let first = Record::new(Some(b"key"), Some(b"first"));
    client.produce(&Produce::to(topic), std::slice::from_ref(&first))?;
    if client.can_consume() {
        read_back(client, topic, &[first])
    } else {
        Ok(())
    }
}

/// The most sockets and threads that the client's process held while it read one partition.
fn connections(
    client: &mut Script,
    writer: &mut dyn Client,
    topic: &str,
    node: &Broker,
) -> Result<(usize, usize), String> {
    let process = client.process_id();
    let record = [Record::new(None, Some(b"value"))];
    let from = writer
        .produce(&Produce::to(topic), &record)?
        .first()
        .copied()
        .unwrap_or_default();
    std::thread::scope(|scope| {
        let (sender, ended) = channel();
        // Asks for one record more than there is, so that it stays until the next one is written.
        scope.spawn(move || {
            sender.send(client.consume(&Consume {
                from,
                ..Consume::start_of(topic, 2)
            }))
        });
        let (mut most, mut samples, mut written) = ((0, 0), 0, false);
        loop {
            match ended.recv_timeout(SAMPLES_EVERY) {
                Ok(read) => {
                    expect(&read?.len(), &2)?;
                    return Ok(most);
                }
                Err(RecvTimeoutError::Disconnected) => return Err("the reader is gone".to_owned()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let sockets = sockets_between(process, node.process_id());
            most = (most.0.max(sockets), most.1.max(threads(process)));
            samples += usize::from(sockets > 0);
            if samples >= SAMPLES_MIN && !written {
                writer.produce(&Produce::to(topic), &record)?;
                written = true;
            }
        }
    })
}

fn threads(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count)
}

/// The TCP sockets of `client` whose other end belongs to `server`.
fn sockets_between(client: u32, server: u32) -> usize {
    let table = ["tcp", "tcp6"]
        .map(|name| std::fs::read_to_string(format!("/proc/{client}/net/{name}")).unwrap_or_default());
    let rows: Vec<Vec<&str>> = table
        .iter()
        .flat_map(|text| text.lines().skip(1))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let (ours, theirs) = (socket_inodes(client), socket_inodes(server));
    let port = |address: &str| address.rsplit(':').next().map(str::to_owned);
    let serving: Vec<String> = rows
        .iter()
        .filter(|row| theirs.iter().any(|inode| row.get(9) == Some(&inode.as_str())))
        .filter_map(|row| port(row[1]))
        .collect();
    let to_server = |row: &&Vec<&str>| {
        ours.iter().any(|inode| row.get(9) == Some(&inode.as_str()))
            && port(row[2]).is_some_and(|port| serving.contains(&port))
    };
    rows.iter().filter(to_server).count()
}

fn socket_inodes(process: u32) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/fd")) else {
        return Vec::new();
    };
    let link = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.ok()?.path()).ok();
    entries
        .filter_map(link)
        .filter_map(|target| {
            Some(
                target
                    .to_str()?
                    .strip_prefix("socket:[")?
                    .strip_suffix(']')?
                    .to_owned(),
            )
        })
        .collect()
}
