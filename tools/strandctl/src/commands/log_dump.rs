//! `log dump`: what checkpoints, journals and segments hold, item by item.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use strandline_storage::format::checkpoint::Checkpoint;
use strandline_storage::format::checksum::log_key;
use strandline_storage::format::entry::{Piece, pieces};
use strandline_storage::format::frame::{FRAME_HEADER_BYTES, verify_frame};
use strandline_storage::format::names;
use strandline_storage::format::piece::Control;
use strandline_storage::{LogId, TopicPartitionId};
use strandline_wire::batch::{BatchHeader, check_crc, for_each_record};
use uuid::Uuid;

use super::dump_item::{Item, RecordItem};
use crate::cli::LogDumpArgs;
use crate::failure::Failure;
use crate::log_files::frames::{FrameReader, Next};
use crate::log_files::journal::{JournalFile, open_ring};
use crate::log_files::place::{Place, recognise};
use crate::log_files::shard::{newest_checkpoint, read_checkpoint};
use crate::log_files::{Damage, file_names};
use crate::output::{Output, count};

/// A bound on what one batch may decompress to, as for a consumer.
const DECOMPRESSED_MAX_BYTES: usize = 1024 * 1024 * 1024;

/// `strandctl log dump`
pub fn run(arguments: &LogDumpArgs, output: &mut Output) -> Result<(), Failure> {
    let path = &arguments.path;
    let mut dump = Dump {
        output,
        records: arguments.records,
        damaged: 0,
    };
    match recognise(path)? {
        Place::Data { shards } => shards.iter().try_for_each(|shard| dump.shard(shard))?,
        Place::Shard => dump.shard(path)?,
        Place::Log { id, log } => dump.log(path, id, log, grandparent_checkpoint(path).as_ref())?,
        Place::Segment { id, .. } => dump.segment(path, id, None)?,
        Place::Checkpoint => dump.checkpoint(path)?,
        Place::Journal { file } => {
            let checkpoint = path.parent().and_then(|shard| newest_checkpoint(shard).ok());
            let file = JournalFile::open(path, file)?;
            dump.journal(&[file], checkpoint.map(|(_, checkpoint)| checkpoint).as_ref())?;
        }
    }
    match dump.damaged {
        0 => Ok(()),
        damaged => Err(Failure::Failed(count(damaged, "damaged place"))),
    }
}

/// The checkpoint of the shard that a log's folder lies in.
fn grandparent_checkpoint(log_folder: &Path) -> Option<Checkpoint> {
    let folder = log_folder.canonicalize().ok()?;
    let (_, checkpoint) = newest_checkpoint(folder.parent()?.parent()?).ok()?;
    Some(checkpoint)
}

struct Dump<'a> {
    output: &'a mut Output,
    records: bool,
    damaged: u64,
}

impl Dump<'_> {
    fn print(&mut self, item: Item) -> Result<(), Failure> {
        if self.output.is_json() {
            self.output.json(&item)
        } else {
            self.output.line(item)
        }
    }

    fn damage(&mut self, damage: Damage) -> Result<(), Failure> {
        self.damaged += 1;
        self.print(Item::Damage {
            file: damage.path,
            position: damage.position,
            reason: damage.reason,
        })
    }

    fn shard(&mut self, shard: &Path) -> Result<(), Failure> {
        for slot in names::CHECKPOINTS {
            let path = shard.join(slot);
            if path.exists() {
                self.checkpoint(&path)?;
            }
        }
        let (_, checkpoint) = newest_checkpoint(shard)?;
        self.journal(&open_ring(shard, checkpoint.journal_files)?, Some(&checkpoint))?;
        let logs = shard.join(names::LOGS);
        if !logs.exists() {
            return Ok(());
        }
        for name in file_names(&logs)? {
            if let Some((id, log)) = names::parse_log_folder(&name) {
                self.log(&logs.join(name), id, log, Some(&checkpoint))?;
            }
        }
        Ok(())
    }

    /// One slot. That one of the two is torn is what a crash leaves, and no damage by itself.
    fn checkpoint(&mut self, path: &Path) -> Result<(), Failure> {
        match read_checkpoint(path) {
            Ok(checkpoint) => Item::of_checkpoint(path, &checkpoint)
                .into_iter()
                .try_for_each(|item| self.print(item)),
            Err(failure) => self.print(Item::Unreadable {
                file: path.to_owned(),
                reason: failure.to_string(),
            }),
        }
    }

    fn journal(&mut self, ring: &[JournalFile], checkpoint: Option<&Checkpoint>) -> Result<(), Failure> {
        let journal_id = checkpoint.map(|checkpoint| checkpoint.journal_id);
        let mut known: BTreeMap<LogId, TopicPartitionId> = checkpoint
            .map(|checkpoint| {
                checkpoint
                    .logs
                    .iter()
                    .map(|log| (log.log_id(), log.id()))
                    .collect()
            })
            .unwrap_or_default();
        let mut entries: Vec<_> = ring
            .iter()
            .flat_map(|file| {
                file.entries(journal_id)
                    .into_iter()
                    .map(move |entry| (file, entry))
            })
            .collect();
        // In the order of the journal, not of the ring: a log's creation comes before its frames.
        entries.sort_by_key(|(_, entry)| entry.header.sequence);
        for (file, entry) in entries {
            self.print(Item::of_entry(&file.path, &entry))?;
            let pieces = match pieces(file.bytes_of(&entry), &entry.header) {
                Ok(pieces) => pieces,
                Err(error) => {
                    let position = entry.at.position;
                    self.damage(Damage {
                        path: file.path.clone(),
                        position,
                        reason: error.to_string(),
                    })?;
                    continue;
                }
            };
            for piece in pieces {
                match piece {
                    Piece::Control { log, control } => {
                        if let Control::Create {
                            topic_id, partition, ..
                        } = &control
                        {
                            let topic_id = Uuid::from_bytes(*topic_id);
                            known.insert(
                                log,
                                TopicPartitionId {
                                    topic_id,
                                    partition: *partition,
                                },
                            );
                        }
                        self.print(Item::of_control(log, &control))?;
                    }
                    Piece::Frame { log, bytes, .. } => {
                        let place = (file.path.as_path(), entry.at.position);
                        self.journal_frame(place, log, known.get(&log).copied(), bytes)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn journal_frame(
        &mut self,
        (path, position): (&Path, u64),
        log: LogId,
        id: Option<TopicPartitionId>,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let Some(id) = id else {
            // Entries of earlier laps may be of logs that are gone, whose key nobody knows any more.
            return self.print(Item::FrameOfUnknownLog {
                log: log.0,
                bytes: bytes.len(),
            });
        };
        match verify_frame(bytes, log_key(id)) {
            Ok(header) => {
                self.print(Item::of_frame(Some(log), None, &header))?;
                self.batch(
                    path,
                    position,
                    &bytes[FRAME_HEADER_BYTES..header.unpadded_bytes()],
                )
            }
            Err(error) => {
                let reason = format!("log {log}: {error}");
                self.damage(Damage {
                    path: path.to_owned(),
                    position,
                    reason,
                })
            }
        }
    }

    fn log(
        &mut self,
        folder: &Path,
        id: TopicPartitionId,
        log: LogId,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(), Failure> {
        let segments = checkpoint
            .and_then(|checkpoint| checkpoint.logs.iter().find(|known| known.log_id == log.0))
            .map(|log| log.segments.as_slice())
            .unwrap_or_default();
        for name in file_names(folder)? {
            let Some((_, number)) = names::parse_segment(&name) else {
                continue;
            };
            let valid = segments
                .iter()
                .find(|segment| segment.number == number)
                .map(|segment| segment.valid_length);
            self.segment(&folder.join(name), id, valid)?;
        }
        Ok(())
    }

    /// A segment. `valid_length` is what the checkpoint vouches for: bytes beyond it may be anything.
    fn segment(
        &mut self,
        path: &Path,
        id: TopicPartitionId,
        valid_length: Option<u64>,
    ) -> Result<(), Failure> {
        self.print(Item::Segment {
            file: path.to_owned(),
            partition: id.to_string(),
            valid_length,
        })?;
        let mut reader = FrameReader::open(path, id, None)?;
        loop {
            match reader.read_next()? {
                Next::End => return Ok(()),
                Next::Frame(frame) if frame.header.is_pad() => {
                    let bytes = frame.header.frame_bytes();
                    self.print(Item::Pad {
                        position: frame.position,
                        bytes,
                    })?;
                }
                Next::Frame(frame) => {
                    self.print(Item::of_frame(None, Some(frame.position), &frame.header))?;
                    self.batch(path, frame.position, frame.batch())?;
                }
                Next::Nothing(damage) if valid_length.is_some_and(|valid| damage.position < valid) => {
                    return self.damage(damage);
                }
                Next::Nothing(end) => {
                    return self.print(Item::End {
                        position: end.position,
                        reason: end.reason,
                    });
                }
            }
        }
    }

    /// The batch inside a frame: its own checks, and its records when asked for.
    fn batch(&mut self, path: &Path, position: u64, bytes: &[u8]) -> Result<(), Failure> {
        let damage = |reason: String| Damage {
            path: path.to_owned(),
            position,
            reason,
        };
        let header = match BatchHeader::decode(bytes) {
            Ok(header) => header,
            Err(error) => return self.damage(damage(error.to_string())),
        };
        if !check_crc(bytes) {
            return self.damage(damage("the CRC of the batch does not match".to_owned()));
        }
        self.print(Item::of_batch(&header))?;
        if !self.records {
            return Ok(());
        }
        let walked = for_each_record(bytes, DECOMPRESSED_MAX_BYTES, |record| {
            let item = Item::Record(RecordItem::new(&header, &record));
            match self.print(item) {
                Ok(()) => ControlFlow::Continue(()),
                Err(failure) => ControlFlow::Break(failure),
            }
        });
        match walked {
            Ok(None) => Ok(()),
            Ok(Some(failure)) => Err(failure),
            Err(error) => self.damage(damage(error.to_string())),
        }
    }
}
