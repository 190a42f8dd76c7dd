//! The topics of the reference broker: names, ids, next offsets, and the newest records when they are to be kept.

use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use strandline_wire::Uuid;
use strandline_wire::batch::{BatchHeader, set_base_offset};

/// All topics.
#[derive(Debug)]
pub(super) struct Topics {
    by_name: RwLock<BTreeMap<String, Arc<Topic>>>,
    retain_bytes: usize,
}

/// One topic.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) id: Uuid,
    partitions: Vec<Mutex<Partition>>,
}

/// One partition: counters, and batches with their offsets set.
#[derive(Debug, Default)]
pub(super) struct Partition {
    next_offset: i64,
    kept: VecDeque<(i64, Bytes)>,
    kept_bytes: usize,
}

impl Topics {
    pub(super) fn new(retain_bytes: usize) -> Self {
        Self {
            by_name: RwLock::new(BTreeMap::new()),
            retain_bytes,
        }
    }

    pub(super) fn retain_bytes(&self) -> usize {
        self.retain_bytes
    }

    /// Creates a topic; `None` when the name is taken.
    pub(super) fn create(&self, name: &str, partitions: usize) -> Option<Arc<Topic>> {
        let mut topics = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        if topics.contains_key(name) {
            return None;
        }
        let id = Uuid::from_u64_pair(topics.len() as u64 + 1, fastrand::u64(..));
        let topic = Arc::new(Topic {
            id,
            partitions: (0..partitions).map(|_| Mutex::default()).collect(),
        });
        topics.insert(name.to_owned(), Arc::clone(&topic));
        Some(topic)
    }

    pub(super) fn delete(&self, name: &str) -> bool {
        self.by_name
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name)
            .is_some()
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Topic>> {
        self.by_name
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    pub(super) fn all(&self) -> Vec<(String, Arc<Topic>)> {
        let topics = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        topics
            .iter()
            .map(|(name, topic)| (name.clone(), Arc::clone(topic)))
            .collect()
    }
}

impl Topic {
    pub(super) fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    pub(super) fn partition(&self, index: i32) -> Option<MutexGuard<'_, Partition>> {
        let partition = self.partitions.get(usize::try_from(index).ok()?)?;
        Some(partition.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Partition {
    /// Gives `batch` the next offsets and returns the first and their number; `None` when it is not even the header of a batch.
    pub(super) fn append(&mut self, batch: &[u8], retain_bytes: usize) -> Option<(i64, u64)> {
        let records = BatchHeader::decode(batch).ok()?.record_count.max(1);
        let base_offset = self.next_offset;
        self.next_offset += i64::from(records);
        if retain_bytes > 0 {
            let mut kept = BytesMut::from(batch);
            set_base_offset(&mut kept, base_offset);
            self.kept_bytes += kept.len();
            self.kept.push_back((base_offset, kept.freeze()));
            while self.kept_bytes > retain_bytes {
                let Some((_, oldest)) = self.kept.pop_front() else {
                    break;
                };
                self.kept_bytes -= oldest.len();
            }
        }
        Some((base_offset, u64::from(records.unsigned_abs())))
    }

    pub(super) fn end_offset(&self) -> i64 {
        self.next_offset
    }

    pub(super) fn start_offset(&self) -> i64 {
        self.kept.front().map_or(self.next_offset, |(offset, _)| *offset)
    }

    /// The batches from the one that holds `offset` on, up to `max_bytes` but at least one; `None` when `offset` is not kept.
    pub(super) fn read(&self, offset: i64, max_bytes: usize) -> Option<Vec<Bytes>> {
        if offset < self.start_offset() || offset > self.next_offset {
            return None;
        }
        let first = self
            .kept
            .partition_point(|(base, _)| *base <= offset)
            .saturating_sub(1);
        let mut taken = Vec::new();
        let mut bytes = 0;
        if offset < self.next_offset {
            for (_, batch) in self.kept.range(first..) {
                if bytes > 0 && bytes + batch.len() > max_bytes {
                    break;
                }
                bytes += batch.len();
                taken.push(batch.clone());
            }
        }
        Some(taken)
    }
}
