//! What `/metrics` says of replicas: by the image for ISRs, by the leaders' reports for how far followers are.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use strandline_core::metadata::{BrokerId, ClusterImage, NodeId};

use super::metrics::gauge;
use crate::node::report::{PartitionReport, ShardReport};

/// Partitions that one broker leads or holds. Kafka's names, where it has them.
#[derive(Clone, Copy, Default)]
struct Counts {
    led: u64,
    held: u64,
    under_replicated: u64,
    under_min_isr: u64,
    at_min_isr: u64,
}

type Figure = (&'static str, &'static str, fn(&Counts) -> u64);

const FIGURES: [Figure; 5] = [
    ("leader_count", "Partitions that the shard leads", |counts| {
        counts.led
    }),
    (
        "partition_count",
        "Partitions of which the shard has a replica",
        |counts| counts.held,
    ),
    (
        "under_replicated_partitions",
        "Partitions that the shard leads, with replicas that are not in sync",
        |counts| counts.under_replicated,
    ),
    (
        "under_min_isr_partition_count",
        "Partitions that the shard leads, with fewer in sync than min.insync.replicas: acks=all is refused",
        |counts| counts.under_min_isr,
    ),
    (
        "at_min_isr_partition_count",
        "Partitions that the shard leads, with as many in sync as min.insync.replicas: with one fewer acks=all is refused",
        |counts| counts.at_min_isr,
    ),
];

pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    node: NodeId,
    reports: &[(u32, ShardReport)],
    image: &ClusterImage,
) -> fmt::Result {
    let (counts, offline) = count(node, image);
    let help = "Partitions of the cluster that no replica leads";
    let mut metric = encoder.encode_descriptor("offline_partitions_count", help, None, MetricType::Gauge)?;
    metric.encode_gauge(&i64::try_from(offline).unwrap_or(i64::MAX))?;
    for (name, help, value) in FIGURES {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (broker, counts) in &counts {
            gauge(
                &mut metric,
                &[("broker", broker.to_string().as_str())],
                value(counts),
            )?;
        }
    }
    let help = "The most records that a follower of a partition led by the shard has not flushed yet";
    let mut metric = encoder.encode_descriptor("replica_max_lag", help, None, MetricType::Gauge)?;
    for (shard, report) in reports {
        let most = lags(report).map(|(.., lag)| lag).max().unwrap_or_default();
        let broker = node.broker(*shard).to_string();
        gauge(&mut metric, &[("broker", broker.as_str())], most)?;
    }
    let help = "Records of the leader that this follower has not flushed yet";
    let mut metric = encoder.encode_descriptor("replica_lag", help, None, MetricType::Gauge)?;
    for (partition, follower, lag) in reports.iter().flat_map(|(_, report)| lags(report)) {
        let Some(topic) = image.topic(partition.topic_id) else {
            continue;
        };
        let (number, follower) = (partition.partition.to_string(), follower.to_string());
        let labels = [
            ("topic", topic.name.as_str()),
            ("partition", number.as_str()),
            ("follower", follower.as_str()),
        ];
        gauge(&mut metric, &labels, lag)?;
    }
    Ok(())
}

/// The followers of all that a shard leads.
fn lags(report: &ShardReport) -> impl Iterator<Item = (&PartitionReport, BrokerId, u64)> {
    report.partitions.iter().flat_map(|partition| {
        let followers = partition.followers.iter();
        followers.map(move |(follower, lag)| (partition, *follower, *lag))
    })
}

/// By broker of this node, and how many partitions of the cluster nobody leads.
fn count(node: NodeId, image: &ClusterImage) -> (BTreeMap<BrokerId, Counts>, u64) {
    let own = image.brokers().map(|broker| broker.id);
    let own = own.filter(|broker| broker.node() == node);
    let mut counts: BTreeMap<BrokerId, Counts> = own.map(|broker| (broker, Counts::default())).collect();
    let mut offline = 0;
    for topic in image.topics() {
        let minimum = image.min_insync_replicas(topic);
        for partition in &topic.partitions {
            offline += u64::from(partition.leader == BrokerId::NONE);
            for replica in &partition.replicas {
                if let Some(counts) = counts.get_mut(replica) {
                    counts.held += 1;
                }
            }
            let Some(counts) = counts.get_mut(&partition.leader) else {
                continue;
            };
            counts.led += 1;
            counts.under_replicated += u64::from(partition.isr.len() < partition.replicas.len());
            // No more can be asked for than there are replicas.
            let minimum = minimum.min(partition.replicas.len());
            counts.under_min_isr += u64::from(partition.isr.len() < minimum);
            counts.at_min_isr += u64::from(partition.isr.len() == minimum);
        }
    }
    (counts, offline)
}
