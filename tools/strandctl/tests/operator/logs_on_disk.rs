//! `log dump` and `log export` read what a broker left, whole or torn, and write nothing there.

use std::fs;
use std::path::{Path, PathBuf};

use strandline_storage::format::checkpoint::{Checkpoint, Incarnation, LogCheckpoint, SegmentCheckpoint};
use strandline_storage::format::checksum::log_key;
use strandline_storage::format::entry::{EntryIdentity, EntryWriter, RingPosition, entry_bytes};
use strandline_storage::format::frame::{
    FRAME_FORMAT, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, frame_bytes, pad_bytes, seal_frame, seal_pad,
};
use strandline_storage::format::{names, piece::Control, round_up};
use strandline_storage::{LogId, Sequence, TopicPartitionId};
use strandline_wire::batch::BatchBuilder;
use uuid::Uuid;

use crate::support::{Run, strandctl};

const LOG: LogId = LogId(1);
const JOURNAL_ID: u64 = 77;

fn id() -> TopicPartitionId {
    TopicPartitionId {
        topic_id: Uuid::from_u128(0x1234),
        partition: 2,
    }
}

/// A frame with one batch, and its checksum.
fn frame(base_offset: i64, values: &[&str], previous: u64) -> (Vec<u8>, u64) {
    let mut builder = BatchBuilder::new().base_offset(base_offset).leader_epoch(0);
    for value in values {
        builder.record(1_700_000_000_000, Some(b"key"), Some(value.as_bytes()));
    }
    let batch = builder.finish().unwrap();
    let header = FrameHeader {
        previous,
        base_offset,
        max_timestamp: 1_700_000_000_000,
        payload_length: batch.len() as u32,
        last_offset_delta: values.len() as u32 - 1,
        magic: FRAME_MAGIC,
        format: FRAME_FORMAT,
        ..FrameHeader::default()
    };
    let mut frame = vec![0; frame_bytes(batch.len())];
    frame[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + batch.len()].copy_from_slice(&batch);
    let checksum = seal_frame(&mut frame, &header, log_key(id()));
    (frame, checksum)
}

/// A shard with one log: offsets 0 to 3 in a segment, what `Journal` adds in the journal.
struct Data {
    folder: tempfile::TempDir,
    checkpoint: Checkpoint,
    journal: Vec<u8>,
    sequence: u64,
    previous: u64,
    durable: u64,
}

impl Data {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shard = folder.path().join("shard-0");
        let log_folder = shard.join(names::LOGS).join(names::log_folder(id(), LOG));
        fs::create_dir_all(&log_folder).unwrap();
        let (mut segment, checksum) = frame(0, &["a", "b"], 0);
        segment.extend(frame(2, &["c"], checksum).0);
        let written = segment.len();
        segment.resize(written + pad_bytes(written), 0);
        seal_pad(&mut segment[written..], 3, log_key(id()));
        fs::write(log_folder.join(names::segment(0, 1)), &segment).unwrap();
        let checkpoint = Checkpoint {
            generation: 1,
            journal_id: JOURNAL_ID,
            journal_files: 2,
            journal_file_bytes: 64 * 1024,
            incarnations: vec![Incarnation {
                incarnation: 1,
                first_sequence: 1,
                follows: 0,
            }],
            next_log_id: 2,
            logs: vec![LogCheckpoint {
                log_id: LOG.0,
                topic_id: *id().topic_id.as_bytes(),
                partition: id().partition,
                end_offset: 3,
                damaged_from: -1,
                segments: vec![SegmentCheckpoint {
                    end_offset: 3,
                    number: 1,
                    valid_length: segment.len() as u64,
                    ..SegmentCheckpoint::default()
                }],
                ..LogCheckpoint::default()
            }],
            ..Checkpoint::default()
        };
        fs::write(shard.join(names::CHECKPOINTS[0]), checkpoint.encode()).unwrap();
        Self {
            folder,
            checkpoint,
            journal: Vec::new(),
            sequence: 0,
            previous: 0,
            durable: 0,
        }
    }

    fn shard(&self) -> PathBuf {
        self.folder.path().join("shard-0")
    }

    /// Adds a journal entry with a frame or another change.
    fn entry(&mut self, frame: Option<(Vec<u8>, u64)>, control: Option<Control>) -> &mut Self {
        let control = control.map(|control| control.encode());
        let control_bytes = control.as_ref().map_or(0, |bytes| round_up(bytes.len(), 8));
        let frame_bytes = frame.as_ref().map_or(0, |(bytes, _)| bytes.len());
        let pieces = usize::from(control.is_some()) + usize::from(frame.is_some());
        let mut bytes = vec![0; entry_bytes(pieces, control_bytes, frame_bytes)];
        let mut writer = EntryWriter::new(&mut bytes, pieces, control_bytes, frame_bytes);
        if let Some(control) = &control {
            writer.control(LOG, control);
        }
        if let Some((frame, checksum)) = &frame {
            writer.frame(LOG, *checksum, frame);
        }
        self.sequence += 1;
        self.previous = writer.finish(&EntryIdentity {
            journal_id: JOURNAL_ID,
            incarnation: 1,
            sequence: Sequence(self.sequence),
            previous: self.previous,
            durable: Sequence(self.durable),
            at: RingPosition {
                file: 0,
                position: self.journal.len() as u64,
            },
        });
        self.journal.extend(bytes);
        fs::write(self.shard().join(names::journal(0)), &self.journal).unwrap();
        self
    }

    fn path(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    fn dump(&self, extra: &[&str]) -> Run {
        self.unchanged_by(|| {
            strandctl(
                "127.0.0.1:1",
                &[&["log", "dump", self.path()], extra].concat(),
                "",
            )
        })
    }

    /// Exports everything; returns the run and the bytes of the segment.
    fn export(&self) -> (Run, Vec<u8>) {
        let target = tempfile::tempdir().unwrap();
        let kafka = target.path().join("out");
        let arguments = [
            "log",
            "export",
            "--json",
            "--kafka",
            kafka.to_str().unwrap(),
            self.path(),
        ];
        let run = self.unchanged_by(|| strandctl("127.0.0.1:1", &arguments, ""));
        let folder = run.json()[0]["folder"].as_str().unwrap().to_owned();
        assert_eq!(
            Path::new(&folder).file_name().unwrap(),
            "AAAAAAAAAAAAAAAAAAASNA-2"
        );
        let segment = fs::read(Path::new(&folder).join("00000000000000000000.log")).unwrap();
        (run, segment)
    }

    /// Checks that no file of the directory changes meanwhile.
    fn unchanged_by(&self, run: impl FnOnce() -> Run) -> Run {
        let before = contents(self.folder.path());
        let result = run();
        assert_eq!(contents(self.folder.path()), before);
        result
    }
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(contents(&path));
        } else {
            files.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

/// The Kafka batches of frames.
fn batches(frames: &[(i64, &[&str])]) -> Vec<u8> {
    let batch = |&(base_offset, values): &(i64, &[&str])| {
        let (frame, _) = frame(base_offset, values, 0);
        let length = FrameHeader::decode(&frame).unwrap().unpadded_bytes();
        frame[FRAME_HEADER_BYTES..length].to_vec()
    };
    frames.iter().flat_map(batch).collect()
}

#[test]
fn an_export_has_what_segments_and_journal_hold() {
    let mut data = Data::new();
    data.entry(Some(frame(3, &["d", "e"], 9)), None)
        .entry(Some(frame(5, &["f"], 9)), None);
    let (run, segment) = data.export();
    let run = run.succeeded();
    assert_eq!(
        segment,
        batches(&[(0, &["a", "b"]), (2, &["c"]), (3, &["d", "e"]), (5, &["f"])])
    );
    assert_eq!(run.json()[0]["end_offset"], 6);
}

#[test]
fn an_export_obeys_truncations_and_start_offsets() {
    let mut data = Data::new();
    data.entry(Some(frame(3, &["lost"], 9)), None)
        .entry(None, Some(Control::Truncate { offset: 2 }))
        .entry(Some(frame(2, &["new"], 9)), None)
        .entry(None, Some(Control::StartOffset { offset: 2 }));
    let target = tempfile::tempdir().unwrap();
    let kafka = target.path().to_str().unwrap().to_owned();
    strandctl(
        "127.0.0.1:1",
        &["log", "export", "--kafka", &kafka, data.path()],
        "",
    )
    .succeeded();
    let segment = target
        .path()
        .join("AAAAAAAAAAAAAAAAAAASNA-2/00000000000000000002.log");
    assert_eq!(fs::read(segment).unwrap(), batches(&[(2, &["new"])]));
}

#[test]
fn an_export_has_logs_that_only_the_journal_knows() {
    let mut data = Data::new();
    let log_folder = data.shard().join(names::LOGS);
    fs::remove_dir_all(log_folder).unwrap();
    let checkpoint = Checkpoint {
        logs: Vec::new(),
        next_log_id: LOG.0,
        ..data.checkpoint.clone()
    };
    fs::write(data.shard().join(names::CHECKPOINTS[0]), checkpoint.encode()).unwrap();
    let topic_id = *id().topic_id.as_bytes();
    let create = Control::Create {
        topic_id,
        partition: 2,
        start_offset: 0,
        damaged: false,
    };
    data.entry(Some(frame(0, &["first"], 0)), Some(create.clone()))
        .entry(Some(frame(1, &["second"], 9)), None);
    let (run, segment) = data.export();
    run.succeeded();
    assert_eq!(segment, batches(&[(0, &["first"]), (1, &["second"])]));

    // The same log, deleted before the checkpoint: its creation in the journal does not bring it back.
    let checkpoint = Checkpoint {
        next_log_id: LOG.0 + 1,
        ..checkpoint
    };
    fs::write(data.shard().join(names::CHECKPOINTS[0]), checkpoint.encode()).unwrap();
    let target = tempfile::tempdir().unwrap();
    let run = strandctl(
        "127.0.0.1:1",
        &[
            "log",
            "export",
            "--kafka",
            target.path().to_str().unwrap(),
            data.path(),
        ],
        "",
    );
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("holds no such log"), "{}", run.stderr);
}

#[test]
fn missing_offsets_are_damage() {
    let mut data = Data::new();
    data.entry(Some(frame(4, &["e"], 9)), None);
    let (run, segment) = data.export();
    assert_eq!(run.code, 1);
    assert!(
        run.stdout.contains("offsets 3 to 4 are missing"),
        "{}",
        run.stdout
    );
    assert_eq!(segment, batches(&[(0, &["a", "b"]), (2, &["c"])]));
}

#[test]
fn a_torn_tail_is_no_damage_and_a_durable_entry_that_is_not_whole_is() {
    let mut data = Data::new();
    data.entry(Some(frame(3, &["d"], 9)), None);
    let torn = data.journal.len();
    data.entry(Some(frame(4, &["e"], 9)), None);
    // Entries of one small frame take a page: the frame begins behind header and directory.
    let frame_at = torn + 80 + 32;
    data.journal[frame_at + 100] ^= 1;
    let journal = data.shard().join(names::journal(0));
    fs::write(&journal, &data.journal).unwrap();
    let (run, segment) = data.export();
    run.succeeded();
    assert_eq!(segment, batches(&[(0, &["a", "b"]), (2, &["c"]), (3, &["d"])]));

    data.durable = 2;
    data.entry(Some(frame(5, &["f"], 9)), None);
    let (run, segment) = data.export();
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("1 damaged place"), "{}", run.stderr);
    assert_eq!(segment, batches(&[(0, &["a", "b"]), (2, &["c"]), (3, &["d"])]));
}

#[test]
fn a_dump_shows_every_structure_and_its_records() {
    let mut data = Data::new();
    data.entry(
        Some(frame(3, &["d"], 9)),
        Some(Control::EpochStart { epoch: 4, offset: 3 }),
    );
    let run = data.dump(&["--records"]).succeeded();
    for expected in [
        "checkpoint ",
        "log 1 is 00000000-0000-0000-0000-000000001234-2: offsets 0 to 3",
        "sequence 1, incarnation 1, durable 0, 2 pieces",
        "log 1: leader epoch 4 starts at offset 3",
        "frame of log 1: offsets 3 to 4",
        "frame at 0: offsets 0 to 2",
        "batch: 2 records, codec none",
        r#"record 1: timestamp 1700000000000, key "key", value "b""#,
        "pad at ",
    ] {
        assert!(run.stdout.contains(expected), "{expected}\n{}", run.stdout);
    }
    let kinds: Vec<_> = data.dump(&["--json"]).succeeded().json();
    assert!(
        kinds
            .iter()
            .any(|item| item["kind"] == "frame" && item["end_offset"] == 4)
    );
}

#[test]
fn a_dump_finds_damage_that_the_checkpoint_vouches_for() {
    let data = Data::new();
    let segment = data
        .shard()
        .join(names::LOGS)
        .join(names::log_folder(id(), LOG))
        .join(names::segment(0, 1));
    let mut bytes = fs::read(&segment).unwrap();
    bytes[100] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let run = data.dump(&[]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("DAMAGE "), "{}", run.stdout);
    assert!(run.stderr.contains("1 damaged place"), "{}", run.stderr);
}

#[test]
fn a_running_brokers_directory_and_strange_paths_are_refused() {
    let data = Data::new();
    let lock = fs::File::create(data.folder.path().join("lock")).unwrap();
    lock.try_lock().unwrap();
    let target = tempfile::tempdir().unwrap();
    let kafka = target.path().join("out");
    let run = strandctl(
        "127.0.0.1:1",
        &["log", "export", "--kafka", kafka.to_str().unwrap(), data.path()],
        "",
    );
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("a broker runs on it"), "{}", run.stderr);
    assert!(!kafka.exists());
    let run = strandctl(
        "127.0.0.1:1",
        &["log", "dump", target.path().to_str().unwrap()],
        "",
    );
    assert_eq!(run.code, 2, "{}", run.stderr);
}
