//! The `/metrics` page, from copies of the shards' counters.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use strandline_core::metadata::{ClusterImage, NodeId};
use strandline_wire::ApiKey;

use super::{groups, replicas};
use crate::node::report::{LATENCY_BOUNDS_US, LatencyHistogram, PhaseLatencies, ShardReport};

const MICROSECONDS_PER_SECOND: f64 = 1e6;

/// Renders the page in the OpenMetrics text format.
pub(super) fn render(
    node: NodeId,
    reports: Vec<(u32, ShardReport)>,
    image: Arc<ClusterImage>,
    connections: u32,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("strandline");
    registry.register_collector(Box::new(Page {
        node,
        reports,
        image,
        connections,
    }));
    let mut page = String::new();
    encode(&mut page, &registry)?;
    Ok(page)
}

#[derive(Debug)]
struct Page {
    node: NodeId,
    reports: Vec<(u32, ShardReport)>,
    image: Arc<ClusterImage>,
    connections: u32,
}

/// Name, help, and where the value is.
type Figure = (&'static str, &'static str, fn(&ShardReport) -> u64);

const COUNTERS: [Figure; 19] = [
    (
        "appends_refused",
        "Batches refused by the storage: the disk is full, it stopped, or the partition is damaged",
        |report| report.appends_refused,
    ),
    (
        "cleaner_cleanings",
        "Cleanings of a compacted partition",
        |report| report.cleaner.cleanings,
    ),
    (
        "cleaner_failures",
        "Cleanings that are tried again, for want of space or since a read was refused",
        |report| report.cleaner.failures,
    ),
    ("cleaner_milliseconds", "Time that cleanings took", |report| {
        report.cleaner.ns / 1_000_000
    }),
    ("cleaner_read_bytes", "Bytes that cleanings read", |report| {
        report.cleaner.read_bytes
    }),
    (
        "cleaner_written_bytes",
        "Bytes of batches that cleanings wrote",
        |report| report.cleaner.written_bytes,
    ),
    ("cleaner_records_read", "Records that cleanings met", |report| {
        report.cleaner.records_read
    }),
    ("cleaner_records_kept", "Records that cleanings kept", |report| {
        report.cleaner.records_kept
    }),
    ("isr_expands", "Replicas that came back in sync", |report| {
        report.isr_expands
    }),
    (
        "isr_shrinks",
        "Replicas that were taken out of sync by their leader",
        |report| report.isr_shrinks,
    ),
    ("received_bytes", "Bytes received from clients", |report| {
        report.received_bytes
    }),
    ("sent_bytes", "Bytes sent to clients", |report| report.sent_bytes),
    (
        "connections_refused",
        "Connections refused by a cap, or closed for bytes that are no request",
        |report| report.connections_refused,
    ),
    ("journal_flushes", "Flushes of the journal", |report| {
        report.flushes
    }),
    ("journal_entries", "Entries written to the journal", |report| {
        report.entries
    }),
    (
        "retention_rounds",
        "Rounds of retention over all partitions",
        |report| report.retention_rounds,
    ),
    (
        "retention_segments_by_size",
        "Segments deleted by retention.bytes",
        |report| report.retention_segments_by_size,
    ),
    (
        "retention_segments_by_time",
        "Segments deleted by retention.ms",
        |report| report.retention_segments_by_time,
    ),
    (
        "retention_bytes",
        "Payload bytes of segments deleted by retention",
        |report| report.retention_bytes,
    ),
];

const GAUGES: [Figure; 15] = [
    (
        "disk_full",
        "1 while appends are refused, since less of the disk is free than must stay free",
        |report| u64::from(report.disk_full),
    ),
    (
        "disk_reserve_bytes",
        "What must stay free of the disk: strandline.disk.free.min.bytes",
        |report| report.disk_reserve_bytes,
    ),
    (
        "damaged_partitions",
        "Partitions of which something cannot be read: they serve up to it and take nothing",
        |report| report.damaged_partitions,
    ),
    (
        "cleaner_uncleanable_partitions",
        "Compacted partitions that are left alone, since what stands in them cannot be read",
        |report| report.cleaner.uncleanable_logs,
    ),
    (
        "cleaner_max_dirty_percent",
        "The largest dirty share of a compacted partition, as the cleaner last looked",
        |report| report.cleaner.max_dirty_percent,
    ),
    (
        "retention_longest_turn_microseconds",
        "The longest time that retention ran without giving way, since the start",
        |report| microseconds(report.longest_turns.retention),
    ),
    (
        "cleaner_longest_turn_microseconds",
        "The longest time that the cleaner ran without giving way, since the start",
        |report| microseconds(report.longest_turns.cleaner),
    ),
    (
        "write_back_longest_turn_microseconds",
        "The longest time that write-back and checkpoints ran without giving way, since the start",
        |report| microseconds(report.longest_turns.write_back),
    ),
    ("connections", "Open connections of the shard", |report| {
        report.connections
    }),
    (
        "storage_stopped",
        "1 once a failed write or flush stopped the shard's storage",
        |report| u64::from(report.storage_stopped),
    ),
    (
        "journal_used_bytes",
        "Bytes of the journal that no segment holds yet",
        |report| report.journal_used_bytes,
    ),
    (
        "dirty_bytes",
        "Bytes appended and not yet in segments",
        |report| report.dirty_bytes,
    ),
    ("cached_bytes", "Bytes in the cache", |report| report.cached_bytes),
    (
        "memory_used_bytes",
        "Bytes of the memory budget in use",
        |report| report.memory_used_bytes,
    ),
    ("memory_budget_bytes", "Size of the memory budget", |report| {
        report.memory_budget_bytes
    }),
];

fn microseconds(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

type Phase = (&'static str, fn(&PhaseLatencies) -> &LatencyHistogram);

const PHASES: [Phase; 4] = [
    ("queue", |phases| &phases.queue),
    ("append", |phases| &phases.append),
    ("flush", |phases| &phases.flush),
    ("answer", |phases| &phases.answer),
];

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_node(&mut encoder)?;
        for (name, help, value) in COUNTERS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (broker, report) in self.by_broker() {
                counter(&mut metric, &[("broker", broker.as_str())], value(report))?;
            }
        }
        for (name, help, value) in GAUGES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (broker, report) in self.by_broker() {
                gauge(&mut metric, &[("broker", broker.as_str())], value(report))?;
            }
        }
        self.encode_free_space(&mut encoder)?;
        self.encode_requests(&mut encoder)?;
        self.encode_phases(&mut encoder)?;
        self.encode_partitions(&mut encoder)?;
        replicas::encode(&mut encoder, self.node, &self.reports, &self.image)?;
        groups::encode(&mut encoder, self.node, &self.reports, &self.image)
    }
}

impl Page {
    fn by_broker(&self) -> impl Iterator<Item = (String, &ShardReport)> {
        self.reports
            .iter()
            .map(|(shard, report)| (self.node.broker(*shard).to_string(), report))
    }

    fn encode_node(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let figures = [
            (
                "node_connections",
                "Open connections of the node",
                u64::from(self.connections),
            ),
            (
                "metadata_offset",
                "The last metadata command in the image",
                self.image.offset().0,
            ),
            (
                "topics",
                "Topics of the cluster",
                self.image.topics().len() as u64,
            ),
            (
                "shards_reporting",
                "Shards that answered this scrape",
                self.reports.len() as u64,
            ),
        ];
        for (name, help, value) in figures {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            metric.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX))?;
        }
        let node = self.node.to_string();
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("node", node.as_str())];
        let help = "1, with the version that runs";
        let mut metric = encoder.encode_descriptor("build_info", help, None, MetricType::Gauge)?;
        gauge(&mut metric, &labels, 1)
    }

    /// Unknown is no series: 0 would be an alarm.
    fn encode_free_space(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Free bytes of the shard's disk, as last looked at";
        let mut metric = encoder.encode_descriptor("disk_free_bytes", help, None, MetricType::Gauge)?;
        for (broker, report) in self.by_broker() {
            if let Some(free) = report.disk_free_bytes {
                gauge(&mut metric, &[("broker", broker.as_str())], free)?;
            }
        }
        Ok(())
    }

    fn encode_requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests by API and error code; NONE is success";
        let mut metric = encoder.encode_descriptor("requests", help, None, MetricType::Counter)?;
        for (broker, report) in self.by_broker() {
            for request in &report.requests {
                let number = request.api_key.to_string();
                let api = ApiKey::from_key(request.api_key).map_or(number.as_str(), |api| api.name());
                let labels = [
                    ("broker", broker.as_str()),
                    ("api", api),
                    ("code", request.code.name()),
                ];
                counter(&mut metric, &labels, request.count)?;
            }
        }
        Ok(())
    }

    fn encode_phases(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "How long a produce took, by phase: queue, append, flush, answer";
        let mut metric =
            encoder.encode_descriptor("produce_phase_seconds", help, None, MetricType::Histogram)?;
        for (broker, report) in self.by_broker() {
            for (phase, histogram) in PHASES {
                let labels = [("broker", broker.as_str()), ("phase", phase)];
                histogram_of(&mut metric.encode_family(&labels)?, histogram(&report.phases))?;
            }
        }
        Ok(())
    }

    fn encode_partitions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type PartitionFigure = (
            &'static str,
            &'static str,
            fn(&crate::node::report::PartitionReport) -> i64,
        );
        let figures: [PartitionFigure; 5] = [
            ("partition_start_offset", "First offset kept", |partition| {
                partition.log_start_offset
            }),
            ("partition_end_offset", "Log end offset", |partition| {
                partition.log_end_offset
            }),
            (
                "partition_high_watermark",
                "Offset up to which consumers read",
                |partition| partition.high_watermark,
            ),
            ("partition_size_bytes", "Payload bytes", |partition| {
                partition.size_bytes as i64
            }),
            ("partition_segments", "Segments of the log", |partition| {
                partition.segments as i64
            }),
        ];
        for (name, help, value) in figures {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for partition in self.reports.iter().flat_map(|(_, report)| &report.partitions) {
                // A topic that was deleted since has no name any more, and no series.
                let Some(topic) = self.image.topic(partition.topic_id) else {
                    continue;
                };
                let number = partition.partition.to_string();
                let labels = [("topic", topic.name.as_str()), ("partition", number.as_str())];
                metric.encode_family(&labels)?.encode_gauge(&value(partition))?;
            }
        }
        Ok(())
    }
}

fn counter(metric: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, value: u64) -> fmt::Result {
    metric
        .encode_family(labels)?
        .encode_counter::<NoLabelSet, u64, u64>(&value, None)
}

pub(super) fn gauge(metric: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, value: u64) -> fmt::Result {
    metric
        .encode_family(labels)?
        .encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX))
}

fn histogram_of(metric: &mut MetricEncoder<'_>, histogram: &LatencyHistogram) -> fmt::Result {
    let bounds = LATENCY_BOUNDS_US
        .iter()
        .map(|bound| *bound as f64 / MICROSECONDS_PER_SECOND);
    let buckets: Vec<(f64, u64)> = bounds
        .chain([f64::INFINITY])
        .zip(histogram.buckets().iter().copied())
        .collect();
    let sum = histogram.sum_us() as f64 / MICROSECONDS_PER_SECOND;
    metric.encode_histogram::<NoLabelSet>(sum, histogram.count(), &buckets, None)
}

#[cfg(test)]
mod tests {
    use strandline_wire::ErrorCode;

    use super::*;
    use crate::node::report::RequestCount;

    #[test]
    fn the_page_has_a_line_for_each_figure() {
        let mut report = ShardReport {
            flushes: 7,
            connections: 2,
            appends_refused: 4,
            damaged_partitions: 1,
            disk_full: true,
            disk_free_bytes: Some(99),
            ..ShardReport::default()
        };
        report.requests.push(RequestCount {
            api_key: 0,
            code: ErrorCode::NotLeaderOrFollower,
            count: 3,
        });
        report.phases.flush.record(Duration::from_micros(250));
        report.phases.flush.record(Duration::from_secs(100));
        let page = render(NodeId(1), vec![(2, report)], Arc::default(), 5).unwrap();
        for line in [
            "strandline_journal_flushes_total{broker=\"1002\"} 7",
            "strandline_connections{broker=\"1002\"} 2",
            "strandline_appends_refused_total{broker=\"1002\"} 4",
            "strandline_damaged_partitions{broker=\"1002\"} 1",
            "strandline_disk_full{broker=\"1002\"} 1",
            "strandline_disk_free_bytes{broker=\"1002\"} 99",
            concat!(
                "strandline_build_info{version=\"",
                env!("CARGO_PKG_VERSION"),
                "\",node=\"1\"} 1"
            ),
            "strandline_node_connections 5",
            "strandline_requests_total{broker=\"1002\",api=\"Produce\",code=\"NOT_LEADER_OR_FOLLOWER\"} 3",
            "strandline_produce_phase_seconds_bucket{le=\"0.0003\",broker=\"1002\",phase=\"flush\"} 1",
            "strandline_produce_phase_seconds_bucket{le=\"+Inf\",broker=\"1002\",phase=\"flush\"} 2",
        ] {
            assert!(page.contains(line), "{line} is not in:\n{page}");
        }
        assert!(page.ends_with("# EOF\n"));
    }
}
