//! A shard: one executor, one broker id, one listener set, one store; it serves its partitions start to end.
//!
//! Invariants: everything here belongs to one thread; no lock and no atomic lies on the path of a request; nothing is
//! acknowledged before the store's observer says so.

mod deadlines;
mod image;
mod lifecycle;
mod metrics;
mod outgoing;
mod partition;
mod producer_ids;
mod records_ack;
mod refusals;
mod report;
mod signal;
mod topics;
mod watch;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use strandline_core::config::BrokerSettings;
use strandline_core::fetch_session::FetchSessionCache;
use strandline_core::metadata::{BrokerId, ClusterImage};
use strandline_runtime::Runtime;
use strandline_runtime::local::Event;
use strandline_storage::Store;
use strandline_storage::disk::Disk;
use strandline_wire::fetch::NodeEndpoint;

pub use lifecycle::{ShardError, run};

pub(crate) use deadlines::{Deadline, Deadlines, Expire};
pub(crate) use metrics::{Metrics, add};
pub(crate) use outgoing::{Loan, Outgoing};
pub(crate) use partition::{AckWaiter, Partition};
pub(crate) use producer_ids::ProducerIds;
pub(crate) use records_ack::RecordsAck;
pub(crate) use refusals::{RecordsOf, Refusals};
pub(crate) use signal::Signal;
pub(crate) use topics::{Topic, TopicRules, Topics};
pub(crate) use watch::FetchWatch;

use crate::config::BrokerConfig;
use crate::config::hosts::Hosts;
use crate::connection::{Connection, ReceivePool};
use crate::group::Groups;
use crate::node::connections::ConnectionLimits;
use crate::node::context::{ControlClient, ImageSlot};
use crate::replica::Replicas;

/// What the tasks of a shard share.
pub(crate) struct Shard<R: Runtime, D: Disk> {
    pub(crate) runtime: R,
    pub(crate) disk: D,
    pub(crate) number: u32,
    pub(crate) broker_id: BrokerId,
    pub(crate) directory: PathBuf,
    pub(crate) config: Arc<BrokerConfig>,
    pub(crate) control: ControlClient,
    pub(crate) images: ImageSlot,
    pub(crate) store: Store<R, D>,
    /// The image this shard serves by.
    image: RefCell<Arc<ClusterImage>>,
    /// The dynamic values under that image.
    settings: RefCell<Rc<BrokerSettings>>,
    pub(crate) topics: Rc<Topics<D>>,
    /// Names of other nodes' hosts to addresses.
    pub(crate) hosts: Hosts,
    /// Its partitions that have replicas on other shards.
    pub(crate) replicas: Rc<Replicas<D>>,
    pub(crate) sessions: RefCell<FetchSessionCache>,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) producer_ids: ProducerIds,
    /// The groups that this shard coordinates.
    pub(crate) groups: Groups<D>,
    pub(crate) receive: Rc<ReceivePool>,
    /// Records on their way out.
    pub(crate) outgoing: Rc<Outgoing>,
    /// Every other answer.
    pub(crate) answers: Rc<Outgoing>,
    pub(crate) connection_limits: ConnectionLimits,
    pub(crate) connections: RefCell<BTreeMap<u64, Rc<Connection<D>>>>,
    next_connection: Cell<u64>,
    /// Happens when a connection ends.
    pub(crate) connection_ended: Event,
    /// A newer image than [`Shard::image`] is being applied.
    changing: Cell<bool>,
    stopping: Cell<bool>,
    stop: Event,
    paused: Cell<bool>,
    resumed: Event,
    pub(crate) metrics: Metrics,
    pub(crate) refusals: Refusals,
}

impl<R: Runtime, D: Disk> Shard<R, D> {
    pub(crate) fn image(&self) -> Arc<ClusterImage> {
        self.image.borrow().clone()
    }

    pub(crate) fn settings(&self) -> Rc<BrokerSettings> {
        self.settings.borrow().clone()
    }

    pub(crate) fn next_connection_id(&self) -> u64 {
        self.next_connection.replace(self.next_connection.get() + 1)
    }

    /// Whether the shard is being brought in line with a newer image than the one it tells of.
    pub(crate) fn is_changing(&self) -> bool {
        self.changing.get()
    }

    /// Whether the shard is told to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Completes once the shard is not paused: at once, unless an operator has it stand still.
    pub(crate) async fn unpaused(&self) {
        while self.paused.get() {
            let resumed = self.resumed.wait();
            if self.paused.get() {
                resumed.await;
            }
        }
    }

    /// Completes when the shard is told to stop.
    pub(crate) async fn stop_requested(&self) {
        let stop = self.stop.wait();
        if !self.stopping.get() {
            stop.await;
        }
    }
}

/// Where the brokers named in an answer listen, on the listener its client uses (KIP-951).
pub(crate) fn node_endpoints<'a>(
    image: &'a ClusterImage,
    listener: &str,
    brokers: impl Iterator<Item = i32>,
) -> Vec<NodeEndpoint<'a>> {
    let mut endpoints: Vec<NodeEndpoint<'a>> = Vec::new();
    for id in brokers {
        if endpoints.iter().any(|known| known.node_id == id) {
            continue;
        }
        let Some(broker) = image.broker(BrokerId(id)) else {
            continue;
        };
        if let Some(endpoint) = broker.endpoint(listener) {
            endpoints.push(NodeEndpoint {
                node_id: id,
                host: &endpoint.host,
                port: i32::from(endpoint.port),
                rack: Some(&broker.rack),
            });
        }
    }
    endpoints
}
