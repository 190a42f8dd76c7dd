//! Tests of the broker with foreign clients: `clients --tools DIR [--suite NAME]...`.
//!
//! Every suite speaks only the Kafka protocol, so that `--bootstrap-server` runs it against an Apache Kafka as
//! well, which is how the suites themselves are proved. Without it a broker is started as a child process.
//! The libraries run behind one line protocol (`python/driver.py`), so that each can read what any other wrote.

mod broker;
mod client;
mod cluster;
mod kcat;
mod native;
mod native_member;
mod raw;
mod record;
mod report;
mod script;
mod suites;
mod tally;
mod tools;

use broker::Broker;
use clap::{Parser, ValueEnum};
use native::Native;
use report::{Job, Report};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tools::{JAVA_VERSIONS, Tools};

/// Shards of the node that most suites run against: more than one, so that requests can go to the wrong one.
const SHARDS: usize = 2;

/// Tries of a check against an Apache Kafka, each a request and its answer.
const PEER_CHECK_TRIES: u32 = 50;

/// Runs foreign clients against a broker and counts what they see.
#[derive(Parser)]
struct Arguments {
    /// The folder that `tools/clients/install` filled.
    #[arg(long)]
    tools: PathBuf,
    /// A running Kafka to test instead, which proves the suites.
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap_server: Option<String>,
    /// The broker to start.
    #[arg(long, default_value = "target/release/strandline")]
    broker: PathBuf,
    /// The command line for operators.
    #[arg(long, default_value = "target/release/strandctl")]
    strandctl: PathBuf,
    /// The load generator.
    #[arg(long, default_value = "target/release/strandline-bench")]
    bench: PathBuf,
    /// Only these suites.
    #[arg(long = "suite", value_enum)]
    suites: Vec<Suite>,
    /// Is a member of a group by rdkafka instead; for this program's own use.
    #[arg(long, hide = true)]
    drive_rdkafka: bool,
    /// Names the checks that pass, too.
    #[arg(long)]
    verbose: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// Advertised version ranges.
    Apis,
    /// The partitioner against Java's.
    Partitioner,
    /// Each library on its own.
    Libraries,
    /// Kinds of record, written by each library and read by each other.
    Matrix,
    /// `compression.type` of topics.
    Compression,
    /// Byte limits of a fetch over many partitions.
    FetchLimits,
    /// Creation and deletion.
    Topics,
    /// Consumers in groups.
    Groups,
    /// Groups of ten members, under which the broker is killed.
    GroupOfTen,
    /// What is told of the lag of groups.
    GroupLag,
    /// Topics that are new to a group.
    GroupTopics,
    /// Patterns of the consumer protocol of groups.
    ConsumerProtocol,
    /// What is promised of groups by name.
    GroupScenarios,
    /// Groups that change their protocol while their members work.
    GroupUpgrade,
    /// Kafka's command-line tools on groups.
    GroupTools,
    /// A word count on Kafka Streams.
    Streams,
    /// Kafka's command-line tools.
    KafkaTools,
    /// The load generator.
    Load,
    /// `strandctl log export`.
    Export,
    /// Nodes of many shards.
    Shards,
    /// Retention while consumers run.
    Retention,
    /// Compacted topics.
    Compaction,
    /// Three nodes that die one after the other.
    Replicas,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.drive_rdkafka {
        return match native_member::serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let mut report = Report::new(arguments.verbose);
    if let Err(why) = run(&arguments, &mut report) {
        report.begin("set-up");
        report.check("clients and broker start", Err(why));
        report.end();
    }
    if report.close() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run(arguments: &Arguments, report: &mut Report) -> Result<(), String> {
    let check_tries = if arguments.bootstrap_server.is_some() {
        PEER_CHECK_TRIES
    } else {
        1
    };
    let tools = Tools::new(&arguments.tools, check_tries)?;
    let scratch = tempfile::tempdir_in(&arguments.tools).map_err(|error| error.to_string())?;
    if let Some(peer) = &arguments.bootstrap_server {
        protocol_suites(arguments, report, &tools, peer, scratch.path())?;
        load_suite(arguments, report, &tools, peer, scratch.path());
        each_client(arguments, report, &tools);
        return Ok(());
    }
    let mut broker = Broker::start(&arguments.broker, scratch.path(), SHARDS)?;
    let bootstrap = broker.bootstrap();
    protocol_suites(arguments, report, &tools, &bootstrap, scratch.path())?;
    load_suite(arguments, report, &tools, &bootstrap, scratch.path());
    report.begin("broker");
    report.check("stops cleanly after all of this", broker.stop());
    report.end();
    own_suites(arguments, report, &tools, scratch.path());
    each_client(arguments, report, &tools);
    Ok(())
}

/// The closing lines, when the suite ran in which every library works on its own.
fn each_client(arguments: &Arguments, report: &mut Report, tools: &Tools) {
    if wanted(arguments, Suite::Libraries) {
        tools.tally().close(report);
    }
}

fn wanted(arguments: &Arguments, suite: Suite) -> bool {
    arguments.suites.is_empty() || arguments.suites.contains(&suite)
}

/// The suites that know nothing but a bootstrap address.
fn protocol_suites(
    arguments: &Arguments,
    report: &mut Report,
    tools: &Tools,
    bootstrap: &str,
    scratch: &Path,
) -> Result<(), String> {
    let wants = |suite| wanted(arguments, suite);
    if wants(Suite::Apis) {
        suites::api_ranges::run(report, bootstrap, arguments.bootstrap_server.is_some());
    }
    if wants(Suite::Partitioner) {
        suites::partitioner::run(report, &mut tools.java_client(bootstrap, JAVA_VERSIONS[1])?);
    }
    if wants(Suite::Streams) {
        suites::streams::run(report, tools, bootstrap, scratch);
    }
    let mut clients = tools.clients(bootstrap)?;
    if wants(Suite::Libraries) {
        for client in &mut clients {
            suites::library::run(report, client.as_mut(), &mut Native::new(bootstrap));
        }
    }
    if wants(Suite::Matrix) {
        suites::matrix::run(report, tools, bootstrap, &mut clients);
    }
    if wants(Suite::Compression) {
        suites::compression::run(report, bootstrap, &mut Native::new(bootstrap), &mut clients);
    }
    if wants(Suite::FetchLimits) {
        suites::fetch_limits::run(report, bootstrap);
    }
    if wants(Suite::Topics) {
        suites::topics::run(report, bootstrap, &mut clients);
    }
    report.side_by_side(group_jobs(arguments, tools, bootstrap, scratch));
    if wants(Suite::KafkaTools) {
        suites::kafka_tools::run(report, tools, bootstrap);
    }
    Ok(())
}

/// The suites on groups: what takes longest comes first.
fn group_jobs<'a>(
    arguments: &'a Arguments,
    tools: &'a Tools,
    bootstrap: &'a str,
    scratch: &'a Path,
) -> Vec<Job<'a>> {
    let wants = |suite| wanted(arguments, suite);
    let mut jobs = Vec::new();
    if wants(Suite::GroupOfTen) {
        // Only a broker of ours is killed.
        let node = arguments.bootstrap_server.is_none();
        let node = node.then_some((arguments.broker.as_path(), scratch));
        jobs.extend(suites::group_of_ten::jobs(tools, bootstrap, node));
    }
    if wants(Suite::GroupLag) && arguments.bootstrap_server.is_none() {
        let (broker, strandctl) = (&arguments.broker, &arguments.strandctl);
        jobs.extend(suites::group_lag::jobs(tools, broker, strandctl, scratch));
    }
    if wants(Suite::Groups) {
        jobs.extend(suites::groups::jobs(tools, bootstrap));
    }
    if wants(Suite::GroupUpgrade) {
        jobs.extend(suites::group_upgrade::jobs(tools, bootstrap));
    }
    if wants(Suite::GroupScenarios) {
        jobs.extend(suites::group_scenarios::jobs(tools, bootstrap));
    }
    if wants(Suite::ConsumerProtocol) {
        jobs.extend(suites::consumer_protocol::jobs(tools, bootstrap));
    }
    if wants(Suite::GroupTools) {
        jobs.extend(suites::group_tools::jobs(tools, bootstrap));
    }
    if wants(Suite::GroupTopics) {
        jobs.extend(suites::group_topics::jobs(tools, bootstrap));
    }
    jobs
}

/// The load generator, against the same broker.
fn load_suite(arguments: &Arguments, report: &mut Report, tools: &Tools, bootstrap: &str, scratch: &Path) {
    if wanted(arguments, Suite::Load) {
        suites::load::run(report, tools, &arguments.bench, bootstrap, scratch);
    }
}

/// The suites that start nodes of their own.
fn own_suites(arguments: &Arguments, report: &mut Report, tools: &Tools, scratch: &Path) {
    if wanted(arguments, Suite::Export) {
        suites::export::run(report, tools, &arguments.broker, &arguments.strandctl, scratch);
    }
    if wanted(arguments, Suite::Load) {
        suites::load::kill_and_recover(report, &arguments.bench, &arguments.broker, scratch);
    }
    if wanted(arguments, Suite::Shards) {
        suites::shards::run(report, tools, &arguments.broker, scratch);
    }
    if wanted(arguments, Suite::Retention) {
        suites::retention::run(report, tools, &arguments.broker, scratch);
    }
    if wanted(arguments, Suite::Compaction) {
        suites::compaction::run(report, tools, &arguments.broker, &arguments.strandctl, scratch);
    }
    if wanted(arguments, Suite::Replicas) {
        suites::replicas::run(report, tools, &arguments.broker, scratch);
    }
}
