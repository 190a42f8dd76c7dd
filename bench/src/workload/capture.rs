//! `workload capture`: reads a topic from its end for a while and writes down everything but what the records say.

use super::format::{self, Header, Writer};
use super::{Captured, CapturedKey};
use crate::cli::{CaptureArgs, WorkloadShowArgs};
use crate::client::{Cluster, Dialer, Security};
use crate::clock::{Clock, Nanos};
use crate::consumer::{
    ConsumePlan, DECOMPRESSED_BYTES_MAX, Lane, MAX_BYTES, Position, Records, wait_for_answers,
};
use crate::exit::Exit;
use crate::live::say;
use crate::units::{format_byte_rate, format_count};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use strandline_wire::batch::{Batch, Codec, batches, for_each_record};
use xxhash_rust::xxh3::xxh3_64;

/// A record whose own time is further from now than this was not made now: it counts from when it was received.
const CLOCKS_APART_MS_MAX: i64 = 60_000;

/// Keys that are told apart. More of them share numbers.
const KEYS_MAX: usize = 10_000_000;

/// How long to wait before looking at the clock and for an interrupt.
const LOOK_EVERY: Nanos = 50_000_000;

/// How often what was captured is counted on stderr.
const SAY_EVERY: Nanos = 10_000_000_000;

const US_A_MS: u64 = 1000;

/// Captures, and says where.
pub fn execute(args: &CaptureArgs, interrupted: &Arc<AtomicBool>) -> io::Result<Exit> {
    let path = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}.workload", args.topic)));
    let (header, skipped) = match capture(args, &path, interrupted) {
        Ok(captured) => captured,
        Err(error) => {
            eprintln!("strandline-bench: {error}");
            return Ok(Exit::Failed);
        }
    };
    let mut out = io::stdout().lock();
    print(&mut out, &header)?;
    if skipped > 0 {
        writeln!(
            out,
            "damaged   {skipped} batches could not be read and are not in it"
        )?;
    }
    writeln!(out, "workload  {}", path.display())?;
    writeln!(
        out,
        "replay    strandline-bench run {} --bootstrap-server HOST:PORT --scale 1",
        path.display()
    )?;
    if header.records == 0 {
        eprintln!("strandline-bench: no record came to {} meanwhile", args.topic);
        return Ok(Exit::Invalid);
    }
    Ok(Exit::Ok)
}

/// Prints what a workload is.
pub fn show(args: &WorkloadShowArgs) -> io::Result<Exit> {
    match super::Workload::load(&args.file) {
        Ok(workload) => {
            print(&mut io::stdout().lock(), workload.header())?;
            Ok(Exit::Ok)
        }
        Err(error) => {
            eprintln!("strandline-bench: {}: {error}", args.file.display());
            Ok(Exit::Failed)
        }
    }
}

fn print(out: &mut impl Write, header: &Header) -> io::Result<()> {
    let seconds = header.duration_us as f64 / 1e6;
    let per_second = |count: u64| {
        if seconds > 0.0 {
            count as f64 / seconds
        } else {
            0.0
        }
    };
    writeln!(
        out,
        "captured  {} records of {} in {seconds:.1} s: {} records/s, {}",
        format_count(header.records),
        header.topic,
        format_count(per_second(header.records).round() as u64),
        format_byte_rate(per_second(header.value_bytes))
    )?;
    writeln!(
        out,
        "partitions {}, {} of them with records; codec {}, compressibility {:.2}",
        header.partitions,
        header.sections.len(),
        header.codec,
        header.compressibility
    )?;
    writeln!(
        out,
        "keys      {} told apart, {} records without one",
        format_count(header.keys),
        format_count(header.without_key)
    )?;
    if header.received_times > 0 {
        writeln!(
            out,
            "times     {} records bear another time than now and count from when they were received",
            format_count(header.received_times)
        )?;
    }
    Ok(())
}

/// Captures to `path`; the header, and how many batches could not be read. The error is a sentence.
fn capture(args: &CaptureArgs, path: &Path, interrupted: &Arc<AtomicBool>) -> Result<(Header, u64), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let dialer = match &args.command_config {
        Some(config) => Dialer::new(Security::from_file(config)?),
        None => Dialer::default(),
    };
    let mut cluster = Cluster::connect(&dialer, &args.bootstrap_server).map_err(|error| text(&error))?;
    let layout = cluster
        .existing_topic(&args.topic)
        .map_err(|error| text(&error))?;
    let fetch_version = cluster.fetch_version().ok_or("the broker does not serve Fetch")?;
    let start_offsets = cluster.end_offsets(&layout).map_err(|error| text(&error))?;
    let clock = Clock::start();
    let plan = ConsumePlan {
        dialer,
        clock,
        start: Arc::default(),
        run: 0,
        fetch_version,
        end_offsets: OnceLock::new(),
        start_offsets,
        paused: None,
        rate: None,
        fetch_bytes: MAX_BYTES,
        layout,
    };
    let lanes = plan
        .layout
        .leaders
        .iter()
        .map(|(address, partitions)| {
            let positions = partitions
                .iter()
                .map(|&partition| Position {
                    partition,
                    offset: plan.start_offsets.get(&partition).copied().unwrap_or(0),
                    end: None,
                })
                .collect();
            Lane::new(address, positions)
        })
        .collect();
    let mut capture = Capture {
        clock,
        until: clock.now() + args.duration.as_nanos() as Nanos,
        most: args.num_records.unwrap_or(u64::MAX),
        lanes,
        notes: Notes::new(clock),
    };
    say(format!(
        "capturing {} for {}; Ctrl-C ends it early",
        args.topic,
        crate::units::format_nanos(args.duration.as_nanos() as u64)
    ));
    let lasted = capture.run(&plan, interrupted);
    let partitions = plan.layout.each;
    capture
        .notes
        .finish(&args.topic, partitions, lasted, path)
        .map_err(|error| format!("{}: {error}", path.display()))
}

struct Capture {
    clock: Clock,
    until: Nanos,
    most: u64,
    lanes: Vec<Lane>,
    notes: Notes,
}

impl Capture {
    /// Reads until the time is over, it is interrupted, or there is no room; returns how long it took.
    fn run(&mut self, plan: &ConsumePlan, interrupted: &AtomicBool) -> Nanos {
        let began = self.clock.now();
        let mut next_line = began + SAY_EVERY;
        loop {
            let now = self.clock.now();
            let enough = self.notes.taken >= self.most;
            if now >= self.until || enough || interrupted.load(Ordering::Relaxed) {
                return now - began;
            }
            if self.notes.writer.is_full() {
                say("the capture is full and ends here");
                return now - began;
            }
            if now >= next_line {
                next_line += SAY_EVERY;
                say(format!("{} records", format_count(self.notes.taken)));
            }
            for lane in &mut self.lanes {
                lane.ask(plan, now);
            }
            self.wait(plan);
        }
    }

    fn wait(&mut self, plan: &ConsumePlan) {
        for lane in wait_for_answers(&mut self.lanes, LOOK_EVERY) {
            if lane.receive(plan, &mut self.notes).is_err() {
                lane.lose_connection(self.clock.now());
            }
        }
    }
}

/// What is written down.
struct Notes {
    clock: Clock,
    writer: Writer,
    /// The wall time in ms from which all times count.
    base_ms: i64,
    /// Of each partition the records of its last millisecond, which are spread over it once it is over.
    last_ms: HashMap<i32, (u64, Vec<Captured>)>,
    /// The numbers of keys, by their hash.
    keys: HashMap<u64, u64>,
    codecs: BTreeMap<&'static str, u64>,
    /// Bytes of compressed batches, and of what was in them.
    compressed: (u64, u64),
    received_times: u64,
    taken: u64,
    damaged: u64,
}

impl Notes {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            writer: Writer::default(),
            base_ms: clock.wall_ms(clock.now()),
            last_ms: HashMap::new(),
            keys: HashMap::new(),
            codecs: BTreeMap::new(),
            compressed: (0, 0),
            received_times: 0,
            taken: 0,
            damaged: 0,
        }
    }

    fn batch(&mut self, partition: i32, batch: &Batch<'_>, now: Nanos) {
        let now_ms = self.clock.wall_ms(now);
        let mut inside = 0;
        let mut taken = Vec::new();
        let walked = for_each_record(batch.bytes, DECOMPRESSED_BYTES_MAX, |record| {
            let key = record.key.map(|key| (xxh3_64(key), key.len()));
            let value_bytes = record.value.map_or(0, <[u8]>::len);
            inside += value_bytes + key.map_or(0, |(_, bytes)| bytes);
            taken.push((record.timestamp, value_bytes, key));
            ControlFlow::<()>::Continue(())
        });
        if walked.is_err() {
            self.damaged += 1;
            return;
        }
        let codec = batch.header.codec().unwrap_or(Codec::None);
        *self.codecs.entry(codec.name()).or_default() += 1;
        if codec != Codec::None {
            self.compressed.0 += batch.bytes.len() as u64;
            self.compressed.1 += inside as u64;
        }
        self.taken += taken.len() as u64;
        for (timestamp, value_bytes, key) in taken {
            let at_ms = if (timestamp - now_ms).abs() > CLOCKS_APART_MS_MAX {
                self.received_times += 1;
                now_ms
            } else {
                timestamp
            };
            let record = Captured {
                at_us: at_ms.saturating_sub(self.base_ms).max(0) as u64 * US_A_MS,
                value_bytes,
                key: key.map(|(hash, bytes)| CapturedKey {
                    number: self.number_of(hash),
                    bytes,
                }),
            };
            self.spread(partition, record);
        }
    }

    fn number_of(&mut self, hash: u64) -> u64 {
        let known = self.keys.len() as u64;
        if self.keys.len() < KEYS_MAX {
            *self.keys.entry(hash).or_insert(known)
        } else {
            self.keys.get(&hash).copied().unwrap_or(hash % KEYS_MAX as u64)
        }
    }

    /// Records know their millisecond only: those of one are spread evenly over it.
    fn spread(&mut self, partition: i32, record: Captured) {
        let (at_us, waiting) = self.last_ms.entry(partition).or_default();
        if record.at_us > *at_us {
            write_spread(&mut self.writer, partition, waiting);
            *at_us = record.at_us;
        }
        waiting.push(Captured {
            at_us: *at_us,
            ..record
        });
    }

    fn finish(
        mut self,
        topic: &str,
        partitions: i32,
        lasted: Nanos,
        path: &Path,
    ) -> Result<(Header, u64), format::WorkloadError> {
        for (partition, (_, waiting)) in &mut self.last_ms {
            write_spread(&mut self.writer, *partition, waiting);
        }
        let codec = self.codecs.iter().max_by_key(|(_, batches)| **batches);
        let (after, before) = self.compressed;
        let header = Header {
            topic: topic.to_owned(),
            captured_at_ms: self.base_ms,
            duration_us: lasted / 1000,
            partitions,
            keys: self.keys.len() as u64,
            codec: codec.map_or("none", |(name, _)| name).to_owned(),
            compressibility: if before > after {
                1.0 - after as f64 / before as f64
            } else {
                0.0
            },
            received_times: self.received_times,
            ..Header::default()
        };
        Ok((self.writer.write(path, header)?, self.damaged))
    }
}

fn write_spread(writer: &mut Writer, partition: i32, waiting: &mut Vec<Captured>) {
    let count = waiting.len() as u64;
    for (place, record) in (0..).zip(waiting.drain(..)) {
        let at_us = record.at_us + place * US_A_MS / count;
        writer.record(partition, &Captured { at_us, ..record });
    }
}

impl Records for Notes {
    fn take(&mut self, position: &mut Position, record_set: &[u8], now: Nanos) -> bool {
        let before = position.offset;
        for batch in batches(record_set) {
            let Ok(batch) = batch else {
                self.damaged += 1;
                break;
            };
            // A fetch may begin in the middle of a batch: the part before was there when the capture began.
            if !batch.header.is_control() && batch.header.last_offset() >= position.offset {
                self.batch(position.partition, &batch, now);
            }
            position.offset = batch.header.last_offset() + 1;
        }
        position.offset > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strandline_wire::batch::BatchBuilder;

    #[test]
    fn a_batch_leaves_times_sizes_and_the_numbers_of_keys() {
        let clock = Clock::start();
        let mut notes = Notes::new(clock);
        let base = notes.base_ms;
        let mut batch = BatchBuilder::new().compression(Codec::Zstd);
        let value = [b'x'; 1000];
        batch.record(base + 5, Some(b"alice"), Some(&value));
        batch.record(base + 5, Some(b"bob"), Some(&value[..500]));
        batch.record(base + 7, Some(b"alice"), None);
        batch.record(base + 7 - 3_600_000, None, Some(&value));
        let bytes = batch.finish().unwrap();
        let mut position = Position {
            partition: 3,
            offset: 0,
            end: None,
        };
        assert!(notes.take(&mut position, &bytes, clock.now() + 20_000_000));
        assert_eq!(position.offset, 4);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.workload");
        let (header, damaged) = notes.finish("t", 4, 1_000_000_000, &path).unwrap();
        assert_eq!((header.records, header.value_bytes, header.keys), (4, 2500, 2));
        assert_eq!((header.without_key, header.received_times, damaged), (1, 1, 0));
        assert_eq!(header.codec, "zstd");
        assert!(header.compressibility > 0.9, "{header:?}");
        let raw = std::fs::read(&path).unwrap();
        for word in ["alice", "bob", "xxxx"] {
            let found = raw.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(!found, "{word} is in the file");
        }

        let workload = super::super::Workload::load(&path).unwrap();
        let mut cursor = super::super::Cursor::new(&workload, 3, (0, 1), 1.0);
        let mut seen = Vec::new();
        while let Some(record) = cursor.peek() {
            seen.push((
                record.at_us,
                record.value_bytes,
                record.key.map(|key| (key.number, key.bytes)),
            ));
            cursor.advance();
        }
        assert_eq!(
            seen[..3],
            [
                (5_000, 1000, Some((0, 5))),
                (5_500, 500, Some((1, 3))),
                (7_000, 0, Some((0, 5)))
            ],
            "two in one millisecond are spread over it"
        );
        assert!(
            seen[3].0 >= 7_000 && seen[3].1 == 1000,
            "received later, whatever it says"
        );
    }
}
