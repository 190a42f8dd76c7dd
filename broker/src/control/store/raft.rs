//! The tables of a quorum of several nodes, in the same file: a log by index, the vote, the snapshot with what it covers.
//!
//! A file that a node used alone is carried over once, in one transaction ([`Database::begin_raft`]); older versions
//! refuse it from then on. Texts are JSON, as in the tables beside these.

use std::ops::Range;

use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use strandline_core::metadata::{ClusterImage, Snapshot};

use super::StoreError;
use super::database::{Database, FORMAT_KEY, LOG, META, NEWEST, SNAPSHOT, decode, encode, failed};

/// The format of a file with these tables.
pub(super) const FORMAT_RAFT: u64 = 2;

const RAFT_LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("raft-log");
const RAFT: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("raft");
const SNAPSHOT_META: &str = "snapshot";
const PURGED: &str = "purged";

/// A single value of the quorum's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaftValue {
    /// The last vote.
    Vote,
    /// The last entry that is known to be committed.
    Committed,
    /// The last entry that a snapshot replaced.
    Purged,
    /// The cluster that this node is of.
    Cluster,
}

impl RaftValue {
    fn key(self) -> &'static str {
        match self {
            Self::Vote => "vote",
            Self::Committed => "committed",
            Self::Purged => PURGED,
            Self::Cluster => "cluster",
        }
    }
}

/// A stored snapshot: what it covers, and the image.
pub type StoredSnapshot = (Vec<u8>, Vec<u8>);

impl Database {
    /// Whether the file is of a quorum of several nodes.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn is_raft(&self) -> Result<bool, StoreError> {
        self.with(|database| {
            let transaction = database.begin_read().map_err(failed)?;
            let meta = transaction.open_table(META).map_err(failed)?;
            let format = meta.get(FORMAT_KEY).map_err(failed)?;
            Ok(format.is_some_and(|format| format.value() >= FORMAT_RAFT))
        })
    }

    /// Makes the file one of a quorum of several nodes. What a node that was alone had committed becomes a snapshot with
    /// the meta data that `covers` gives it, and `last`, the entry it ends with; an empty file needs neither. A file that is one
    /// stays as it is.
    ///
    /// # Errors
    /// [`StoreError`]; nothing changed then.
    pub fn begin_raft(
        &self,
        covers: impl FnOnce(&ClusterImage) -> (Vec<u8>, Vec<u8>),
    ) -> Result<(), StoreError> {
        if self.is_raft()? {
            return Ok(());
        }
        let image = self.load()?;
        let carried = (image.offset().0 > 0).then(|| covers(&image));
        self.with(|database| {
            let transaction = database.begin_write().map_err(failed)?;
            {
                transaction.open_table(RAFT_LOG).map_err(failed)?;
                let mut raft = transaction.open_table(RAFT).map_err(failed)?;
                if let Some((meta, last)) = &carried {
                    raft.insert(SNAPSHOT_META, meta.as_slice()).map_err(failed)?;
                    raft.insert(PURGED, last.as_slice()).map_err(failed)?;
                    let mut snapshots = transaction.open_table(SNAPSHOT).map_err(failed)?;
                    let data = encode_image(&image);
                    snapshots.insert(NEWEST, data.as_slice()).map_err(failed)?;
                    let mut log = transaction.open_table(LOG).map_err(failed)?;
                    log.retain(|_, _| false).map_err(failed)?;
                }
                let mut meta = transaction.open_table(META).map_err(failed)?;
                meta.insert(FORMAT_KEY, FORMAT_RAFT).map_err(failed)?;
            }
            transaction.commit().map_err(failed)
        })
    }

    /// A value, if it was ever stored.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn raft_value(&self, value: RaftValue) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(|database| {
            let transaction = database.begin_read().map_err(failed)?;
            let raft = transaction.open_table(RAFT).map_err(failed)?;
            let found = raft.get(value.key()).map_err(failed)?;
            Ok(found.map(|found| found.value().to_vec()))
        })
    }

    /// Stores a value; durable on return.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn set_raft_value(&self, value: RaftValue, bytes: &[u8]) -> Result<(), StoreError> {
        self.with(|database| {
            let transaction = database.begin_write().map_err(failed)?;
            let mut raft = transaction.open_table(RAFT).map_err(failed)?;
            raft.insert(value.key(), bytes).map_err(failed)?;
            drop(raft);
            transaction.commit().map_err(failed)
        })
    }

    /// Stores entries by index, and how far the log was known to be committed before them; durable on return.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn raft_append(
        &self,
        entries: &[(u64, Vec<u8>)],
        committed: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        self.with(|database| {
            let transaction = database.begin_write().map_err(failed)?;
            {
                let mut log = transaction.open_table(RAFT_LOG).map_err(failed)?;
                for (index, entry) in entries {
                    log.insert(index, entry.as_slice()).map_err(failed)?;
                }
                if let Some(committed) = committed {
                    let mut raft = transaction.open_table(RAFT).map_err(failed)?;
                    raft.insert(RaftValue::Committed.key(), committed)
                        .map_err(failed)?;
                }
            }
            transaction.commit().map_err(failed)
        })
    }

    /// Drops the entries from `index` on; durable on return.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn raft_truncate(&self, index: u64) -> Result<(), StoreError> {
        self.with(|database| {
            let transaction = database.begin_write().map_err(failed)?;
            let mut log = transaction.open_table(RAFT_LOG).map_err(failed)?;
            log.retain_in(index.., |_, _| false).map_err(failed)?;
            drop(log);
            transaction.commit().map_err(failed)
        })
    }

    /// Drops the entries up to `index`, the last of which is `purged`; durable on return.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn raft_purge(&self, index: u64, purged: &[u8]) -> Result<(), StoreError> {
        self.with(|database| {
            let transaction = database.begin_write().map_err(failed)?;
            {
                let mut log = transaction.open_table(RAFT_LOG).map_err(failed)?;
                log.retain_in(..=index, |_, _| false).map_err(failed)?;
                let mut raft = transaction.open_table(RAFT).map_err(failed)?;
                raft.insert(PURGED, purged).map_err(failed)?;
            }
            transaction.commit().map_err(failed)
        })
    }

    /// The entries that are there of a range, in order.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn raft_entries(&self, range: Range<u64>) -> Result<Vec<Vec<u8>>, StoreError> {
        self.with(|database| {
            let transaction = database.begin_read().map_err(failed)?;
            let log = transaction.open_table(RAFT_LOG).map_err(failed)?;
            let entries = log.range(range).map_err(failed)?;
            let bytes = entries.map(|entry| Ok(entry.map_err(failed)?.1.value().to_vec()));
            bytes.collect()
        })
    }

    /// The last entry.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn raft_last(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(|database| {
            let transaction = database.begin_read().map_err(failed)?;
            let log = transaction.open_table(RAFT_LOG).map_err(failed)?;
            let last = log.last().map_err(failed)?;
            Ok(last.map(|(_, entry)| entry.value().to_vec()))
        })
    }

    /// The newest snapshot.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn raft_snapshot(&self) -> Result<Option<StoredSnapshot>, StoreError> {
        self.with(|database| {
            let transaction = database.begin_read().map_err(failed)?;
            let raft = transaction.open_table(RAFT).map_err(failed)?;
            let Some(meta) = raft.get(SNAPSHOT_META).map_err(failed)? else {
                return Ok(None);
            };
            let snapshots = transaction.open_table(SNAPSHOT).map_err(failed)?;
            let data = snapshots.get(NEWEST).map_err(failed)?;
            let data = data.ok_or_else(|| StoreError::Corrupt("the snapshot has no image".to_owned()))?;
            Ok(Some((meta.value().to_vec(), data.value().to_vec())))
        })
    }

    /// Stores a snapshot and what it covers; durable on return.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn save_raft_snapshot(&self, meta: &[u8], data: &[u8]) -> Result<(), StoreError> {
        self.with(|database| {
            let transaction = database.begin_write().map_err(failed)?;
            {
                let mut raft = transaction.open_table(RAFT).map_err(failed)?;
                raft.insert(SNAPSHOT_META, meta).map_err(failed)?;
                let mut snapshots = transaction.open_table(SNAPSHOT).map_err(failed)?;
                snapshots.insert(NEWEST, data).map_err(failed)?;
            }
            transaction.commit().map_err(failed)
        })
    }
}

/// A snapshot's image as bytes.
pub fn encode_image(image: &ClusterImage) -> Vec<u8> {
    encode(&Snapshot::from(image))
}

/// The image of a snapshot's bytes.
///
/// # Errors
/// [`StoreError::Corrupt`].
pub fn decode_image(bytes: &[u8]) -> Result<ClusterImage, StoreError> {
    Ok(ClusterImage::from(decode::<Snapshot>(bytes, "the snapshot")?))
}
