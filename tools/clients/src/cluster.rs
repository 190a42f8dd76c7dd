//! Nodes of one cluster, each a child process.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::broker::{Broker, USUAL};
use crate::raw::Raw;

const NODES: i32 = 3;
/// More than replicas need to be in sync again, on a busy machine.
const IN_SYNC_MAX: Duration = Duration::from_secs(90);

/// Three nodes of one shard each, with the defaults of such a cluster: three replicas, two of which must have a record.
pub(crate) struct Cluster {
    nodes: Vec<Broker>,
}

impl Cluster {
    /// Starts all of them.
    pub(crate) fn start(program: &Path, scratch: &Path) -> Result<Self, String> {
        let voters = format!("controller.quorum.voters={}", voters()?);
        let mut nodes = Vec::new();
        for number in 1..=NODES {
            let id = format!("node.id={number}");
            let own = [id.as_str(), voters.as_str(), "strandline.link.port=0"];
            let settings: Vec<&str> = USUAL.into_iter().chain(own).collect();
            let mut node = Broker::prepare(program, scratch, &settings)?;
            node.spawn("0", 1)?;
            nodes.push(node);
        }
        nodes.iter_mut().try_for_each(|node| node.wait_until_ready(1))?;
        Ok(Self { nodes })
    }

    /// The addresses of all nodes, as a bootstrap list.
    pub(crate) fn bootstrap(&self) -> String {
        let addresses: Vec<String> = self.nodes.iter().map(Broker::bootstrap).collect();
        addresses.join(",")
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// One of them.
    pub(crate) fn node(&mut self, number: usize) -> &mut Broker {
        &mut self.nodes[number]
    }

    /// Waits until every partition of these topics has all its replicas in sync, as whoever lives tells it.
    pub(crate) fn wait_until_in_sync(&self, topics: &[String]) -> Result<(), String> {
        let end = Instant::now() + IN_SYNC_MAX;
        let living = self.nodes.iter().find(|node| node.runs()).ok_or("no node runs")?;
        for topic in topics {
            loop {
                let found = Raw::connect(&living.bootstrap())?.metadata(topic, false)?;
                let mut partitions = found.topics.iter().flat_map(|topic| &topic.partitions);
                if partitions.all(|partition| partition.isr_nodes.len() == self.nodes.len()) {
                    break;
                }
                if Instant::now() > end {
                    let last = living.log_tail();
                    return Err(format!("{topic}: not in sync in time: {found:?}\n{last}"));
                }
            }
        }
        Ok(())
    }
}

/// Ports that were free a moment ago: voters are named before they run.
fn voters() -> Result<String, String> {
    let listeners: Result<Vec<_>, _> = (0..NODES).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let listeners = listeners.map_err(|error| error.to_string())?;
    let addresses: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
    let addresses = addresses.map_err(|error| error.to_string())?;
    let voters: Vec<String> = (1..)
        .zip(addresses)
        .map(|(node, address)| format!("{node}@{address}"))
        .collect();
    Ok(voters.join(","))
}
