//! DescribeLogDirs: what this shard holds, and the space around it. Each shard lists its own partitions alone, so that a
//! tool which asks every broker counts each replica once.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use strandline_runtime::Runtime;
use strandline_storage::Log;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::log_details::{CompactionDetails, LogDetails};
use strandline_wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use strandline_wire::messages::{DescribeLogDirsRequest, TopicName};
use strandline_wire::protocol::StrBytes;
use uuid::Uuid;

use super::Request;
use crate::connection::{Answer, Close};
use crate::shard::Shard;

/// The numbers asked of each topic; `None` asks for all topics.
type Asked = Option<BTreeMap<TopicName, BTreeSet<i32>>>;

pub(super) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: DescribeLogDirsRequest = request.decode(body)?;
    let shard = &request.shard;
    let asked: Asked = match asked.topics {
        None => None,
        Some(topics) => {
            // A topic may be named more than once.
            let mut numbers: BTreeMap<TopicName, BTreeSet<i32>> = BTreeMap::new();
            for topic in topics {
                let of_topic = numbers.entry(topic.topic).or_default();
                for number in topic.partitions {
                    of_topic.insert(number);
                    shard.runtime.yield_if_needed().await;
                }
                shard.runtime.yield_if_needed().await;
            }
            Some(numbers)
        }
    };
    let directory = StrBytes::from_string(shard.directory.display().to_string());
    let mut result = DescribeLogDirsResult::default().with_log_dir(directory);
    let code = match (shard.store.stopped(), shard.disk.space(&shard.directory).await) {
        (None, Ok(space)) => {
            let mut topics = Vec::new();
            for (topic, logs) in held(shard) {
                topics.extend(describe(&topic, &logs, &asked));
                shard.runtime.yield_if_needed().await;
            }
            result = result
                .with_topics(topics)
                .with_total_bytes(saturated(space.total_bytes))
                .with_usable_bytes(saturated(space.free_bytes));
            ErrorCode::None
        }
        (Some(stopped), _) => {
            request.refused(ErrorCode::KafkaStorageError, &"-", -1, &stopped.to_string());
            ErrorCode::KafkaStorageError
        }
        (None, Err(error)) => {
            request.refused(ErrorCode::KafkaStorageError, &"-", -1, &error.to_string());
            ErrorCode::KafkaStorageError
        }
    };
    result = result.with_error_code(code.code());
    request.encode(
        &DescribeLogDirsResponse::default().with_results(vec![result]),
        std::iter::once(code),
    )
}

/// The logs that the shard holds, led or following, by topic.
fn held<R: Runtime, D: Disk>(shard: &Shard<R, D>) -> Vec<(TopicName, Vec<Log<D>>)> {
    let mut logs: BTreeMap<Uuid, (TopicName, Vec<Log<D>>)> = BTreeMap::new();
    let name = |name: &str| TopicName(StrBytes::from_string(name.to_owned()));
    for topic in shard.topics.all() {
        let led = topic.led();
        let led = led.iter().map(|partition| partition.log.clone());
        logs.insert(topic.id, (name(&topic.name), led.collect()));
    }
    let image = shard.image();
    for followed in shard.replicas.all_followed() {
        if let Some(topic) = image.topic(followed.id.topic_id) {
            let entry = logs.entry(topic.id);
            let (_, of_topic) = entry.or_insert_with(|| (name(&topic.name), Vec::new()));
            of_topic.push(followed.log());
        }
    }
    logs.into_values().collect()
}

fn describe<D: Disk>(name: &TopicName, logs: &[Log<D>], asked: &Asked) -> Option<DescribeLogDirsTopic> {
    let numbers = match asked {
        None => None,
        Some(asked) => Some(asked.get(name)?),
    };
    let logs = logs.iter().map(|log| (log.id().partition as i32, log));
    let partitions: Vec<_> = logs
        .filter(|(number, _)| numbers.is_none_or(|numbers| numbers.contains(number)))
        .map(|(number, log)| {
            let segments = log.segments();
            let size = segments.iter().map(|segment| segment.payload_bytes).sum();
            let details = LogDetails {
                segments: u32::try_from(segments.len()).unwrap_or(u32::MAX),
                compaction: compaction(log),
            };
            DescribeLogDirsPartition::default()
                .with_partition_index(number)
                .with_partition_size(saturated(size))
                .with_unknown_tagged_fields(details.encode())
                .with_offset_lag((log.high_watermark() - log.end_offset()).max(0))
        })
        .collect();
    (!partitions.is_empty()).then(|| {
        DescribeLogDirsTopic::default()
            .with_name(name.clone())
            .with_partitions(partitions)
    })
}

/// What the cleaner knows of a log, if it is one of its logs.
fn compaction<D: Disk>(log: &Log<D>) -> Option<CompactionDetails> {
    let settings = log.settings();
    let dirt = log.dirtiness(&settings.compaction, log.high_watermark());
    let dirt = dirt.filter(|_| settings.compacts)?;
    Some(CompactionDetails {
        cleaned_to: log.cleaned_to(),
        clean_bytes: dirt.clean_bytes,
        dirty_bytes: dirt.dirty_bytes,
        last_cleaned_ms: log.last_cleaned_ms(),
        is_uncleanable: log.uncleanable().is_some(),
    })
}

fn saturated(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
