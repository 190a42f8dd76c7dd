//! The open: checkpoint, replay of the journal, and what must be durable before the first new entry.

pub(crate) mod apply;
mod extent;
mod quarantine;
mod unnamed;

use std::collections::HashSet;
use std::rc::Rc;

use self::apply::Replay;
use crate::checkpoint::slot;
use crate::disk::{Disk, DiskFile, OpenMode, PAGE};
use crate::error::OpenError;
use crate::format::checkpoint::{Checkpoint, Incarnation, LogCheckpoint, TIME_UNKNOWN};
use crate::format::checksum::file_key;
use crate::format::entry::RingPosition;
use crate::format::{names, snapshot};
use crate::journal::proof::Durable;
use crate::journal::ring::Ring;
use crate::journal::scan::{self, Found, Plan};
use crate::journal::{Journal, pending::Pending, proof::InFlight};
use crate::log::state::{LogInner, LogState, OpenSegment};
use crate::options::{LogSettings, StoreOptions};
use crate::producers::Producers;
use crate::segment::Segment;
use crate::segment::index::SegmentError;
use crate::segment::write::read_file;
use crate::types::{LogId, Sequence};

/// The journal files of a store, their sizes, and what was found in them.
pub(crate) struct JournalFiles<D: Disk> {
    pub(crate) files: Vec<D::File>,
    filled: Vec<u64>,
    found: Vec<Found>,
}

/// How an I/O error of an open is named.
pub(crate) fn io(action: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> OpenError {
    let path = path.display().to_string();
    move |source| OpenError::Io { action, path, source }
}

/// What the system refused to read for now: the open fails, and is to be tried again. Nothing is damaged by that.
fn unreadable(folder: &std::path::Path, detail: String) -> OpenError {
    io("read", folder)(std::io::Error::other(detail))
}

/// Opens the journal's files and finds the entries in them.
pub(crate) async fn read_journal<D: Disk>(
    disk: &D,
    options: &StoreOptions,
    checkpoint: &Checkpoint,
) -> Result<JournalFiles<D>, OpenError> {
    let mut journal = JournalFiles {
        files: Vec::new(),
        filled: Vec::new(),
        found: Vec::new(),
    };
    for number in 0..checkpoint.journal_files {
        let path = options.directory.join(names::journal(number));
        let file = disk
            .open(&path, OpenMode::ReadWriteThrough)
            .await
            .map_err(io("open", &path))?;
        let size = file.size().await.map_err(io("look at", &path))?;
        let mut content = Vec::with_capacity(size as usize);
        while (content.len() as u64) < size {
            let length = (size as usize - content.len())
                .min(READ_BYTES)
                .next_multiple_of(PAGE);
            let chunk = file
                .read_at(content.len() as u64, length)
                .await
                .map_err(io("read", &path))?;
            content.extend_from_slice(&chunk);
            if chunk.len() < length {
                break;
            }
        }
        journal
            .found
            .extend(scan::entries_in_file(&content, number, checkpoint.journal_id));
        // A fill that a power cut tore goes on at a whole page.
        let whole = size.min(checkpoint.journal_file_bytes) / PAGE as u64 * PAGE as u64;
        journal.filled.push(whole);
        journal.files.push(file);
    }
    Ok(journal)
}

/// Reads of the journal take so much at a time.
const READ_BYTES: usize = 1 << 20;

/// What a replay gave.
pub(crate) struct Recovered<D: Disk> {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) journal: Journal<D>,
    pub(crate) replay: Replay<D>,
    pub(crate) torn: bool,
    pub(crate) next_log_id: u64,
}

/// Replays a store: afterwards memory holds what was acknowledged, and everything is ready for new entries.
pub(crate) async fn recover<D: Disk>(
    disk: &D,
    options: &StoreOptions,
    mut replay: Replay<D>,
) -> Result<Recovered<D>, OpenError> {
    let mut checkpoint = slot::read(disk, &options.directory).await?;
    replay.clean = checkpoint.clean;
    load_logs(disk, options, &mut checkpoint, &mut replay).await?;
    let JournalFiles { files, filled, found } = read_journal(disk, options, &checkpoint).await?;
    let cut_short = cut_short(&filled, &found, checkpoint.journal_file_bytes);
    let plan: Plan = scan::plan(found, &checkpoint.replay_start, &checkpoint.incarnations);
    let start = checkpoint.replay_start;
    let mut ring = RingEnd {
        at: start.at(),
        sequence: start.sequence(),
        checksum: start.previous,
    };
    let mut marks = Vec::new();
    let mut bad_pages = Vec::new();
    let mut torn = plan.torn;
    for planned in &plan.entries {
        let found = &planned.found;
        if planned.rot_before {
            replay.indict_all("a journal entry that was acknowledged is missing");
            bad_pages.extend(
                quarantine::bad_pages::<D>(&files, checkpoint.journal_file_bytes, ring.at, Some(found.at))
                    .await?,
            );
        }
        let file = &files[found.at.file as usize];
        let length = found.header.length as usize;
        let path = file.path().clone();
        let bytes = file
            .read_at(found.at.position, length)
            .await
            .map_err(io("read", &path))?;
        let acknowledged = found.sequence() <= plan.durable;
        if !replay.entry(&bytes, found, acknowledged).await? {
            // A frame of an entry that was never durable is torn: the entry and all behind it do not exist.
            torn = true;
            break;
        }
        marks.push(*found);
        ring = RingEnd {
            at: found.end(),
            sequence: found.sequence(),
            checksum: found.header.checksum,
        };
    }
    if plan.unknown_incarnation {
        replay.indict_all("the checkpoint is older than the journal");
    }
    if plan.rot_at_end {
        replay.indict_all("a journal entry that was acknowledged is missing");
        bad_pages
            .extend(quarantine::bad_pages::<D>(&files, checkpoint.journal_file_bytes, ring.at, None).await?);
    }
    if !checkpoint.clean && goes_on_in(&cut_short, ring.at, &checkpoint) {
        replay.indict_all("the journal file where the last entries stood was cut short");
    }
    replay.finish();

    quarantine::save(disk, options, &replay.quarantined, checkpoint.generation).await?;
    quarantine::save_pages(disk, options, &bad_pages, checkpoint.generation).await?;
    // What was read may still be in a cache of the disk: it counts only now.
    for file in &files {
        let path = file.path().clone();
        file.flush().await.map_err(io("flush", &path))?;
    }
    let durable = Durable::replayed_and_flushed(ring.sequence);
    replay.count_as_flushed(durable);

    let next_log_id = checkpoint.next_log_id.max(replay.next_log_id);
    let next_log_id = unnamed::clear(disk, options, &replay, next_log_id, checkpoint.generation).await?;
    let first = plan.highest.max(ring.sequence).next();
    let incarnation = Incarnation {
        incarnation: checkpoint.incarnations.last().map_or(0, |last| last.incarnation) + 1,
        first_sequence: first.0,
        follows: ring.sequence.0,
    };
    checkpoint.incarnations.push(incarnation);
    checkpoint.clean = false;
    // Both slots know the new open, so that the loss of one is not the loss of its entries.
    for _ in 0..2 {
        checkpoint.generation += 1;
        let written = slot::write(disk, &options.directory, &checkpoint).await;
        written.map_err(|detail| {
            io("write a checkpoint in", &options.directory)(std::io::Error::other(detail))
        })?;
    }

    let entry_bytes_max = (checkpoint.journal_file_bytes / 4) as usize / PAGE * PAGE;
    let mut live = Ring::new(
        checkpoint.journal_file_bytes,
        filled,
        ring.at,
        (ring.sequence, ring.checksum),
    );
    for found in &marks {
        live.replayed(
            found.sequence(),
            found.at,
            found.header.length,
            found.header.previous,
        );
    }
    let last_content = marks
        .iter()
        .rev()
        .find(|found| found.header.piece_count > 0)
        .map_or(Sequence(0), Found::sequence);
    let journal = Journal {
        journal_id: checkpoint.journal_id,
        incarnation: incarnation.incarnation,
        files,
        pending: Pending::new(first, entry_bytes_max),
        in_flight: InFlight::new(durable),
        dispatched: std::collections::VecDeque::new(),
        ring: live,
        last_content,
        stated_durable: marks
            .last()
            .map_or(Sequence(0), |found| Sequence(found.header.durable)),
        pages: Vec::new(),
    };
    Ok(Recovered {
        checkpoint,
        journal,
        replay,
        torn,
        next_log_id,
    })
}

/// The journal files that lost their end. A file is used only once it is filled, and they are filled in order, each flushed
/// before the next.
fn cut_short(filled: &[u64], found: &[Found], file_bytes: u64) -> Vec<u32> {
    let is_filled = |file: &u64| *file >= file_bytes;
    let filled_later = |at: usize| filled[at + 1..].iter().any(is_filled);
    let was_used = |at: usize| found.iter().any(|found| found.at.file as usize == at);
    (0..filled.len())
        .filter(|at| !is_filled(&filled[*at]) && (filled_later(*at) || was_used(*at)))
        .map(|at| at as u32)
        .collect()
}

/// Whether an entry behind `end` may have stood in one of these files.
fn goes_on_in(files: &[u32], end: RingPosition, checkpoint: &Checkpoint) -> bool {
    let entry_bytes_max = checkpoint.journal_file_bytes / 4;
    let next = (end.file + 1) % checkpoint.journal_files;
    let may_not_fit = checkpoint.journal_file_bytes - end.position < entry_bytes_max;
    files.contains(&end.file) || (may_not_fit && files.contains(&next))
}

/// Where the replay ended.
struct RingEnd {
    at: RingPosition,
    sequence: Sequence,
    checksum: u64,
}

/// Builds the logs as the checkpoint has them.
async fn load_logs<D: Disk>(
    disk: &D,
    options: &StoreOptions,
    checkpoint: &mut Checkpoint,
    replay: &mut Replay<D>,
) -> Result<(), OpenError> {
    let logs_folder = options.directory.join(names::LOGS);
    let listed = disk.list(&logs_folder).await.map_err(io("list", &logs_folder))?;
    let folders: HashSet<String> = listed.into_iter().map(|entry| entry.name).collect();
    let mut set_aside = Vec::new();
    for log in &checkpoint.logs {
        let name = names::log_folder(log.id(), log.log_id());
        let stray = options.directory.join(names::STRAY).join(&name);
        if !folders.contains(&name) && disk.exists(&stray).await.map_err(io("look for", &stray))? {
            // It was being set aside when the shard died: the rename stands.
            set_aside.push(log.log_id);
            continue;
        }
        let state = load_log(
            disk,
            &logs_folder.join(&name),
            log,
            folders.contains(&name),
            replay.now_ms,
        )
        .await?;
        replay.add_log(
            Rc::new(LogInner::new(log.id(), log.log_id(), state)),
            Sequence(log.sequence),
        );
    }
    checkpoint.logs.retain(|log| !set_aside.contains(&log.log_id));
    replay.next_log_id = checkpoint.next_log_id;
    Ok(())
}

async fn load_log<D: Disk>(
    disk: &D,
    folder: &std::path::Path,
    log: &LogCheckpoint,
    has_folder: bool,
    now_ms: i64,
) -> Result<LogState<D>, OpenError> {
    let mut state = LogState::new(LogSettings::default(), log.start_offset);
    state.end_offset = log.end_offset;
    state.restore_ends(log.end_offset);
    state.high_watermark = log.high_watermark;
    state.last_origin = log.last_origin;
    state.epochs = crate::epochs::Epochs::new(log.epochs.clone());
    let numbers = log
        .segments
        .iter()
        .map(|segment| segment.number.max(segment.snapshot));
    state.next_file_number = log
        .next_file_number
        .max(numbers.max().map_or(0, |newest| newest + 1));
    state.cleaned_to = log.cleaned_to;
    state.snapshot = log.snapshot;
    state.has_folder = has_folder;
    state.damaged_from = (log.damaged_from >= 0).then_some(log.damaged_from);
    state.segments = log.segments.iter().map(|meta| Segment::known(*meta)).collect();
    for segment in &mut state.segments {
        // Not noted: then not old, lest retention takes it for that.
        for time in [&mut segment.meta.created_ms, &mut segment.meta.appended_ms] {
            if *time == TIME_UNKNOWN {
                *time = now_ms;
            }
        }
    }
    // A segment that a truncation cut ends inside a page, which is not written again.
    let open = state
        .segments
        .last()
        .map(|segment| segment.meta)
        .filter(|meta| meta.valid_length.is_multiple_of(PAGE as u64));
    state.open_segment = open.map(|meta| OpenSegment {
        base_offset: meta.base_offset,
        payload_bytes: meta.payload_bytes,
        first_timestamp: meta.first_timestamp,
        created_ms: meta.created_ms,
    });
    state.touched = false;
    if log.snapshot != 0 {
        match read_snapshot(disk, folder, log.log_id(), log.snapshot).await {
            Ok(producers) => state.producers = producers,
            Err(SegmentError::Io(detail)) => return Err(unreadable(folder, detail)),
            Err(SegmentError::Damaged(detail)) => {
                tracing::error!(log = %log.id(), detail, "a producer snapshot named by the checkpoint is damaged");
                state.damaged_from = Some(state.damaged_from.unwrap_or(log.end_offset));
            }
        }
    }
    Ok(state)
}

/// Reads a producers' snapshot.
pub(crate) async fn read_snapshot<D: Disk>(
    disk: &D,
    folder: &std::path::Path,
    log: LogId,
    number: u64,
) -> Result<Producers, SegmentError> {
    let path = folder.join(names::snapshot(number));
    let content = read_file(disk, &path)
        .await
        .map_err(|error| SegmentError::of(&path, &error))?;
    let (_, producers) = snapshot::decode(file_key(log, number), &content)
        .map_err(|error| SegmentError::damaged(&path, error))?;
    Ok(Producers::restore(&producers))
}
