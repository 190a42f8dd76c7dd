//! Extents: large runs go straight to their segment, are flushed there, and only then named in the journal.

use std::rc::Rc;

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use strandline_wire::batch::BatchHeader;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::append::push_frame;
use super::run::{Run, RunState};
use super::state::{LogInner, LogState};
use crate::disk::Disk;
use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader, frame_bytes};
use crate::format::piece::{Control, Extent, ProducerBatch};
use crate::journal::pending::PendingFrame;
use crate::producers::producer_batch;
use crate::segment::Segment;
use crate::segment::write::{RunWrite, at, publish, write_runs};
use crate::shard::Shard;
use crate::types::Sequence;

/// Logs whose extents are written at one time.
const LOGS_IN_FLIGHT: usize = 8;

/// The extent task: runs until the shard stops, or closes with nothing left.
pub(crate) async fn run<D: Disk>(shard: Rc<Shard<D>>) {
    let mut working = FuturesUnordered::new();
    loop {
        let wake = shard.direct_wake.wait();
        while working.len() < LOGS_IN_FLIGHT
            && let Some(log) = shard.direct_queue.borrow_mut().pop_front()
        {
            let shard = shard.clone();
            working.push(Box::pin(async move { drain(&shard, &log).await }));
        }
        if shard.is_stopped() {
            // Each holds its log busy, and others wait for that to end.
            while working.next().await.is_some() {}
            return;
        }
        if shard.closing.get() && working.is_empty() {
            shard.direct_ended.set(true);
            shard.journal_wake.notify_all();
            return;
        }
        if working.is_empty() {
            wake.await;
            continue;
        }
        if let Either::Left((Some(Err(reason)), _)) = select(working.next(), wake).await {
            shard.stop(&reason);
        }
    }
}

/// Brings the waiting frames of one log into segments and journal.
async fn drain<D: Disk>(shard: &Rc<Shard<D>>, log: &Rc<LogInner<D>>) -> Result<(), String> {
    loop {
        let before = frames_before(&log.state.borrow());
        if shard.durable(before).await.is_err() {
            return Ok(());
        }
        if !log.make_busy().await {
            log.end_busy();
            return Ok(());
        }
        let result = write_extents(shard, log).await;
        let more = match result {
            Ok(()) => finish(shard, log),
            Err(_) => false,
        };
        log.end_busy();
        result?;
        if !more {
            return Ok(());
        }
    }
}

/// What must be durable before extents are written: frames of the journal that are in no segment yet go there too, and
/// a segment takes only durable ones. The pieces of earlier extents need not be: the journal keeps their order, so these
/// extents are written while those are committed. The log's creation must: its folder is named by an id that a restart
/// without the creation would give away again.
fn frames_before<D: Disk>(state: &LogState<D>) -> Sequence {
    let waits = |run: &Run<D>| !run.direct && matches!(run.state, RunState::Filling | RunState::Sealed);
    match state.runs.iter().any(waits) {
        true => state.last_sequence,
        false => state.created,
    }
}

/// Writes every run that is in no segment, flushes, and queues the pieces.
async fn write_extents<D: Disk>(shard: &Rc<Shard<D>>, log: &Rc<LogInner<D>>) -> Result<(), String> {
    let runs: Vec<RunWrite<D>> = {
        let mut state = log.state.borrow_mut();
        state.seal_newest(log.key, false);
        state
            .runs
            .iter()
            .filter(|run| run.state == RunState::Sealed)
            .map(RunWrite::new)
            .collect()
    };
    if runs.is_empty() {
        return Ok(());
    }
    let placed = write_runs(shard, log, &runs, false).await?;
    if placed.made_folder {
        let folder = shard.logs_folder();
        shard
            .disk
            .flush_directory(&folder)
            .await
            .map_err(at("flush folder", &folder))?;
    }
    let extents: Vec<(Extent, Vec<ProducerBatch>)> = runs
        .iter()
        .zip(&placed.runs)
        .map(|(run, (index, position))| {
            (
                extent(log.key, run, &placed.segments[*index], *position),
                producers(run),
            )
        })
        .collect();
    publish(log, placed);
    let now_ms = (shard.clock.wall_ms)();
    let mut state = log.state.borrow_mut();
    if state.deleted {
        return Ok(());
    }
    let state = &mut *state;
    // A run that an append sealed while these were written is in no segment: it waits for its own extent.
    let written_end = runs.last().expect("there are runs").end_offset;
    for run in &mut state.runs {
        if run.state == RunState::Sealed && run.end_offset <= written_end {
            run.state = RunState::Written;
        }
    }
    for ((mut extent, producers), run) in extents.into_iter().zip(&runs) {
        push_epochs_up_to(shard, log, state, run.base_offset);
        let end = run.end_offset;
        let last_origin = extent.last_origin;
        extent.producers.clone_from(&producers);
        shard.counters.extents.add(1);
        shard.counters.extent_bytes.add(extent.length);
        let control = Control::Extent(extent);
        state.last_sequence = shard.push_control(log, &control, Some((end, state.generation)));
        if run.direct
            && let Some(direct) = &mut state.direct
        {
            direct.end_offset = end;
            direct.last_origin = last_origin;
            producers
                .iter()
                .for_each(|batch| direct.producers.apply(batch, now_ms));
        }
    }
    Ok(())
}

/// After extents: gives small frames that came meanwhile to the journal. Whether more extents are due.
fn finish<D: Disk>(shard: &Rc<Shard<D>>, log: &Rc<LogInner<D>>) -> bool {
    let mut state = log.state.borrow_mut();
    let state = &mut *state;
    if state.deleted {
        return false;
    }
    let waiting: Vec<usize> = (0..state.runs.len())
        .filter(|at| {
            state.runs[*at].direct && matches!(state.runs[*at].state, RunState::Filling | RunState::Sealed)
        })
        .collect();
    let frame_max = shard.journal.borrow().pending.frame_bytes_max();
    let bytes: usize = waiting.iter().map(|at| state.runs[*at].memory.len()).sum();
    let frames = waiting.iter().flat_map(|at| &state.runs[*at].frames);
    let too_large = frames
        .into_iter()
        .any(|frame| frame_bytes(frame.payload as usize) > frame_max);
    // They were admitted as extents: the journal need not have room for them.
    let fits = bytes == 0 || shard.journal.borrow().has_room(bytes);
    if bytes >= shard.options.direct_bytes || too_large || !fits {
        return true;
    }
    for at in waiting {
        state.runs[at].direct = false;
        push_epochs_up_to(shard, log, state, state.runs[at].base_offset);
        for index in 0..state.runs[at].frames.len() {
            let frame = state.runs[at].frames[index];
            let memory = state.runs[at].memory.clone();
            let (position, length) = (frame.position as usize, frame_bytes(frame.payload as usize));
            let header = FrameHeader::decode(memory.bytes(position..position + length));
            let header = header.expect("our own memory holds the frame we wrote");
            let pending = PendingFrame {
                memory,
                position,
                length,
                checksum: header.checksum,
            };
            state.last_sequence = push_frame(shard, log, state, pending, header.end_offset());
        }
    }
    push_epochs_up_to(shard, log, state, i64::MAX);
    state.direct = None;
    false
}

fn push_epochs_up_to<D: Disk>(shard: &Shard<D>, log: &Rc<LogInner<D>>, state: &mut LogState<D>, offset: i64) {
    let Some(direct) = &mut state.direct else { return };
    while direct
        .waiting_epochs
        .front()
        .is_some_and(|waiting| waiting.offset <= offset)
    {
        let waiting = direct.waiting_epochs.pop_front().expect("there is a front");
        let control = Control::EpochStart {
            epoch: waiting.epoch,
            offset: waiting.offset,
        };
        let sequence = shard.push_control(log, &control, None);
        direct.epochs.begin(waiting.epoch, waiting.offset);
        state.last_sequence = sequence;
        // Whoever began the epoch may have gone; the epoch began all the same.
        let _ = waiting.done.send(sequence);
    }
}

fn extent<D: Disk>(key: u64, run: &RunWrite<D>, segment: &Segment, position: u64) -> Extent {
    let first = run.header(run.frames.first().expect("a run holds frames"));
    let last = run.header(run.frames.last().expect("a run holds frames"));
    let length = run.memory.len();
    Extent {
        segment_base: segment.meta.base_offset,
        segment_number: segment.meta.number,
        position,
        length: length as u64,
        base_offset: run.base_offset,
        end_offset: run.end_offset,
        leader_epoch: last.leader_epoch,
        previous: first.previous,
        last_origin: last.chain(),
        checksum: xxh3_64_with_seed(&run.headers(), key),
        payload_bytes: run.payload_bytes,
        max_timestamp: run.max_timestamp,
        max_timestamp_offset: run.max_timestamp_offset,
        segment_first_timestamp: segment.meta.first_timestamp,
        segment_snapshot: segment.meta.snapshot,
        producers: Vec::new(),
    }
}

/// What its batches did to the producers; nothing where the journal holds the frames as well.
fn producers<D: Disk>(run: &RunWrite<D>) -> Vec<ProducerBatch> {
    if !run.direct {
        return Vec::new();
    }
    let batches = run.frames.iter().filter_map(|frame| {
        let start = frame.position as usize + FRAME_HEADER_BYTES;
        let header = BatchHeader::decode(run.memory.bytes(start..start + frame.payload as usize)).ok()?;
        producer_batch(&header, frame.base_offset)
    });
    batches.collect()
}
