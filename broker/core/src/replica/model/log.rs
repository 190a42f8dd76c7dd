//! A log as the model keeps it: frames, how many of them are flushed, and where it starts.

use crate::replica::message::FrameInfo;
use crate::replica::{LeaderLog, LogPosition};

#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) start: i64,
    /// The last frame below the start.
    pub(super) before: Option<FrameInfo>,
    pub(super) frames: Vec<FrameInfo>,
    /// How many frames are flushed.
    pub(super) flushed: usize,
}

impl Log {
    pub(super) fn end(&self) -> i64 {
        self.frames.last().map_or(self.start, |frame| frame.end_offset)
    }

    pub(super) fn flushed_end(&self) -> i64 {
        self.frames[..self.flushed]
            .last()
            .map_or(self.start, |frame| frame.end_offset)
    }

    pub(super) fn last(&self) -> Option<&FrameInfo> {
        self.frames.last().or(self.before.as_ref())
    }

    /// The largest epoch at or below `epoch`, and where the next one starts.
    pub(super) fn end_of_epoch(&self, epoch: i32) -> Option<(i32, i64)> {
        let after = self.frames.partition_point(|frame| frame.leader_epoch <= epoch);
        let before = self.before.as_ref().filter(|frame| frame.leader_epoch <= epoch);
        let found = self.frames[..after].last().or(before)?;
        Some((found.leader_epoch, found.end_offset))
    }

    pub(super) fn position(&self) -> LogPosition {
        LogPosition {
            start: self.start,
            end: self.end(),
            flushed_end: self.flushed_end(),
            last_epoch: self.last().map_or(-1, |frame| frame.leader_epoch),
            chain: self.last().map(|frame| frame.chain),
        }
    }

    pub(super) fn ends(&self) -> LeaderLog {
        LeaderLog {
            start: self.start,
            end: self.end(),
            own_end: self.flushed_end(),
        }
    }

    pub(super) fn raise_start(&mut self, start: i64) {
        let gone = self.frames.partition_point(|frame| frame.end_offset <= start);
        self.before = self.frames.drain(..gone).next_back().or(self.before);
        self.flushed = self.flushed.saturating_sub(gone);
        self.start = start;
    }

    pub(super) fn truncate(&mut self, to: i64) {
        let kept = self.frames.partition_point(|frame| frame.end_offset <= to);
        self.frames.truncate(kept);
        self.flushed = self.flushed.min(kept);
        assert_eq!(self.end(), to, "a cut is at a frame's start");
    }
}
