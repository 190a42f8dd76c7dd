//! A run: frames in one append buffer, later one write to a segment.

use std::rc::Rc;

use super::append_buffer::AppendBuffer;
use crate::disk::{Disk, PAGE};
use crate::format::checkpoint::TIME_UNKNOWN;
use crate::format::frame::{FrameHeader, pad_bytes, seal_pad};
use crate::segment::SegmentStart;
use crate::types::Offset;

/// Capacity of a log's first append buffer.
pub(crate) const BUFFER_BYTES_MIN: usize = 4096;
/// Capacity up to which a busy log's append buffers double. A larger frame gets a buffer of its own size.
pub(crate) const BUFFER_BYTES_MAX: usize = 256 * 1024;

/// Frames of a run that becomes an extent: its piece names each producer's batch and must fit an entry.
const DIRECT_FRAMES_MAX: usize = 256;

/// Where a frame stands in its run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameRef {
    pub(crate) base_offset: Offset,
    pub(crate) position: u32,
    pub(crate) payload: u32,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunState {
    /// The newest run, still taking frames.
    Filling,
    /// Ended by its pad; not in a segment yet.
    Sealed,
    /// In a segment and flushed there, named by an extent piece; no checkpoint covers it yet.
    Written,
    /// A checkpoint covers it: the memory is a cache.
    Clean,
}

/// Frames in one append buffer.
pub(crate) struct Run<D: Disk> {
    pub(crate) memory: Rc<AppendBuffer<D::Buffer>>,
    pub(crate) state: RunState,
    /// Whether it goes to its segment as an extent: its frames are in no journal entry.
    pub(crate) direct: bool,
    pub(crate) base_offset: Offset,
    pub(crate) end_offset: Offset,
    pub(crate) frames: Vec<FrameRef>,
    pub(crate) payload_bytes: u64,
    /// Bytes of its frames.
    pub(crate) frame_bytes: u64,
    pub(crate) max_timestamp: i64,
    pub(crate) max_timestamp_offset: Offset,
    /// When it got its last frame, by the broker's clock.
    pub(crate) appended_ms: i64,
    /// Set when the run opens a new segment.
    pub(crate) segment: Option<SegmentStart>,
}

impl<D: Disk> Run<D> {
    pub(crate) fn new(
        memory: Rc<AppendBuffer<D::Buffer>>,
        base_offset: Offset,
        direct: bool,
        segment: Option<SegmentStart>,
    ) -> Self {
        Self {
            memory,
            state: RunState::Filling,
            direct,
            base_offset,
            end_offset: base_offset,
            frames: Vec::new(),
            payload_bytes: 0,
            frame_bytes: 0,
            max_timestamp: -1,
            max_timestamp_offset: -1,
            appended_ms: TIME_UNKNOWN,
            segment,
        }
    }

    /// Whether a frame of `bytes` and the pad after it still fit.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        if self.direct && self.frames.len() >= DIRECT_FRAMES_MAX {
            return false;
        }
        let end = self.memory.len() + bytes;
        end + pad_bytes(end) <= self.memory.capacity()
    }

    /// Takes note of a frame that was written at `position`.
    pub(crate) fn note(&mut self, header: &FrameHeader, position: usize, now_ms: i64) {
        assert_eq!(self.state, RunState::Filling, "frames go to the newest run");
        self.frames.push(FrameRef {
            base_offset: header.base_offset,
            position: position as u32,
            payload: header.payload_length,
        });
        self.end_offset = header.end_offset();
        self.appended_ms = now_ms;
        self.payload_bytes += u64::from(header.payload_length);
        self.frame_bytes += header.frame_bytes() as u64;
        if header.max_timestamp > self.max_timestamp {
            self.max_timestamp = header.max_timestamp;
            self.max_timestamp_offset = header.base_offset;
        }
    }

    /// Ends the run with a pad, so that no page of it is ever written again.
    pub(crate) fn seal(&mut self, key: u64) {
        assert_eq!(self.state, RunState::Filling, "a run is sealed once");
        let pad = pad_bytes(self.memory.len());
        if pad > 0 {
            let end = self.end_offset;
            self.memory.append(pad, |bytes| seal_pad(bytes, end, key));
        }
        self.memory.seal();
        self.state = RunState::Sealed;
    }

    /// The run up to a cut, in memory of its own: the pages of this one hold frames beyond.
    pub(crate) fn copy_below(
        &self,
        offset: Offset,
        key: u64,
        allocate: impl Fn(usize) -> Rc<AppendBuffer<D::Buffer>>,
    ) -> Self {
        let kept = self.frames.partition_point(|frame| frame.base_offset < offset);
        assert!(kept > 0, "the run begins below the cut");
        let end = self
            .frames
            .get(kept)
            .map_or(self.memory.len(), |frame| frame.position as usize);
        let memory = allocate((end + pad_bytes(end)).next_multiple_of(PAGE));
        let mut run = Self::new(memory, self.base_offset, self.direct, self.segment.clone());
        run.memory
            .append(end, |bytes| bytes.copy_from_slice(self.memory.bytes(0..end)));
        for frame in &self.frames[..kept] {
            let position = frame.position as usize;
            let header = FrameHeader::decode(self.memory.bytes(position..end));
            run.note(
                &header.expect("our own memory holds the frame we wrote"),
                position,
                self.appended_ms,
            );
        }
        run.seal(key);
        run.state = self.state;
        run
    }

    /// Whether no checkpoint covers it.
    pub(crate) fn is_dirty(&self) -> bool {
        self.state != RunState::Clean
    }
}
