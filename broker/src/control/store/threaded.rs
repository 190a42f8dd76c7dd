//! The store on a thread of its own.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use strandline_core::metadata::{ClusterImage, Command};
use tokio::sync::oneshot;

use super::{Database, QuorumStore, RunsOnStore, StoreError, Stored};

enum Job {
    Append {
        first: u64,
        commands: Vec<Command>,
        done: oneshot::Sender<Result<Stored, StoreError>>,
    },
    SaveSnapshot {
        image: Arc<ClusterImage>,
        done: oneshot::Sender<Result<(), StoreError>>,
    },
    Run(Box<dyn FnOnce(&Database) + Send>),
}

/// Hands each call to the store's thread. Dropping it ends the thread once its last job is done.
pub struct ThreadedStore {
    // Dropped before the handle is joined: the end of the channel is what ends the thread.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl ThreadedStore {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's, if it has no thread to give.
    pub fn start(database: Database) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let run = move || {
            for job in queue {
                // A caller that stopped waiting still wants the job done.
                match job {
                    Job::Append {
                        first,
                        commands,
                        done,
                    } => {
                        let result = database.append(first, &commands);
                        let _ = done.send(result.map(|bytes| Stored { commands, bytes }));
                    }
                    Job::SaveSnapshot { image, done } => {
                        let _ = done.send(database.save_snapshot(&image));
                    }
                    Job::Run(run) => run(&database),
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("quorum-store".to_owned())
            .spawn(run)?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    async fn ask<T>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Job,
    ) -> Result<T, StoreError> {
        let (done, result) = oneshot::channel();
        let jobs = self.jobs.as_ref().ok_or(StoreError::Gone)?;
        jobs.send(job(done)).map_err(|_| StoreError::Gone)?;
        result.await.unwrap_or(Err(StoreError::Gone))
    }
}

impl QuorumStore for ThreadedStore {
    async fn append(&self, first: u64, commands: Vec<Command>) -> Result<Stored, StoreError> {
        self.ask(|done| Job::Append {
            first,
            commands,
            done,
        })
        .await
    }

    async fn save_snapshot(&self, image: Arc<ClusterImage>) -> Result<(), StoreError> {
        self.ask(|done| Job::SaveSnapshot { image, done }).await
    }
}

impl RunsOnStore for ThreadedStore {
    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.ask(|done| {
            Job::Run(Box::new(move |database| {
                let _ = done.send(job(database));
            }))
        })
        .await
    }
}

impl Drop for ThreadedStore {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has aborted the process already.
            let _ = thread.join();
        }
    }
}
