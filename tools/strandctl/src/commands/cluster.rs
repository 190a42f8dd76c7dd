//! `cluster describe`: brokers, controller, and how partitions are spread.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::client::Client;
use crate::client::metadata::{Metadata, Topics};
use crate::client_config::ClientConfig;
use crate::failure::Failure;
use crate::output::Output;

#[derive(Serialize)]
struct Description {
    cluster_id: Option<String>,
    controller: Option<i32>,
    topics: usize,
    partitions: usize,
    under_replicated_partitions: usize,
    leaderless_partitions: usize,
    brokers: Vec<BrokerDescription>,
}

#[derive(Serialize)]
struct BrokerDescription {
    broker: i32,
    address: String,
    rack: Option<String>,
    leaders: usize,
    replicas: usize,
}

/// `strandctl cluster describe`
pub fn describe(config: &ClientConfig, output: &mut Output) -> Result<(), Failure> {
    let mut client = Client::connect(config)?;
    let cluster = client.describe_cluster()?;
    let metadata = client.metadata(Topics::All)?;
    let (leaders, replicas) = spread(&metadata);
    let of = |counts: &BTreeMap<i32, usize>, broker| counts.get(&broker).copied().unwrap_or(0);
    let partitions = || metadata.topics.iter().flat_map(|topic| &topic.partitions);
    let description = Description {
        cluster_id: cluster.id,
        controller: cluster.controller,
        topics: metadata.topics.len(),
        partitions: partitions().count(),
        under_replicated_partitions: partitions()
            .filter(|partition| partition.isr.len() < partition.replicas.len())
            .count(),
        leaderless_partitions: partitions()
            .filter(|partition| partition.leader.is_none())
            .count(),
        brokers: cluster
            .brokers
            .into_values()
            .map(|broker| BrokerDescription {
                broker: broker.id,
                address: broker.address.to_string(),
                rack: broker.rack,
                leaders: of(&leaders, broker.id),
                replicas: of(&replicas, broker.id),
            })
            .collect(),
    };
    if output.is_json() {
        output.json(&description)
    } else {
        print(&description, output)
    }
}

/// How many partitions each broker leads and holds.
fn spread(metadata: &Metadata) -> (BTreeMap<i32, usize>, BTreeMap<i32, usize>) {
    let (mut leaders, mut replicas) = (BTreeMap::new(), BTreeMap::new());
    for partition in metadata.topics.iter().flat_map(|topic| &topic.partitions) {
        if let Some(leader) = partition.leader {
            *leaders.entry(leader).or_default() += 1;
        }
        for &replica in &partition.replicas {
            *replicas.entry(replica).or_default() += 1;
        }
    }
    (leaders, replicas)
}

fn print(description: &Description, output: &mut Output) -> Result<(), Failure> {
    let controller = description
        .controller
        .map_or("unknown".to_owned(), |id| id.to_string());
    output.line(format_args!(
        "cluster {}  controller {controller}",
        description.cluster_id.as_deref().unwrap_or("without id")
    ))?;
    output.line(format_args!(
        "topics {}  partitions {}  under-replicated {}  leaderless {}",
        description.topics,
        description.partitions,
        description.under_replicated_partitions,
        description.leaderless_partitions
    ))?;
    let row = |broker: &BrokerDescription| {
        [
            broker.broker.to_string(),
            broker.address.clone(),
            broker.rack.clone().unwrap_or_else(|| "-".to_owned()),
            broker.leaders.to_string(),
            broker.replicas.to_string(),
        ]
    };
    let rows: Vec<_> = description.brokers.iter().map(row).collect();
    output.table(["BROKER", "ADDRESS", "RACK", "LEADERS", "REPLICAS"], &rows)
}
