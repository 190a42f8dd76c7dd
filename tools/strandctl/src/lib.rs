//! `strandctl`: the command line for operators, of Strandline and of any Kafka-compatible broker from Kafka 2.8 on.
//!
//! Map: [`cli`] is what can be typed; [`commands`] has a module a verb; [`client`] is a small blocking Kafka client on
//! `std::net`; [`log_files`] reads Strandline's log on disk; [`client_config`] the client properties; [`doctor`] looks at this machine; [`failure`] and [`remedy`] what is told when something fails;
//! the rest are the parts of `produce` and `consume` that are worth a name.
//!
//! Invariants: answers go to stdout, everything else to stderr; nothing destructive happens unasked; `log` verbs never
//! write to a data directory; `doctor` changes nothing, and `tune` nothing that it cannot put back. This crate never joins a group and never runs as a service.

pub mod cli;
pub mod client;
pub mod client_config;
pub mod commands;
pub mod confirm;
pub mod doctor;
pub mod failure;
pub mod lines;
pub mod log_files;
pub mod offset_spec;
pub mod output;
pub mod record;
pub mod record_format;
pub mod remedy;

use std::process::ExitCode;

use clap::Parser;

use cli::{BrokerCommand, Cli, ClusterCommand, Command, GroupCommand, LogCommand, TopicCommand};
use client_config::ClientConfig;
use failure::Failure;
use output::Output;

/// Runs the command line of this process. Exit codes: 0 done, 1 failed, 2 wrong usage.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let json = cli.global.json;
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(json);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// What clap has to say: help and version as it prints them, and an error as JSON to whoever asked for that.
fn usage(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if !wants_json || !error.use_stderr() {
        error.exit();
    }
    let text = error.render().to_string();
    let text = text.trim_end().strip_prefix("error: ").unwrap_or(&text);
    let failure = Failure::usage(text);
    failure.report(true);
    ExitCode::from(failure.exit_code())
}

/// Runs a parsed command line.
pub fn run(cli: &Cli) -> Result<(), Failure> {
    let config = ClientConfig::from_options(&cli.global)?;
    let mut output = Output::stdout(cli.global.json);
    match &cli.command {
        Command::Doctor(arguments) => doctor::run(arguments, &mut output),
        Command::Tune(arguments) => doctor::tune::run(arguments, &mut output),
        Command::Topic(TopicCommand::Create(arguments)) => {
            commands::topic::create(&config, arguments, &mut output)
        }
        Command::Topic(TopicCommand::List) => commands::topic::list(&config, &mut output),
        Command::Topic(TopicCommand::Describe { topics }) => {
            commands::topic_describe::describe(&config, topics, &mut output)
        }
        Command::Topic(TopicCommand::Delete(arguments)) => {
            commands::topic::delete(&config, arguments, &mut output)
        }
        Command::Topic(TopicCommand::Config(command)) => {
            commands::config::of_topic(&config, command, &mut output)
        }
        Command::Topic(TopicCommand::AddPartitions(arguments)) => {
            commands::topic_partitions::add(&config, arguments, &mut output)
        }
        Command::Topic(TopicCommand::DeleteRecords(arguments)) => {
            commands::topic_partitions::delete_records(&config, arguments, &mut output)
        }
        Command::Broker(BrokerCommand::Config(command)) => {
            commands::config::of_broker(&config, command, &mut output)
        }
        Command::Group(GroupCommand::List(arguments)) => {
            commands::group::list::list(&config, arguments, &mut output)
        }
        Command::Group(GroupCommand::Describe(arguments)) => {
            commands::group::describe::describe(&config, arguments, &mut output)
        }
        Command::Group(GroupCommand::Delete(arguments)) => {
            commands::group::delete::delete(&config, arguments, &mut output)
        }
        Command::Group(GroupCommand::ResetOffsets(arguments)) => {
            commands::group::reset::reset(&config, arguments, &mut output)
        }
        Command::Cluster(ClusterCommand::Describe) => commands::cluster::describe(&config, &mut output),
        Command::Cluster(ClusterCommand::Status) => commands::quorum::status(&config, &mut output),
        Command::Cluster(ClusterCommand::Add(of)) => commands::quorum::add(&config, of.node, &mut output),
        Command::Cluster(ClusterCommand::Replace(arguments)) => {
            commands::quorum::replace(&config, arguments, &mut output)
        }
        Command::Cluster(ClusterCommand::Remove(of)) => {
            commands::quorum::remove(&config, of.node, &mut output)
        }
        Command::Shard(command) => commands::shard::run(command, &mut output),
        Command::Produce(arguments) => commands::produce::run(config, arguments, &mut output),
        Command::Consume(arguments) => commands::consume::run(&config, arguments, &mut output),
        Command::Log(LogCommand::Dump(arguments)) => commands::log_dump::run(arguments, &mut output),
        Command::Log(LogCommand::Export(arguments)) => commands::log_export::run(arguments, &mut output),
    }?;
    output.flush()
}
