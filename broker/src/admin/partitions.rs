//! Partitions that a request names by topic and number, as the commands name them.

use strandline_core::metadata::{ApplyError, ClusterImage, PartitionReference};
use strandline_wire::ErrorCode;

use super::text::Refusal;

/// What commands call the partition.
pub(super) fn reference(
    image: &ClusterImage,
    topic: &str,
    number: i32,
) -> Result<PartitionReference, Refusal> {
    let Some(known) = image.topic_by_name(topic) else {
        return Err(unknown(format!("topic '{topic}' does not exist")));
    };
    let partition = u32::try_from(number).ok();
    let partition = partition.filter(|partition| (*partition as usize) < known.partitions.len());
    match partition {
        Some(partition) => Ok(PartitionReference {
            topic: known.id,
            partition,
        }),
        None => Err(unknown(format!("topic '{topic}' has no partition {number}"))),
    }
}

/// Why apply refused a partition, to a client that named it by its topic's name.
pub(super) fn refusal(error: ApplyError) -> Refusal {
    let code = match error {
        // Deleted since it was looked up.
        ApplyError::UnknownTopicId(_) => ErrorCode::UnknownTopicOrPartition,
        ApplyError::InvalidMetadataVersion(_) => ErrorCode::UnsupportedVersion,
        ref other => other.code(),
    };
    Refusal::new(code, error.to_string())
}

fn unknown(text: String) -> Refusal {
    Refusal::new(ErrorCode::UnknownTopicOrPartition, text)
}
