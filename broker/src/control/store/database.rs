//! The `redb` file: a log of commands by offset, and the newest snapshot.
//!
//! Commands and snapshots are JSON with named fields: they outlive versions of this program, an unknown field is
//! skipped, a missing one takes its default, and an operator can read them.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use redb::backends::FileBackend;
use redb::{ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use strandline_core::metadata::{ClusterImage, Command, Snapshot};

use super::StoreError;
use super::backend::FlushFailsForGood;
use super::raft::FORMAT_RAFT;

/// The format of a node that is alone.
const FORMAT: u64 = 1;
/// The data is small, and read once at start.
const CACHE_BYTES: usize = 1 << 20;

pub(super) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
pub(super) const SNAPSHOT: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("snapshot");
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
pub(super) const NEWEST: &str = "newest";
pub(super) const FORMAT_KEY: &str = "format";

type Open = dyn Fn() -> Result<redb::Database, StoreError> + Send;

/// The open file.
pub struct Database {
    open: Box<Open>,
    /// `None` between a full disk and the next try: `redb` refuses everything after a failed write until its file is
    /// opened again, which also takes back the transaction that failed.
    current: RefCell<Option<redb::Database>>,
}

impl Database {
    /// Opens or makes the file at `path`.
    ///
    /// # Errors
    /// [`StoreError`], with the reason.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let path = path.to_owned();
        Self::open_backend(move || {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false);
            FileBackend::new(file.open(&path)?).map_err(io::Error::other)
        })
    }

    /// Opens or makes the content that `backend` gives; it is asked again after a full disk.
    ///
    /// # Errors
    /// [`StoreError`], with the reason.
    pub fn open_backend<B: StorageBackend>(
        backend: impl Fn() -> io::Result<B> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let open = move || {
            let backend = backend().map_err(failed)?;
            let opened = builder().create_with_backend(FlushFailsForGood(backend));
            let database = opened.map_err(open_error)?;
            check_format(&database)?;
            Ok(database)
        };
        let current = RefCell::new(Some(open()?));
        Ok(Self {
            open: Box::new(open),
            current,
        })
    }

    pub(super) fn with<T>(
        &self,
        run: impl FnOnce(&redb::Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut current = self.current.borrow_mut();
        if current.is_none() {
            *current = Some((self.open)()?);
        }
        let result = run(current.as_ref().expect("opened above"));
        if let Err(StoreError::Full(_)) = &result {
            *current = None;
        }
        result
    }

    /// The image of everything stored.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if a command or the snapshot does not read, or one is missing.
    pub fn load(&self) -> Result<ClusterImage, StoreError> {
        self.with(load)
    }

    /// Stores commands, the first at offset `first`; durable on return. Gives the bytes they took.
    ///
    /// # Errors
    /// [`StoreError::Full`] if nothing changed for want of space; after any other, stop.
    pub fn append(&self, first: u64, commands: &[Command]) -> Result<u64, StoreError> {
        self.with(|database| append(database, first, commands))
    }

    /// Stores a snapshot and drops the commands it contains; durable on return.
    ///
    /// # Errors
    /// As [`Database::append`].
    pub fn save_snapshot(&self, image: &ClusterImage) -> Result<(), StoreError> {
        let encoded = encode(&Snapshot::from(image));
        self.with(|database| save_snapshot(database, &encoded, image.offset().0))
    }
}

fn check_format(database: &redb::Database) -> Result<(), StoreError> {
    let transaction = database.begin_write().map_err(failed)?;
    {
        let mut meta = transaction.open_table(META).map_err(failed)?;
        let found = meta.get(FORMAT_KEY).map_err(failed)?.map(|format| format.value());
        match found {
            None => {
                meta.insert(FORMAT_KEY, FORMAT).map_err(failed)?;
                transaction.open_table(LOG).map_err(failed)?;
                transaction.open_table(SNAPSHOT).map_err(failed)?;
            }
            Some(found) if found > FORMAT_RAFT => {
                return Err(StoreError::Newer {
                    found,
                    known: FORMAT_RAFT,
                });
            }
            Some(_) => return Ok(()),
        }
    }
    transaction.commit().map_err(failed)
}

fn load(database: &redb::Database) -> Result<ClusterImage, StoreError> {
    let transaction = database.begin_read().map_err(failed)?;
    let snapshots = transaction.open_table(SNAPSHOT).map_err(failed)?;
    let mut image = match snapshots.get(NEWEST).map_err(failed)? {
        Some(bytes) => ClusterImage::from(decode::<Snapshot>(bytes.value(), "the snapshot")?),
        None => ClusterImage::default(),
    };
    let log = transaction.open_table(LOG).map_err(failed)?;
    for entry in log.range(image.offset().0 + 1..).map_err(failed)? {
        let (offset, bytes) = entry.map_err(failed)?;
        let (offset, expected) = (offset.value(), image.offset().0 + 1);
        if offset != expected {
            return Err(StoreError::Corrupt(format!(
                "command {expected} is missing before {offset}"
            )));
        }
        image.apply(&decode::<Command>(bytes.value(), &format!("command {offset}"))?);
    }
    Ok(image)
}

fn append(database: &redb::Database, first: u64, commands: &[Command]) -> Result<u64, StoreError> {
    let transaction = database.begin_write().map_err(failed)?;
    let mut bytes = 0;
    {
        let mut log = transaction.open_table(LOG).map_err(failed)?;
        for (offset, command) in (first..).zip(commands) {
            let encoded = encode(command);
            bytes += encoded.len() as u64;
            log.insert(offset, encoded.as_slice()).map_err(failed)?;
        }
    }
    transaction.commit().map_err(failed)?;
    Ok(bytes)
}

fn save_snapshot(database: &redb::Database, encoded: &[u8], included: u64) -> Result<(), StoreError> {
    let transaction = database.begin_write().map_err(failed)?;
    {
        let mut snapshots = transaction.open_table(SNAPSHOT).map_err(failed)?;
        snapshots.insert(NEWEST, encoded).map_err(failed)?;
        let mut log = transaction.open_table(LOG).map_err(failed)?;
        log.retain_in(..=included, |_, _| false).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}

fn builder() -> redb::Builder {
    let mut builder = redb::Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    // Reads the whole file, which is small: rot is an error then, and no panic later.
    builder.set_check_integrity_on_open(true);
    builder
}

pub(in crate::control) fn encode(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("commands and snapshots have string keys and no failing serializer")
}

pub(in crate::control) fn decode<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
    what: &str,
) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| StoreError::Corrupt(format!("{what}: {error}")))
}

fn open_error(error: redb::DatabaseError) -> StoreError {
    match error {
        redb::DatabaseError::DatabaseAlreadyOpen => StoreError::InUse,
        redb::DatabaseError::Storage(redb::StorageError::Corrupted(text)) => StoreError::Corrupt(text),
        other => failed(other),
    }
}

/// A full disk rolls the transaction back; whatever else happened, the file cannot be relied on.
pub(super) fn failed(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::Io(error) if error.kind() == io::ErrorKind::StorageFull => {
            StoreError::Full(error.to_string())
        }
        redb::Error::Corrupted(text) => StoreError::Corrupt(text),
        other => StoreError::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;
    use uuid::Uuid;

    use super::*;

    fn initialize() -> Command {
        Command::InitializeCluster {
            cluster_id: Uuid::from_u128(7),
        }
    }

    #[test]
    fn what_was_appended_is_loaded_with_and_without_a_snapshot() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("quorum.redb");
        let database = Database::open(&path).unwrap();
        assert_eq!(database.load().unwrap(), ClusterImage::default());
        database
            .append(
                1,
                &[initialize(), Command::UnfenceBrokers { brokers: Vec::new() }],
            )
            .unwrap();
        let image = database.load().unwrap();
        assert_eq!(image.offset().0, 2);
        database.save_snapshot(&image).unwrap();
        database.append(3, &[initialize()]).unwrap();
        drop(database);
        let image = Database::open(&path).unwrap().load().unwrap();
        assert_eq!(
            (image.offset().0, image.cluster_id()),
            (3, Some(Uuid::from_u128(7)))
        );
    }

    #[test]
    fn a_gap_in_the_log_is_corrupt() {
        let database = Database::open_backend(|| Ok(InMemoryBackend::new())).unwrap();
        database.append(2, &[initialize()]).unwrap();
        assert!(matches!(database.load(), Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn a_second_process_and_a_newer_format_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("quorum.redb");
        let first = Database::open(&path).unwrap();
        assert!(matches!(Database::open(&path), Err(StoreError::InUse)));
        let current = first.current.borrow();
        let transaction = current.as_ref().unwrap().begin_write().unwrap();
        transaction
            .open_table(META)
            .unwrap()
            .insert(FORMAT_KEY, FORMAT_RAFT + 1)
            .unwrap();
        transaction.commit().unwrap();
        drop(current);
        drop(first);
        assert!(matches!(Database::open(&path), Err(StoreError::Newer { .. })));
    }
}
