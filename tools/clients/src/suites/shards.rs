//! Row B42 of the field reports: a node that looks like 32 brokers, and what that costs a client.

use super::library::read_back;
use super::{expect, fresh};
use crate::broker::Broker;
use crate::client::{Client, Consume, Produce};
use crate::raw::Raw;
use crate::record::Record;
use crate::report::Report;
use crate::script::Script;
use crate::tools::Tools;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

const PARTITIONS: i32 = 16;
/// So that the journals of 32 shards do not decide whether the disk is large enough: a node stops appends while less
/// than twice their size is free.
const SETTINGS: [&str; 1] = ["strandline.journal.bytes=8388608"];
/// A consumer of one partition needs the bootstrap connection, the leader's, and one to ask for metadata.
const CONNECTIONS_MAX: usize = 3;
/// How often the sockets of a client are looked at while it reads.
const SAMPLES_EVERY: Duration = Duration::from_millis(20);
/// How many looks it takes at least before the last record is written.
const SAMPLES_MIN: usize = 25;

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
    report.check(&format!("{shards} shards: stops cleanly"), node.stop());
    Ok(())
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
