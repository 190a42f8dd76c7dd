use uuid::Uuid;

use super::*;
use crate::metadata::*;

const A: BrokerId = BrokerId(1000);
const B: BrokerId = BrokerId(1001);
const TOPIC: Uuid = Uuid::from_u128(5);

struct Subject {
    sessions: Sessions,
    image: ClusterImage,
    now_ms: i64,
}

impl Subject {
    /// A node of two shards, registered and fenced.
    fn new() -> Self {
        let mut image = ClusterImage::default();
        image.apply(&Command::InitializeCluster {
            cluster_id: Uuid::from_u128(1),
        });
        image.apply(&Command::FinalizeMetadataVersion {
            version: MetadataVersion::REPLICATION,
        });
        let mut subject = Self {
            sessions: Sessions::new(9_000, 0),
            image,
            now_ms: 0,
        };
        subject.register();
        subject.step(&SessionEvent::Elected);
        subject
    }

    fn register(&mut self) {
        let shard = |shard| ShardRegistration {
            shard,
            directory_id: Uuid::from_u128(1),
            endpoints: Vec::new(),
            link: None,
            damaged: Vec::new(),
        };
        self.image.apply(&Command::RegisterNode(NodeRegistration {
            node: NodeId(1),
            directory_id: Uuid::from_u128(1),
            boot_id: "boot".into(),
            rack: "r".into(),
            shards: (0..2).map(shard).collect(),
        }));
    }

    /// Applies what is proposed, as a quorum would.
    fn step(&mut self, event: &SessionEvent) -> Vec<Command> {
        let commands = self.sessions.step(event, &self.image, self.now_ms);
        for command in &commands {
            self.image.apply(command);
        }
        commands
    }

    /// Ticks twice a second for so long.
    fn wait(&mut self, ms: i64) -> Vec<Command> {
        let end_ms = self.now_ms + ms;
        let mut commands = Vec::new();
        while self.now_ms < end_ms {
            self.now_ms = (self.now_ms + 500).min(end_ms);
            commands.extend(self.step(&SessionEvent::Tick));
        }
        commands
    }

    fn beat(&mut self, broker: BrokerId, health: ShardHealth) -> Vec<Command> {
        self.beat_with(broker, health, &[])
    }

    fn beat_with(&mut self, broker: BrokerId, health: ShardHealth, damaged: &[u32]) -> Vec<Command> {
        let reference = |partition: &u32| PartitionReference {
            topic: TOPIC,
            partition: *partition,
        };
        let shard = ShardHeartbeat {
            broker,
            epoch: self.epoch(broker),
            health,
            damaged: damaged.iter().map(reference).collect(),
        };
        self.step(&SessionEvent::Heartbeat(vec![shard]))
    }

    fn serving(&self) -> ShardHealth {
        ShardHealth::Serving(self.image.offset())
    }

    fn epoch(&self, broker: BrokerId) -> BrokerEpoch {
        self.image.broker(broker).unwrap().epoch
    }

    fn unfenced(&mut self) {
        for broker in [A, B] {
            self.beat(broker, self.serving());
        }
        assert_eq!(self.image.live_brokers().count(), 2);
    }

    fn fences(&self, broker: BrokerId) -> Command {
        Command::FenceBrokers {
            brokers: vec![(broker, self.epoch(broker))],
        }
    }
}

#[test]
fn a_shard_is_unfenced_once_it_serves_by_its_own_registration() {
    let mut subject = Subject::new();
    assert_eq!(subject.beat(A, ShardHealth::Starting), []);
    let before = MetadataOffset(subject.epoch(A).0 as u64 - 1);
    assert_eq!(
        subject.beat(A, ShardHealth::Serving(before)),
        [],
        "an image without itself"
    );
    let serving = subject.serving();
    let brokers = vec![(A, subject.epoch(A))];
    assert_eq!(subject.beat(A, serving), [Command::UnfenceBrokers { brokers }]);
    assert_eq!(subject.beat(A, serving), [], "said once");
}

#[test]
fn a_silent_shard_is_fenced_alone_after_a_session() {
    let mut subject = Subject::new();
    subject.unfenced();
    for _ in 0..4 {
        assert_eq!(subject.wait(2_000), []);
        subject.beat(A, subject.serving());
        subject.beat(B, ShardHealth::Silent);
    }
    assert_eq!(subject.sessions.alive(NodeId(1), subject.now_ms), 2);
    let fenced = subject.fences(B);
    assert_eq!(subject.wait(1_000), [fenced]);
    assert_eq!(subject.sessions.alive(NodeId(1), subject.now_ms), 1);
    assert!(!subject.image.broker(A).unwrap().fenced);
    subject.beat(B, subject.serving());
    assert!(!subject.image.broker(B).unwrap().fenced, "it is back");
}

#[test]
fn heartbeats_of_an_earlier_registration_count_for_nothing() {
    let mut subject = Subject::new();
    subject.unfenced();
    let old = subject.epoch(A);
    subject.register();
    let heartbeat = |epoch| {
        SessionEvent::Heartbeat(vec![ShardHeartbeat {
            broker: A,
            epoch,
            health: ShardHealth::Serving(MetadataOffset(u64::MAX >> 1)),
            damaged: Vec::new(),
        }])
    };
    assert_eq!(subject.step(&heartbeat(old)), []);
    let dead = SessionEvent::Dead(vec![(A, old)]);
    subject.unfenced();
    assert_eq!(subject.step(&dead), [], "the process before it");
}

#[test]
fn a_dead_process_is_fenced_at_once() {
    let mut subject = Subject::new();
    subject.unfenced();
    let brokers = vec![(A, subject.epoch(A)), (B, subject.epoch(B))];
    let dead = SessionEvent::Dead(brokers.clone());
    assert_eq!(subject.step(&dead), [Command::FenceBrokers { brokers }]);
    assert_eq!(subject.step(&dead), [], "said again");
}

#[test]
fn time_that_the_leader_did_not_run_ends_no_session() {
    let mut subject = Subject::new();
    subject.unfenced();
    subject.now_ms += 60_000;
    assert_eq!(subject.step(&SessionEvent::Tick), [], "it slept");
    assert_eq!(subject.wait(7_500), []);
    assert_eq!(subject.wait(1_000).len(), 1, "and is awake now: both are silent");
}

#[test]
fn a_new_leader_of_the_quorum_gives_everybody_a_session() {
    let mut subject = Subject::new();
    subject.unfenced();
    subject.wait(8_500);
    subject.step(&SessionEvent::Elected);
    assert_eq!(subject.wait(8_500), []);
    assert_eq!(subject.wait(500).len(), 1);
}

#[test]
fn a_stopping_shard_is_told_once() {
    let mut subject = Subject::new();
    subject.unfenced();
    let brokers = vec![(A, subject.epoch(A))];
    assert_eq!(
        subject.beat(A, ShardHealth::Stopping),
        [Command::StopBrokers { brokers }]
    );
    assert_eq!(subject.beat(A, ShardHealth::Stopping), []);
    assert!(!subject.image.broker(A).unwrap().is_active());
}

#[test]
fn damage_is_reported_while_another_can_take_over() {
    let mut subject = Subject::new();
    subject.unfenced();
    let topic = NewTopic {
        name: "t".into(),
        id: TOPIC,
        layout: PartitionLayout::Manual(vec![vec![A, B], vec![A]]),
        configs: Default::default(),
    };
    subject
        .image
        .apply(&Command::CreateTopics { topics: vec![topic] });
    let serving = subject.serving();
    let commands = subject.beat_with(A, serving, &[0, 1, 7]);
    let expected = Command::ReplicasDamaged {
        broker: A,
        epoch: subject.epoch(A),
        replicas: vec![PartitionReference {
            topic: TOPIC,
            partition: 0,
        }],
    };
    assert_eq!(commands, [expected]);
    assert_eq!(subject.image.partition(TOPIC, 0).unwrap().leader, B);
    assert_eq!(
        subject.beat_with(A, serving, &[0, 1, 7]),
        [],
        "all is done that can be"
    );
}
