//! Groups on the `/metrics` page: what they have committed, and how far behind they are.
//!
//! A group's coordinator knows what is committed, the leaders of the partitions know the ends: both hand copies to the
//! control thread, where they are joined.

use std::collections::HashMap;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::MetricType;
use strandline_core::metadata::{ClusterImage, NodeId};
use uuid::Uuid;

use super::metrics::gauge;
use crate::node::report::{GroupReport, OffsetReport, PartitionReport, ShardReport};

/// What the series of groups may take of the page: their names may have 32 kB each.
const PAGE_BYTES_MAX: usize = 64 << 20;
/// What the two series of a partition take beside its names, about.
const SERIES_BYTES: usize = 160;

/// First readable offset and end of each partition led here.
type Ends = HashMap<(Uuid, u32), (i64, i64)>;

/// Name, help, and the value for an offset.
type Figure = (
    &'static str,
    &'static str,
    fn(&OffsetReport, &Ends) -> Option<i64>,
);

/// Adds the series of groups to the page.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    node: NodeId,
    reports: &[(u32, ShardReport)],
    image: &ClusterImage,
) -> fmt::Result {
    let mut metric =
        encoder.encode_descriptor("groups", "Groups by type and state", None, MetricType::Gauge)?;
    for (shard, report) in reports {
        let broker = node.broker(*shard).to_string();
        for ((kind, state), count) in &report.groups.states {
            gauge(
                &mut metric,
                &[("broker", broker.as_str()), ("type", kind), ("state", state)],
                *count,
            )?;
        }
    }
    let (groups, left_out) = fitting(reports, image);
    let help = "Committed offsets that this page has no room for";
    let mut metric = encoder.encode_descriptor("group_offsets_left_out", help, None, MetricType::Gauge)?;
    metric.encode_gauge(&i64::try_from(left_out).unwrap_or(i64::MAX))?;
    let ends = ends(reports);
    let figures: [Figure; 2] = [
        (
            "group_committed_offset",
            "The next record that a group reads",
            |at, _| Some(at.committed),
        ),
        (
            "group_lag",
            "Records that a group has still to read: behind what it committed, of those that are kept",
            |at, ends| {
                ends.get(&(at.topic_id, at.partition))
                    .map(|ends| lag(at.committed, *ends))
            },
        ),
    ];
    for (name, help, value) in figures {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (group, offsets) in &groups {
            for at in *offsets {
                // A topic that was deleted since has no name; a partition that nobody here leads has no end.
                if let (Some(topic), Some(value)) = (image.topic(at.topic_id), value(at, &ends)) {
                    let labels = Labels {
                        group,
                        topic: &topic.name,
                        partition: at.partition,
                    };
                    metric.encode_family(&labels)?.encode_gauge(&value)?;
                }
            }
        }
    }
    Ok(())
}

/// The offsets that fit into the page, and how many do not or were left out before.
fn fitting<'a>(
    reports: &'a [(u32, ShardReport)],
    image: &ClusterImage,
) -> (Vec<(&'a str, &'a [OffsetReport])>, u64) {
    let mut left_out = reports.iter().map(|(_, report)| report.groups.left_out).sum();
    let mut room = PAGE_BYTES_MAX;
    let mut groups = Vec::new();
    for GroupReport { group, offsets } in reports.iter().flat_map(|(_, report)| &report.groups.groups) {
        let fits = offsets.iter().take_while(|at| {
            let topic = image.topic(at.topic_id).map_or(0, |topic| topic.name.len());
            let left = room.checked_sub(2 * (group.len() + topic) + SERIES_BYTES);
            room = left.unwrap_or(room);
            left.is_some()
        });
        let fits = fits.count();
        left_out += (offsets.len() - fits) as u64;
        groups.push((group.as_str(), &offsets[..fits]));
    }
    (groups, left_out)
}

fn ends(reports: &[(u32, ShardReport)]) -> Ends {
    let partitions = reports.iter().flat_map(|(_, report)| &report.partitions);
    let ends = |at: &PartitionReport| {
        (
            (at.topic_id, at.partition),
            (at.log_start_offset, at.high_watermark),
        )
    };
    partitions.map(ends).collect()
}

/// What retention took away is not to be read any more; and the end may be older than the commit.
fn lag(committed: i64, (start, end): (i64, i64)) -> i64 {
    end.saturating_sub(committed.max(start)).max(0)
}

struct Labels<'a> {
    group: &'a str,
    topic: &'a str,
    partition: u32,
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let number = self.partition.to_string();
        [
            ("group", self.group),
            ("topic", self.topic),
            ("partition", &number),
        ]
        .encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::http::metrics::render;
    use crate::node::report::GroupsReport;

    #[test]
    fn lag_counts_what_can_still_be_read() {
        assert_eq!(lag(7, (0, 10)), 3);
        assert_eq!(lag(2, (5, 10)), 5, "retention passed the group");
        assert_eq!(lag(12, (0, 10)), 0, "the end was copied before the commit");
    }

    #[test]
    fn the_page_has_a_bound_whatever_groups_are_called() {
        let topic_id = Uuid::from_u128(1);
        let offsets: Vec<_> = (0..1_000)
            .map(|partition| OffsetReport {
                topic_id,
                partition,
                committed: 5,
            })
            .collect();
        let group = |letter: &str| GroupReport {
            group: letter.repeat(30_000),
            offsets: offsets.clone(),
        };
        let report = ShardReport {
            groups: GroupsReport {
                groups: vec![group("a"), group("b")],
                left_out: 3,
                ..GroupsReport::default()
            },
            ..ShardReport::default()
        };
        let reports = [(0, report)];
        let (groups, left_out) = fitting(&reports, &ClusterImage::default());
        let fits = PAGE_BYTES_MAX / (60_000 + SERIES_BYTES);
        assert_eq!(
            groups.iter().map(|(_, offsets)| offsets.len()).sum::<usize>(),
            fits
        );
        assert_eq!(left_out, 2_003 - fits as u64);
        let page = render(NodeId(1), reports.into(), Arc::default(), 0).unwrap();
        // Nobody knows the topic.
        assert!(!page.contains("group_lag{"), "{page}");
        assert!(
            page.contains(&format!("strandline_group_offsets_left_out {left_out}\n")),
            "{page}"
        );
    }
}
