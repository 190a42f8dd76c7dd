//! The names of files and folders.

use uuid::Uuid;

use crate::types::{LogId, TopicPartitionId};

/// The folder of the logs.
pub const LOGS: &str = "logs";
/// The folder of what was set aside.
pub const STRAY: &str = "stray";
/// The checkpoint's slots. Two files, since either may outgrow the other.
pub const CHECKPOINTS: [&str; 2] = ["checkpoint-0", "checkpoint-1"];

/// The name of a file of the journal ring.
pub fn journal(file: u32) -> String {
    format!("journal-{file}")
}

/// The name of a log's folder.
pub fn log_folder(id: TopicPartitionId, log: LogId) -> String {
    format!("{}-{}-{}", id.topic_id, id.partition, log.0)
}

/// Reads the name of a log's folder.
pub fn parse_log_folder(name: &str) -> Option<(TopicPartitionId, LogId)> {
    let (rest, log) = name.rsplit_once('-')?;
    let (topic, partition) = rest.rsplit_once('-')?;
    let id = TopicPartitionId {
        topic_id: Uuid::parse_str(topic).ok()?,
        partition: partition.parse().ok()?,
    };
    let log = LogId(log.parse().ok()?);
    (log_folder(id, log) == name).then_some((id, log))
}

/// The name of a segment.
pub fn segment(base_offset: i64, number: u64) -> String {
    format!("{base_offset:020}-{number}.log")
}

/// The name of a segment's index.
pub fn index(base_offset: i64, number: u64) -> String {
    format!("{base_offset:020}-{number}.index")
}

/// The name of a producers' snapshot.
pub fn snapshot(number: u64) -> String {
    format!("{number}.snapshot")
}

/// Whether a file of a log's folder is a producers' snapshot.
pub fn is_snapshot(name: &str) -> bool {
    name.ends_with(".snapshot")
}

/// Reads the name of a segment: base offset and number.
pub fn parse_segment(name: &str) -> Option<(i64, u64)> {
    let (base, number) = name.strip_suffix(".log")?.split_once('-')?;
    let parsed = (base.parse().ok()?, number.parse().ok()?);
    (segment(parsed.0, parsed.1) == name).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_nothing_else_does() {
        let id = TopicPartitionId {
            topic_id: Uuid::from_u128(77),
            partition: 12,
        };
        let folder = log_folder(id, LogId(3));
        assert_eq!(folder, "00000000-0000-0000-0000-00000000004d-12-3");
        assert_eq!(parse_log_folder(&folder), Some((id, LogId(3))));
        assert_eq!(
            parse_log_folder("00000000-0000-0000-0000-00000000004d-012-3"),
            None
        );
        assert_eq!(parse_log_folder("lost+found"), None);
        assert_eq!(segment(5, 2), "00000000000000000005-2.log");
        assert_eq!(parse_segment("00000000000000000005-2.log"), Some((5, 2)));
        assert_eq!(parse_segment("5-2.log"), None);
        assert!(is_snapshot(&snapshot(7)));
        assert!(!is_snapshot(&segment(5, 2)) && !is_snapshot(&index(5, 2)));
    }
}
