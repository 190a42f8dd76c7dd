//! What an operator can do about an error. Only advice that is known to help: an error without an entry prints none.

use strandline_wire::ErrorCode;

use crate::client::ClientError;

/// The advice for an error of the client.
pub fn of_client_error(error: &ClientError) -> Option<&'static str> {
    match error {
        ClientError::Connect { .. } => {
            Some("is the broker running there? Name another with -b HOST:PORT or STRANDCTL_BOOTSTRAP_SERVER")
        }
        ClientError::Resolve { .. } => {
            Some("check the host name given to -b, or the broker's advertised.listeners")
        }
        ClientError::Closed { .. } => Some(
            "a broker closes a connection that speaks another protocol: is this a PLAINTEXT listener of a Kafka broker?",
        ),
        ClientError::TimedOut { .. } => {
            Some("raise -X request.timeout.ms, or look at the broker's load and logs")
        }
        ClientError::ResponseTooLarge { .. } => {
            Some("is this a Kafka broker? If so, raise -X receive.message.max.bytes")
        }
        ClientError::Http { .. } => Some(
            "name the port of the broker's listener: metrics and health have one of their own, one below by default",
        ),
        ClientError::Unsupported { .. } => {
            Some("use a newer broker: Apache Kafka 2.8 is the oldest that serves every verb")
        }
        ClientError::NoLeader { .. } => {
            Some("a broker that holds the partition must come back: see `topic describe`")
        }
        ClientError::GaveUp { last, .. } => of_client_error(last),
        ClientError::Broker { code, .. } => of_code(*code),
        ClientError::Io { .. }
        | ClientError::Malformed { .. }
        | ClientError::Encode { .. }
        | ClientError::Records { .. } => None,
    }
}

/// The advice for one of Kafka's codes.
pub fn of_code(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::UnknownTopicOrPartition => {
            "check the name with `topic list`, or create it with `topic create`"
        }
        ErrorCode::TopicAlreadyExists => "choose another name, or say --if-not-exists",
        ErrorCode::InvalidTopicException => {
            "names have at most 249 letters, digits, dots, underscores and hyphens, of which no two may differ in dots and \
             underscores only; the cluster's own topics are for the cluster to write"
        }
        ErrorCode::InvalidReplicationFactor => {
            "it may not exceed the number of brokers (see `cluster describe`), and a Strandline node alone keeps one replica"
        }
        ErrorCode::InvalidPartitions => "name a number of partitions of at least 1",
        ErrorCode::InvalidConfig => "`topic config show TOPIC --all` lists the keys and their values",
        ErrorCode::OffsetOutOfRange => {
            "`topic describe` shows the first and last offsets; start from `start` or `end`"
        }
        ErrorCode::MessageTooLarge => {
            "lower -X batch.size, send smaller records, or raise the topic's max.message.bytes"
        }
        ErrorCode::RecordListTooLarge => "lower -X batch.size, or raise the topic's segment.bytes",
        ErrorCode::NotEnoughReplicas | ErrorCode::NotEnoughReplicasAfterAppend => {
            "bring brokers back, or lower min.insync.replicas: `topic describe` shows the replicas in sync"
        }
        ErrorCode::LeaderNotAvailable | ErrorCode::NotLeaderOrFollower => {
            "the partition has no leader for now: `topic describe` shows who should be it"
        }
        ErrorCode::KafkaStorageError => "look at the broker's log: its disk is full, failing or damaged",
        ErrorCode::InvalidTimestamp => {
            "the machine's clock and the topic's message.timestamp.before.max.ms disagree"
        }
        ErrorCode::InvalidRecord => "a compacted topic takes only records with a key: use -K",
        ErrorCode::UnsupportedCompressionType => "choose another codec with -z",
        ErrorCode::InvalidRequiredAcks => "--acks takes all, 1 or 0",
        ErrorCode::GroupIdNotFound => "check the name with `group list`",
        ErrorCode::NonEmptyGroup => {
            "stop its members first, or wait until their sessions end: `group describe --members` shows them"
        }
        ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration | ErrorCode::RebalanceInProgress => {
            "a member has joined the group: stop its members first"
        }
        ErrorCode::CoordinatorLoadInProgress => "the group's coordinator reads its log: try again",
        ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator => {
            "the group has no coordinator for now: `topic describe __consumer_offsets` shows who should be it"
        }
        ErrorCode::GroupAuthorizationFailed => "the broker's ACLs forbid it to this user",
        ErrorCode::TopicAuthorizationFailed | ErrorCode::ClusterAuthorizationFailed => {
            "the broker's ACLs forbid it to this user"
        }
        ErrorCode::PolicyViolation => "the broker's policy forbids it; its text says why",
        ErrorCode::NotController => "the controller is moving: try again",
        ErrorCode::RequestTimedOut => "raise -X request.timeout.ms, or look at the broker's load and logs",
        ErrorCode::TopicDeletionDisabled => "the broker must run with delete.topic.enable=true",
        _ => return None,
    })
}
