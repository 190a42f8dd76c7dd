//! One file, one ring, group commit: whatever arrived while the last commit was in flight is the next one.

use crate::direct_io::{AlignedBuffer, PAGE, create_filled, in_memory_file_system};
use crate::ring::Ring;
use std::fs::File;
use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The most that one commit writes; appends wait when so much is pending.
const COMMIT_BYTES_MAX: usize = 8 << 20;

/// A client that takes no answers for so long is cut off, or it would hold up everybody's acknowledgements.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Entries of the ring: a linked write and flush.
const RING_ENTRIES: u32 = 4;

/// Where the journal lives.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Its folder, on a real disk.
    pub directory: PathBuf,
    /// Its size; the file is filled ahead and written round and round.
    pub bytes: u64,
}

/// The journal and its thread; dropping it stops the thread after the commit in flight.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    room: Condvar,
}

#[derive(Debug)]
struct State {
    pending: AlignedBuffer,
    filled: usize,
    answers: Vec<Answer>,
    stopping: bool,
}

/// An answer that leaves once everything appended before it is durable.
#[derive(Debug)]
pub struct Answer {
    /// The connection.
    pub stream: Arc<TcpStream>,
    /// The whole frame.
    pub frame: Vec<u8>,
}

impl Journal {
    /// Fills the file and starts the thread.
    pub fn open(options: &JournalOptions) -> io::Result<Self> {
        std::fs::create_dir_all(&options.directory)?;
        if let Some(kind) = in_memory_file_system(&options.directory)? {
            let directory = options.directory.display();
            return Err(io::Error::other(format!(
                "{directory} is on {kind}: nothing is durable there"
            )));
        }
        let bytes = options
            .bytes
            .next_multiple_of(PAGE as u64)
            .max(2 * COMMIT_BYTES_MAX as u64);
        let file = create_filled(&options.directory.join("journal"), bytes)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                pending: AlignedBuffer::zeroed(COMMIT_BYTES_MAX),
                filled: 0,
                answers: Vec::new(),
                stopping: false,
            }),
            work: Condvar::new(),
            room: Condvar::new(),
        });
        let mut writer = Writer {
            shared: Arc::clone(&shared),
            file,
            bytes,
            position: 0,
            ring: Ring::new(RING_ENTRIES)?,
            buffer: AlignedBuffer::zeroed(COMMIT_BYTES_MAX),
            answers: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                if let Err(error) = writer.run() {
                    // What follows a failed commit is unknown: nothing may be acknowledged any more.
                    eprintln!("null-broker: the journal failed: {error}");
                    std::process::abort();
                }
            })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Appends the pieces one after the other; `answer` leaves when they are durable.
    pub fn append<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>, answer: Option<Answer>) {
        let mut state = self.shared.lock();
        for mut piece in pieces {
            while !piece.is_empty() {
                if state.filled == COMMIT_BYTES_MAX {
                    self.shared.work.notify_one();
                    state = self
                        .shared
                        .room
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                let filled = state.filled;
                let step = piece.len().min(COMMIT_BYTES_MAX - filled);
                state.pending.bytes_mut()[filled..filled + step].copy_from_slice(&piece[..step]);
                state.filled += step;
                piece = &piece[step..];
            }
        }
        state.answers.extend(answer);
        self.shared.work.notify_one();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic past its abort; nothing is left to report.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Writer {
    shared: Arc<Shared>,
    file: File,
    bytes: u64,
    position: u64,
    ring: Ring,
    buffer: AlignedBuffer,
    answers: Vec<Answer>,
}

impl Writer {
    fn run(&mut self) -> io::Result<()> {
        while let Some(filled) = self.take_pending() {
            if filled > 0 {
                let padded = filled.next_multiple_of(PAGE);
                self.buffer.bytes_mut()[filled..padded].fill(0);
                if self.position + padded as u64 > self.bytes {
                    self.position = 0;
                }
                self.ring
                    .write_durably(&self.file, &self.buffer.bytes()[..padded], self.position)?;
                self.position += padded as u64;
            }
            self.answer();
        }
        Ok(())
    }

    /// Waits for work and swaps it for the empty buffer; `None` at the end.
    fn take_pending(&mut self) -> Option<usize> {
        let mut state = self.shared.lock();
        while state.filled == 0 && state.answers.is_empty() {
            if state.stopping {
                return None;
            }
            state = self
                .shared
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut state.pending, &mut self.buffer);
        std::mem::swap(&mut state.answers, &mut self.answers);
        let filled = std::mem::take(&mut state.filled);
        self.shared.room.notify_all();
        Some(filled)
    }

    /// Sends the answers of the commit: one write a connection, in the order of its requests.
    fn answer(&mut self) {
        self.answers.sort_by_key(|answer| Arc::as_ptr(&answer.stream));
        for answers in self.answers.chunk_by(|a, b| Arc::ptr_eq(&a.stream, &b.stream)) {
            let stream = &answers[0].stream;
            let sent = match answers {
                [one] => (&**stream).write_all(&one.frame),
                many => {
                    let frames: Vec<u8> = many.iter().flat_map(|answer| &answer.frame).copied().collect();
                    (&**stream).write_all(&frames)
                }
            };
            if sent.is_err() {
                // Gone, or it takes nothing: its thread ends with the read side.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        self.answers.clear();
    }
}

/// Bounds how long an answer may wait for a client that does not read.
pub(super) fn bound_answers(stream: &TcpStream) -> io::Result<()> {
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))
}
