//! The `redb` file: a log of commands by offset, and the newest snapshot.
//!
//! Commands and snapshots are JSON with named fields: they outlive versions of this program, an unknown field is
//! skipped, a missing one takes its default, and an operator can read them.

use std::io;
use std::path::Path;

use redb::{ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use strandline_core::metadata::{ClusterImage, Command, Snapshot};

use super::StoreError;

/// Raised when older versions could not read what this one writes.
const FORMAT: u64 = 1;
/// The data is small, and read once at start.
const CACHE_BYTES: usize = 1 << 20;

const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const SNAPSHOT: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("snapshot");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const NEWEST: &str = "newest";
const FORMAT_KEY: &str = "format";

/// The open file.
pub struct Database(redb::Database);

impl Database {
    /// Opens or makes the file at `path`.
    ///
    /// # Errors
    /// [`StoreError`], with the reason.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let database = builder().create(path).map_err(open_error)?;
        Self::check_format(database)
    }

    /// Opens or makes the content of a simulated file.
    ///
    /// # Errors
    /// [`StoreError`], with the reason.
    pub fn open_backend(backend: impl StorageBackend) -> Result<Self, StoreError> {
        let database = builder().create_with_backend(backend).map_err(open_error)?;
        Self::check_format(database)
    }

    fn check_format(database: redb::Database) -> Result<Self, StoreError> {
        let database = Self(database);
        let transaction = database.0.begin_write().map_err(failed)?;
        {
            let mut meta = transaction.open_table(META).map_err(failed)?;
            let found = meta.get(FORMAT_KEY).map_err(failed)?.map(|format| format.value());
            match found {
                None => {
                    meta.insert(FORMAT_KEY, FORMAT).map_err(failed)?;
                    transaction.open_table(LOG).map_err(failed)?;
                    transaction.open_table(SNAPSHOT).map_err(failed)?;
                }
                Some(found) if found > FORMAT => return Err(StoreError::Newer { found, known: FORMAT }),
                Some(_) => return Ok(database),
            }
        }
        transaction.commit().map_err(failed)?;
        Ok(database)
    }

    /// The image of everything stored.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if a command or the snapshot does not read, or one is missing.
    pub fn load(&self) -> Result<ClusterImage, StoreError> {
        let transaction = self.0.begin_read().map_err(failed)?;
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

    /// Stores commands, the first at offset `first`; durable on return. Gives the bytes they took.
    ///
    /// # Errors
    /// [`StoreError::Full`] if nothing changed for want of space; after any other, stop.
    pub fn append(&self, first: u64, commands: &[Command]) -> Result<u64, StoreError> {
        let transaction = self.0.begin_write().map_err(failed)?;
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

    /// Stores a snapshot and drops the commands it contains; durable on return.
    ///
    /// # Errors
    /// As [`Database::append`].
    pub fn save_snapshot(&self, image: &ClusterImage) -> Result<(), StoreError> {
        let encoded = encode(&Snapshot::from(image));
        let transaction = self.0.begin_write().map_err(failed)?;
        {
            let mut snapshots = transaction.open_table(SNAPSHOT).map_err(failed)?;
            snapshots.insert(NEWEST, encoded.as_slice()).map_err(failed)?;
            let mut log = transaction.open_table(LOG).map_err(failed)?;
            log.retain_in(..=image.offset().0, |_, _| false).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }
}

fn builder() -> redb::Builder {
    let mut builder = redb::Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn encode(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("commands and snapshots have string keys and no failing serializer")
}

fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, StoreError> {
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
fn failed(error: impl Into<redb::Error>) -> StoreError {
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
        let database = Database::open_backend(InMemoryBackend::new()).unwrap();
        database.append(2, &[initialize()]).unwrap();
        assert!(matches!(database.load(), Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn a_second_process_and_a_newer_format_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("quorum.redb");
        let first = Database::open(&path).unwrap();
        assert!(matches!(Database::open(&path), Err(StoreError::InUse)));
        let transaction = first.0.begin_write().unwrap();
        transaction
            .open_table(META)
            .unwrap()
            .insert(FORMAT_KEY, FORMAT + 1)
            .unwrap();
        transaction.commit().unwrap();
        drop(first);
        assert!(matches!(Database::open(&path), Err(StoreError::Newer { .. })));
    }
}
