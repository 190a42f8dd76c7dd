//! What can be typed: the verbs, their options, and the text of `--help`.

mod group;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use group::{
    GroupCommand, GroupDeleteArgs, GroupDescribeArgs, GroupListArgs, GroupResetArgs, GroupState, GroupType,
    ResetScope, ResetTarget, TopicPartitions,
};

use crate::doctor::host::cpu_list;
use crate::failure::Failure;
use crate::offset_spec::OffsetSpec;

/// Look at and operate a Kafka-compatible cluster.
#[derive(Debug, Parser)]
#[command(
    name = "strandctl",
    version,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage.\n\
                  Connections are plaintext: for private networks only."
)]
pub struct Cli {
    /// What holds for every verb.
    #[command(flatten)]
    pub global: GlobalOptions,
    /// The verb.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every verb.
#[derive(Debug, Args)]
pub struct GlobalOptions {
    /// Brokers to ask first, as host:port, separated by commas [default: 127.0.0.1:9092]
    #[arg(
        short = 'b',
        long,
        global = true,
        env = "STRANDCTL_BOOTSTRAP_SERVER",
        value_name = "HOST:PORT"
    )]
    pub bootstrap_server: Option<String>,
    /// A client property, by its Kafka name, for example request.timeout.ms=5000
    #[arg(short = 'X', long = "property", global = true, value_name = "KEY=VALUE")]
    pub properties: Vec<String>,
    /// A file of client properties, as Kafka's own tools read it
    #[arg(long, global = true, value_name = "FILE")]
    pub command_config: Option<PathBuf>,
    /// Print JSON on stdout (errors too, on stderr)
    #[arg(long, global = true)]
    pub json: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create, list, describe, delete and configure topics
    #[command(subcommand)]
    Topic(TopicCommand),
    /// List, describe and delete groups, and change what they have committed
    #[command(subcommand)]
    Group(GroupCommand),
    /// Send the lines of stdin to a topic
    Produce(ProduceArgs),
    /// Print the records of a topic, read from all its partitions
    Consume(ConsumeArgs),
    /// Show or change the configuration of brokers
    #[command(subcommand)]
    Broker(BrokerCommand),
    /// Look at the cluster as a whole
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Fail one shard of a node on this machine while its process lives, or bring it back
    #[command(subcommand)]
    Shard(ShardCommand),
    /// Read Strandline's log on disk, without a broker and without changing it
    #[command(subcommand)]
    Log(LogCommand),
    /// Check whether this machine is ready for a broker
    Doctor(DoctorArgs),
    /// Set right what doctor found and a file of the kernel sets; it can be put back
    Tune(TuneArgs),
}

/// `strandctl shard ...`
#[derive(Debug, Subcommand)]
pub enum ShardCommand {
    /// Have it stand still, as one that hangs: its clients wait, and others take over once its session has ended
    Pause(ShardArgs),
    /// Have it hand its leaderships over, close its logs and end
    Stop(ShardArgs),
    /// Start it again, or let it go on after a pause
    Start(ShardArgs),
}

/// Which shard.
#[derive(Debug, Args)]
pub struct ShardArgs {
    /// Its broker id, or its number within the node
    #[arg(value_name = "ID")]
    pub id: u32,
    /// The first data directory of the node; only its user and root may ask
    #[arg(long, default_value = "data", value_name = "DIR")]
    pub data_dir: PathBuf,
}

/// `strandctl doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The folder that holds, or will hold, the broker's data
    #[arg(long, default_value = "data", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The CPUs that shards run on, for example 2-7 [default: all]
    #[arg(long, value_name = "LIST")]
    pub shard_cpus: Option<String>,
}

impl DoctorArgs {
    /// The CPUs that shards run on; empty for all.
    pub fn shard_cpus(&self) -> Result<Vec<usize>, Failure> {
        let Some(list) = &self.shard_cpus else {
            return Ok(Vec::new());
        };
        let cpus = cpu_list(list);
        if cpus.is_empty() {
            return Err(Failure::usage(format!(
                "`{list}` is no list of CPUs such as 0-3,8"
            )));
        }
        Ok(cpus)
    }
}

/// `strandctl tune`
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// The folder that holds, or will hold, the broker's data
    #[arg(long, default_value = "data", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Only show what would be written
    #[arg(long, conflicts_with_all = ["revert", "output_script"])]
    pub dry_run: bool,
    /// Write a script that does it, for every start of the machine, and change nothing
    #[arg(long, value_name = "FILE", conflicts_with = "revert")]
    pub output_script: Option<PathBuf>,
    /// Put back what was there before the first tuning
    #[arg(long)]
    pub revert: bool,
    /// Where what was there before is kept
    #[arg(long, default_value = "/var/lib/strandline/tune.json", value_name = "FILE")]
    pub state: PathBuf,
}

/// `strandctl topic ...`
#[derive(Debug, Subcommand)]
pub enum TopicCommand {
    /// Create topics
    Create(TopicCreateArgs),
    /// List all topics
    List,
    /// Show partitions, leaders, replicas, offsets and changed configuration
    Describe {
        /// The topics; all when none is named
        topics: Vec<String>,
    },
    /// Give a topic more partitions; records that are there stay where they are
    AddPartitions(TopicAddPartitionsArgs),
    /// Delete topics and all their records
    Delete(TopicDeleteArgs),
    /// Delete the records of partitions below an offset
    DeleteRecords(TopicDeleteRecordsArgs),
    /// Show or change the configuration of a topic
    #[command(subcommand)]
    Config(TopicConfigCommand),
}

/// `strandctl topic create ...`
#[derive(Debug, Args)]
pub struct TopicCreateArgs {
    /// The topics to create
    #[arg(required = true)]
    pub topics: Vec<String>,
    /// Number of partitions [default: the broker's num.partitions]
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    pub partitions: Option<i32>,
    /// Number of replicas of each partition [default: the broker's default.replication.factor]
    #[arg(long, value_parser = clap::value_parser!(i16).range(1..))]
    pub replication_factor: Option<i16>,
    /// A topic configuration, for example retention.ms=3600000
    #[arg(long = "config", value_name = "KEY=VALUE")]
    pub configs: Vec<String>,
    /// Succeed when a topic exists already
    #[arg(long)]
    pub if_not_exists: bool,
}

/// `strandctl topic add-partitions ...`
#[derive(Debug, Args)]
pub struct TopicAddPartitionsArgs {
    /// The topic
    pub topic: String,
    /// How many partitions it is to have in all
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    pub partitions: i32,
}

/// `strandctl topic delete-records ...`
#[derive(Debug, Args)]
pub struct TopicDeleteRecordsArgs {
    /// The topic
    pub topic: String,
    /// The first offset to keep: end (delete all), N, -N (keep the last N of each partition), @TIME (ms since 1970, RFC 3339,
    /// or a duration ago such as @-10m)
    #[arg(long, allow_hyphen_values = true, value_name = "OFFSET")]
    pub before: OffsetSpec,
    /// Of this partition only (may be repeated)
    #[arg(short, long = "partition", value_name = "P", value_parser = clap::value_parser!(i32).range(0..))]
    pub partitions: Vec<i32>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// `strandctl topic delete ...`
#[derive(Debug, Args)]
pub struct TopicDeleteArgs {
    /// The topics to delete
    #[arg(required = true)]
    pub topics: Vec<String>,
    /// Succeed when a topic does not exist
    #[arg(long)]
    pub if_exists: bool,
    /// Delete the cluster's own topics too, and with them every group or transaction that they keep
    #[arg(long)]
    pub internal: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// `strandctl topic config ...`
#[derive(Debug, Subcommand)]
pub enum TopicConfigCommand {
    /// Show what was set on the topic
    Show {
        /// The topic
        topic: String,
        /// Show every key with its value and where the value comes from
        #[arg(long)]
        all: bool,
    },
    /// Set keys
    Set {
        /// The topic
        topic: String,
        /// What to set
        #[arg(required = true, value_name = "KEY=VALUE")]
        configs: Vec<String>,
    },
    /// Return keys to their default
    Unset {
        /// The topic
        topic: String,
        /// The keys
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
}

/// `strandctl produce ...`
#[derive(Debug, Args)]
pub struct ProduceArgs {
    /// The topic
    pub topic: String,
    /// Split each line at the first SEPARATOR into key and value (\t, \n and \xHH are understood)
    #[arg(short = 'K', long, value_name = "SEPARATOR")]
    pub key_separator: Option<String>,
    /// A header of every record; without `=` its value is null
    #[arg(short = 'H', long = "header", value_name = "KEY=VALUE")]
    pub headers: Vec<String>,
    /// Send everything to this partition
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(0..))]
    pub partition: Option<i32>,
    /// Compression: none, gzip, snappy, lz4 or zstd [default: compression.type, or none]
    #[arg(short = 'z', long, value_name = "CODEC")]
    pub compression: Option<String>,
    /// Acknowledgements to wait for: all (or -1), 1 or 0 [default: all]
    #[arg(long, allow_hyphen_values = true)]
    pub acks: Option<String>,
    /// How records without a key are spread
    #[arg(long, value_enum, default_value_t = NullKeys::Sticky)]
    pub null_keys: NullKeys,
    /// Send empty keys and values as null (an empty value is a tombstone then)
    #[arg(short = 'Z', long)]
    pub null_empty: bool,
}

/// How records without a key find their partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NullKeys {
    /// One partition a batch, then another
    Sticky,
    /// One partition after the other, record by record
    RoundRobin,
}

/// `strandctl consume ...`
#[derive(Debug, Args)]
pub struct ConsumeArgs {
    /// The topic
    pub topic: String,
    /// Where to start: start, end, N, -N (the last N of each partition), @TIME (ms since 1970, RFC 3339, or a
    /// duration ago such as @-10m)
    #[arg(
        short,
        long,
        default_value = "start",
        allow_hyphen_values = true,
        value_name = "OFFSET"
    )]
    pub offset: OffsetSpec,
    /// Stop after N records
    #[arg(short = 'n', long, value_name = "N")]
    pub count: Option<u64>,
    /// Read on where this group has committed, and commit for it what was printed; --offset holds where nothing is committed.
    /// The group may have no members
    #[arg(short, long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Stop at the end the partitions had when the command started
    #[arg(short = 'e', long)]
    pub exit: bool,
    /// Read this partition only (may be repeated)
    #[arg(short, long = "partition", value_name = "P", value_parser = clap::value_parser!(i32).range(0..))]
    pub partitions: Vec<i32>,
    /// How to print a record, as kcat: %t topic, %p partition, %o offset, %k key, %K its length, %s value, %S its
    /// length, %R its length as four bytes, %T timestamp, %h headers, %% a percent sign, \n \r \t \xHH
    /// [default: %s\n]
    #[arg(short, long, value_name = "FORMAT")]
    pub format: Option<String>,
}

/// `strandctl broker ...`
#[derive(Debug, Subcommand)]
pub enum BrokerCommand {
    /// Show or change the dynamic configuration of one broker, or of all
    #[command(subcommand)]
    Config(BrokerConfigCommand),
}

/// `strandctl broker config ...`
#[derive(Debug, Subcommand)]
pub enum BrokerConfigCommand {
    /// Show what was set by `set`, for all brokers or on one
    Show {
        /// This broker only, by its id
        #[arg(long, value_name = "ID")]
        broker: Option<i32>,
        /// Show every key with its value and where the value comes from
        #[arg(long)]
        all: bool,
    },
    /// Set keys, for all brokers unless one is named
    Set {
        /// This broker only, by its id
        #[arg(long, value_name = "ID")]
        broker: Option<i32>,
        /// What to set
        #[arg(required = true, value_name = "KEY=VALUE")]
        configs: Vec<String>,
    },
    /// Return keys to what the broker was started with
    Unset {
        /// This broker only, by its id
        #[arg(long, value_name = "ID")]
        broker: Option<i32>,
        /// The keys
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
}

/// A node of the cluster.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Its `node.id`
    #[arg(value_name = "ID", value_parser = clap::value_parser!(i32).range(0..=2_147_482))]
    pub node: i32,
}

/// `strandctl cluster replace ...`
#[derive(Debug, Args)]
pub struct ReplaceArgs {
    /// The node that is lost.
    #[command(flatten)]
    pub of: NodeArgs,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// `strandctl cluster ...`
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show brokers, controller, and how partitions are spread
    Describe,
    /// Show the nodes that keep the cluster's metadata, and how far each is
    Status,
    /// Let a node vote that learns from the others
    Add(NodeArgs),
    /// Forget a node that is lost with its disks, and let the one that takes its place vote
    Replace(ReplaceArgs),
    /// Let a node neither vote nor learn any more
    Remove(NodeArgs),
}

/// `strandctl log ...`
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Print what a journal, a checkpoint or a segment holds
    Dump(LogDumpArgs),
    /// Write a log in Kafka's own segment format
    Export(LogExportArgs),
}

/// `strandctl log dump ...`
#[derive(Debug, Args)]
pub struct LogDumpArgs {
    /// A data directory, a shard's folder, a log's folder, or one file
    pub path: PathBuf,
    /// Print every record too
    #[arg(long)]
    pub records: bool,
}

/// `strandctl log export ...`
#[derive(Debug, Args)]
pub struct LogExportArgs {
    /// Where to write `<topic>-<partition>/<base offset>.log`, Kafka's layout
    #[arg(long, value_name = "DIR", required = true)]
    pub kafka: PathBuf,
    /// This topic only: its name, or its id
    #[arg(long)]
    pub topic: Option<String>,
    /// This partition only
    #[arg(long, requires = "topic")]
    pub partition: Option<u32>,
    /// A data directory of a broker that does not run
    pub data_dir: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn negative_offsets_and_acks_are_values_not_options() {
        let cli = Cli::try_parse_from(["strandctl", "consume", "t", "-o", "-5"]).unwrap();
        let Command::Consume(arguments) = cli.command else {
            panic!("consume")
        };
        assert_eq!(arguments.offset, OffsetSpec::Last(5));
        assert!(Cli::try_parse_from(["strandctl", "produce", "t", "--acks", "-1"]).is_ok());
    }

    #[test]
    fn global_options_may_follow_the_verb() {
        let cli =
            Cli::try_parse_from(["strandctl", "topic", "list", "--json", "-b", "h:1", "-X", "a=b"]).unwrap();
        assert!(cli.global.json);
        assert_eq!(cli.global.bootstrap_server.as_deref(), Some("h:1"));
    }
}
