//! What a round takes from a log, in one go, as of the cut.

use std::rc::Rc;

use crate::disk::Disk;
use crate::format::checkpoint::LogCheckpoint;
use crate::format::checksum::file_key;
use crate::format::{names, snapshot};
use crate::log::run::RunState;
use crate::log::state::LogInner;
use crate::segment::write::RunWrite;
use crate::shard::Shard;
use crate::types::Sequence;

/// A log as of the cut.
pub(super) struct Capture<D: Disk> {
    pub(super) log: Rc<LogInner<D>>,
    /// Without segments: those are known once the runs are written.
    pub(super) meta: LogCheckpoint,
    pub(super) runs: Vec<RunWrite<D>>,
    /// Number and content of the producers' snapshot.
    pub(super) snapshot: Option<(u64, Vec<u8>)>,
    /// Files to unlink after the checkpoint.
    pub(super) obsolete: Vec<String>,
}

/// Captures a busy log. Frames that wait to become extents are in no entry yet and stay out.
pub(super) fn capture<D: Disk>(shard: &Shard<D>, log: &Rc<LogInner<D>>, cut: Sequence) -> Capture<D> {
    let mut state = log.state.borrow_mut();
    let state = &mut *state;
    assert!(state.busy, "whoever captures made it busy");
    state.touched = state.direct.is_some();
    let now_ms = (shard.clock.wall_ms)();
    state
        .producers
        .expire(now_ms, shard.options.producer_expiration_ms);
    if state.runs.back().is_some_and(|run| !run.direct) {
        state.seal_newest(log.key, false);
    }
    let runs = state
        .runs
        .iter()
        .filter(|run| !run.direct && run.state == RunState::Sealed);
    let runs: Vec<RunWrite<D>> = runs.map(RunWrite::new).collect();

    let number = state.draw_file_number();
    let (end_offset, last_origin, epochs, producers) = match &state.direct {
        Some(direct) => (
            direct.end_offset,
            direct.last_origin,
            &direct.epochs,
            &direct.producers,
        ),
        None => (
            state.end_offset,
            state.last_origin,
            &state.epochs,
            &state.producers,
        ),
    };
    let snapshot = (!producers.is_empty()).then(|| {
        (
            number,
            snapshot::encode(file_key(log.log_id, number), end_offset, &producers.snapshot()),
        )
    });
    let meta = LogCheckpoint {
        log_id: log.log_id.0,
        topic_id: *log.id.topic_id.as_bytes(),
        partition: log.id.partition,
        sequence: cut.0,
        start_offset: state.start_offset.min(end_offset),
        end_offset,
        high_watermark: state
            .high_watermark
            .clamp(state.start_offset.min(end_offset), end_offset),
        last_origin,
        snapshot: snapshot.as_ref().map_or(0, |(number, _)| *number),
        next_file_number: state.next_file_number,
        damaged_from: state.damaged_from.unwrap_or(-1),
        cleaned_to: state.cleaned_to,
        epochs: epochs.starts().to_vec(),
        segments: Vec::new(),
    };
    let mut obsolete = std::mem::take(&mut state.obsolete);
    if state.snapshot != 0 {
        obsolete.push(names::snapshot(state.snapshot));
    }
    Capture {
        log: log.clone(),
        meta,
        runs,
        snapshot,
        obsolete,
    }
}
