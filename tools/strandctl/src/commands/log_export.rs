//! `log export --kafka`: a log in Kafka's own segment format, for `kafka-dump-log` and whatever else reads it.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use strandline_wire::batch::{BatchHeader, check_crc};
use uuid::Uuid;

use crate::cli::LogExportArgs;
use crate::failure::Failure;
use crate::log_files::place::{Place, recognise};
use crate::log_files::shard::{Shard, ShardLog, StoredBatch};
use crate::log_files::topic_names::read_topic_names;
use crate::output::{Output, count, topic_id_text};

/// Kafka's default `segment.bytes`; a segment is closed before it passes it.
const SEGMENT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// The lock that a running broker holds on its data directory.
const LOCK_FILE: &str = "lock";

/// `strandctl log export`
pub fn run(arguments: &LogExportArgs, output: &mut Output) -> Result<(), Failure> {
    let data = &arguments.data_dir;
    let shards = match recognise(data)? {
        Place::Data { shards } => shards,
        _ => return Err(Failure::usage(format!("{} is no data directory", data.display()))),
    };
    let _lock = lock(data)?;
    let names = read_topic_names(data)?;
    let mut exported = 0;
    let mut damages = 0;
    for folder in shards {
        let shard = Shard::open(&folder)?;
        if let Some(damage) = &shard.journal_damage {
            damages += 1;
            eprintln!("strandctl: damaged: {damage}");
        }
        for log in shard.logs.values() {
            let name = names
                .get(&log.id.topic_id)
                .cloned()
                .unwrap_or_else(|| topic_id_text(log.id.topic_id));
            if !is_asked_for(arguments, log, &name) {
                continue;
            }
            let summary = export(&shard, log, &name, &arguments.kafka)?;
            exported += 1;
            damages += u64::from(summary.damage.is_some());
            print(&summary, output)?;
        }
    }
    if exported == 0 {
        return Err(Failure::Failed(format!("{} holds no such log", data.display())));
    }
    match damages {
        0 => Ok(()),
        damages => Err(Failure::Failed(format!(
            "{}: what follows it is not exported",
            count(damages, "damaged place")
        ))),
    }
}

/// Takes part in the lock of a data directory, so that no broker starts meanwhile; refused where one runs.
fn lock(data: &Path) -> Result<Option<File>, Failure> {
    let path = data.join(LOCK_FILE);
    let Ok(file) = File::open(&path) else {
        return Ok(None);
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => {
            let text = format!(
                "{}: a broker runs on it, and its logs are still changing: stop it first",
                data.display()
            );
            Err(Failure::Failed(text))
        }
        Err(fs::TryLockError::Error(source)) => Err(Failure::local(path.display().to_string(), source)),
    }
}

fn is_asked_for(arguments: &LogExportArgs, log: &ShardLog, name: &str) -> bool {
    let topic_fits = arguments.topic.as_ref().is_none_or(|asked| {
        asked == name || *asked == topic_id_text(log.id.topic_id) || *asked == log.id.topic_id.to_string()
    });
    topic_fits && arguments.partition.is_none_or(|asked| asked == log.id.partition)
}

#[derive(Debug, Serialize)]
struct Summary {
    topic: String,
    topic_id: String,
    partition: u32,
    folder: PathBuf,
    start_offset: i64,
    end_offset: i64,
    batches: u64,
    bytes: u64,
    damage: Option<String>,
}

fn print(summary: &Summary, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(summary);
    }
    let Summary {
        folder,
        start_offset,
        end_offset,
        batches,
        bytes,
        damage,
        ..
    } = summary;
    let batches = if *batches == 1 {
        "1 batch".to_owned()
    } else {
        format!("{batches} batches")
    };
    output.line(format_args!(
        "{}: offsets {start_offset} to {end_offset}, {batches}, {bytes} bytes",
        folder.display()
    ))?;
    damage
        .as_ref()
        .map_or(Ok(()), |damage| output.line(format_args!("  damaged: {damage}")))
}

fn export(shard: &Shard, log: &ShardLog, topic: &str, target: &Path) -> Result<Summary, Failure> {
    let folder = target.join(format!("{topic}-{}", log.id.partition));
    if folder.exists() {
        // Mixing with what stands there could make records of two logs look like one.
        return Err(Failure::Failed(format!(
            "{} exists already: name another --kafka folder",
            folder.display()
        )));
    }
    fs::create_dir_all(&folder).map_err(|source| Failure::local(folder.display().to_string(), source))?;
    let mut writer = KafkaLog::new(folder.clone());
    let damage = shard.for_each_batch(log, |batch| writer.append(&batch))?;
    writer.finish(log.id.topic_id, log.start_offset)?;
    let damage = damage.map(|damage| damage.to_string()).or_else(|| {
        log.damaged_from
            .map(|offset| format!("records from offset {offset} on may be missing"))
    });
    Ok(Summary {
        topic: topic.to_owned(),
        topic_id: topic_id_text(log.id.topic_id),
        partition: log.id.partition,
        folder,
        start_offset: log.start_offset,
        end_offset: writer.end_offset.unwrap_or(log.start_offset),
        batches: writer.batches,
        bytes: writer.bytes,
        damage,
    })
}

/// The folder of a partition as Kafka lays it out. Indexes are left out: a broker builds them at its start.
struct KafkaLog {
    folder: PathBuf,
    segment: Option<OpenSegment>,
    /// Leader epochs and their first offsets.
    epochs: Vec<(i32, i64)>,
    end_offset: Option<i64>,
    batches: u64,
    bytes: u64,
}

struct OpenSegment {
    path: PathBuf,
    file: BufWriter<File>,
    base_offset: i64,
    size: u64,
}

impl KafkaLog {
    fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            segment: None,
            epochs: Vec::new(),
            end_offset: None,
            batches: 0,
            bytes: 0,
        }
    }

    fn append(&mut self, batch: &StoredBatch<'_>) -> Result<(), Failure> {
        self.check(batch)?;
        let size = batch.bytes.len() as u64;
        let mut segment = match self.segment.take() {
            Some(segment) if segment.has_room(batch, size) => segment,
            full => {
                full.map_or(Ok(()), OpenSegment::close)?;
                OpenSegment::create(&self.folder, batch.base_offset)?
            }
        };
        segment.write(batch.bytes)?;
        self.segment = Some(segment);
        if self
            .epochs
            .last()
            .is_none_or(|&(epoch, _)| batch.leader_epoch > epoch)
        {
            self.epochs.push((batch.leader_epoch, batch.base_offset));
        }
        self.end_offset = Some(batch.end_offset);
        self.batches += 1;
        self.bytes += size;
        Ok(())
    }

    /// Frame and batch must agree: what is exported is read by programs that know only the batch.
    fn check(&self, batch: &StoredBatch<'_>) -> Result<(), Failure> {
        let wrong = |reason: String| {
            let place = format!("{} at offset {}", self.folder.display(), batch.base_offset);
            Failure::Failed(format!("{place}: {reason}"))
        };
        let header = BatchHeader::decode(batch.bytes).map_err(|error| wrong(error.to_string()))?;
        if header.base_offset != batch.base_offset || header.last_offset() + 1 != batch.end_offset {
            let (first, last) = (header.base_offset, header.last_offset());
            return Err(wrong(format!("the batch says offsets {first} to {last}")));
        }
        if header.size() != Some(batch.bytes.len()) {
            return Err(wrong(
                "the batch has another length than its frame says".to_owned(),
            ));
        }
        if !check_crc(batch.bytes) {
            return Err(wrong("the CRC of the batch does not match".to_owned()));
        }
        Ok(())
    }

    /// Closes the last segment and writes what Kafka keeps beside them.
    fn finish(&mut self, topic_id: Uuid, start_offset: i64) -> Result<(), Failure> {
        match self.segment.take() {
            Some(segment) => segment.close()?,
            // An empty log has an empty segment, which carries its start offset in its name.
            None => OpenSegment::create(&self.folder, start_offset)?.close()?,
        }
        let id = topic_id_text(topic_id);
        self.write_file("partition.metadata", &format!("version: 0\ntopic_id: {id}\n"))?;
        let epochs: String = self
            .epochs
            .iter()
            .map(|(epoch, offset)| format!("{epoch} {offset}\n"))
            .collect();
        self.write_file(
            "leader-epoch-checkpoint",
            &format!("0\n{}\n{epochs}", self.epochs.len()),
        )
    }

    fn write_file(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|source| Failure::local(path.display().to_string(), source))
    }
}

impl OpenSegment {
    fn create(folder: &Path, base_offset: i64) -> Result<Self, Failure> {
        let path = folder.join(format!("{base_offset:020}.log"));
        let file =
            File::create_new(&path).map_err(|source| Failure::local(path.display().to_string(), source))?;
        Ok(Self {
            path,
            file: BufWriter::with_capacity(1024 * 1024, file),
            base_offset,
            size: 0,
        })
    }

    /// Kafka's indexes hold offsets relative to the segment's, as i32.
    fn has_room(&self, batch: &StoredBatch<'_>, size: u64) -> bool {
        self.size + size <= SEGMENT_BYTES_MAX && batch.end_offset - self.base_offset <= i64::from(i32::MAX)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.size += bytes.len() as u64;
        self.file
            .write_all(bytes)
            .map_err(|source| Failure::local(self.path.display().to_string(), source))
    }

    fn close(mut self) -> Result<(), Failure> {
        let flushed = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        flushed.map_err(|source| Failure::local(self.path.display().to_string(), source))
    }
}

#[cfg(test)]
mod tests {
    use strandline_wire::batch::BatchBuilder;

    use super::*;

    fn batch(base_offset: i64, records: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new().base_offset(base_offset);
        for number in 0..records {
            builder.record(number as i64, Some(b"k"), Some(b"v"));
        }
        builder.finish().unwrap()
    }

    fn stored(bytes: &[u8], base_offset: i64, records: i64, leader_epoch: i32) -> StoredBatch<'_> {
        StoredBatch {
            base_offset,
            end_offset: base_offset + records,
            leader_epoch,
            bytes,
        }
    }

    #[test]
    fn a_partition_is_laid_out_as_kafka_does() {
        let target = tempfile::tempdir().unwrap();
        let mut log = KafkaLog::new(target.path().to_owned());
        let (first, second) = (batch(5, 2), batch(7, 1));
        log.append(&stored(&first, 5, 2, 0)).unwrap();
        log.append(&stored(&second, 7, 1, 3)).unwrap();
        log.finish(Uuid::from_u128(0), 5).unwrap();
        assert_eq!(
            fs::read(target.path().join("00000000000000000005.log")).unwrap(),
            [first, second].concat()
        );
        let text = |name: &str| fs::read_to_string(target.path().join(name)).unwrap();
        assert_eq!(
            text("partition.metadata"),
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n"
        );
        assert_eq!(text("leader-epoch-checkpoint"), "0\n2\n0 5\n3 7\n");
    }

    #[test]
    fn an_empty_log_keeps_its_start_offset() {
        let target = tempfile::tempdir().unwrap();
        KafkaLog::new(target.path().to_owned())
            .finish(Uuid::from_u128(0), 9)
            .unwrap();
        assert_eq!(
            fs::read(target.path().join("00000000000000000009.log")).unwrap(),
            b""
        );
    }

    #[test]
    fn a_batch_that_contradicts_its_frame_is_not_exported() {
        let target = tempfile::tempdir().unwrap();
        let mut log = KafkaLog::new(target.path().to_owned());
        let bytes = batch(5, 2);
        assert!(log.append(&stored(&bytes, 6, 2, 0)).is_err());
        assert!(log.append(&stored(&bytes, 5, 3, 0)).is_err());
        let mut broken = bytes.clone();
        *broken.last_mut().unwrap() ^= 1;
        assert!(log.append(&stored(&broken, 5, 2, 0)).is_err());
    }
}
