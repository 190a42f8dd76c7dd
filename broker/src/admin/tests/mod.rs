//! The admin handlers over a quorum in memory: apply is the real one, only its log is left out.

mod configs;
mod moves;
mod reads;
mod topics;

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use strandline_core::metadata::{
    Answer, ClusterImage, Command, Endpoint, NodeId, NodeRegistration, ShardRegistration,
};
use uuid::Uuid;

use super::AdminContext;
use crate::config::machine::Machine;
use crate::config::{BrokerConfig, Origin, Settings, resolve};
use crate::control::client::{ControlClient, ControlInbox};
use crate::node::context::ImageSlot;

const LISTENER: &str = "PLAINTEXT";

/// A node of some shards, without shards.
struct Cluster {
    config: BrokerConfig,
    images: ImageSlot,
    control: ControlClient,
    inbox: Option<ControlInbox>,
    random: Cell<u64>,
}

impl Cluster {
    fn new(shards: u32, settings: &[(&str, &str)]) -> Self {
        let mut given = Settings::default();
        for (key, value) in settings {
            given.set(key, value, Origin::Set);
        }
        let machine = Machine {
            cores: vec![0],
            memory_bytes: 64 << 30,
            descriptors_max: 65_536,
        };
        let identity = resolve::identity(&given, &machine).unwrap();
        let config = resolve::resolve(&given, &identity, shards, &machine).unwrap();
        let (control, inbox) = ControlClient::new(shards);
        let images = ImageSlot::new(Arc::new(serving(shards)));
        Self {
            config,
            images,
            control,
            inbox: Some(inbox),
            random: Cell::new(1),
        }
    }

    /// Runs one handler while proposals are applied.
    fn run<T>(&mut self, request: impl AsyncFnOnce(&AdminContext<'_>) -> T) -> T {
        let mut inbox = self.inbox.take().unwrap();
        let random = || {
            self.random.set(self.random.get() + 1);
            self.random.get()
        };
        let context = AdminContext {
            broker_id: NodeId(1).broker(0),
            listener: LISTENER,
            config: &self.config,
            control: &self.control,
            images: &self.images,
            offsets_topic: &Cell::new(None),
            random: &random,
        };
        let answer = drive(request(&context), &mut inbox, &self.images);
        self.inbox = Some(inbox);
        answer
    }

    fn image(&self) -> Arc<ClusterImage> {
        self.images.latest()
    }
}

fn drive<T>(request: impl Future<Output = T>, inbox: &mut ControlInbox, images: &ImageSlot) -> T {
    let apply = async {
        while let Some(proposal) = inbox.proposals.receive().await {
            let mut image = ClusterImage::clone(&images.latest());
            let answer = match &proposal.command {
                Some(command) => image.apply(command),
                None => Answer::Whole(Ok(())),
            };
            images.publish(Arc::new(image));
            let _ = proposal.reply.send(Ok(answer));
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        match select(pin!(request), pin!(apply)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => unreachable!("the test holds a client"),
        }
    })
}

/// What a node of some shards has registered, all unfenced.
pub(crate) fn serving(shards: u32) -> ClusterImage {
    let mut image = ClusterImage::default();
    image.apply(&Command::InitializeCluster {
        cluster_id: Uuid::from_bytes(*b"peerpeerpeerpeer"),
    });
    let shard = |shard: u32| ShardRegistration {
        shard,
        directory_id: Uuid::from_u128(7),
        endpoints: vec![Endpoint {
            listener: LISTENER.into(),
            host: "h".into(),
            port: 9092 + shard as u16,
        }],
        link: None,
        damaged: Vec::new(),
    };
    let registration = NodeRegistration {
        node: NodeId(1),
        directory_id: Uuid::from_u128(7),
        boot_id: "boot".into(),
        rack: "node-1".into(),
        shards: (0..shards).map(shard).collect(),
    };
    let Answer::Registered(Ok(epoch)) = image.apply(&Command::RegisterNode(registration)) else {
        panic!()
    };
    let brokers = (0..shards)
        .map(|shard| (NodeId(1).broker(shard), epoch))
        .collect();
    image.apply(&Command::UnfenceBrokers { brokers });
    image
}
