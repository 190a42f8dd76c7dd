//! What the logs of a shard hold: the segments that the checkpoint names, and what the journal adds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use strandline_storage::format::checkpoint::{Checkpoint, LogCheckpoint, SegmentCheckpoint};
use strandline_storage::format::checksum::log_key;
use strandline_storage::format::entry::{ENTRY_HEADER_BYTES, Piece, pieces};
use strandline_storage::format::frame::{FLAG_GAP, FRAME_HEADER_BYTES, FrameHeader, verify_frame};
use strandline_storage::format::names;
use strandline_storage::format::piece::{Control, PIECE_RECORD_BYTES, PieceRecord};
use strandline_storage::{LogId, TopicPartitionId};
use uuid::Uuid;

use super::frames::{FrameReader, Next};
use super::journal::{JournalFile, open_ring, replay};
use super::{Damage, unreadable};
use crate::failure::Failure;

/// The newest whole checkpoint of a shard, and the path of its slot.
pub fn newest_checkpoint(shard: &Path) -> Result<(PathBuf, Checkpoint), Failure> {
    let mut newest: Option<(PathBuf, Checkpoint)> = None;
    let mut reasons = Vec::new();
    for path in names::CHECKPOINTS.map(|slot| shard.join(slot)) {
        match read_checkpoint(&path) {
            Ok(checkpoint) => {
                if newest
                    .as_ref()
                    .is_none_or(|(_, known)| checkpoint.generation > known.generation)
                {
                    newest = Some((path, checkpoint));
                }
            }
            Err(failure) => reasons.push(failure.to_string()),
        }
    }
    newest.ok_or_else(|| {
        Failure::Failed(format!(
            "{}: no whole checkpoint: {}",
            shard.display(),
            reasons.join("; ")
        ))
    })
}

/// Reads one slot.
pub fn read_checkpoint(path: &Path) -> Result<Checkpoint, Failure> {
    let bytes = std::fs::read(path).map_err(|source| unreadable(path, source))?;
    Checkpoint::decode(&bytes).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
}

/// A batch of a log, in offset order.
#[derive(Debug)]
pub struct StoredBatch<'a> {
    /// Its first offset.
    pub base_offset: i64,
    /// The offset after its last.
    pub end_offset: i64,
    /// The epoch of the leader that appended it.
    pub leader_epoch: i32,
    /// The Kafka batch.
    pub bytes: &'a [u8],
}

/// A shard's directory, read once.
#[derive(Debug)]
pub struct Shard {
    /// The logs, by id.
    pub logs: BTreeMap<LogId, ShardLog>,
    /// Set when acknowledged entries of the journal are missing: every log may be short.
    pub journal_damage: Option<Damage>,
    journal: Vec<JournalFile>,
}

/// What is known of one log.
#[derive(Debug)]
pub struct ShardLog {
    /// The partition.
    pub id: TopicPartitionId,
    /// The first readable offset.
    pub start_offset: i64,
    /// The first offset that may be gone, where the broker met damage before.
    pub damaged_from: Option<i64>,
    /// The journal sequence that the checkpoint's part includes.
    sequence: u64,
    sources: Vec<Source>,
}

/// Where batches stand. A truncation limits every source before it.
#[derive(Debug)]
struct Source {
    bytes: SourceBytes,
    /// Batches from this offset on were cut.
    until: i64,
}

#[derive(Debug)]
enum SourceBytes {
    Segment {
        path: PathBuf,
        position: u64,
        length: u64,
    },
    Journal {
        file: usize,
        position: usize,
        length: usize,
        checksum: u64,
    },
}

impl Shard {
    /// Reads checkpoint and journal.
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        let (_, checkpoint) = newest_checkpoint(folder)?;
        let journal = open_ring(folder, checkpoint.journal_files)?;
        let mut shard = Self {
            logs: BTreeMap::new(),
            journal_damage: None,
            journal,
        };
        for log in &checkpoint.logs {
            shard
                .logs
                .insert(log.log_id(), ShardLog::from_checkpoint(log, folder));
        }
        shard.apply_journal(&checkpoint, folder)?;
        Ok(shard)
    }

    fn apply_journal(&mut self, checkpoint: &Checkpoint, folder: &Path) -> Result<(), Failure> {
        let replay = replay(&self.journal, checkpoint);
        let reason = match replay.missing_after {
            Some(sequence) => Some(format!(
                "acknowledged entries after sequence {sequence} are not whole"
            )),
            None if replay.is_checkpoint_outdated => Some(
                "it has entries of an open that the checkpoint does not know: a newer checkpoint is lost"
                    .to_owned(),
            ),
            None => None,
        };
        self.journal_damage = reason.map(|reason| Damage {
            path: folder.join(names::journal(checkpoint.replay_start.file)),
            position: checkpoint.replay_start.position,
            reason,
        });
        for entry in &replay.entries {
            let Some(index) = self.journal.iter().position(|file| file.number == entry.at.file) else {
                continue;
            };
            let file = &self.journal[index];
            let pieces = pieces(file.bytes_of(entry), &entry.header)
                .map_err(|error| Failure::Failed(format!("{}: {error}", file.path.display())))?;
            if entry.header.sequence > replay.durable && self.is_torn(&pieces) {
                break;
            }
            let mut positions =
                piece_positions(file.bytes_of(entry), entry.at.position as usize, pieces.len());
            for piece in pieces {
                let position = positions.next().unwrap_or_default();
                match piece {
                    Piece::Frame { log, checksum, bytes } => {
                        let source = SourceBytes::Journal {
                            file: index,
                            position,
                            length: bytes.len(),
                            checksum,
                        };
                        apply(&mut self.logs, log, entry.header.sequence, |log| log.push(source));
                    }
                    Piece::Control { log, control } => {
                        apply_control(
                            &mut self.logs,
                            log,
                            entry.header.sequence,
                            control,
                            checkpoint,
                            folder,
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// True when a frame of the entry is not whole: the entry was being written when the broker died. A frame must be the
    /// one that the directory names, since a recycled file may hold an older one of the same log in its place.
    fn is_torn(&self, pieces: &[Piece<'_>]) -> bool {
        let created = |wanted: LogId| {
            pieces.iter().find_map(|piece| match piece {
                Piece::Control {
                    log,
                    control:
                        Control::Create {
                            topic_id, partition, ..
                        },
                } if *log == wanted => {
                    let topic_id = Uuid::from_bytes(*topic_id);
                    Some(TopicPartitionId {
                        topic_id,
                        partition: *partition,
                    })
                }
                _ => None,
            })
        };
        pieces.iter().any(|piece| match piece {
            Piece::Frame { log, checksum, bytes } => {
                let id = self.logs.get(log).map(|log| log.id).or_else(|| created(*log));
                id.is_some_and(|id| verify_journal_frame(bytes, *checksum, id).is_err())
            }
            Piece::Control { .. } => false,
        })
    }

    /// Calls `visit` with the batches of a log in offset order. Returns the damage that ended it, if any.
    pub fn for_each_batch(
        &self,
        log: &ShardLog,
        visit: impl FnMut(StoredBatch<'_>) -> Result<(), Failure>,
    ) -> Result<Option<Damage>, Failure> {
        let mut walk = Walk {
            next_offset: log.start_offset,
            visit,
        };
        for source in &log.sources {
            let damage = match &source.bytes {
                SourceBytes::Segment {
                    path,
                    position,
                    length,
                } => {
                    let end = position.saturating_add(*length);
                    let reader = FrameReader::open(path, log.id, Some(end))?.starting_at(*position);
                    walk.segment(reader, end, source.until)?
                }
                SourceBytes::Journal {
                    file,
                    position,
                    length,
                    checksum,
                } => {
                    let file = &self.journal[*file];
                    let bytes = file.slice(*position, *length);
                    let reason = match verify_journal_frame(bytes, *checksum, log.id) {
                        Ok(header) => walk.take(
                            &header,
                            &bytes[FRAME_HEADER_BYTES..header.unpadded_bytes()],
                            source.until,
                        )?,
                        Err(reason) => Some(reason),
                    };
                    reason.map(|reason| Damage {
                        path: file.path.clone(),
                        position: *position as u64,
                        reason,
                    })
                }
            };
            if damage.is_some() {
                return Ok(damage);
            }
        }
        Ok(None)
    }
}

/// A walk over the sources of a log.
struct Walk<V> {
    next_offset: i64,
    visit: V,
}

impl<V: FnMut(StoredBatch<'_>) -> Result<(), Failure>> Walk<V> {
    /// The frames of a segment up to `end`, a position that the checkpoint or an extent vouches for.
    fn segment(&mut self, mut reader: FrameReader, end: u64, until: i64) -> Result<Option<Damage>, Failure> {
        loop {
            match reader.read_next()? {
                Next::Frame(frame) if frame.header.is_pad() => {}
                Next::Frame(frame) => {
                    if let Some(reason) = self.take(&frame.header, frame.batch(), until)? {
                        return Ok(Some(reader.damage_at(frame.position, reason)));
                    }
                }
                Next::Nothing(damage) => return Ok(Some(damage)),
                Next::End if reader.position() < end => {
                    return Ok(Some(
                        reader.damage_at(reader.position(), "the file ends too early".to_owned()),
                    ));
                }
                Next::End => return Ok(None),
            }
        }
    }

    /// Hands on one frame's batch, unless it was cut or had from another source before. Returns what is wrong with it.
    fn take(&mut self, header: &FrameHeader, bytes: &[u8], until: i64) -> Result<Option<String>, Failure> {
        let (base_offset, end_offset) = (header.base_offset, header.end_offset());
        // A frame may stand in a segment and still in the journal.
        if end_offset <= self.next_offset || base_offset >= until {
            return Ok(None);
        }
        if base_offset > self.next_offset && header.flags & FLAG_GAP == 0 {
            return Ok(Some(format!(
                "offsets {} to {base_offset} are missing",
                self.next_offset
            )));
        }
        self.next_offset = end_offset;
        (self.visit)(StoredBatch {
            base_offset,
            end_offset,
            leader_epoch: header.leader_epoch,
            bytes,
        })?;
        Ok(None)
    }
}

/// Where the pieces of an entry stand in its file, in their order.
fn piece_positions(entry: &[u8], entry_position: usize, count: usize) -> impl Iterator<Item = usize> {
    let directory = entry[ENTRY_HEADER_BYTES..]
        .chunks_exact(PIECE_RECORD_BYTES)
        .take(count);
    directory.map(move |record| {
        // Decoded before, when the pieces were.
        let within = PieceRecord::decode(record).map_or(0, |record| record.position as usize);
        entry_position + within
    })
}

/// Verifies a frame of the journal: whole, and the one that the directory names.
fn verify_journal_frame(bytes: &[u8], checksum: u64, id: TopicPartitionId) -> Result<FrameHeader, String> {
    let header = verify_frame(bytes, log_key(id)).map_err(|error| error.to_string())?;
    if header.checksum == checksum {
        Ok(header)
    } else {
        Err("frame: not the one that the directory names".to_owned())
    }
}

/// Applies a piece to its log, unless the checkpoint's part includes it.
fn apply(
    logs: &mut BTreeMap<LogId, ShardLog>,
    log: LogId,
    sequence: u64,
    change: impl FnOnce(&mut ShardLog),
) {
    if let Some(log) = logs.get_mut(&log)
        && sequence > log.sequence
    {
        change(log);
    }
}

fn apply_control(
    logs: &mut BTreeMap<LogId, ShardLog>,
    log: LogId,
    sequence: u64,
    control: Control,
    checkpoint: &Checkpoint,
    folder: &Path,
) {
    match control {
        Control::Create {
            topic_id,
            partition,
            start_offset,
            damaged,
        } => {
            let id = TopicPartitionId {
                topic_id: Uuid::from_bytes(topic_id),
                partition,
            };
            // Below the checkpoint's next id and not in it: the log was deleted since, and stays so.
            if log.0 >= checkpoint.next_log_id {
                logs.entry(log).or_insert(ShardLog {
                    id,
                    start_offset,
                    damaged_from: damaged.then_some(start_offset),
                    sequence: 0,
                    sources: Vec::new(),
                });
            }
        }
        Control::Delete => {
            if logs.get(&log).is_some_and(|known| sequence > known.sequence) {
                logs.remove(&log);
            }
        }
        Control::Truncate { offset } => apply(logs, log, sequence, |log| {
            log.sources
                .iter_mut()
                .for_each(|source| source.until = source.until.min(offset));
        }),
        Control::StartOffset { offset } => {
            apply(logs, log, sequence, |log| {
                log.start_offset = log.start_offset.max(offset)
            });
        }
        Control::Extent(extent) => apply(logs, log, sequence, |known| {
            let path = log_folder(folder, known.id, log)
                .join(names::segment(extent.segment_base, extent.segment_number));
            known.push(SourceBytes::Segment {
                path,
                position: extent.position,
                length: extent.length,
            });
        }),
        Control::AcceptLoss => apply(logs, log, sequence, |log| log.damaged_from = None),
        Control::EpochStart { .. } => {}
    }
}

fn log_folder(shard: &Path, id: TopicPartitionId, log: LogId) -> PathBuf {
    shard.join(names::LOGS).join(names::log_folder(id, log))
}

impl ShardLog {
    fn from_checkpoint(log: &LogCheckpoint, folder: &Path) -> Self {
        let folder = log_folder(folder, log.id(), log.log_id());
        let source = |segment: &SegmentCheckpoint| Source {
            bytes: SourceBytes::Segment {
                path: folder.join(names::segment(segment.base_offset, segment.number)),
                position: 0,
                length: segment.valid_length,
            },
            until: segment.end_offset,
        };
        Self {
            id: log.id(),
            start_offset: log.start_offset,
            damaged_from: (log.damaged_from >= 0).then_some(log.damaged_from),
            sequence: log.sequence,
            sources: log.segments.iter().map(source).collect(),
        }
    }

    fn push(&mut self, bytes: SourceBytes) {
        self.sources.push(Source {
            bytes,
            until: i64::MAX,
        });
    }
}
