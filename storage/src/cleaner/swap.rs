//! The swap: a cleaned segment takes the place of those that it was made of. It is a checkpoint of its own, which names it instead
//! of them: only once that is flushed readers see it, so that nobody who saw a log cleaned finds it otherwise after a crash. Then the
//! old files are unlinked; readers that have one of them open read on in it.
//!
//! The log is not busy meanwhile: a cleaning would wait for the write-back of every log that changed. What the swap relies on
//! instead: all others only add segments behind those that it touches, or take such away, and it looks again after its checkpoint.

use std::rc::Rc;

use super::CleanError;
use crate::checkpoint::{cleanup, swapped};
use crate::disk::Disk;
use crate::format::checkpoint::SegmentCheckpoint;
use crate::format::names;
use crate::log::run::{Run, RunState};
use crate::log::state::{LogInner, LogState};
use crate::segment::Segment;
use crate::shard::Shard;
use crate::types::Offset;

/// A log that is being cleaned: its folder stays where it is as long as this lives.
pub(super) struct Mark<D: Disk>(Rc<LogInner<D>>);

impl<D: Disk> Mark<D> {
    /// `None` when the log is gone, or being cleaned already.
    pub(super) fn set(log: &Rc<LogInner<D>>) -> Option<Self> {
        let mut state = log.state.borrow_mut();
        if state.deleted || state.closed || state.cleaning {
            return None;
        }
        state.cleaning = true;
        drop(state);
        Some(Self(log.clone()))
    }
}

impl<D: Disk> Drop for Mark<D> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().cleaning = false;
        self.0.changed.notify_all();
    }
}

/// A cleaned segment, and what it takes the place of.
pub(crate) struct Swap {
    /// What it was made of.
    pub(super) inputs: Vec<SegmentCheckpoint>,
    pub(super) segment: Segment,
    /// How far the log is clean with it, if this is the last one.
    pub(super) cleaned_to: Option<Offset>,
}

impl Swap {
    /// Where its inputs are in the log; `None` when the log changed there.
    fn place<'a>(
        &self,
        metas: impl ExactSizeIterator<Item = &'a SegmentCheckpoint> + Clone,
    ) -> Option<usize> {
        let same = |known: &SegmentCheckpoint, input: &SegmentCheckpoint| {
            let facts = |meta: &SegmentCheckpoint| (meta.number, meta.valid_length, meta.end_offset);
            facts(known) == facts(input)
        };
        let first = self.inputs.first()?.number;
        let at = metas.clone().position(|known| known.number == first)?;
        let left = metas.len() - at;
        let is_there = left >= self.inputs.len()
            && metas
                .skip(at)
                .zip(&self.inputs)
                .all(|(known, input)| same(known, input));
        is_there.then_some(at)
    }

    /// What a checkpoint says of the segments; whether the inputs were there.
    pub(crate) fn apply_to(&self, metas: &mut Vec<SegmentCheckpoint>) -> bool {
        let place = self.place(metas.iter());
        if let Some(at) = place {
            metas.splice(at..at + self.inputs.len(), [self.segment.meta]);
        }
        place.is_some()
    }

    /// How far the log is clean with it.
    pub(crate) fn cleaned_to(&self) -> Option<Offset> {
        self.cleaned_to
    }

    /// The checkpoint is flushed: readers find the new segment from now on. Gives the files that go.
    fn finish<D: Disk>(self, state: &mut LogState<D>) -> Vec<String> {
        let Some(at) = self.place(state.segments.iter().map(|known| &known.meta)) else {
            // The log was cut or emptied there meanwhile, and the next checkpoint says so: only then nothing names the new one.
            let meta = &self.segment.meta;
            state.obsolete.push(names::segment(meta.base_offset, meta.number));
            state.touched = true;
            return Vec::new();
        };
        let mut gone = Vec::new();
        for meta in &self.inputs {
            gone.push(names::segment(meta.base_offset, meta.number));
            gone.push(names::index(meta.base_offset, meta.number));
            // The producers as of the first one's base are those as of the new one's.
            if meta.snapshot != 0 && meta.snapshot != self.segment.meta.snapshot {
                gone.push(names::snapshot(meta.snapshot));
            }
        }
        let end = self.segment.meta.end_offset;
        state.segments.splice(at..at + self.inputs.len(), [self.segment]);
        // Memory in which readers would still find the old records.
        let is_old = |run: &Run<D>| run.state == RunState::Clean && run.base_offset < end;
        while state.runs.front().is_some_and(is_old) {
            state.runs.pop_front();
        }
        if let Some(cleaned_to) = self.cleaned_to {
            state.cleaned_to = cleaned_to;
        }
        gone
    }
}

/// Puts a segment in the place of others by a checkpoint, and says how far the log is clean if that is so with it. `check`: whether
/// the log is still to be cleaned, asked right before.
///
/// # Errors
/// [`CleanError`], and nothing is done: what `check` says; [`CleanError::Changed`] when the log changed there meanwhile; or the
/// checkpoint was not written, and the shard stopped.
pub(super) async fn swap<D: Disk>(
    shard: &Shard<D>,
    log: &Rc<LogInner<D>>,
    swap: Swap,
    check: impl FnOnce() -> Result<(), CleanError>,
) -> Result<(), CleanError> {
    let committing = shard.committing.hold().await;
    check()?;
    let is_there = swap.place(log.state.borrow().segments.iter().map(|known| &known.meta));
    if is_there.is_none() {
        return Err(CleanError::Changed);
    }
    match swapped::write(shard, log, &swap).await {
        Ok(true) => {}
        Ok(false) => return Err(CleanError::Changed),
        Err(reason) => {
            shard.stop(&reason);
            shard.check_running()?;
        }
    }
    let gone = swap.finish(&mut log.state.borrow_mut());
    drop(committing);
    cleanup::queue_files(shard, log, gone);
    Ok(())
}
