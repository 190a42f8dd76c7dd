//! `produce`: the lines of stdin, as records of a topic.

use std::collections::BTreeMap;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use serde::{Serialize, Serializer};
use strandline_wire::batch::BatchBuilder;

use crate::cli::ProduceArgs;
use crate::client::Client;
use crate::client::partitioner::Partitioner;
use crate::client::produce::{Producer, Round};
use crate::client_config::{Acks, ClientConfig, parse_codec};
use crate::failure::Failure;
use crate::lines::{Line, LineShape, spawn_reader};
use crate::offset_spec::now_ms;
use crate::output::{Output, count};
use crate::record_format::unescape;

/// What a record needs in a batch beside its own bytes, at most: the varints of its fields.
const RECORD_OVERHEAD_BYTES: usize = 32;

/// `strandctl produce`
pub fn run(mut config: ClientConfig, arguments: &ProduceArgs, output: &mut Output) -> Result<(), Failure> {
    if let Some(codec) = &arguments.compression {
        config.compression =
            parse_codec(codec).map_err(|error| Failure::usage(format!("--compression: {error}")))?;
    }
    if let Some(acks) = &arguments.acks {
        config.acks = acks
            .parse()
            .map_err(|error| Failure::usage(format!("--acks: {error}")))?;
        config.idempotence &= config.acks == Acks::All;
    }
    let headers: Vec<_> = arguments
        .headers
        .iter()
        .map(|header| parse_header(header))
        .collect::<Result<_, _>>()?;
    let shape = line_shape(arguments)?;
    let mut client = Client::connect(&config)?;
    let topic = client.topic(&arguments.topic, true)?;
    let partition_count = topic.partitions.len() as u32;
    if let Some(partition) = arguments.partition
        && partition as u32 >= partition_count
    {
        let text = format!(
            "topic {} has no partition {partition}: it has {partition_count}",
            topic.name
        );
        return Err(Failure::usage(text));
    }
    let leaders = topic.leaders();
    let available = leaders.keys().copied().collect();
    let producer = Producer::new(&mut client, &topic.name, leaders)?;
    let mut session = Session {
        client,
        producer,
        partitioner: Partitioner::new(partition_count, available, arguments.null_keys),
        fixed_partition: arguments.partition,
        headers,
        open: BTreeMap::new(),
        open_bytes: 0,
        flush_at: None,
        summary: Summary {
            topic: topic.name,
            records: 0,
            partitions: BTreeMap::new(),
        },
    };
    let result = session.send_lines(shape);
    // What is stored is told even when the rest failed.
    session.summary.print(output)?;
    result
}

fn parse_header(text: &str) -> Result<(String, Option<Vec<u8>>), Failure> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value.as_bytes().to_vec())),
        None => (text, None),
    };
    if key.is_empty() {
        return Err(Failure::usage(format!("--header: `{text}` has no key")));
    }
    Ok((key.to_owned(), value))
}

fn line_shape(arguments: &ProduceArgs) -> Result<LineShape, Failure> {
    let key_separator = match &arguments.key_separator {
        None => None,
        Some(text) => {
            let separator =
                unescape(text).map_err(|error| Failure::usage(format!("--key-separator: {error}")))?;
            if separator.is_empty() {
                return Err(Failure::usage("--key-separator is empty"));
            }
            Some(separator)
        }
    };
    Ok(LineShape {
        key_separator,
        null_empty: arguments.null_empty,
    })
}

/// One run of the command.
struct Session {
    client: Client,
    producer: Producer,
    partitioner: Partitioner,
    fixed_partition: Option<i32>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    /// Batches that are being filled.
    open: BTreeMap<i32, BatchBuilder>,
    open_bytes: usize,
    /// When the oldest record has waited for `linger.ms`.
    flush_at: Option<Instant>,
    summary: Summary,
}

impl Session {
    /// Sends everything up to the end of stdin. Batches leave when one is full, when all together are, and when the oldest
    /// record has lingered long enough.
    fn send_lines(&mut self, shape: LineShape) -> Result<(), Failure> {
        let lines = spawn_reader(shape);
        loop {
            let now = Instant::now();
            let received = match self.flush_at {
                Some(at) if at <= now => Err(RecvTimeoutError::Timeout),
                Some(at) => lines.recv_timeout(at - now),
                None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(Ok(line)) => self.add(&line)?,
                Ok(Err(source)) => {
                    self.flush()?;
                    return Err(Failure::local("reading stdin", source));
                }
                Err(RecvTimeoutError::Timeout) => self.flush()?,
                Err(RecvTimeoutError::Disconnected) => return self.flush(),
            }
        }
    }

    fn add(&mut self, line: &Line) -> Result<(), Failure> {
        let ClientConfig {
            batch_bytes,
            request_max_bytes,
            compression,
            linger,
            ..
        } = *self.client.config();
        let size = line.size() + self.headers_size() + RECORD_OVERHEAD_BYTES;
        let mut partition = self.choose(line)?;
        let batch_is_full = self
            .open
            .get(&partition)
            .is_some_and(|batch| batch.size() + size > batch_bytes);
        let request_is_full = self.open_bytes > 0 && self.open_bytes + size > request_max_bytes;
        if batch_is_full || request_is_full {
            self.flush()?;
            if line.key.is_none() {
                partition = self.choose(line)?;
            }
        }
        let batch = self
            .open
            .entry(partition)
            .or_insert_with(|| BatchBuilder::new().compression(compression));
        let headers: Vec<_> = self
            .headers
            .iter()
            .map(|(key, value)| (key.as_bytes(), value.as_deref()))
            .collect();
        batch.record_with_headers(now_ms(), line.key.as_deref(), line.value.as_deref(), &headers);
        self.open_bytes += size;
        self.flush_at.get_or_insert_with(|| Instant::now() + linger);
        Ok(())
    }

    fn choose(&mut self, line: &Line) -> Result<i32, Failure> {
        self.fixed_partition
            .or_else(|| self.partitioner.partition(line.key.as_deref()))
            .ok_or_else(|| Failure::usage(format!("topic {} has no partitions", self.summary.topic)))
    }

    fn headers_size(&self) -> usize {
        let size =
            |(key, value): &(String, Option<Vec<u8>>)| key.len() + value.as_ref().map_or(0, Vec::len) + 10;
        self.headers.iter().map(size).sum()
    }

    /// Sends the open batches and waits for them.
    fn flush(&mut self) -> Result<(), Failure> {
        self.flush_at = None;
        self.open_bytes = 0;
        if self.open.is_empty() {
            return Ok(());
        }
        let Round {
            acknowledged,
            failure,
        } = self
            .producer
            .send(&mut self.client, std::mem::take(&mut self.open));
        self.partitioner.batch_sent();
        for batch in acknowledged {
            self.summary.records += batch.records;
            let partition = self.summary.partitions.entry(batch.partition).or_default();
            partition.partition = batch.partition;
            partition.records += batch.records;
            if let Some(base_offset) = batch.base_offset {
                partition.first_offset.get_or_insert(base_offset);
                partition.last_offset = Some(base_offset + batch.records as i64 - 1);
            }
        }
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }
}

/// What was stored.
#[derive(Debug, Serialize)]
struct Summary {
    topic: String,
    records: u64,
    #[serde(serialize_with = "as_list")]
    partitions: BTreeMap<i32, PartitionSummary>,
}

#[derive(Debug, Default, Serialize)]
struct PartitionSummary {
    partition: i32,
    records: u64,
    /// Null where the broker told no offsets (acks=0).
    first_offset: Option<i64>,
    last_offset: Option<i64>,
}

fn as_list<S: Serializer>(map: &BTreeMap<i32, PartitionSummary>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(map.values())
}

impl Summary {
    /// For people on stderr, since stdout has the answers of commands and this one has none; for programs, JSON on stdout.
    fn print(&self, output: &mut Output) -> Result<(), Failure> {
        if output.is_json() {
            return output.json(self).and_then(|()| output.flush());
        }
        eprintln!("produced {} to {}", count(self.records, "record"), self.topic);
        for (partition, summary) in &self.partitions {
            let last = summary
                .last_offset
                .map_or("offsets unknown".to_owned(), |last| format!("last offset {last}"));
            eprintln!(
                "  partition {partition}: {}, {last}",
                count(summary.records, "record")
            );
        }
        Ok(())
    }
}
