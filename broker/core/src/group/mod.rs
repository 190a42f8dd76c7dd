//! Consumer groups: the state machines of the group coordinator.
//!
//! A group is one machine; the coordinator of a shard owns the machines of the groups whose offsets partitions that
//! shard leads, feeds them requests and the passing of time, and does for them what they cannot: answering, appending
//! their records, telling them what became durable.
//!
//! - [`classic`]: the protocol of JoinGroup, SyncGroup, Heartbeat and LeaveGroup.
//! - [`consumer`]: the protocol of ConsumerGroupHeartbeat (KIP-848).
//! - [`offsets`]: what was committed, and the records that keep groups and offsets.

pub mod classic;
pub mod consumer;
pub mod offsets;

use strandline_wire::ErrorCode;

/// What a group's client is told where a producer would be told `code`: the record was not appended, or is not known to be
/// durable. As in Kafka.
pub fn code_of_failed_append(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge | ErrorCode::InvalidFetchSize => {
            ErrorCode::UnknownServerError
        }
        other => other,
    }
}
