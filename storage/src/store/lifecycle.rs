//! Format, open, close.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use strandline_runtime::local::Event;
use strandline_runtime::{Queue, Runtime};

use super::line::Line;
use super::{RecoveryReport, Store, StoreObserver, background};
use crate::budget::MemoryBudget;
use crate::cache::Cache;
use crate::checkpoint;
use crate::disk::{Buffer, Disk, DiskFile, OpenMode, PAGE};
use crate::error::{OpenError, Stopped};
use crate::format::checkpoint::{Checkpoint, Incarnation, ReplayStart};
use crate::format::names;
use crate::journal::writer;
use crate::lock::Lock;
use crate::log::extent;
use crate::maintain;
use crate::options::{JOURNAL_BYTES_MIN, JOURNAL_FILES, MEMORY_BYTES_MIN, StoreOptions};
use crate::recovery::{Recovered, apply::Replay, io, recover};
use crate::segment::files::Files;
use crate::segment::read_ahead::ReadAhead;
use crate::segment::write::write_file;
use crate::shard::{Clock, Shard};
use crate::stats::Counters;

/// Journal files that format fills with zeroes; the rest follow in the background.
const FILES_FILLED_AT_FORMAT: u32 = 2;

impl<R: Runtime, D: Disk> Store<R, D> {
    /// Makes an empty store in a directory, which must exist, its own name being durable already.
    ///
    /// # Errors
    /// [`OpenError::AlreadyFormatted`] where a checkpoint stands; [`OpenError::BadOptions`]; [`OpenError::Io`].
    pub async fn format(runtime: R, disk: D, options: &StoreOptions) -> Result<(), OpenError> {
        let directory = &options.directory;
        let file_bytes = journal_file_bytes(options)?;
        for name in names::CHECKPOINTS {
            let path = directory.join(name);
            if disk.exists(&path).await.map_err(io("look for", &path))? {
                return Err(OpenError::AlreadyFormatted {
                    path: directory.display().to_string(),
                });
            }
        }
        for name in [names::LOGS, names::STRAY] {
            let path = directory.join(name);
            disk.create_directory(&path)
                .await
                .map_err(io("create folder", &path))?;
        }
        let zeroes = background::zeroes(&disk);
        for number in 0..JOURNAL_FILES {
            let path = directory.join(names::journal(number));
            // A format that a crash cut short is done again.
            let exists = disk.exists(&path).await.map_err(io("look for", &path))?;
            let mode = if exists {
                OpenMode::ReadWrite
            } else {
                OpenMode::CreateNew
            };
            let file = disk.open(&path, mode).await.map_err(io("create", &path))?;
            file.truncate(0).await.map_err(io("truncate", &path))?;
            let mut position = 0;
            while number < FILES_FILLED_AT_FORMAT && position < file_bytes {
                let length = (file_bytes - position).min(zeroes.len() as u64);
                let written = file.write_at(zeroes.clone(), length as usize, position).await;
                written.map_err(io("write", &path))?;
                position += length;
            }
            file.flush().await.map_err(io("flush", &path))?;
        }
        disk.flush_directory(directory)
            .await
            .map_err(io("flush folder", directory))?;
        // The checkpoint comes last: a directory with one is whole.
        let checkpoint = Checkpoint {
            generation: 1,
            journal_id: runtime.random_u64(),
            journal_files: JOURNAL_FILES,
            clean: true,
            journal_file_bytes: file_bytes,
            incarnations: vec![Incarnation {
                incarnation: 1,
                first_sequence: 1,
                follows: 0,
            }],
            replay_start: ReplayStart::default(),
            next_log_id: 1,
            metadata_offset: 0,
            logs: Vec::new(),
        };
        for (slot, name) in names::CHECKPOINTS.iter().enumerate() {
            let path = directory.join(name);
            let checkpoint = Checkpoint {
                generation: slot as u64 + 1,
                ..checkpoint.clone()
            };
            // The slot of a generation is its lowest bit: generation 2 stands in slot 0.
            let path = if checkpoint.generation % 2 == slot as u64 {
                path
            } else {
                directory.join(names::CHECKPOINTS[1 - slot])
            };
            let written = write_file(&disk, &path, &checkpoint.encode(), OpenMode::CreateNew, true).await;
            written.map_err(|detail| OpenError::Io {
                action: "write",
                path: path.display().to_string(),
                source: std::io::Error::other(detail),
            })?;
        }
        disk.flush_directory(directory)
            .await
            .map_err(io("flush folder", directory))
    }

    /// Opens a store; its replay is done on return.
    ///
    /// # Errors
    /// [`OpenError`]: nothing was changed that a later open could not do again.
    pub async fn open(
        runtime: R,
        disk: D,
        options: StoreOptions,
        observer: Rc<dyn StoreObserver<D>>,
    ) -> Result<(Self, RecoveryReport), OpenError> {
        journal_file_bytes(&options)?;
        let directory = &options.directory;
        let mut formatted = false;
        for name in names::CHECKPOINTS {
            let path = directory.join(name);
            formatted |= disk.exists(&path).await.map_err(io("look for", &path))?;
        }
        if !formatted {
            return Err(OpenError::NotFormatted {
                path: directory.display().to_string(),
            });
        }
        let budget = MemoryBudget::new(options.memory_bytes);
        let replay = Replay::new(
            disk.clone(),
            budget.clone(),
            options.clone(),
            runtime.wall_clock_ms(),
        );
        let Recovered {
            checkpoint,
            journal,
            replay,
            torn,
            next_log_id,
        } = recover(&disk, &options, replay).await?;

        let logs: Vec<_> = replay.logs().cloned().collect();
        let mut damaged: Vec<_> = logs
            .iter()
            .filter_map(|log| log.state.borrow().damaged_from.map(|from| (log.id, from)))
            .collect();
        damaged.sort_unstable();
        let report = RecoveryReport {
            clean: replay.clean,
            entries: replay.entries,
            frames: replay.frames,
            torn_tail: torn,
            rot: replay.rot,
            damaged,
            metadata_offset: checkpoint.metadata_offset,
        };
        let (now, wall) = (runtime.clone(), runtime.clone());
        let clock = Clock {
            monotonic: Box::new(move || now.now()),
            wall_ms: Box::new(move || wall.wall_clock_ms()),
        };
        let counters = Counters::default();
        for log in &logs {
            let state = log.state.borrow();
            counters
                .dirty_bytes
                .add(state.runs.iter().map(|run| run.frame_bytes).sum());
        }
        // What the replayed pieces took away goes with a first round.
        let leaves_files = !replay.deleted.is_empty()
            || logs
                .iter()
                .any(|log| log.state.borrow().has_segments_below_start());
        let shard = Rc::new_cyclic(|itself| Shard {
            files: Files::new(options.open_files_max),
            read_ahead: RefCell::new(ReadAhead::new(budget.clone())),
            disk,
            cleaner: Cell::new(options.cleaner),
            options,
            clock,
            journal: RefCell::new(journal),
            journal_wake: Event::new(),
            progress: Event::new(),
            line: Line::default(),
            round_wake: Event::new(),
            round_requested: Cell::new(false),
            round_running: Cell::new(false),
            round_done: Event::new(),
            direct_queue: RefCell::new(VecDeque::new()),
            direct_wake: Event::new(),
            background_wake: Event::new(),
            maintain_wake: Event::new(),
            cleaner_wake: Event::new(),
            by_log_id: RefCell::new(logs.iter().map(|log| (log.log_id, log.clone())).collect()),
            logs: RefCell::new(logs.iter().map(|log| (log.id, log.clone())).collect()),
            deleted: RefCell::new(replay.deleted),
            budget,
            cache: RefCell::new(Cache::new()),
            metadata_offset: Cell::new(checkpoint.metadata_offset),
            committed: RefCell::new(checkpoint),
            committing: Lock::new(),
            next_log_id: Cell::new(next_log_id),
            observer,
            counters,
            stopped: RefCell::new(None),
            closing: Cell::new(false),
            direct_ended: Cell::new(false),
            journal_ended: Cell::new(false),
            closed: Cell::new(false),
            cleanup_wanted: Cell::new(leaves_files),
            unlinks: RefCell::new(VecDeque::new()),
            unlink_wake: Event::new(),
            unlinking: Cell::new(false),
            full: Cell::new(false),
            free_bytes: Cell::new(None),
            since_space_check: Cell::new(0),
            itself: itself.clone(),
        });
        let weak = shard.itself.clone();
        shard.budget.set_evict(move |bytes| {
            if let Some(shard) = weak.upgrade() {
                shard.evict(bytes);
            }
        });
        runtime.spawn(Queue::Latency, writer::run(runtime.clone(), shard.clone()));
        runtime.spawn(Queue::Latency, extent::run(shard.clone()));
        let write_back = checkpoint::run(runtime.clone(), shard.clone());
        let write_back = maintain::timed(
            runtime.clone(),
            shard.clone(),
            |counters| &counters.write_back_turn,
            write_back,
        );
        runtime.spawn(Queue::WriteBack, write_back);
        runtime.spawn(
            Queue::Background,
            checkpoint::cleanup::run(runtime.clone(), shard.clone()),
        );
        runtime.spawn(Queue::Background, background::run(runtime.clone(), shard.clone()));
        maintain::spawn(&runtime, &shard);
        Ok((Self { runtime, shard }, report))
    }

    /// Flushes, writes back, checkpoints and ends. Appends during it are refused. Idempotent.
    ///
    /// # Errors
    /// When the shard had stopped, or stops meanwhile: the next open replays.
    pub async fn close(&self) -> Result<(), Stopped> {
        let shard = &self.shard;
        shard.closing.set(true);
        shard.wake_everybody();
        loop {
            let progress = shard.progress.wait();
            if shard.closed.get() {
                break;
            }
            if let Some(stopped) = self.stopped() {
                return Err(stopped);
            }
            progress.await;
        }
        self.unlinked().await?;
        shard.files.clear();
        shard.read_ahead.borrow_mut().clear();
        shard.budget.clear_evict();
        Ok(())
    }
}

/// The size of a journal file: an eighth of the ring, in pages.
fn journal_file_bytes(options: &StoreOptions) -> Result<u64, OpenError> {
    if options.memory_bytes < MEMORY_BYTES_MIN {
        return Err(OpenError::BadOptions(format!(
            "a memory share of {} bytes a shard is below the least of {MEMORY_BYTES_MIN}",
            options.memory_bytes
        )));
    }
    let ring = options.journal_bytes.min(options.memory_bytes / 2);
    if ring < JOURNAL_BYTES_MIN {
        return Err(OpenError::BadOptions(format!(
            "a journal of {ring} bytes is below the least of {JOURNAL_BYTES_MIN}"
        )));
    }
    Ok(ring / u64::from(JOURNAL_FILES) / (4 * PAGE as u64) * (4 * PAGE as u64))
}
