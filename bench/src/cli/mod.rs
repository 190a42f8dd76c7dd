//! The command line: what stands here, what a preset or a file stands for, and what was typed, in this order; the last one counts.

mod run;

pub use run::RunArgs;

use crate::exit;
use crate::fail_if::FailIf;
use crate::presets;
use crate::report::Export;
use crate::units::{Quantity, parse_bytes, parse_duration, parse_quantity};
use clap::{Args, CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The load generator for brokers that speak the Kafka protocol.
#[derive(Debug, Parser)]
#[command(name = "strandline-bench", version, about, after_help = exit::HELP)]
pub struct Cli {
    /// What to do; without a command, `run default`.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure a broker at a given rate, and verify every record.
    Run(Box<RunArgs>),
    /// Run the reference broker: the least that a broker must do.
    NullBroker(NullBrokerArgs),
    /// Measure what this machine can do at best.
    Limits(LimitsArgs),
    /// Run two loads in turn (A B A B) and compare them.
    Compare(CompareArgs),
    /// The curve of latency over rate, and the highest rate that meets a goal.
    Sweep(Box<SweepArgs>),
    /// Make one result of several: of hosts that ran together.
    Merge(MergeArgs),
    /// Print the result of a run again.
    Show(ShowArgs),
    /// Write the result of a run in another form.
    Export(ExportArgs),
    /// Capture traffic, to replay it by `run FILE.workload`.
    Workload(WorkloadArgs),
    /// List the presets, and the results of this folder.
    List(ListArgs),
}

/// Options of `null-broker`.
#[derive(Args, Clone, Debug)]
pub struct NullBrokerArgs {
    /// Acknowledge only what is flushed: one io_uring journal, group commit.
    #[arg(long)]
    pub durable: bool,
    /// Where the journal lives.
    #[arg(long, default_value = "data", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Bytes of the journal, which is filled ahead and written round and round.
    #[arg(long, default_value = "256MiB", value_parser = parse_bytes)]
    pub journal_bytes: usize,
    /// The port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 9092)]
    pub port: u16,
    /// How many brokers to look like, each with its own port.
    #[arg(long, default_value_t = 1)]
    pub brokers: u16,
    /// Newest bytes of each partition to keep in memory for consumers; 0 serves no Fetch.
    #[arg(long, default_value = "0", value_parser = parse_bytes)]
    pub retain_bytes: usize,
    /// Stall once after so many records, to see what a tool makes of it.
    #[arg(long, value_name = "RECORDS", requires = "pause_for")]
    pub pause_after: Option<u64>,
    /// How long to stall.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "pause_after")]
    pub pause_for: Option<Duration>,
}

/// Options of `limits`.
#[derive(Args, Clone, Debug)]
pub struct LimitsArgs {
    /// The folder on the disk to measure.
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// How long to measure each figure.
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    pub each: Duration,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options of `compare`.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// Options of `run` for the first side, as one argument.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub a: String,
    /// Options of `run` for the second side.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub b: String,
    /// How many pairs of runs.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub pairs: u32,
    /// The folder for the results of all runs. [default: results/TIME-compare]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Options of `sweep`, besides those of each of its runs.
#[derive(Args, Clone, Debug)]
#[command(after_help = exit::HELP, args_override_self = true)]
pub struct SweepArgs {
    /// The goal: [response|service|lag|e2e.]p50|p90|p99|p999|p9999|max OP TIME; repeatable, all must hold.
    #[arg(long, value_parser = FailIf::parse, value_name = "CONDITION")]
    pub slo: Vec<FailIf>,
    /// The rates of the curve, separated by blanks or given several times. [default: shares of the measured peak]
    #[arg(long, value_parser = parse_quantity, value_name = "RATE", num_args = 1..)]
    pub rates: Vec<Quantity>,
    /// How many shares of the peak, evenly spaced.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub points: u32,
    /// What each run is.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Options of `merge`.
#[derive(Args, Clone, Debug)]
pub struct MergeArgs {
    /// The folders of the runs.
    #[arg(value_name = "RUN", required = true, num_args = 2..)]
    pub runs: Vec<PathBuf>,
    /// The folder for the result. [default: results/TIME-merged]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Options of `show`.
#[derive(Args, Clone, Debug)]
pub struct ShowArgs {
    /// The folder of a run.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
}

/// Options of `export`.
#[derive(Args, Clone, Debug)]
pub struct ExportArgs {
    /// The folder of a run.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The form.
    #[arg(long, value_enum)]
    pub format: Export,
    /// The file to write. [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Options of `workload`.
#[derive(Args, Clone, Debug)]
pub struct WorkloadArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: WorkloadCommand,
}

/// What can be done with captured traffic.
#[derive(Clone, Debug, Subcommand)]
pub enum WorkloadCommand {
    /// Read a topic from its end and write down times, sizes, partitions and which keys are the same; no payloads, no keys.
    Capture(CaptureArgs),
    /// Print what a workload holds.
    Show(WorkloadShowArgs),
}

/// Options of `workload capture`.
#[derive(Args, Clone, Debug)]
pub struct CaptureArgs {
    /// A running broker (HOST:PORT, several by commas).
    #[arg(short = 'b', long, value_name = "HOST:PORT")]
    pub bootstrap_server: String,
    /// Client properties, as for `run`.
    #[arg(long, value_name = "FILE")]
    pub command_config: Option<PathBuf>,
    /// The topic.
    #[arg(long)]
    pub topic: String,
    /// How long.
    #[arg(long = "for", value_name = "TIME", default_value = "1m", value_parser = parse_duration)]
    pub duration: Duration,
    /// Stop after so many records.
    #[arg(long)]
    pub num_records: Option<u64>,
    /// The file to write. [default: TOPIC.workload]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Options of `workload show`.
#[derive(Args, Clone, Debug)]
pub struct WorkloadShowArgs {
    /// The file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Options of `list`.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Parses `arguments`, the program's name first. What a preset or a file stands for is put before what was typed.
pub fn parse<I, T>(arguments: I) -> Result<Cli, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString>,
{
    let mut arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    if arguments.len() <= 1 {
        arguments.resize(1, "strandline-bench".into());
        arguments.extend(["run".into(), "default".into()]);
    }
    let cli = Cli::try_parse_from(&arguments)?;
    let load = match &cli.command {
        Command::Run(args) => args.load.as_deref(),
        Command::Sweep(args) => args.run.load.as_deref(),
        _ => None,
    };
    let Some(load) = load else { return Ok(cli) };
    let options = presets::options(load)
        .map_err(|error| Cli::command().error(clap::error::ErrorKind::InvalidValue, error))?;
    // The command is the first word: there are no options before it.
    arguments.splice(2..2, options.into_iter().map(OsString::from));
    Cli::try_parse_from(&arguments)
}
