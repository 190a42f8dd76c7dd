//! `consume`: the records of a topic on stdout.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::group::reset::refuse_with_members;
use crate::cli::ConsumeArgs;
use crate::client::Client;
use crate::client::chunk::Chunk;
use crate::client::consumer::{Consumer, Event, Span};
use crate::client::group::Position;
use crate::client_config::ClientConfig;
use crate::failure::Failure;
use crate::offset_spec::OffsetSpec;
use crate::output::Output;
use crate::record::Record;
use crate::record_format::RecordFormat;

/// How often what was printed is committed for a group, as `auto.commit.interval.ms` is by default.
const COMMIT_INTERVAL: Duration = Duration::from_secs(5);

/// What is printed when no format is given: the value and a newline.
const DEFAULT_FORMAT: &str = r"%s\n";

/// `strandctl consume`
pub fn run(config: &ClientConfig, arguments: &ConsumeArgs, output: &mut Output) -> Result<(), Failure> {
    let format = match (&arguments.format, output.is_json()) {
        (Some(_), true) => return Err(Failure::usage("--json and --format exclude each other")),
        (_, true) => None,
        (format, false) => Some(
            RecordFormat::parse(format.as_deref().unwrap_or(DEFAULT_FORMAT))
                .map_err(|error| Failure::usage(format!("--format: {error}")))?,
        ),
    };
    let mut client = Client::connect(config)?;
    let topic = client.topic(&arguments.topic, false)?;
    let all: Vec<i32> = topic.partitions.iter().map(|partition| partition.index).collect();
    if let Some(unknown) = arguments
        .partitions
        .iter()
        .find(|partition| !all.contains(partition))
    {
        let text = format!(
            "topic {} has no partition {unknown}: it has {}",
            topic.name,
            all.len()
        );
        return Err(Failure::usage(text));
    }
    let chosen = if arguments.partitions.is_empty() {
        all
    } else {
        arguments.partitions.clone()
    };
    let mut spans = spans(&mut client, arguments, &chosen)?;
    let progress = match &arguments.group {
        None => None,
        Some(group) => Some(Progress::begin(config, group, &topic.name, &mut spans)?),
    };
    let consumer = Consumer::new(client, &topic.name, topic.leaders(), &spans);
    let mut printer = Printer {
        topic: topic.name,
        format,
        remaining: arguments.count,
        progress,
    };
    printer.print_all(consumer, output)?;
    match &mut printer.progress {
        Some(progress) => progress.commit(),
        None => Ok(()),
    }
}

/// Where each partition is read from and, with `--exit`, up to. Offsets outside a partition are moved to its nearest, with
/// a word on stderr: with several partitions, one offset rarely fits all.
fn spans(
    client: &mut Client,
    arguments: &ConsumeArgs,
    partitions: &[i32],
) -> Result<BTreeMap<i32, Span>, Failure> {
    let topic = &arguments.topic;
    let bounds = client.offset_bounds(topic, partitions.iter().copied())?;
    let by_time = match arguments.offset {
        OffsetSpec::Time(timestamp) => client.list_offsets(
            topic,
            &partitions
                .iter()
                .map(|&partition| (partition, timestamp))
                .collect(),
        )?,
        _ => BTreeMap::new(),
    };
    let mut spans = BTreeMap::new();
    for (partition, (start, end)) in bounds {
        let from = match arguments.offset {
            OffsetSpec::Start => start,
            OffsetSpec::End => end,
            OffsetSpec::Last(count) => end.saturating_sub(count).max(start),
            OffsetSpec::Time(_) => by_time.get(&partition).copied().flatten().unwrap_or(end),
            OffsetSpec::At(offset) => {
                let nearest = offset.clamp(start, end.max(start));
                if nearest != offset {
                    warn_moved(topic, partition, offset, nearest);
                }
                nearest
            }
        };
        spans.insert(
            partition,
            Span {
                from,
                until: arguments.exit.then_some(end),
            },
        );
    }
    Ok(spans)
}

fn warn_moved(topic: &str, partition: i32, from: i64, to: i64) {
    eprintln!("strandctl: {topic}-{partition}: offset {from} does not exist, reading on from {to}");
}

struct Printer {
    topic: String,
    format: Option<RecordFormat>,
    remaining: Option<u64>,
    progress: Option<Progress>,
}

/// How far a group has come by what was printed.
struct Progress {
    client: Client,
    group: String,
    /// Behind the last record printed of each partition, not committed yet.
    next: BTreeMap<Position, i64>,
    committed_at: Instant,
}

impl Progress {
    /// Moves the spans to what the group has committed.
    fn begin(
        config: &ClientConfig,
        group: &str,
        topic: &str,
        spans: &mut BTreeMap<i32, Span>,
    ) -> Result<Self, Failure> {
        let mut client = Client::connect(config)?;
        refuse_with_members(&mut client, group, "nobody else reads for a group with members")?;
        let committed = client.committed(&[group.to_owned()]).into_iter().next();
        let committed = committed.map_or(Ok(BTreeMap::new()), |(_, committed)| committed)?;
        for (partition, span) in spans {
            if let Some(committed) = committed.get(&(topic.to_owned(), *partition)) {
                span.from = committed.offset;
            }
        }
        Ok(Self {
            client,
            group: group.to_owned(),
            next: BTreeMap::new(),
            committed_at: Instant::now(),
        })
    }

    fn commit_now_and_then(&mut self) -> Result<(), Failure> {
        match self.committed_at.elapsed() < COMMIT_INTERVAL {
            true => Ok(()),
            false => self.commit(),
        }
    }

    fn commit(&mut self) -> Result<(), Failure> {
        let next = std::mem::take(&mut self.next);
        for (_, result) in self.client.commit_offsets(&self.group, &next) {
            result?;
        }
        self.committed_at = Instant::now();
        Ok(())
    }
}

impl Printer {
    fn print_all(&mut self, mut consumer: Consumer, output: &mut Output) -> Result<(), Failure> {
        if self.remaining == Some(0) {
            return Ok(());
        }
        while let Some(event) = consumer.next_event()? {
            match event {
                Event::Moved { partition, from, to } => warn_moved(&self.topic, partition, from, to),
                Event::Records(chunk) => {
                    let finished = self.print(&chunk, output)?;
                    // Whoever reads the other end sees records as they come.
                    output.flush()?;
                    if let Some(progress) = &mut self.progress {
                        progress.commit_now_and_then()?;
                    }
                    if finished {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Prints the records of a chunk. Returns true when as many were printed as asked for.
    fn print(&mut self, chunk: &Chunk, output: &mut Output) -> Result<bool, Failure> {
        let Self {
            topic,
            format,
            remaining,
            progress,
        } = self;
        let at = (topic.clone(), chunk.partition);
        let stopped = chunk.for_each(topic, |record| {
            if let Err(error) = output.raw(|out| write_record(out, format.as_ref(), record)) {
                return ControlFlow::Break(Err(error));
            }
            if let Some(progress) = progress.as_mut() {
                progress.next.insert(at.clone(), record.offset + 1);
            }
            match remaining {
                Some(count) => {
                    *count -= 1;
                    if *count == 0 {
                        ControlFlow::Break(Ok(()))
                    } else {
                        ControlFlow::Continue(())
                    }
                }
                None => ControlFlow::Continue(()),
            }
        })?;
        stopped.transpose().map(|finished| finished.is_some())
    }
}

fn write_record(out: &mut impl Write, format: Option<&RecordFormat>, record: &Record<'_>) -> io::Result<()> {
    match format {
        Some(format) => format.write(out, record),
        None => {
            serde_json::to_writer(&mut *out, record)?;
            out.write_all(b"\n")
        }
    }
}
