//! The swap: a cleaned segment takes the place of those that it was made of. It is a change of the next checkpoint, which names
//! it instead of them: only once that is flushed readers see it, so that nobody who saw a log cleaned finds it otherwise after
//! a crash. Then the old files are unlinked; readers that have one of them open read on in it.

use std::cell::Cell;
use std::rc::Rc;

use super::CleanError;
use crate::disk::Disk;
use crate::format::checkpoint::SegmentCheckpoint;
use crate::format::names;
use crate::log::run::RunState;
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

/// A cleaned segment that waits for the next checkpoint.
pub(crate) struct Swap {
    /// What it was made of.
    inputs: Vec<SegmentCheckpoint>,
    segment: Segment,
    /// How far the log is clean with it, if this is the last one.
    cleaned_to: Option<Offset>,
    is_done: Rc<Cell<bool>>,
}

impl Swap {
    /// Where its inputs are in the log; `None` when the log changed there.
    fn place(&self, segments: &[Segment]) -> Option<usize> {
        let first = self.inputs.first()?;
        let at = segments
            .iter()
            .position(|known| known.meta.number == first.number)?;
        let known = segments.get(at..at + self.inputs.len())?;
        known
            .iter()
            .map(|known| &known.meta)
            .eq(&self.inputs)
            .then_some(at)
    }

    /// Takes the swap that waits for the checkpoint of a captured log, unless the log changed since: then whoever made it unlinks
    /// the new segment. The names of what goes join those that are unlinked after the checkpoint.
    pub(crate) fn take<D: Disk>(state: &mut LogState<D>) -> Option<Self> {
        let swap = state.swap.take()?;
        swap.place(&state.segments)?;
        for meta in &swap.inputs {
            state.obsolete.push(names::segment(meta.base_offset, meta.number));
            state.obsolete.push(names::index(meta.base_offset, meta.number));
            // The producers as of the first one's base are those as of the new one's.
            if meta.snapshot != 0 && meta.snapshot != swap.segment.meta.snapshot {
                state.obsolete.push(names::snapshot(meta.snapshot));
            }
        }
        Some(swap)
    }

    /// What the checkpoint says of the segments.
    pub(crate) fn apply_to(&self, segments: &[Segment], metas: &mut Vec<SegmentCheckpoint>) {
        let at = self
            .place(segments)
            .expect("the log is busy since it was captured");
        metas.splice(at..at + self.inputs.len(), [self.segment.meta]);
    }

    /// How far the log is clean with it.
    pub(crate) fn cleaned_to(&self) -> Option<Offset> {
        self.cleaned_to
    }

    /// The checkpoint is flushed: readers find the new segment from now on.
    pub(crate) fn finish<D: Disk>(self, state: &mut LogState<D>) {
        let at = self
            .place(&state.segments)
            .expect("the log is busy since it was captured");
        let end = self.segment.meta.end_offset;
        state.segments.splice(at..at + self.inputs.len(), [self.segment]);
        // Memory in which readers would still find the old records.
        let is_old = |run: &crate::log::run::Run<D>| run.state == RunState::Clean && run.base_offset < end;
        while state.runs.front().is_some_and(is_old) {
            state.runs.pop_front();
        }
        if let Some(cleaned_to) = self.cleaned_to {
            state.cleaned_to = cleaned_to;
        }
        self.is_done.set(true);
    }
}

/// Puts `segment` in the place of `inputs` by a checkpoint, and says how far the log is clean if that is so with it.
///
/// # Errors
/// [`CleanError::Changed`] when the log changed there meanwhile, and nothing is done.
pub(super) async fn swap<D: Disk>(
    shard: &Shard<D>,
    log: &LogInner<D>,
    inputs: &[SegmentCheckpoint],
    segment: Segment,
    cleaned_to: Option<Offset>,
) -> Result<(), CleanError> {
    let is_done = Rc::new(Cell::new(false));
    {
        let mut state = log.state.borrow_mut();
        if state.deleted {
            return Err(CleanError::Changed);
        }
        state.touched = true;
        state.swap = Some(Swap {
            inputs: inputs.to_vec(),
            segment,
            cleaned_to,
            is_done: is_done.clone(),
        });
    }
    shard.checkpoint().await?;
    match is_done.get() {
        true => Ok(()),
        false => Err(CleanError::Changed),
    }
}
