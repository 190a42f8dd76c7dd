//! One node of the quorum: openraft, what it answers other controllers, and how it finds its place at a start.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use openraft::error::{ClientWriteError, RaftError};
use openraft::{AsyncRuntime, Raft, Snapshot};
use strandline_core::metadata::{
    Balance, ClusterImage, Command, ConfigChange, ConfigOperation, ConfigResource, MetadataVersion, NodeId,
};
use strandline_core::sessions::{SessionEvent, Sessions};
use strandline_runtime::{Queue, Runtime};
use thiserror::Error;
use tokio::sync::watch;
use uuid::Uuid;

use super::log::{RaftLog, carried_over, decode};
use super::machine::Machine;
use super::membership::{self, Change, Status};
use super::network::Network;
use super::peer::{CallError, Calls, Peer, Resolve};
use super::runtime::{AnyRuntime, Seam, within};
use super::types::{Batch, TypeConfig, VoterAddress, VoterId};
use super::wire::{Request, Response};
use crate::control::store::raft::RaftValue;
use crate::control::store::{Database, RunsOnStore, StoreError, encode};

/// How long a commit may take before its proposer is told that nobody knows.
pub const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long another controller has for an answer that takes no commit.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two looks at who is there.
const LOOK_AROUND: Duration = Duration::from_millis(200);
/// Between two looks at the sessions of shards.
const TICK: Duration = Duration::from_millis(500);
/// A follower that lags by more entries is sent a snapshot.
const LAG_MAX: u64 = 5_000;
/// With so many voters a cluster begins with two replicas that must have a record.
const TWO_IN_SYNC_FROM: usize = 3;
/// Entries of one append: each may hold the commands of many requests.
const APPEND_ENTRIES_MAX: u64 = 64;

/// Who a node is in the quorum, and how patient.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// This node.
    pub voter: VoterId,
    /// Where others reach its controller.
    pub address: VoterAddress,
    /// `controller.quorum.voters`: who founds the quorum; a quorum that exists knows better.
    pub voters: BTreeMap<NodeId, VoterAddress>,
    /// The id of a cluster that this node founds.
    pub cluster_id: Uuid,
    /// `controller.quorum.election.timeout.ms`: without word from a leader for this long, nobody holds to it any more; up to
    /// as long again, by chance, until a voter stands for election.
    pub election_timeout: Duration,
    /// `broker.session.timeout.ms`.
    pub session_timeout: Duration,
    /// How often the quorum's leader looks at the balance of leaderships, if it does.
    pub leader_balance_interval: Option<Duration>,
    /// Entries between two snapshots.
    pub snapshot_entries: u64,
}

/// Why a node cannot take part in the quorum.
#[derive(Debug, Error)]
pub enum MemberError {
    /// Its store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// openraft found its log or vote wanting.
    #[error("the quorum's log: {0}")]
    Log(String),
    /// The node's own entry of the voters leads to another node, or it is refused for good.
    #[error("{0}")]
    Refused(String),
}

/// A running member. Clones of its `Rc` share it.
pub struct Member<R: Runtime> {
    pub(super) raft: Raft<TypeConfig>,
    pub(super) calls: Rc<Calls<R>>,
    pub(super) images: watch::Receiver<Arc<ClusterImage>>,
    pub(super) options: MemberOptions,
    sessions: RefCell<Sessions>,
    refused: watch::Sender<Option<String>>,
}

/// The cluster's default of `min.insync.replicas`: a record that is acknowledged outlives any one node.
fn two_in_sync() -> Command {
    let value = ConfigOperation::Set("2".to_owned());
    Command::AlterConfigs {
        changes: vec![ConfigChange {
            resource: ConfigResource::ClusterDefault,
            replace: false,
            operations: vec![("min.insync.replicas".to_owned(), value)],
        }],
    }
}

impl<R: Runtime> Member<R> {
    /// Starts openraft on `store`, whose file is carried over if a node used it alone. Nothing is asked of others yet.
    ///
    /// # Errors
    /// [`MemberError`].
    pub async fn start<S: RunsOnStore>(
        runtime: R,
        store: S,
        options: MemberOptions,
        resolve: Resolve,
    ) -> Result<Rc<Self>, MemberError> {
        let any: Rc<dyn AnyRuntime> = Rc::new(runtime.clone());
        within(any, Self::start_within(runtime, store, options, resolve)).await
    }

    async fn start_within<S: RunsOnStore>(
        runtime: R,
        store: S,
        options: MemberOptions,
        resolve: Resolve,
    ) -> Result<Rc<Self>, MemberError> {
        let store = Rc::new(store);
        let (voter, address) = (options.voter, options.address.clone());
        let begin = move |database: &Database| database.begin_raft(carried_over(voter, address));
        store.run(begin).await?;
        let log_error = |error: super::types::RaftStorageError| MemberError::Log(error.to_string());
        let cluster = store
            .run(|database| database.raft_value(RaftValue::Cluster))
            .await?;
        let cluster: Option<Uuid> = cluster
            .map(|bytes| decode(&bytes))
            .transpose()
            .map_err(log_error)?;
        let (machine, images) = Machine::open(store.clone()).await.map_err(log_error)?;
        let known = cluster.or(images.borrow().cluster_id());
        let calls = Rc::new(Calls {
            runtime: runtime.clone(),
            voter,
            cluster_id: known.unwrap_or_default().into(),
            resolve,
            said: RefCell::default(),
        });
        let log = RaftLog::new(store.clone());
        let config = Arc::new(config(&options).map_err(MemberError::Log)?);
        let network = Network(calls.clone());
        let raft = Raft::new(voter, config, network, log, machine).await;
        let raft = raft.map_err(|error| MemberError::Log(error.to_string()))?;
        let now_ms = runtime.now().millis();
        let sessions = Sessions::new(options.session_timeout.as_millis() as i64, now_ms);
        let (refused, _) = watch::channel(None);
        let member = Rc::new(Self {
            raft,
            calls,
            images,
            options,
            sessions: RefCell::new(sessions),
            refused,
        });
        member.spawn(member.clone().find_place());
        member.spawn(member.clone().lead());
        member.spawn(member.clone().keep_cluster_id(store));
        Ok(member)
    }

    /// Runs a task of this member on its runtime.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let runtime = self.calls.runtime.clone();
        let any: Rc<dyn AnyRuntime> = Rc::new(runtime.clone());
        runtime.spawn(Queue::Latency, within(any, task));
    }

    /// The runtime, for calls into openraft.
    pub(super) fn any_runtime(&self) -> Rc<dyn AnyRuntime> {
        Rc::new(self.calls.runtime.clone())
    }

    /// What this node knows of the quorum.
    pub fn status(&self) -> Status {
        membership::status(&self.raft, self.calls.voter, self.calls.cluster_id.get())
    }

    /// Whether this node leads the quorum, as far as it knows.
    pub fn leads(&self) -> bool {
        self.raft.metrics().borrow().current_leader == Some(self.calls.voter)
    }

    /// Why the quorum refuses this node for good, if it does. It goes on asking: an operator may admit it.
    pub fn refused(&self) -> watch::Receiver<Option<String>> {
        self.refused.subscribe()
    }

    /// Ends openraft's tasks.
    pub async fn stop(&self) {
        // An error means that its tasks are gone already.
        let _ = within(self.any_runtime(), self.raft.shutdown()).await;
    }

    /// Answers another controller.
    pub(super) async fn answer(&self, request: Request, body: Vec<u8>) -> Response {
        match request {
            Request::Status => Response::Status(Box::new(self.status())),
            Request::Append(request) => match self.raft.append_entries(request).await {
                Ok(response) => Response::Append(response),
                Err(error) => Response::Broken(error.to_string()),
            },
            Request::Vote(request) => match self.raft.vote(request).await {
                Ok(response) => Response::Vote(response),
                Err(error) => Response::Broken(error.to_string()),
            },
            Request::Snapshot { vote, meta } => {
                let snapshot = Snapshot {
                    meta,
                    snapshot: Box::new(body),
                };
                match self.raft.install_full_snapshot(vote, snapshot).await {
                    Ok(response) => response.into(),
                    Err(error) => Response::Broken(error.to_string()),
                }
            }
            Request::Commit(batch) => self.commit_here(batch).await,
            Request::Heartbeat(shards) => match self.leads() {
                true => {
                    self.step(&SessionEvent::Heartbeat(shards));
                    Response::Done
                }
                false => Response::NotLeader,
            },
            Request::Dead(shards) => match self.leads() {
                true => {
                    tracing::warn!(
                        ?shards,
                        "their process is gone: their links and their controller refuse"
                    );
                    self.step(&SessionEvent::Dead(shards));
                    Response::Done
                }
                false => Response::NotLeader,
            },
            Request::Change(change) => membership::change(&self.raft, change, COMMIT_TIMEOUT).await,
        }
    }

    /// Commits on this node, if it leads.
    pub(super) async fn commit_here(&self, batch: Batch) -> Response {
        match Seam::timeout(COMMIT_TIMEOUT, self.raft.client_write(batch)).await {
            Err(_) => Response::Unknown("no majority of the quorum answered in time".to_owned()),
            Ok(Ok(written)) => Response::Committed(written.data),
            // Also where the entry was in the log, and a new leader took it back.
            Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_)))) => Response::NotLeader,
            Ok(Err(RaftError::APIError(error))) => Response::Refused(error.to_string()),
            Ok(Err(RaftError::Fatal(error))) => Response::Broken(error.to_string()),
        }
    }

    /// The sessions of the shards, on the leader: what follows is proposed and decided like everything else.
    pub(super) fn step(&self, event: &SessionEvent) {
        let image = self.images.borrow().clone();
        let now_ms = self.calls.runtime.now().millis();
        self.spawn_commit(self.sessions.borrow_mut().step(event, &image, now_ms));
    }

    /// Has the leader commit what nobody waits for.
    fn spawn_commit(&self, commands: Vec<Command>) {
        if !commands.is_empty() {
            let raft = self.raft.clone();
            self.spawn(async move {
                // What was lost comes out again with the next heartbeat or tick.
                let written = raft.client_write(Batch { commands });
                let _ = Seam::timeout(COMMIT_TIMEOUT, written).await;
            });
        }
    }

    /// A leader gives the cluster its id if it has none, and watches over the sessions.
    async fn lead(self: Rc<Self>) {
        let mut led = false;
        let interval = self.options.leader_balance_interval;
        let mut balance = Balance::new(interval, self.calls.runtime.now().millis());
        loop {
            if self.raft.metrics().borrow().running_state.is_err() {
                return;
            }
            let leads = self.leads();
            if leads && !led {
                self.step(&SessionEvent::Elected);
                balance.begin(self.calls.runtime.now().millis());
                if self.images.borrow().cluster_id().is_none() {
                    let cluster_id = self.options.cluster_id;
                    // A cluster that begins has no older nodes to wait for.
                    let version = MetadataVersion::NEWEST;
                    let mut commands = vec![
                        Command::InitializeCluster { cluster_id },
                        Command::FinalizeMetadataVersion { version },
                    ];
                    if self.options.voters.len() >= TWO_IN_SYNC_FROM {
                        commands.push(two_in_sync());
                    }
                    // Of several tries apply takes the first.
                    let committed = self.commit_here(Batch { commands }).await;
                    led = matches!(committed, Response::Committed(_));
                } else {
                    led = true;
                }
            } else if leads {
                self.step(&SessionEvent::Tick);
                let image = self.images.borrow().clone();
                let elections = balance.turn(&image, self.calls.runtime.now().millis());
                self.spawn_commit(elections.into_iter().collect());
            } else {
                led = false;
            }
            Seam::sleep(TICK).await;
        }
    }

    /// Remembers the cluster's id once it has one: from then on no other cluster is talked to.
    async fn keep_cluster_id<S: RunsOnStore>(self: Rc<Self>, store: Rc<S>) {
        let mut images = self.images.clone();
        let Ok(known) = images.wait_for(|image| image.cluster_id().is_some()).await else {
            return;
        };
        let Some(cluster_id) = known.cluster_id() else {
            return;
        };
        drop(known);
        self.calls.cluster_id.set(cluster_id);
        let bytes = Arc::new(encode(&cluster_id));
        let job = move |database: &Database| database.set_raft_value(RaftValue::Cluster, &bytes);
        if let Err(error) = super::log::durably(&*store, job).await {
            tracing::error!("the cluster's id is not stored: {error}");
        }
    }

    /// Until this node is in the membership: founds the quorum with the others, or asks the one that is there.
    async fn find_place(self: Rc<Self>) {
        let mut peers: BTreeMap<NodeId, Peer<R>> = BTreeMap::new();
        for (node, address) in &self.options.voters {
            let peer = Peer::new(self.calls.clone(), *node, Uuid::nil(), address.clone());
            peers.insert(*node, peer);
        }
        loop {
            let status = self.status();
            if status.members.iter().any(|member| member.voter == status.voter) {
                self.refused.send_replace(None);
                return;
            }
            if self.raft.metrics().borrow().running_state.is_err() {
                return;
            }
            let mut found = BTreeMap::new();
            for (node, peer) in &mut peers {
                match peer.call(&Request::Status, &[], STATUS_TIMEOUT).await {
                    Ok(Response::Status(status)) => drop(found.insert(*node, *status)),
                    Err(CallError::Refused(text)) => self.refuse(text),
                    Ok(_) | Err(_) => {}
                }
            }
            match self.next_step(&found) {
                Step::Found(members) => {
                    // The same members can be founded again; others cannot.
                    if let Err(error) = self.raft.initialize(members).await {
                        tracing::debug!("the quorum is not founded: {error}");
                    }
                }
                Step::Join(members) => self.ask_to_join(members).await,
                Step::Wait => {}
            }
            Seam::sleep(LOOK_AROUND).await;
        }
    }

    fn next_step(&self, found: &BTreeMap<NodeId, Status>) -> Step {
        let own = self.calls.voter;
        if let Some(twin) = found.get(&own.node)
            && twin.voter != own
        {
            self.refuse(format!(
                "another node has the id {}: 'controller.quorum.voters' leads to its data directory {}, and this one is {}; \
                 give one of them another 'node.id', or correct the address",
                own.node, twin.voter.directory, own.directory
            ));
            return Step::Wait;
        }
        if let Some(status) = found.values().find(|status| !status.members.is_empty()) {
            let members = status.members.iter();
            return Step::Join(
                members
                    .map(|member| (member.voter, member.address.clone()))
                    .collect(),
            );
        }
        let voters = &self.options.voters;
        let first = voters.keys().next() == Some(&own.node);
        // All present and all empty; one of them founds, so that there is one membership.
        match first && found.len() == voters.len() {
            true => {
                let members = found
                    .iter()
                    .map(|(node, status)| (status.voter, voters[node].clone()));
                Step::Found(members.collect())
            }
            false => Step::Wait,
        }
    }

    async fn ask_to_join(&self, members: BTreeMap<VoterId, VoterAddress>) {
        let request = Request::Change(Change::Join {
            voter: self.calls.voter,
            address: self.options.address.clone(),
        });
        for (voter, address) in members {
            if voter.node == self.calls.voter.node {
                continue;
            }
            let mut peer = Peer::new(self.calls.clone(), voter.node, voter.directory, address);
            match peer.call(&request, &[], COMMIT_TIMEOUT).await {
                Ok(Response::Done) => return,
                Ok(Response::Refused(text)) => return self.refuse(text),
                // Not the leader, or not there: the next one.
                Ok(_) | Err(_) => {}
            }
        }
        // Nobody else leads: this node's own id may be in the way, which only the leader can say.
    }

    fn refuse(&self, text: String) {
        self.refused.send_if_modified(|known| {
            let news = known.as_ref() != Some(&text);
            if news {
                tracing::warn!("this node waits to be admitted to the quorum: {text}");
                *known = Some(text);
            }
            news
        });
    }
}

enum Step {
    Found(BTreeMap<VoterId, VoterAddress>),
    Join(BTreeMap<VoterId, VoterAddress>),
    Wait,
}

fn config(options: &MemberOptions) -> Result<openraft::Config, String> {
    let election_ms = options.election_timeout.as_millis() as u64;
    let config = openraft::Config {
        cluster_name: "strandline".to_owned(),
        // A leader's lease is the longest of these; then a voter waits for one of its own, and stands.
        election_timeout_min: (election_ms / 2).max(10),
        election_timeout_max: election_ms.max(20),
        heartbeat_interval: (election_ms / 10).max(1),
        install_snapshot_timeout: 60_000,
        max_payload_entries: APPEND_ENTRIES_MAX,
        replication_lag_threshold: LAG_MAX,
        snapshot_policy: openraft::SnapshotPolicy::LogsSinceLast(options.snapshot_entries),
        max_in_snapshot_log_to_keep: options.snapshot_entries / 4,
        ..openraft::Config::default()
    };
    config.validate().map_err(|error| error.to_string())
}
