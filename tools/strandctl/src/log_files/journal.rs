//! The entries of a shard's journal, and which of them a start of the broker would apply.

use std::path::{Path, PathBuf};

use strandline_storage::format::checkpoint::Checkpoint;
use strandline_storage::format::entry::{EntryHeader, RingPosition, verify_directory};
use strandline_storage::format::names;
use strandline_storage::inspect::replay_plan;

use super::unreadable;
use crate::failure::Failure;

/// Entries begin at multiples of this.
const PAGE_BYTES: usize = 4096;

/// An entry whose header and directory are whole.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Where it stands.
    pub at: RingPosition,
    /// Its header.
    pub header: EntryHeader,
}

/// One file of the ring, in memory: a file is a few megabytes.
#[derive(Debug)]
pub struct JournalFile {
    /// Its path.
    pub path: PathBuf,
    /// Its number.
    pub number: u32,
    bytes: Vec<u8>,
}

impl JournalFile {
    /// Reads a file.
    pub fn open(path: &Path, number: u32) -> Result<Self, Failure> {
        let bytes = std::fs::read(path).map_err(|source| unreadable(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            number,
            bytes,
        })
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// True when the file is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The whole entries at every page boundary. `journal_id` is the ring's, or `None` to take every entry's own word:
    /// the checksums are keyed by place, so that a copy of an entry never passes.
    pub fn entries(&self, journal_id: Option<u64>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for position in (0..self.bytes.len()).step_by(PAGE_BYTES) {
            let bytes = &self.bytes[position..];
            let at = RingPosition {
                file: self.number,
                position: position as u64,
            };
            let Ok(claimed) = EntryHeader::decode(bytes) else {
                continue;
            };
            let journal_id = journal_id.unwrap_or(claimed.journal_id);
            if let Ok(header) = verify_directory(bytes, journal_id, at)
                && header.length as usize <= bytes.len()
            {
                entries.push(Entry { at, header });
            }
        }
        entries
    }

    /// Bytes at a position of the file.
    pub(super) fn slice(&self, position: usize, length: usize) -> &[u8] {
        &self.bytes[position..position + length]
    }

    /// The bytes of an entry.
    pub fn bytes_of(&self, entry: &Entry) -> &[u8] {
        self.slice(entry.at.position as usize, entry.header.length as usize)
    }
}

/// The files of a shard's ring that exist: those not yet needed are made ahead of use.
pub fn open_ring(shard: &Path, files: u32) -> Result<Vec<JournalFile>, Failure> {
    (0..files)
        .map(|number| (number, shard.join(names::journal(number))))
        .filter(|(_, path)| path.exists())
        .map(|(number, path)| JournalFile::open(&path, number))
        .collect()
}

/// The entries that a start would apply after a checkpoint, in order.
#[derive(Debug)]
pub struct Replay {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Entries up to this sequence were durable: what is not whole of them is damage, what is not whole of later ones is
    /// the torn tail that a crash leaves.
    pub durable: u64,
    /// The last sequence before an entry that was durable and is not whole any more.
    pub missing_after: Option<u64>,
    /// True when entries stand there of an open that the checkpoint does not list: a newer checkpoint was lost.
    pub is_checkpoint_outdated: bool,
}

/// The entries that a start would apply up to the first one missing; the start itself goes on behind rot.
pub fn replay(ring: &[JournalFile], checkpoint: &Checkpoint) -> Replay {
    let found = ring
        .iter()
        .flat_map(|file| file.entries(Some(checkpoint.journal_id)))
        .map(|entry| (entry.at, entry.header));
    let plan = replay_plan(found, checkpoint);
    let unbroken = plan.entries.iter().take_while(|entry| !entry.rot_before);
    let entries: Vec<Entry> = unbroken
        .map(|entry| Entry {
            at: entry.at,
            header: entry.header,
        })
        .collect();
    let last = entries
        .last()
        .map_or(checkpoint.replay_start.sequence, |entry| entry.header.sequence);
    let durable = plan.durable.0;
    Replay {
        entries,
        durable,
        missing_after: (durable > last).then_some(last),
        is_checkpoint_outdated: plan.is_checkpoint_outdated,
    }
}
