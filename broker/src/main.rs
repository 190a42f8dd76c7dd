//! Strandline: a Kafka-compatible log broker, one shard a core.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use strandline::cli::{Arguments, LogFormat};
use strandline::config::machine::Machine;
use strandline::config::{check, print, resolve};
use strandline::node::directories::Inspected;
use strandline::node::large_blocks::LargeBlocks;
use strandline::node::{self, StartError, limits, ports};
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: LargeBlocks = LargeBlocks;

#[cfg(not(target_os = "linux"))]
compile_error!(
    "Strandline runs on Linux only (it is built on io_uring): build it in a Linux machine or container"
);

/// openraft tells of every step it takes; what of it concerns an operator we say ourselves.
const DEFAULT_FILTER: &str = "info,openraft=off";

/// The node ran, and failed.
const EXIT_FAILED: u8 = 1;
/// The node could not start: a bad flag, key, value, port, directory or machine.
const EXIT_NOT_STARTED: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    start_logging(arguments.log_format);
    limits::give_memory_back();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            for line in error.to_string().lines() {
                eprintln!("strandline: {line}");
            }
            ExitCode::from(if error.while_running() {
                EXIT_FAILED
            } else {
                EXIT_NOT_STARTED
            })
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), StartError> {
    let (settings, unknown_variables) = arguments.settings(std::env::vars())?;
    let mut warnings = check::check(&settings)?;
    warnings.extend(
        unknown_variables
            .iter()
            .map(|name| format!("the variable {name} is no key")),
    );
    // Before the machine is looked at: what the limit leaves for connections follows from it.
    limits::raise_open_files();
    let machine = Machine::detect();
    let identity = resolve::identity(&settings, &machine)?;
    let directories = Inspected::look(
        &identity.log_dirs,
        identity.node_id,
        identity.shards_asked,
        identity.shards_default,
    )?;
    let config = resolve::resolve(&settings, &identity, directories.shards(), &machine)?;
    if arguments.print_config {
        // A closed pipe (`| head`) is no error.
        let _ = std::io::stdout().write_all(print::print(&settings, &config).as_bytes());
        return Ok(());
    }
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    if arguments.check_config {
        directories.check_writable()?;
        // A node that runs with the one before has them: that is for whoever checks to judge.
        if let Some(path) = directories.in_use() {
            tracing::warn!(
                "{}: another process has it open: a start would fail now",
                path.display()
            );
        }
        for line in ports::taken(&config) {
            tracing::warn!("{line}: a start would fail now");
        }
        println!("the configuration is good");
        return Ok(());
    }
    node::run(config, directories)
}

fn start_logging(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init(),
        LogFormat::Json => builder.json().init(),
    }
}
