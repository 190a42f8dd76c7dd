//! Several members on simulated hosts with simulated disks: every kill is a power cut, what was not flushed is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use strandline_core::metadata::{
    Answer, BrokerId, ClusterImage, Command, MetadataOffset, NodeId, NodeRegistration, ShardRegistration,
};
use strandline_core::sessions::{ShardHealth, ShardHeartbeat};
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_runtime::{Runtime, SocketAddr};
use strandline_storage::disk::{Disk, SimDisk, SimDiskOptions};
use uuid::Uuid;

use super::member::{COMMIT_TIMEOUT, Member, MemberOptions};
use super::membership::{Change, NoChange};
use super::quorum::RaftQuorum;
use super::types::{VoterAddress, VoterId};
use crate::control::quorum::{Quorum, QuorumError};
use crate::control::store::{Database, InlineStore, SimulatedBackend};

const PORT: u16 = 9090;
const SESSION: Duration = Duration::from_secs(9);
/// More than anything takes that does come.
const PATIENCE: Duration = Duration::from_secs(60);

/// From a leader's death to the next commit: its lease, an election, and a second one where votes were split.
const FAILOVER_MAX: Duration = Duration::from_secs(6);

struct Host {
    disk: SimDisk,
    directory: Uuid,
    member: Option<Rc<Member<SimRuntime>>>,
}

struct World {
    simulation: Rc<Simulation>,
    driver: SimRuntime,
    hosts: BTreeMap<i32, Host>,
    voters: BTreeMap<NodeId, VoterAddress>,
    /// What was answered as committed: nodes that registered.
    committed: BTreeSet<i32>,
    next: i32,
}

fn name(node: i32) -> String {
    format!("node-{node}")
}

/// Runs a scenario in a world whose quorum is founded by nodes 1 to `voters`.
fn run<T: 'static>(seed: u64, voters: i32, scenario: impl AsyncFnOnce(World) -> T + 'static) -> T {
    let simulation = Rc::new(Simulation::new(seed));
    let address = |node: i32| VoterAddress {
        host: simulation.address_of(&name(node)).to_string(),
        port: PORT,
    };
    let world = World {
        driver: simulation.runtime("driver"),
        hosts: BTreeMap::new(),
        voters: (1..=voters).map(|node| (NodeId(node), address(node))).collect(),
        committed: BTreeSet::new(),
        next: 1_000,
        simulation: simulation.clone(),
    };
    simulation.run_until(async move { scenario(world).await })
}

impl World {
    fn address(&self, node: i32) -> VoterAddress {
        VoterAddress {
            host: self.simulation.address_of(&name(node)).to_string(),
            port: PORT,
        }
    }

    /// Starts a node with what its disk holds, under a directory id that a new disk draws.
    async fn start(&mut self, node: i32) {
        let runtime = self.simulation.runtime(&name(node));
        let (disk, directory) = match self.hosts.remove(&node) {
            Some(host) => (host.disk.attach(runtime.clone()), host.directory),
            None => {
                let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
                disk.make_durable_directories(Path::new("/data")).unwrap();
                let drawn = u128::from(runtime.random_u64()) << 32 | node as u128;
                (disk, Uuid::from_u128(drawn))
            }
        };
        let member = self.member(&runtime, &disk, node, directory).await;
        let host = Host {
            disk,
            directory,
            member: Some(member),
        };
        self.hosts.insert(node, host);
    }

    async fn member(
        &self,
        runtime: &SimRuntime,
        disk: &SimDisk,
        node: i32,
        directory: Uuid,
    ) -> Rc<Member<SimRuntime>> {
        let path = PathBuf::from("/data/quorum.redb");
        let database = Database::open_backend(SimulatedBackend::of(disk, &path)).unwrap();
        disk.flush_directory(Path::new("/data")).await.unwrap();
        let options = MemberOptions {
            voter: VoterId {
                node: NodeId(node),
                directory,
            },
            address: self.address(node),
            voters: self.voters.clone(),
            cluster_id: Uuid::from_u128(node as u128),
            election_timeout: Duration::from_secs(1),
            session_timeout: SESSION,
            leader_balance_interval: None,
            // Few, so that a node that was away is sent snapshots.
            snapshot_entries: 20,
        };
        let resolve = Rc::new(|host: &str| host.parse().map_err(|_| "no address".to_owned()));
        let member = Member::start(runtime.clone(), InlineStore(database), options, resolve).await;
        let member = member.unwrap();
        let address = SocketAddr::from(([0, 0, 0, 0], PORT));
        member.serve(runtime.listen(address).await.unwrap());
        member
    }

    /// Power off.
    fn kill(&mut self, node: i32) {
        let host = self.hosts.get_mut(&node).unwrap();
        host.member = None;
        self.simulation.kill_host(&name(node));
        host.disk.crash();
    }

    /// Another disk in the same place.
    fn wipe(&mut self, node: i32) {
        self.kill(node);
        self.hosts.remove(&node);
    }

    fn live(&self) -> Vec<i32> {
        let live = self.hosts.iter().filter(|(_, host)| host.member.is_some());
        live.map(|(node, _)| *node).collect()
    }

    fn of(&self, node: i32) -> Rc<Member<SimRuntime>> {
        self.hosts[&node].member.clone().unwrap()
    }

    fn voter(&self, node: i32) -> VoterId {
        self.of(node).status().voter
    }

    fn image(&self, node: i32) -> std::sync::Arc<ClusterImage> {
        RaftQuorum(self.of(node)).image()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let start = self.driver.now();
        while !holds(self) {
            assert!(
                self.driver.now().since(start) < PATIENCE,
                "waited in vain: {what}"
            );
            self.driver.sleep(Duration::from_millis(20)).await;
        }
    }

    async fn founded(&self) {
        self.until("every node knows the cluster", |world| {
            let known = world
                .live()
                .into_iter()
                .map(|node| world.image(node).cluster_id());
            known.collect::<BTreeSet<_>>().len() == 1 && world.image(world.live()[0]).cluster_id().is_some()
        })
        .await;
    }

    /// The leader that every live node knows.
    async fn leader(&self) -> i32 {
        let agreed = |world: &Self| {
            let leaders = world
                .live()
                .into_iter()
                .map(|node| world.of(node).status().leader);
            let leaders: BTreeSet<_> = leaders.collect();
            let leader = leaders.first().copied().flatten()?.node.0;
            (leaders.len() == 1 && world.live().contains(&leader)).then_some(leader)
        };
        self.until("a leader", |world| agreed(world).is_some()).await;
        agreed(self).unwrap()
    }

    fn registration(node: i32, shards: Vec<ShardRegistration>) -> Command {
        Command::RegisterNode(NodeRegistration {
            node: NodeId(node),
            directory_id: Uuid::from_u128(node as u128),
            boot_id: "boot".into(),
            rack: "rack".into(),
            shards,
        })
    }

    /// Has another registration committed through `node`; remembers it if it was answered.
    async fn commit(&mut self, node: i32) -> Result<MetadataOffset, QuorumError> {
        self.next += 1;
        let command = Self::registration(self.next, Vec::new());
        let decided = RaftQuorum(self.of(node)).commit(vec![command]).await?;
        assert!(
            matches!(decided.answers.as_slice(), [Answer::Registered(Ok(_))]),
            "{decided:?}"
        );
        self.committed.insert(self.next);
        Ok(decided.first)
    }

    /// Every live node ends up with the same image, which has all that was ever answered.
    async fn converge(&self) {
        self.until("equal images", |world| {
            let live = world.live();
            live.iter().all(|node| world.image(*node) == world.image(live[0])) && world.has_all(live[0])
        })
        .await;
    }

    fn has_all(&self, node: i32) -> bool {
        let image = self.image(node);
        self.committed
            .iter()
            .all(|committed| image.node(NodeId(*committed)).is_some())
    }

    async fn change(&self, node: i32, change: Change) -> Result<(), QuorumError> {
        RaftQuorum(self.of(node)).change(change).await
    }

    /// What a node says that waits to be admitted.
    async fn refusal(&self, node: i32) -> String {
        let refused = self.of(node).refused();
        self.until("a refusal", |_| refused.borrow().is_some()).await;
        refused.borrow().clone().unwrap()
    }
}

async fn three(mut world: World) -> World {
    for node in 1..=3 {
        world.start(node).await;
    }
    world.founded().await;
    world
}

#[test]
fn a_leader_dies_and_nothing_committed_is_lost() {
    run(1, 3, async |world| {
        let mut world = three(world).await;
        assert_eq!(
            world.image(2).cluster_id(),
            Some(Uuid::from_u128(1)),
            "the first voter founds the cluster"
        );
        for node in [1, 2, 3, 1, 2, 3] {
            world.commit(node).await.unwrap();
        }
        let leader = world.leader().await;
        world.kill(leader);
        let follower = world.live()[0];
        world.commit(follower).await.unwrap();
        assert_ne!(world.leader().await, leader);
        world.converge().await;
        world.start(leader).await;
        world.commit(leader).await.unwrap();
        world.converge().await;
        assert_eq!(world.live(), [1, 2, 3]);
    });
}

#[test]
fn kills_in_loops_lose_nothing_that_was_answered() {
    for seed in 10..14 {
        run(seed, 3, async |world| {
            let mut world = three(world).await;
            for round in 0..12 {
                let asked = world.live()[round % world.live().len()];
                world.leader().await;
                for _ in 0..4 {
                    world.commit(asked).await.unwrap();
                }
                // The leader every other time; sometimes all of them at once.
                let random = world.driver.random_u64();
                let victims = match random % 4 {
                    0 => world.live(),
                    1 | 2 => vec![world.leader().await],
                    _ => vec![1 + (random / 4 % 3) as i32],
                };
                for victim in &victims {
                    world.kill(*victim);
                }
                if victims.len() == 1 {
                    let killed = world.driver.now();
                    world.leader().await;
                    let other = world.live()[0];
                    world.commit(other).await.unwrap();
                    assert!(world.driver.now().since(killed) < FAILOVER_MAX);
                }
                for victim in victims {
                    world.start(victim).await;
                }
            }
            world.converge().await;
            assert!(world.committed.len() >= 48);
        });
    }
}

#[test]
fn a_minority_refuses_in_bounded_time_and_goes_on_when_others_return() {
    run(2, 3, async |world| {
        let mut world = three(world).await;
        world.commit(1).await.unwrap();
        let leader = world.leader().await;
        let others: Vec<i32> = world.live().into_iter().filter(|node| *node != leader).collect();
        // A leader without followers, then a follower without others.
        for left in [leader, others[0]] {
            for node in world.live().into_iter().filter(|node| *node != left) {
                world.kill(node);
            }
            let before = world.driver.now();
            let refused = world.commit(left).await.unwrap_err();
            assert!(
                matches!(refused, QuorumError::NoLeader(_) | QuorumError::Unknown(_)),
                "{refused}"
            );
            assert!(world.driver.now().since(before) <= COMMIT_TIMEOUT + Duration::from_secs(1));
            assert!(world.has_all(left), "what it knew it still tells");
            for node in (1..=3).filter(|node| *node != left) {
                world.start(node).await;
            }
            let before = world.driver.now();
            world.leader().await;
            world.commit(left).await.unwrap();
            assert!(world.driver.now().since(before) < Duration::from_secs(15));
            world.converge().await;
        }
    });
}

#[test]
fn a_node_that_was_away_long_is_sent_a_snapshot() {
    run(3, 3, async |world| {
        let mut world = three(world).await;
        world.kill(3);
        for round in 0..100 {
            world.commit(1 + round % 2).await.unwrap();
        }
        world.start(3).await;
        world.converge().await;
        world.commit(3).await.unwrap();
    });
}

#[test]
fn nodes_are_added_and_removed_while_the_quorum_works() {
    run(4, 3, async |world| {
        let mut world = three(world).await;
        world.commit(1).await.unwrap();
        world.start(4).await;
        world.converge().await;
        let learners = |world: &World| {
            let members = world.of(1).status().members;
            members.iter().filter(|member| !member.votes).count()
        };
        world.until("node 4 learns", |world| learners(world) == 1).await;
        let fourth = world.voter(4);
        world.change(4, Change::AddVoter { voter: fourth }).await.unwrap();
        world.until("node 4 votes", |world| learners(world) == 0).await;
        let first = world.voter(1);
        world.change(2, Change::Remove { voter: first }).await.unwrap();
        world.kill(1);
        world.hosts.remove(&1);
        world.commit(4).await.unwrap();
        // Two of the three that are left are a majority.
        world.kill(2);
        world.commit(4).await.unwrap();
        world.converge().await;
        let unknown = VoterId::from(77);
        let refused = world.change(4, Change::AddVoter { voter: unknown }).await;
        let not_found = |answer: &Result<(), QuorumError>| {
            matches!(answer, Err(QuorumError::NoChange(NoChange::VoterNotFound, _)))
        };
        assert!(not_found(&refused), "{refused:?}");
        let gone = world.change(4, Change::Remove { voter: first }).await;
        assert!(not_found(&gone), "{gone:?}");
        let again = world.change(4, Change::AddVoter { voter: fourth }).await;
        assert!(
            matches!(again, Err(QuorumError::NoChange(NoChange::DuplicateVoter, _))),
            "{again:?}"
        );
    });
}

#[test]
fn a_wiped_directory_is_another_voter_and_nothing_is_elected_from_it() {
    run(5, 3, async |world| {
        let mut world = three(world).await;
        for node in [1, 2, 3] {
            world.commit(node).await.unwrap();
        }
        let lost = world.voter(2);
        world.wipe(2);
        world.start(2).await;
        let text = world.refusal(2).await;
        assert!(text.contains("strandctl cluster replace 2"), "{text}");
        // With one good voter and the empty one, there is no majority.
        world.kill(3);
        assert!(world.commit(1).await.is_err());
        assert!(world.image(2).cluster_id().is_none());
        world.start(3).await;
        world.leader_of(&[1, 3]).await;
        world.change(1, Change::Remove { voter: lost }).await.unwrap();
        world.converge().await;
        let new = world.voter(2);
        world.change(1, Change::AddVoter { voter: new }).await.unwrap();
        world.kill(3);
        world.commit(2).await.unwrap();
        world.converge().await;
    });
}

#[test]
fn a_whole_quorum_that_is_wiped_but_for_one_founds_nothing_anew() {
    run(6, 3, async |world| {
        let mut world = three(world).await;
        world.commit(1).await.unwrap();
        world.wipe(1);
        world.wipe(2);
        world.start(1).await;
        world.start(2).await;
        world.driver.sleep(Duration::from_secs(20)).await;
        for node in [1, 2] {
            assert_eq!(world.image(node).offset(), MetadataOffset(0), "node {node}");
        }
        assert!(world.has_all(3));
    });
}

#[test]
fn two_nodes_of_one_id_are_told_so() {
    run(7, 3, async |world| {
        let mut world = three(world).await;
        // Beside the node with that id, on a machine that nobody is configured to reach.
        let runtime = world.simulation.runtime("elsewhere");
        let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
        disk.make_durable_directories(Path::new("/data")).unwrap();
        let twin = world.member(&runtime, &disk, 2, Uuid::from_u128(222)).await;
        let refused = twin.refused();
        world.until("a refusal", |_| refused.borrow().is_some()).await;
        let text = refused.borrow().clone().unwrap();
        assert!(text.contains(" 2") && text.contains("'node.id'"), "{text}");
        world.commit(2).await.unwrap();
        world.converge().await;
    });
}

#[test]
fn another_cluster_is_refused() {
    run(8, 1, async |world| {
        let mut world = world;
        world.start(1).await;
        world.founded().await;
        // A node of a cluster of its own, which is now pointed to the other one.
        let voters = std::mem::take(&mut world.voters);
        world.voters = BTreeMap::from([(NodeId(5), world.address(5))]);
        world.start(5).await;
        world
            .until("the other cluster", |world| world.image(5).cluster_id().is_some())
            .await;
        assert_ne!(world.image(1).cluster_id(), world.image(5).cluster_id());
        let calls = world.of(5).calls.clone();
        let mut peer = super::peer::Peer::new(calls, NodeId(1), Uuid::nil(), voters[&NodeId(1)].clone());
        let asked = peer.call(&super::wire::Request::Status, &[], Duration::from_secs(1));
        let error = asked.await.unwrap_err().to_string();
        assert!(error.contains("correct 'controller.quorum.voters'"), "{error}");
    });
}

#[test]
fn a_node_that_was_alone_grows_into_a_quorum() {
    run(9, 1, async |world| {
        let mut world = world;
        let runtime = world.simulation.runtime(&name(1));
        let disk = SimDisk::new(runtime.clone(), SimDiskOptions::default());
        disk.make_durable_directories(Path::new("/data")).unwrap();
        {
            let path = PathBuf::from("/data/quorum.redb");
            let database = Database::open_backend(SimulatedBackend::of(&disk, &path)).unwrap();
            let cluster_id = Uuid::from_u128(99);
            let commands = [
                Command::InitializeCluster { cluster_id },
                World::registration(500, Vec::new()),
            ];
            database.append(1, &commands).unwrap();
            disk.flush_directory(Path::new("/data")).await.unwrap();
        }
        world.committed.insert(500);
        let host = Host {
            disk,
            directory: Uuid::from_u128(1),
            member: None,
        };
        world.hosts.insert(1, host);
        world.start(1).await;
        assert_eq!(world.commit(1).await.unwrap(), MetadataOffset(3));
        for node in [2, 3] {
            world.start(node).await;
            world.converge().await;
            let voter = world.voter(node);
            world.change(1, Change::AddVoter { voter }).await.unwrap();
        }
        assert_eq!(world.image(3).cluster_id(), Some(Uuid::from_u128(99)));
        world.kill(1);
        world.commit(3).await.unwrap();
        world.converge().await;
    });
}

#[test]
fn silent_shards_are_fenced_and_come_back_with_a_heartbeat() {
    run(20, 3, async |world| {
        let mut world = three(world).await;
        let shard = ShardRegistration {
            shard: 0,
            directory_id: Uuid::from_u128(1),
            endpoints: Vec::new(),
            link: None,
            damaged: Vec::new(),
        };
        let command = World::registration(1, vec![shard]);
        let decided = RaftQuorum(world.of(1)).commit(vec![command]).await.unwrap();
        let [Answer::Registered(Ok(epoch))] = decided.answers.as_slice() else {
            panic!("{decided:?}");
        };
        let epoch = *epoch;
        let beat = async |world: &World, from: i32| {
            let heartbeat = ShardHeartbeat {
                broker: BrokerId(1000),
                epoch,
                health: ShardHealth::Serving(world.image(from).offset()),
                damaged: Vec::new(),
            };
            RaftQuorum(world.of(from))
                .heartbeat(vec![heartbeat])
                .await
                .unwrap();
        };
        let is_fenced = |world: &World, node: i32| world.image(node).broker(BrokerId(1000)).unwrap().fenced;
        world.converge().await;
        // Through whichever node: the leader hears of it.
        for round in 1..=8 {
            beat(&world, 1 + round % 3).await;
            world.driver.sleep(Duration::from_secs(2)).await;
            assert!(!is_fenced(&world, 2), "round {round}");
        }
        // A new leader has heard nothing, and waits a whole session.
        let leader = world.leader().await;
        world.kill(leader);
        let left = world.live()[0];
        world.leader().await;
        let elected = world.driver.now();
        world.until("fenced", |world| is_fenced(world, left)).await;
        let silent = world.driver.now().since(elected);
        assert!(silent > SESSION - Duration::from_secs(2), "{silent:?}");
        beat(&world, left).await;
        world.until("unfenced", |world| !is_fenced(world, left)).await;
    });
}

impl World {
    /// The leader that these nodes agree on.
    async fn leader_of(&self, nodes: &[i32]) -> VoterId {
        let agreed = |world: &Self| {
            let leaders = nodes.iter().map(|node| world.of(*node).status().leader);
            let leaders: BTreeSet<_> = leaders.collect();
            match leaders.len() {
                1 => leaders.first().copied().flatten(),
                _ => None,
            }
        };
        self.until("a leader", |world| agreed(world).is_some()).await;
        agreed(self).unwrap()
    }
}
