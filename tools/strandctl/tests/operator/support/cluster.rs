//! The state of the cluster, and its listeners.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use super::groups::Group;
use super::handlers;

/// Something that goes wrong once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The batch is stored, and the connection closed in place of the answer.
    LostAcknowledgement,
    /// Metadata names this broker as the leader of every partition.
    StaleMetadata(i32),
    /// The next Fetch answers that the broker does not lead its partitions.
    FetchMoved,
    /// The records before this offset are gone when the next Fetch arrives.
    DeletedBefore(i64),
    /// A coordinator says that it still reads its log.
    Loading,
    /// FindCoordinator names a broker that is not the coordinator.
    StaleCoordinator,
    /// A member has joined when an offset is committed.
    MemberJoins,
    /// The groups are deleted, and the connection closed in place of the answer.
    LostDeletion,
}

/// A partition: its leader and its batches with their base offsets set.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) leader: i32,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) batches: Vec<(i64, Vec<u8>)>,
    /// The last sequence and base offset of each producer.
    pub(crate) producers: HashMap<i64, (i32, i64)>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) brokers: BTreeMap<i32, SocketAddr>,
    pub(crate) topics: BTreeMap<String, Vec<Partition>>,
    pub(crate) configs: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) faults: Vec<Fault>,
    /// The highest ApiVersions version, and Produce version, that the brokers know.
    pub(crate) api_versions_max: i16,
    pub(crate) produce_max: i16,
    /// Produce requests seen, by broker and version.
    pub(crate) produced: Vec<(i32, i16)>,
    pub(crate) next_producer_id: i64,
    pub(crate) groups: BTreeMap<String, Group>,
    /// The brokers serve the group APIs as Kafka 2.8 does.
    pub(crate) old_groups: bool,
    /// Every partition answers a Fetch with KAFKA_STORAGE_ERROR.
    pub(crate) broken_disk: bool,
}

impl State {
    /// True, once, when this fault was asked for.
    pub(crate) fn strikes(&mut self, fault: Fault) -> bool {
        self.striking(|&planned| (planned == fault).then_some(()))
            .is_some()
    }

    /// The first planned fault that `pick` finds something in; it strikes once.
    pub(crate) fn striking<T>(&mut self, pick: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        let position = self.faults.iter().position(|fault| pick(fault).is_some())?;
        pick(&self.faults.remove(position))
    }

    pub(crate) fn create(&mut self, topic: &str, partitions: usize) {
        let partitions = self.partitions(partitions);
        self.topics.insert(topic.to_owned(), partitions);
    }

    /// Empty partitions, spread over the brokers.
    pub(crate) fn partitions(&self, count: usize) -> Vec<Partition> {
        let brokers: Vec<i32> = self.brokers.keys().copied().collect();
        let partition = |index: usize| Partition {
            leader: brokers[index % brokers.len()],
            start: 0,
            end: 0,
            batches: Vec::new(),
            producers: HashMap::new(),
        };
        (0..count).map(partition).collect()
    }
}

/// State and a bell that rings when records arrive.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) arrived: Condvar,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// Brokers 1 to `n` on free ports of the loopback address. Their threads end with the test's process.
pub(crate) struct Cluster {
    shared: Arc<Shared>,
    pub(crate) bootstrap: String,
}

impl Cluster {
    pub(crate) fn start(brokers: i32) -> Self {
        let state = State {
            api_versions_max: 4,
            produce_max: 12,
            next_producer_id: 1000,
            ..State::default()
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            arrived: Condvar::new(),
        });
        let mut bootstrap = String::new();
        for id in 1..=brokers {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            shared.lock().brokers.insert(id, address);
            if id == 1 {
                bootstrap = address.to_string();
            }
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || serve(id, stream.unwrap(), &shared));
                }
            });
        }
        Self { shared, bootstrap }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    pub(crate) fn with_topic(self, topic: &str, partitions: usize) -> Self {
        self.state().create(topic, partitions);
        self
    }

    /// A group: its members, and offsets of one topic by partition.
    pub(crate) fn with_group(
        self,
        name: &str,
        members: &[(&'static str, &'static str, &'static str, &[i32])],
        topic: &str,
        offsets: &[(i32, i64)],
    ) -> Self {
        let members = members
            .iter()
            .map(|&(id, client, topic, owned)| (id, client, topic, owned.to_vec()));
        let offsets = offsets
            .iter()
            .map(|&(partition, offset)| ((topic.to_owned(), partition), offset));
        let group = Group {
            members: members.collect(),
            offsets: offsets.collect(),
            is_new: false,
        };
        self.state().groups.insert(name.to_owned(), group);
        self
    }

    /// What a group has committed for a partition.
    pub(crate) fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let at = (topic.to_owned(), partition);
        self.state().groups.get(group)?.offsets.get(&at).copied()
    }

    pub(crate) fn plan(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// How many records a partition holds.
    pub(crate) fn end_offset(&self, topic: &str, partition: usize) -> i64 {
        self.state().topics[topic][partition].end
    }
}

/// One connection: frames in, frames out, until either side has enough.
fn serve(broker: i32, mut stream: TcpStream, shared: &Shared) {
    let mut size = [0; 4];
    while stream.read_exact(&mut size).is_ok() {
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        if stream.read_exact(&mut frame).is_err() {
            return;
        }
        match handlers::answer(broker, frame.into(), shared) {
            handlers::Answer::Send(answer) => {
                let size = (answer.len() as u32).to_be_bytes();
                if stream
                    .write_all(&size)
                    .and_then(|()| stream.write_all(&answer))
                    .is_err()
                {
                    return;
                }
            }
            handlers::Answer::Nothing => {}
            handlers::Answer::Close => return,
        }
    }
}
