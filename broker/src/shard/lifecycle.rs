//! A shard's life: open, listen, serve, stop in order.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use strandline_core::config::BrokerSettings;
use strandline_core::fetch_session::FetchSessionCache;
use strandline_core::metadata::{BrokerId, MetadataOffset};
use strandline_runtime::local::Event;
use strandline_runtime::mailbox::Receiver;
use strandline_runtime::{Queue, Runtime, SocketAddr, TcpListener};
use strandline_storage::disk::Disk;
use strandline_storage::{CleanerOptions, OpenError, RecoveryReport, Store, StoreOptions};
use thiserror::Error;

use super::image::{ImageApplier, Recovered};
use super::topics::{Observer, Topics};
use super::{Deadlines, Metrics, Outgoing, ProducerIds, Refusals, Shard, report};
use crate::config::{BrokerConfig, hosts};
use crate::connection::{self, ReceivePool};
use crate::group::{self, Groups};
use crate::link;
use crate::node::context::{ShardContext, ShardListener, ShardMessage, StartedShard};
use crate::replica::{self, Replicas};

/// How long running requests may take to end once the shard stops; what is left is cut off.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Parts of the shard's memory that requests being received, records on their way out, other answers, fetch sessions, and groups
/// take at most.
const RECEIVE_PART: u64 = 4;
const OUTGOING_PART: u64 = 8;
const ANSWERS_PART: u64 = 4;
const SESSIONS_PART: u64 = 16;
const GROUPS_PART: u64 = 2;

/// Why a shard could not start or go on; the control thread says which shard.
#[derive(Debug, Error)]
pub enum ShardError {
    /// The store did not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An address could not be bound.
    #[error("listener {listener}: cannot listen on {address}: {source}")]
    Listen {
        /// The listener's name.
        listener: String,
        /// Where it should listen.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The control thread is gone.
    #[error("the control thread ended")]
    ControlGone,
}

/// Runs one shard until it is told to stop.
///
/// # Errors
/// [`ShardError`] if it cannot start.
pub async fn run<R: Runtime, D: Disk>(runtime: R, disk: D, context: ShardContext) -> Result<(), ShardError> {
    let topics: Rc<Topics<D>> = Rc::default();
    let replicas = Rc::new(Replicas::new(context.broker_id, context.peers.clone()));
    let observer = Rc::new(Observer {
        runtime: runtime.clone(),
        topics: topics.clone(),
        replicas: replicas.clone(),
        shard: context.shard,
    });
    let (store, recovery) = open_store(&runtime, &disk, &context, observer).await?;
    let listeners = bind(&runtime, &context.listeners).await?;
    let links = match context.link {
        None => None,
        Some(address) => Some(listen(&runtime, "links", address).await?),
    };
    let started = StartedShard {
        addresses: listeners
            .iter()
            .map(|(_, listener)| listener.local_address())
            .collect(),
        link: links.as_ref().map(TcpListener::local_address),
        metadata_offset: MetadataOffset(recovery.metadata_offset),
        damaged: recovery
            .damaged
            .iter()
            .map(|(id, _)| replica::reference(*id))
            .collect(),
    };
    let mut mailbox = context.mailbox;
    let shard = Rc::new(new_shard(
        runtime,
        disk,
        store,
        topics,
        replicas,
        Parts {
            number: context.shard,
            broker_id: context.broker_id,
            directory: context.directory,
            config: context.config,
            control: context.control,
            images: context.image,
            connection_limits: context.connections,
        },
    ));
    shard
        .runtime
        .spawn(Queue::Latency, shard.deadlines.clone().run(shard.runtime.clone()));
    shard
        .runtime
        .spawn(Queue::Latency, connection::sweep(shard.clone()));
    shard
        .runtime
        .spawn(Queue::Background, group::expire_offsets(shard.clone()));
    let inbox = replica::run(shard.clone(), context.replication);
    shard.runtime.spawn(Queue::Latency, inbox);
    shard.runtime.spawn(Queue::Latency, replica::tick(shard.clone()));
    shard.control.started(shard.number, started);

    let mut applier = ImageApplier::new(shard.clone(), Recovered::from(&recovery));
    let (mut listeners, mut links) = (Some(listeners), links);
    loop {
        let message = mailbox.receive().await;
        let message = match message {
            Some(ShardMessage::Pause) => pause(&shard, &mut mailbox).await,
            other => other,
        };
        match message {
            Some(ShardMessage::ImageChanged) => {
                applier.apply(shard.images.take()).await;
                // A client that came earlier would be told of a cluster without brokers.
                let serves = shard
                    .image()
                    .broker(shard.broker_id)
                    .is_some_and(|broker| !broker.fenced);
                for (name, listener) in listeners.take_if(|_| serves).into_iter().flatten() {
                    shard
                        .runtime
                        .spawn(Queue::Latency, connection::accept(shard.clone(), listener, name));
                }
                if let Some(links) = links.take_if(|_| serves) {
                    shard
                        .runtime
                        .spawn(Queue::Latency, link::accept(shard.clone(), links));
                }
            }
            Some(ShardMessage::Report(detail, reply)) => {
                shard
                    .runtime
                    .spawn(Queue::Background, report::answer(shard.clone(), detail, reply));
            }
            Some(ShardMessage::Pause | ShardMessage::Resume) => {}
            Some(ShardMessage::Stop) => break,
            None => return Err(ShardError::ControlGone),
        }
    }
    stop(&shard).await;
    Ok(())
}

/// Stands still until it may go on; gives the message to go on with. Whoever asked for a copy meanwhile gets none.
async fn pause<R: Runtime, D: Disk>(
    shard: &Shard<R, D>,
    mailbox: &mut Receiver<ShardMessage>,
) -> Option<ShardMessage> {
    tracing::warn!(shard = shard.number, "paused");
    shard.paused.set(true);
    let mut image_changed = false;
    let next = loop {
        match mailbox.receive().await {
            Some(ShardMessage::ImageChanged) => image_changed = true,
            Some(ShardMessage::Report(..) | ShardMessage::Pause) => {}
            Some(ShardMessage::Resume) if image_changed => break Some(ShardMessage::ImageChanged),
            other => break other,
        }
    };
    shard.paused.set(false);
    shard.resumed.notify_all();
    tracing::warn!(shard = shard.number, "goes on");
    next
}

async fn open_store<R: Runtime, D: Disk>(
    runtime: &R,
    disk: &D,
    context: &ShardContext,
    observer: Rc<Observer<R, D>>,
) -> Result<(Store<R, D>, RecoveryReport), ShardError> {
    let shard = context.shard;
    let options = store_options(context);
    if context.format {
        Store::format(runtime.clone(), disk.clone(), &options).await?;
    }
    let (store, recovery) = Store::open(runtime.clone(), disk.clone(), options, observer).await?;
    if !recovery.clean && !context.format {
        tracing::info!(
            shard,
            entries = recovery.entries,
            frames = recovery.frames,
            torn_tail = recovery.torn_tail,
            "journal replayed"
        );
    }
    for (partition, offset) in &recovery.damaged {
        tracing::error!(shard, %partition, offset, "damaged: not served from this offset on");
    }
    Ok((store, recovery))
}

/// What the settings mean for the cleaner of one shard.
pub(super) fn cleaner_options(config: &BrokerConfig, settings: &BrokerSettings) -> CleanerOptions {
    let cleaner = &settings.cleaner;
    CleanerOptions {
        enabled: cleaner.enabled,
        map_bytes: cleaner.dedupe_buffer_bytes / u64::from(config.shards.max(1)),
        map_load: cleaner.load_factor,
        bytes_per_second: cleaner.bytes_per_second,
        backoff_ms: cleaner.backoff_ms,
    }
}

fn store_options(context: &ShardContext) -> StoreOptions {
    let config = &context.config;
    let settings = config.broker_settings(&context.image.latest(), context.broker_id);
    StoreOptions {
        journal_bytes: config.journal_bytes,
        direct_bytes: usize::try_from(config.direct_bytes).unwrap_or(usize::MAX),
        disk_free_min_bytes: config.disk_free_min_bytes,
        open_files_max: config.segments_open_max,
        producer_expiration_ms: settings.producer_id_expiration_ms,
        initial_task_delay_ms: settings.initial_task_delay_ms,
        retention_check_ms: settings.retention_check_interval_ms,
        cleaner: cleaner_options(config, &settings),
        ..StoreOptions::new(
            context.directory.clone(),
            context.shard,
            config.shard_budget_bytes(),
        )
    }
}

async fn bind<R: Runtime>(
    runtime: &R,
    listeners: &[ShardListener],
) -> Result<Vec<(Rc<str>, R::Listener)>, ShardError> {
    let mut bound = Vec::with_capacity(listeners.len());
    for listener in listeners {
        let socket = listen(runtime, &listener.name, listener.address).await?;
        bound.push((Rc::from(listener.name.as_str()), socket));
    }
    Ok(bound)
}

async fn listen<R: Runtime>(runtime: &R, name: &str, address: SocketAddr) -> Result<R::Listener, ShardError> {
    let listening = runtime.listen(address).await;
    listening.map_err(|source| ShardError::Listen {
        listener: name.to_owned(),
        address,
        source,
    })
}

/// What a shard takes from its context.
struct Parts {
    number: u32,
    broker_id: BrokerId,
    directory: std::path::PathBuf,
    config: std::sync::Arc<BrokerConfig>,
    control: crate::node::context::ControlClient,
    images: crate::node::context::ImageSlot,
    connection_limits: crate::node::connections::ConnectionLimits,
}

fn new_shard<R: Runtime, D: Disk>(
    runtime: R,
    disk: D,
    store: Store<R, D>,
    topics: Rc<Topics<D>>,
    replicas: Rc<Replicas<D>>,
    parts: Parts,
) -> Shard<R, D> {
    let part = |part| usize::try_from(store.budget().limit() / part).unwrap_or(usize::MAX);
    let (receive_bytes, outgoing_bytes) = (part(RECEIVE_PART), part(OUTGOING_PART));
    let (answers_bytes, sessions_bytes) = (part(ANSWERS_PART), part(SESSIONS_PART));
    let image = std::sync::Arc::default();
    let settings = parts.config.broker_settings(&image, parts.broker_id);
    let groups = Groups::new(
        &parts.config.static_config,
        store.budget(),
        part(GROUPS_PART),
        runtime.now(),
        runtime.wall_clock_ms(),
    );
    Shard {
        runtime,
        disk,
        number: parts.number,
        broker_id: parts.broker_id,
        directory: parts.directory,
        sessions: RefCell::new(FetchSessionCache::new(
            parts.config.fetch_sessions_max,
            sessions_bytes,
        )),
        config: parts.config,
        control: parts.control,
        images: parts.images,
        receive: ReceivePool::new(store.budget(), receive_bytes),
        outgoing: Outgoing::new(store.budget(), outgoing_bytes),
        answers: Outgoing::new(store.budget(), answers_bytes),
        store,
        image: RefCell::new(image),
        settings: RefCell::new(Rc::new(settings)),
        topics,
        hosts: Box::new(hosts::in_background()),
        replicas,
        deadlines: Rc::new(Deadlines::default()),
        producer_ids: ProducerIds::default(),
        groups,
        connection_limits: parts.connection_limits,
        connections: RefCell::default(),
        next_connection: Cell::new(1),
        connection_ended: Event::new(),
        paused: Cell::new(false),
        resumed: Event::new(),
        changing: Cell::new(false),
        stopping: Cell::new(false),
        stop: Event::new(),
        metrics: Metrics::default(),
        refusals: Refusals::default(),
    }
}

/// Stops accepting, lets running requests be answered, closes the store.
async fn stop<R: Runtime, D: Disk>(shard: &Rc<Shard<R, D>>) {
    shard.stopping.set(true);
    shard.stop.notify_all();
    shard.deadlines.expire_all();
    shard.groups.stop();
    let running: Vec<_> = shard.connections.borrow().values().cloned().collect();
    for connection in running {
        connection.finish();
    }
    let mut grace = pin!(shard.runtime.sleep(STOP_GRACE));
    loop {
        let ended = shard.connection_ended.wait();
        if shard.connections.borrow().is_empty() {
            break;
        }
        if let Either::Right(_) = select(ended, grace.as_mut()).await {
            let left: Vec<_> = shard.connections.borrow().values().cloned().collect();
            tracing::warn!(
                shard = shard.number,
                connections = left.len(),
                "connections cut off at the stop"
            );
            for connection in left {
                connection.abort();
            }
            break;
        }
    }
    if let Err(stopped) = shard.store.close().await {
        tracing::error!(shard = shard.number, reason = %stopped.reason, "storage had stopped before the shard did");
    }
}
