//! The state machine: the same apply as on a node that is alone. Snapshots are durable; what lies between them is applied
//! again from the log at a start.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot, SnapshotMeta};
use strandline_core::metadata::{ClusterImage, MetadataOffset};
use tokio::sync::watch;

use super::log::{decode, durably, read_failed, write_failed};
use super::types::{Entry, LogId, RaftStorageError, StoredMembership, TypeConfig, VoterAddress, VoterId};
use crate::control::quorum::Decided;
use crate::control::store::raft::{decode_image, encode_image};
use crate::control::store::{Database, RunsOnStore, encode};

type Meta = SnapshotMeta<VoterId, VoterAddress>;

/// What is applied, and up to where.
#[derive(Clone, Debug, Default)]
struct Applied {
    last: Option<LogId>,
    membership: StoredMembership,
    image: Arc<ClusterImage>,
}

/// The state machine of one node.
pub struct Machine<S> {
    store: Rc<S>,
    applied: Rc<RefCell<Applied>>,
    images: watch::Sender<Arc<ClusterImage>>,
}

impl<S: RunsOnStore> Machine<S> {
    /// Starts with the newest snapshot in `store`; each image that follows goes to the receiver.
    ///
    /// # Errors
    /// The store's, also for a snapshot that does not read.
    pub async fn open(store: Rc<S>) -> Result<(Self, watch::Receiver<Arc<ClusterImage>>), RaftStorageError> {
        let stored = store.run(Database::raft_snapshot).await.map_err(read_failed)?;
        let applied = match stored {
            None => Applied::default(),
            Some((meta, data)) => Applied::of(&decode(&meta)?, decode_image(&data).map_err(read_failed)?),
        };
        let (images, receiver) = watch::channel(applied.image.clone());
        let machine = Self {
            store,
            applied: Rc::new(RefCell::new(applied)),
            images,
        };
        Ok((machine, receiver))
    }
}

impl Applied {
    fn of(meta: &Meta, image: ClusterImage) -> Self {
        Self {
            last: meta.last_log_id,
            membership: meta.last_membership.clone(),
            image: Arc::new(image),
        }
    }

    fn meta(&self) -> Meta {
        let name = |last: LogId| {
            format!(
                "{}-{}-{}",
                last.leader_id.term, last.leader_id.node_id, last.index
            )
        };
        Meta {
            last_log_id: self.last,
            last_membership: self.membership.clone(),
            snapshot_id: self.last.map(name).unwrap_or_default(),
        }
    }
}

fn decide(image: &mut Arc<ClusterImage>, entry: &Entry) -> Decided {
    let EntryPayload::Normal(batch) = &entry.payload else {
        return Decided::default();
    };
    let mut next = ClusterImage::clone(image);
    let first = MetadataOffset(next.offset().0 + 1);
    let answers = batch.commands.iter().map(|command| next.apply(command)).collect();
    *image = Arc::new(next);
    Decided { first, answers }
}

impl<S: RunsOnStore> RaftStateMachine<TypeConfig> for Machine<S> {
    type SnapshotBuilder = Builder<S>;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), RaftStorageError> {
        let applied = self.applied.borrow();
        Ok((applied.last, applied.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Decided>, RaftStorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
    {
        let mut applied = self.applied.borrow_mut();
        let mut answers = Vec::new();
        for entry in entries {
            applied.last = Some(entry.log_id);
            answers.push(decide(&mut applied.image, &entry));
            if let EntryPayload::Membership(membership) = entry.payload {
                applied.membership = StoredMembership::new(Some(entry.log_id), membership);
            }
        }
        self.images.send_replace(applied.image.clone());
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> Builder<S> {
        Builder {
            store: self.store.clone(),
            applied: self.applied.borrow().clone(),
        }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Vec<u8>>, RaftStorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &Meta,
        snapshot: Box<Vec<u8>>,
    ) -> Result<(), RaftStorageError> {
        let image = decode_image(&snapshot).map_err(read_failed)?;
        let (encoded, data) = (Arc::new(encode(meta)), Arc::new(*snapshot));
        let job = move |database: &Database| database.save_raft_snapshot(&encoded, &data);
        durably(&*self.store, job).await.map_err(write_failed)?;
        let applied = Applied::of(meta, image);
        self.images.send_replace(applied.image.clone());
        *self.applied.borrow_mut() = applied;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<TypeConfig>>, RaftStorageError> {
        let stored = self
            .store
            .run(Database::raft_snapshot)
            .await
            .map_err(read_failed)?;
        let Some((meta, data)) = stored else {
            return Ok(None);
        };
        Ok(Some(Snapshot {
            meta: decode(&meta)?,
            snapshot: Box::new(data),
        }))
    }
}

/// Stores what was applied when it was made.
pub struct Builder<S> {
    store: Rc<S>,
    applied: Applied,
}

impl<S: RunsOnStore> RaftSnapshotBuilder<TypeConfig> for Builder<S> {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, RaftStorageError> {
        let meta = self.applied.meta();
        let (encoded, image) = (encode(&meta), self.applied.image.clone());
        // The whole image as text: not on the control thread.
        let data = self.store.run(move |_| Ok(encode_image(&image))).await;
        let data = Arc::new(data.map_err(read_failed)?);
        let (encoded, stored) = (Arc::new(encoded), data.clone());
        let job = move |database: &Database| database.save_raft_snapshot(&encoded, &stored);
        durably(&*self.store, job).await.map_err(write_failed)?;
        Ok(Snapshot {
            meta,
            snapshot: Box::new(Arc::unwrap_or_clone(data)),
        })
    }
}
