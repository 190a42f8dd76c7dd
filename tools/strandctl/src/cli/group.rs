//! The verbs of groups.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};

use crate::offset_spec::{parse_duration_ms, parse_moment_ms};

/// `strandctl group ...`
#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// List groups with their types and states
    List(GroupListArgs),
    /// Show what groups have committed and how far behind they are, or their members
    Describe(GroupDescribeArgs),
    /// Delete groups and everything that they have committed
    Delete(GroupDeleteArgs),
    /// Show which offsets a reset would give a group without members, and with --execute commit them
    ResetOffsets(GroupResetArgs),
}

/// `strandctl group list ...`
#[derive(Debug, Args)]
pub struct GroupListArgs {
    /// Only groups in one of these states
    #[arg(
        long = "state",
        value_name = "STATE",
        value_delimiter = ',',
        ignore_case = true
    )]
    pub states: Vec<GroupState>,
    /// Only groups of one of these types
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', ignore_case = true)]
    pub types: Vec<GroupType>,
}

/// A state of a group, in Kafka's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum GroupState {
    /// Members are told to join again
    PreparingRebalance,
    /// The leader's assignment is awaited
    CompletingRebalance,
    /// Every member has its partitions
    Stable,
    /// It is gone
    Dead,
    /// It has no members
    Empty,
    /// A new assignment is being made
    Assigning,
    /// Members are on their way to their new assignment
    Reconciling,
    /// Its topics are not there yet
    NotReady,
}

/// A type of groups, in Kafka's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GroupType {
    /// JoinGroup and SyncGroup
    Classic,
    /// ConsumerGroupHeartbeat (KIP-848)
    Consumer,
    /// Share groups (KIP-932)
    Share,
    /// Streams groups (KIP-1071)
    Streams,
}

/// `strandctl group describe ...`
#[derive(Debug, Args)]
pub struct GroupDescribeArgs {
    /// The groups; all when none is named
    pub groups: Vec<String>,
    /// Show the members and what they own, in place of offsets
    #[arg(long, conflicts_with = "state")]
    pub members: bool,
    /// Show states only
    #[arg(long)]
    pub state: bool,
}

/// `strandctl group delete ...`
#[derive(Debug, Args)]
pub struct GroupDeleteArgs {
    /// The groups to delete
    #[arg(required = true)]
    pub groups: Vec<String>,
    /// Succeed when a group does not exist
    #[arg(long)]
    pub if_exists: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// `strandctl group reset-offsets ...`
#[derive(Debug, Args)]
pub struct GroupResetArgs {
    /// The group, which may not have members
    pub group: String,
    /// Which partitions
    #[command(flatten)]
    pub scope: ResetScope,
    /// Which offsets
    #[command(flatten)]
    pub target: ResetTarget,
    /// Commit the offsets; without it they are only shown
    #[arg(long)]
    pub execute: bool,
    /// Print lines that --from-file reads: topic,partition,offset
    #[arg(long, conflicts_with = "json")]
    pub export: bool,
}

/// Which partitions a reset is about; those of the file with --from-file.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct ResetScope {
    /// Every partition that the group has committed an offset of
    #[arg(long, conflicts_with_all = ["topics", "from_file"])]
    pub all_topics: bool,
    /// A topic, or only these partitions of it (may be repeated)
    #[arg(long = "topic", value_name = "TOPIC[:P,P...]", conflicts_with = "from_file")]
    pub topics: Vec<TopicPartitions>,
    /// The offsets that stand in a file, as --export or Kafka's own tool wrote it; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "ResetTarget")]
    pub from_file: Option<PathBuf>,
}

/// Which offsets a reset gives.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct ResetTarget {
    /// The first offset of each partition
    #[arg(long)]
    pub to_earliest: bool,
    /// The end of each partition
    #[arg(long)]
    pub to_latest: bool,
    /// What is committed now; the end where nothing is
    #[arg(long)]
    pub to_current: bool,
    /// This offset; the first or the end where a partition does not reach it
    #[arg(long, value_name = "OFFSET", allow_negative_numbers = true)]
    pub to_offset: Option<i64>,
    /// So many further than is committed now, or back where negative
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub shift_by: Option<i64>,
    /// The first record that is not older than this: 1h30m, or PT1H30M
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_ms)]
    pub by_duration: Option<i64>,
    /// The first record at or after this time: 2026-01-31T12:00:00.000, UTC unless it ends in a zone such as +01:00, or milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = parse_moment_ms, allow_negative_numbers = true)]
    pub to_datetime: Option<i64>,
}

/// A topic, or some partitions of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPartitions {
    /// The topic.
    pub topic: String,
    /// The partitions; all when not given.
    pub partitions: Option<Vec<i32>>,
}

impl FromStr for TopicPartitions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (topic, partitions) = match text.split_once(':') {
            Some((topic, partitions)) => (topic, Some(partitions)),
            None => (text, None),
        };
        let number = |text: &str| {
            let number = text.parse::<i32>().ok().filter(|number| *number >= 0);
            number.ok_or_else(|| format!("`{text}` is no number of a partition"))
        };
        let partitions = partitions
            .map(|numbers| numbers.split(',').map(number).collect())
            .transpose()?;
        match topic.is_empty() {
            true => Err("a topic is missing".to_owned()),
            false => Ok(Self {
                topic: topic.to_owned(),
                partitions,
            }),
        }
    }
}
