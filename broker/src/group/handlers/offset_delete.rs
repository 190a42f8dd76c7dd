//! OffsetDelete (47): offsets of topics that no member of the group reads.

use bytes::Bytes;
use strandline_core::group::offsets::OffsetsRecord;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::messages::offset_delete_request::{OffsetDeleteRequest, OffsetDeleteRequestTopic};
use strandline_wire::messages::offset_delete_response::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};

use crate::connection::{Answer, Close};
use crate::group::expiry::tombstone;
use crate::group::write::TOMBSTONE_BYTES;
use crate::handlers::Request;

/// The codes of a topic's partitions, in the request's order.
type Codes = Vec<ErrorCode>;

pub(crate) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: OffsetDeleteRequest = request.decode(body)?;
    let response = match delete(request, &asked).await {
        Err(code) => OffsetDeleteResponse::default().with_error_code(code.code()),
        Ok(topics) => {
            let topics = asked.topics.iter().zip(topics).map(|(topic, codes)| {
                let partitions = topic.partitions.iter().zip(codes).map(|(partition, code)| {
                    OffsetDeleteResponsePartition::default()
                        .with_partition_index(partition.partition_index)
                        .with_error_code(code.code())
                });
                OffsetDeleteResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions.collect())
            });
            OffsetDeleteResponse::default().with_topics(topics.collect())
        }
    };
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    let codes: Vec<ErrorCode> = partitions
        .map(|partition| partition.error_code)
        .chain(std::iter::once(response.error_code))
        .map(ErrorCode::from_code)
        .collect();
    request.encode(&response, codes.into_iter())
}

async fn delete<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    asked: &OffsetDeleteRequest,
) -> Result<Vec<Codes>, ErrorCode> {
    let shard = &request.shard;
    if asked.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let group = asked.group_id.as_str();
    let coordinator = shard.coordinator_of(group)?;
    let topics = asked.topics.iter();
    let bytes =
        topics.map(|topic| topic.partitions.len() * (TOMBSTONE_BYTES + group.len() + topic.name.len()));
    coordinator.admit(shard, bytes.sum()).await?;
    coordinator.check()?;
    let mut records = Vec::new();
    let codes = {
        let groups = coordinator.groups.borrow();
        let found = groups.get(group).ok_or(ErrorCode::GroupIdNotFound)?;
        found.machine.validate_offset_delete()?;
        let offsets = coordinator.offsets.borrow();
        let codes = asked.topics.iter().map(|topic| {
            if found.machine.is_subscribed_to(&topic.name) {
                return vec![ErrorCode::GroupSubscribedToTopic; topic.partitions.len()];
            }
            let codes = existing(request, topic);
            let partitions = topic.partitions.iter().zip(&codes);
            records.extend(
                partitions
                    .filter(|(partition, code)| {
                        let held = offsets.get(group, &topic.name, partition.partition_index);
                        code.is_none() && held.is_some()
                    })
                    .map(|(partition, _)| tombstone(group, &topic.name, partition.partition_index)),
            );
            codes
        });
        codes.collect()
    };
    dedup(&mut records);
    let end = coordinator.append_all(shard, &records)?;
    coordinator.durable_in_time(shard, end).await?;
    Ok(codes)
}

fn existing<R: Runtime, D: Disk>(request: &Request<R, D>, topic: &OffsetDeleteRequestTopic) -> Codes {
    let image = request.shard.image();
    let count = image
        .topic_by_name(&topic.name)
        .map_or(0, |topic| topic.partitions.len());
    let code = |number: i32| match usize::try_from(number) {
        Ok(number) if number < count => ErrorCode::None,
        _ => ErrorCode::UnknownTopicOrPartition,
    };
    let partitions = topic.partitions.iter();
    partitions
        .map(|partition| code(partition.partition_index))
        .collect()
}

/// A partition that is named twice has one offset.
fn dedup(records: &mut Vec<OffsetsRecord>) {
    let mut seen = std::collections::BTreeSet::new();
    records.retain(|record| match record {
        OffsetsRecord::Offset { topic, partition, .. } => seen.insert((topic.clone(), *partition)),
        _ => true,
    });
}
