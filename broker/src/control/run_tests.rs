use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redb::backends::InMemoryBackend;
use strandline_core::metadata::{
    Answer, ApplyError, BrokerId, ClusterImage, Command, MetadataOffset, NewTopic, PartitionLayout,
};
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_runtime::{Queue, Runtime, SocketAddr};
use uuid::Uuid;

use super::super::client::ShardOrder;
use super::super::quorum::SingleQuorum;
use super::super::store::{Database, InlineStore};
use super::*;
use crate::config::machine::Machine;
use crate::config::{BrokerConfig, Origin, Settings, resolve};
use crate::node::assemble::{Assembly, Layout, ShardLayout, assemble};
use crate::node::context::{ShardContext, ShardMessage};

const SHARDS: u32 = 3;
const LAG: Duration = Duration::from_millis(20);

type Node = Assembly<SimRuntime, SingleQuorum<InlineStore>>;
/// Offsets of the images that each shard served by, in its order.
type Seen = Rc<RefCell<BTreeMap<u32, Vec<u64>>>>;

fn config() -> Arc<BrokerConfig> {
    let mut settings = Settings::default();
    settings.set("listeners", "PLAINTEXT://127.0.0.1:0", Origin::Set);
    let machine = Machine {
        cores: vec![0],
        memory_bytes: 64 << 30,
        descriptors_max: 65_536,
    };
    let identity = resolve::identity(&settings, &machine).unwrap();
    Arc::new(resolve::resolve(&settings, &identity, SHARDS, &machine).unwrap())
}

fn layout() -> Layout {
    let shard = |_| ShardLayout {
        folder: PathBuf::new(),
        directory_id: Uuid::from_u128(7),
        is_new: true,
    };
    Layout {
        cluster_id: Uuid::from_u128(1),
        directory_id: Uuid::from_u128(7),
        boot_id: "boot".into(),
        shards: (0..SHARDS).map(shard).collect(),
        mark_formatted: Box::new(|| {}),
    }
}

async fn node(runtime: &SimRuntime, database: Database) -> Node {
    let image = database.load().unwrap();
    let quorum = SingleQuorum::new(InlineStore(database), image, 512);
    assemble(runtime.clone(), quorum, config(), layout())
        .await
        .unwrap()
}

/// A shard that serves by each image some time after it was told.
async fn shard(runtime: SimRuntime, context: ShardContext, seen: Seen) {
    let shard = context.shard;
    let addresses = vec![SocketAddr::from(([127, 0, 0, 1], 40_000 + shard as u16))];
    context.control.started(
        shard,
        StartedShard {
            addresses,
            link: None,
            metadata_offset: MetadataOffset(0),
            damaged: Vec::new(),
        },
    );
    let mut mailbox = context.mailbox;
    while let Some(message) = mailbox.receive().await {
        match message {
            ShardMessage::ImageChanged => {
                runtime.sleep(LAG * shard).await;
                let offset = context.image.take().offset();
                seen.borrow_mut().entry(shard).or_default().push(offset.0);
                context.control.applied(shard, offset);
            }
            ShardMessage::Report(..) | ShardMessage::Pause | ShardMessage::Resume => {}
            ShardMessage::Stop => break,
        }
    }
    context.control.ended(shard, Ok(()));
}

fn run_shards(runtime: &SimRuntime, contexts: Vec<ShardContext>) -> Seen {
    let seen = Seen::default();
    for context in contexts {
        runtime.spawn(Queue::Latency, shard(runtime.clone(), context, seen.clone()));
    }
    seen
}

fn create(name: &str, id: u128) -> Command {
    let layout = PartitionLayout::Automatic {
        partitions: 3,
        replication_factor: 1,
    };
    let topic = NewTopic {
        name: name.into(),
        id: Uuid::from_u128(id),
        layout,
        configs: BTreeMap::new(),
    };
    Command::CreateTopics { topics: vec![topic] }
}

#[test]
fn a_created_topic_is_answered_once_every_shard_serves_it() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let node = node(
            &runtime,
            Database::open_backend(|| Ok(InMemoryBackend::new())).unwrap(),
        )
        .await;
        let seen = run_shards(&runtime, node.shards);
        let client = node.client;
        let control = node.control.run();
        let proposer = async {
            let started = node.ready.await.unwrap();
            assert_eq!(started.len(), SHARDS as usize);
            let live: Vec<BrokerId> = node
                .images
                .latest()
                .live_brokers()
                .map(|broker| broker.id)
                .collect();
            assert_eq!(live, [1000, 1001, 1002].map(BrokerId));
            assert_eq!(
                node.images.latest().broker(BrokerId(1002)).unwrap().endpoints[0].port,
                40_002
            );

            let both = futures_util::future::join(
                client.propose(create("t", 5), Duration::from_secs(1)),
                client.propose(create("t", 6), Duration::from_secs(1)),
            );
            let (first, second) = both.await;
            assert!(matches!(&first.unwrap(), Answer::TopicsCreated(answers) if answers[0].is_ok()));
            let Answer::TopicsCreated(answers) = second.unwrap() else {
                panic!()
            };
            assert_eq!(answers[0], Err(ApplyError::TopicExists("t".into())));
            let offset = node.images.latest().offset().0;
            assert!(
                seen.borrow()
                    .values()
                    .all(|offsets| offsets.last() == Some(&offset)),
                "{seen:?}"
            );

            // Who did not create it can wait for it as well: FindCoordinator named shards that did not know their topic yet.
            client.propose(create("s", 9), Duration::ZERO).await.unwrap();
            let served = || {
                let offset = node.images.latest().offset().0;
                seen.borrow()
                    .values()
                    .all(|offsets| offsets.last() == Some(&offset))
            };
            assert!(!served());
            client.settled(Duration::from_secs(1)).await.unwrap();
            assert!(served());
            let before = runtime.now();
            client.settled(Duration::from_secs(1)).await.unwrap();
            assert_eq!(runtime.now(), before, "nothing is left to wait for");

            // A shard that lags beyond the time given holds nobody up.
            let before = runtime.now();
            client.propose(create("u", 7), LAG).await.unwrap();
            assert_eq!(runtime.now().since(before), LAG);
            client.stop();
        };
        let (ended, ()) = futures_util::future::join(control, proposer).await;
        ended.unwrap();
        let late = client.propose(create("v", 8), LAG).await;
        assert_eq!(late, Err(ControlError::Stopping));
    });
}

#[test]
fn metadata_survives_a_restart_and_leader_epochs_rise() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("quorum.redb");
    let mut leader_epoch = -1;
    for restart in 0..4 {
        let path = path.clone();
        let simulation = Simulation::new(restart);
        let runtime = simulation.runtime("node");
        let image = simulation.run_until(async move {
            let node = node(&runtime, Database::open(&path).unwrap()).await;
            run_shards(&runtime, node.shards);
            let proposer = async {
                node.ready.await.unwrap();
                let name = format!("topic-{restart}");
                node.client
                    .propose(create(&name, u128::from(restart) + 1), Duration::from_secs(1))
                    .await
                    .unwrap();
                node.client.stop();
                node.images.latest()
            };
            futures_util::future::join(node.control.run(), proposer).await.1
        });
        assert_eq!(image.topics().len() as u64, restart + 1);
        let oldest = &image.topic_by_name("topic-0").unwrap().partitions[0];
        assert!(oldest.leader_epoch.0 > leader_epoch, "restart {restart}");
        leader_epoch = oldest.leader_epoch.0;
    }
}

#[test]
fn producer_ids_are_not_given_out_again_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("quorum.redb");
    let mut next = 0;
    for restart in 0..3 {
        let path = path.clone();
        let simulation = Simulation::new(restart);
        let runtime = simulation.runtime("node");
        let block = simulation.run_until(async move {
            let node = node(&runtime, Database::open(&path).unwrap()).await;
            run_shards(&runtime, node.shards);
            let proposer = async {
                node.ready.await.unwrap();
                let block = node.client.allocate_producer_ids(BrokerId(1001)).await.unwrap();
                node.client.stop();
                block
            };
            futures_util::future::join(node.control.run(), proposer).await.1
        });
        assert_eq!(block, next..next + 1000);
        next = block.end;
    }
}

#[test]
fn a_shard_that_cannot_start_stops_the_node() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime("node");
    let ended = simulation.run_until(async move {
        let mut node = node(
            &runtime,
            Database::open_backend(|| Ok(InMemoryBackend::new())).unwrap(),
        )
        .await;
        let refused = node.shards.pop().unwrap();
        run_shards(&runtime, node.shards);
        refused
            .control
            .ended(refused.shard, Err("port 9094 is in use".into()));
        node.control.run().await
    });
    let failure = ended.unwrap_err();
    assert_eq!(failure.to_string(), "shard 2: port 9094 is in use");
    assert!(!failure.while_running());
}

/// It counted as a failure of a node that runs from the moment that all shards listened.
#[test]
fn a_shard_that_ends_before_the_node_is_ready_counts_as_a_failed_start() {
    for ready in [false, true] {
        let simulation = Simulation::new(1);
        let runtime = simulation.runtime("node");
        let ended = simulation.run_until(async move {
            let mut node = node(
                &runtime,
                Database::open_backend(|| Ok(InMemoryBackend::new())).unwrap(),
            )
            .await;
            let fails = node.shards.pop().unwrap();
            run_shards(&runtime, node.shards);
            let (announced, task) = (node.ready, runtime.clone());
            runtime.spawn(Queue::Latency, async move {
                let context = fails;
                let (control, number) = (context.control.clone(), context.shard);
                if ready {
                    task.spawn(Queue::Latency, shard(task.clone(), context, Seen::default()));
                    announced.await.unwrap();
                } else {
                    let mut mailbox = context.mailbox;
                    let addresses = vec![SocketAddr::from(([127, 0, 0, 1], 40_002))];
                    let metadata_offset = MetadataOffset(0);
                    control.started(
                        number,
                        StartedShard {
                            addresses,
                            link: None,
                            metadata_offset,
                            damaged: Vec::new(),
                        },
                    );
                    assert!(matches!(
                        mailbox.receive().await,
                        Some(ShardMessage::ImageChanged)
                    ));
                }
                control.ended(number, Err("it broke".into()));
            });
            node.control.run().await
        });
        let failure = ended.unwrap_err();
        assert_eq!(failure.while_running(), ready);
        let text = if ready {
            "shard 2 stopped: it broke"
        } else {
            "shard 2: it broke"
        };
        assert_eq!(failure.to_string(), text);
    }
}

/// It took an image in which it was still registered as before its restart, and spoke to its leaders as who it was: they
/// answered nothing, and it never came back into an ISR.
#[test]
fn a_shard_that_starts_again_sees_no_image_before_its_registration() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let mut node = node(
            &runtime,
            Database::open_backend(|| Ok(InMemoryBackend::new())).unwrap(),
        )
        .await;
        run_shards(&runtime, node.shards);
        let (images, client) = (node.images, node.client);
        let (seen, again) = (Seen::default(), runtime.clone());
        let (factory, saw) = (node.factory, seen.clone());
        node.control.launch = Some(Box::new(move |number| {
            let (context, saw, task) = (factory.context(number, false), saw.clone(), again.clone());
            again.spawn(Queue::Latency, async move {
                // It replays.
                task.sleep(LAG * 10).await;
                shard(task.clone(), context, saw).await;
            });
        }));
        let id = BrokerId(1001);
        let until_fenced = async |fenced: bool| {
            for _ in 0..1_000 {
                if images.latest().broker(id).unwrap().fenced == fenced {
                    return;
                }
                runtime.sleep(Duration::from_millis(5)).await;
            }
            panic!("fenced is never {fenced}");
        };
        let proposer = async {
            node.ready.await.unwrap();
            client.order(1, ShardOrder::Stop).await.unwrap().unwrap();
            until_fenced(true).await;
            client.order(1, ShardOrder::Start).await.unwrap().unwrap();
            // The cluster changes while it replays: others are told.
            client.propose(create("t", 5), Duration::ZERO).await.unwrap();
            until_fenced(false).await;
            let registered = images.latest().broker(id).unwrap().epoch;
            let first = seen.borrow()[&1][0];
            assert!(
                first as i64 >= registered.0,
                "it served by the image at {first}, before its registration at {registered}"
            );
            client.stop();
        };
        futures_util::future::join(node.control.run(), proposer)
            .await
            .0
            .unwrap();
    });
}

#[test]
fn logs_that_are_ahead_of_the_quorum_are_refused() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime("node");
    let ended = simulation.run_until(async move {
        let mut node = node(
            &runtime,
            Database::open_backend(|| Ok(InMemoryBackend::new())).unwrap(),
        )
        .await;
        let ahead = node.shards.pop().unwrap();
        run_shards(&runtime, node.shards);
        let started = StartedShard {
            addresses: Vec::new(),
            link: None,
            metadata_offset: MetadataOffset(99),
            damaged: Vec::new(),
        };
        ahead.control.started(ahead.shard, started);
        runtime.spawn(Queue::Latency, async move {
            let mut mailbox = ahead.mailbox;
            while !matches!(mailbox.receive().await, Some(ShardMessage::Stop)) {}
            ahead.control.ended(ahead.shard, Ok(()));
        });
        node.control.run().await
    });
    assert!(matches!(
        ended,
        Err(NodeFailure::QuorumBehindLogs { shard: 2, .. })
    ));
}

#[test]
fn a_seed_gives_one_history() {
    let history = |seed| {
        let simulation = Simulation::new(seed);
        let runtime = simulation.runtime("node");
        let image: ClusterImage = simulation.run_until(async move {
            let node = node(
                &runtime,
                Database::open_backend(|| Ok(InMemoryBackend::new())).unwrap(),
            )
            .await;
            run_shards(&runtime, node.shards);
            let proposer = async {
                node.ready.await.unwrap();
                let proposals = (0..20_u128).map(|number| {
                    node.client
                        .propose(create(&format!("t-{number}"), number + 1), Duration::from_secs(1))
                });
                futures_util::future::join_all(proposals).await;
                node.client.stop();
                ClusterImage::clone(&node.images.latest())
            };
            futures_util::future::join(node.control.run(), proposer).await.1
        });
        (image, simulation.trace_hash())
    };
    assert_eq!(history(7), history(7));
}
