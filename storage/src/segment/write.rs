//! Writing runs to segments: pages, then a flush of each file, then of the folder. What is written here
//! counts only once a checkpoint or an extent piece names it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::{Segment, SegmentStart};
use crate::disk::{Buffer, Disk, DiskFile, OpenMode, PAGE};
use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::format::names;
use crate::log::append_buffer::AppendBuffer;
use crate::log::run::{FrameRef, Run, RunState};
use crate::log::state::LogInner;
use crate::shard::Shard;
use crate::types::Offset;

/// Writes of one log in flight.
const WRITES_IN_FLIGHT: usize = 4;

/// A sealed run to be written.
pub(crate) struct RunWrite<D: Disk> {
    pub(crate) memory: Rc<AppendBuffer<D::Buffer>>,
    pub(crate) direct: bool,
    pub(crate) base_offset: Offset,
    pub(crate) end_offset: Offset,
    pub(crate) payload_bytes: u64,
    pub(crate) max_timestamp: i64,
    pub(crate) max_timestamp_offset: Offset,
    pub(crate) appended_ms: i64,
    pub(crate) frames: Vec<FrameRef>,
    pub(crate) segment: Option<SegmentStart>,
}

impl<D: Disk> RunWrite<D> {
    pub(crate) fn new(run: &Run<D>) -> Self {
        assert_eq!(
            run.state,
            RunState::Sealed,
            "a run is written once, after its pad"
        );
        Self {
            memory: run.memory.clone(),
            direct: run.direct,
            base_offset: run.base_offset,
            end_offset: run.end_offset,
            payload_bytes: run.payload_bytes,
            max_timestamp: run.max_timestamp,
            max_timestamp_offset: run.max_timestamp_offset,
            appended_ms: run.appended_ms,
            frames: run.frames.clone(),
            segment: run.segment.clone(),
        }
    }

    /// The headers of its frames, one after another. The checksum in each covers its frame, so a checksum of these covers the run.
    pub(crate) fn headers(&self) -> Vec<u8> {
        let header = |frame: &FrameRef| {
            let position = frame.position as usize;
            self.memory.bytes(position..position + FRAME_HEADER_BYTES)
        };
        self.frames.iter().flat_map(header).copied().collect()
    }

    /// The header of one of its frames.
    pub(crate) fn header(&self, frame: &FrameRef) -> FrameHeader {
        let position = frame.position as usize;
        let bytes = self.memory.bytes(position..self.memory.len());
        FrameHeader::decode(bytes).expect("our own memory holds the frame we wrote")
    }
}

/// Where runs stand now.
pub(crate) struct Placed {
    /// The log's newest segments, as they are with the runs: the first may replace the last one known.
    pub(crate) segments: Vec<Segment>,
    /// For each run, its segment's place in `segments` and its position there.
    pub(crate) runs: Vec<(usize, u64)>,
    /// Whether the log's folder was made, so that the folder of all logs is to be flushed.
    pub(crate) made_folder: bool,
}

/// Writes runs behind the log's last segment and flushes everything but the folder of all logs. The log is
/// busy meanwhile.
pub(crate) async fn write_runs<D: Disk>(
    shard: &Shard<D>,
    log: &LogInner<D>,
    runs: &[RunWrite<D>],
    flush_folder: bool,
) -> Result<Placed, String> {
    let folder = shard.log_folder(log.id, log.log_id);
    let (last, has_folder, interval) = {
        let state = log.state.borrow();
        (
            state.segments.last().map(Segment::continued),
            state.has_folder,
            state.settings.index_interval_bytes,
        )
    };
    let mut placed = Placed {
        segments: Vec::new(),
        runs: Vec::new(),
        made_folder: !has_folder,
    };
    if !has_folder {
        shard
            .disk
            .create_directory(&folder)
            .await
            .map_err(at("create folder", &folder))?;
    }
    if runs[0].segment.is_none() {
        placed
            .segments
            .push(last.expect("the first run of a log opens a segment"));
    }
    let mut new_files = 0;
    let mut writes: Vec<(usize, u64, Rc<D::Buffer>, usize)> = Vec::new();
    for run in runs {
        if let Some(start) = &run.segment {
            placed.segments.push(Segment::new(start.meta()));
            if let Some((number, content)) = &start.snapshot {
                write_file(
                    &shard.disk,
                    &folder.join(names::snapshot(*number)),
                    content,
                    OpenMode::CreateNew,
                    true,
                )
                .await?;
            }
            new_files += 1;
        }
        let index = placed.segments.len() - 1;
        let segment = &mut placed.segments[index];
        let position = segment.meta.valid_length;
        let length = run.memory.len();
        assert!(
            position.is_multiple_of(PAGE as u64) && length.is_multiple_of(PAGE),
            "runs start and end at pages"
        );
        add_run(segment, run, position, interval);
        placed.runs.push((index, position));
        writes.push((index, position, run.memory.dma(), length));
    }

    // Each touched file is opened once, in order, so that a new one exists before its first write.
    let first_new = placed.segments.len() - new_files;
    let mut files: BTreeMap<usize, D::File> = BTreeMap::new();
    for (index, segment) in placed.segments.iter().enumerate() {
        let path = folder.join(names::segment(segment.meta.base_offset, segment.meta.number));
        let mode = if index >= first_new {
            OpenMode::CreateNew
        } else {
            OpenMode::ReadWrite
        };
        let file = shard
            .files
            .get(&shard.disk, &path, log.log_id, segment.meta.number, mode)
            .await;
        files.insert(index, file.map_err(at("open segment", &path))?);
    }
    stream::iter(writes)
        .map(|(index, position, memory, length)| {
            let file = files[&index].clone();
            async move {
                file.write_at(memory, length, position)
                    .await
                    .map_err(at("write segment", file.path()))
            }
        })
        .buffer_unordered(WRITES_IN_FLIGHT)
        .try_collect::<Vec<()>>()
        .await?;
    for file in files.values() {
        file.flush().await.map_err(at("flush segment", file.path()))?;
    }
    if new_files > 0 || flush_folder {
        shard
            .disk
            .flush_directory(&folder)
            .await
            .map_err(at("flush folder", &folder))?;
    }
    Ok(placed)
}

fn add_run<D: Disk>(segment: &mut Segment, run: &RunWrite<D>, position: u64, interval: u32) {
    let indexed = segment.index.covered == segment.meta.valid_length;
    if indexed {
        for frame in &run.frames {
            let at = position + u64::from(frame.position);
            segment.index.add(
                frame.base_offset,
                at,
                run.header(frame).max_timestamp,
                u64::from(interval),
            );
        }
    }
    let meta = &mut segment.meta;
    meta.valid_length = position + run.memory.len() as u64;
    meta.end_offset = run.end_offset;
    meta.payload_bytes += run.payload_bytes;
    meta.appended_ms = run.appended_ms;
    if run.max_timestamp > meta.max_timestamp {
        meta.max_timestamp = run.max_timestamp;
        meta.max_timestamp_offset = run.max_timestamp_offset;
    }
    if indexed {
        segment.index.covered = meta.valid_length;
    }
}

/// Puts placed segments in their log.
pub(crate) fn publish<D: Disk>(log: &LogInner<D>, placed: Placed) {
    let mut state = log.state.borrow_mut();
    state.has_folder = true;
    let interval = u64::from(state.settings.index_interval_bytes);
    for segment in placed.segments {
        match state.segments.last_mut() {
            Some(last) if last.meta.number == segment.meta.number => {
                if last.index.covered == last.meta.valid_length {
                    last.index.extend(segment.index, interval);
                }
                last.meta = segment.meta;
            }
            _ => state.segments.push(segment),
        }
    }
}

/// Writes a small file in one go.
pub(crate) async fn write_file<D: Disk>(
    disk: &D,
    path: &Path,
    content: &[u8],
    mode: OpenMode,
    flush: bool,
) -> Result<(), String> {
    assert_eq!(
        content.len() % PAGE,
        0,
        "files that are read whole are padded to a page"
    );
    let file = disk.open(path, mode).await.map_err(at("open", path))?;
    let mut buffer = disk.allocate(content.len());
    buffer.as_mut_slice()[..content.len()].copy_from_slice(content);
    file.write_at(Rc::new(buffer), content.len(), 0)
        .await
        .map_err(at("write", path))?;
    if flush {
        file.flush().await.map_err(at("flush", path))?;
    }
    Ok(())
}

/// Reads a small file whole.
pub(crate) async fn read_file<D: Disk>(disk: &D, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read).await?;
    let size = file.size().await? as usize;
    let mut content = Vec::with_capacity(size);
    while content.len() < size {
        // Positions are pages; a file of another size is none of ours and ends in a short read.
        let chunk = file
            .read_at(
                content.len() as u64,
                (size - content.len()).next_multiple_of(PAGE),
            )
            .await?;
        if chunk.is_empty() {
            break;
        }
        content.extend_from_slice(&chunk);
        if content.len() % PAGE != 0 {
            break;
        }
    }
    Ok(content)
}

/// Names what failed, for the line that stops the shard.
pub(crate) fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> String + use<> {
    let path: PathBuf = path.to_path_buf();
    move |error| format!("{action} {}: {error}", path.display())
}
