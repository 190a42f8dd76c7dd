//! The commands, from parsed options to an exit code. Everything that a user sees of an error is printed here.

use crate::cli::{
    Cli, Command, ExportArgs, ListArgs, MergeArgs, NullBrokerArgs, RunArgs, ShowArgs, WorkloadCommand,
};
use crate::exit::Exit;
use crate::null_broker::{JournalOptions, NullBroker, NullBrokerOptions, Pause};
use crate::presets::PRESETS;
use crate::{compare, limits, live, merge, report, run, sweep, target, workload};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a process ended by a second interrupt, as shells count it.
const INTERRUPTED_TWICE: i32 = 130;

/// Does what the command line says.
pub fn execute(cli: &Cli) -> Exit {
    let outcome = match &cli.command {
        Command::Run(args) => execute_run(args),
        Command::NullBroker(args) => execute_null_broker(args),
        Command::Limits(args) => limits::execute(args),
        Command::Compare(args) => {
            interruptible().and_then(|interrupted| compare::execute(args, &interrupted))
        }
        Command::Sweep(args) => interruptible().and_then(|interrupted| sweep::execute(args, &interrupted)),
        Command::Merge(args) => merge_runs(args),
        Command::Show(args) => show(args),
        Command::Export(args) => export(args),
        Command::List(args) => list(args),
        Command::Workload(args) => match &args.command {
            WorkloadCommand::Capture(args) => {
                interruptible().and_then(|interrupted| workload::capture(args, &interrupted))
            }
            WorkloadCommand::Show(args) => workload::show(args),
        },
    };
    outcome.unwrap_or_else(|error| {
        // Whoever read the output has seen enough.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Exit::Ok;
        }
        eprintln!("strandline-bench: {error}");
        Exit::Failed
    })
}

/// A flag that the first interrupt sets; a second one ends the process, and the brokers that it started.
fn interruptible() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                if set.swap(true, Ordering::Relaxed) {
                    live::leave();
                    target::terminate_children();
                    std::process::exit(INTERRUPTED_TWICE);
                }
                live::say("interrupted: writing what there is; once more ends at once");
            }
        })?;
    Ok(flag)
}

fn execute_run(args: &RunArgs) -> io::Result<Exit> {
    let interrupted = interruptible()?;
    let finished = match run::run(args, &interrupted) {
        Ok(finished) => finished,
        Err(error) => {
            eprintln!("strandline-bench: {error}");
            return Ok(error.exit());
        }
    };
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &finished.report)?;
        writeln!(out)?;
    } else {
        report::print(&mut out, &finished.report, finished.folder.path())?;
    }
    if let Some(why) = &finished.unwritten {
        eprintln!(
            "strandline-bench: writing to {}: {why}; what is there is not complete",
            finished.folder.path().display()
        );
    }
    Ok(finished.exit)
}

fn merge_runs(args: &MergeArgs) -> io::Result<Exit> {
    let (report, folder) = merge::merge(&args.runs, args.output.as_deref()).map_err(io::Error::other)?;
    report::print(&mut io::stdout().lock(), &report, folder.path())?;
    Ok(run::exit_of(&report))
}

fn show(args: &ShowArgs) -> io::Result<Exit> {
    let report = report::load(&args.run).map_err(io::Error::other)?;
    let folder = if args.run.is_dir() {
        args.run.as_path()
    } else {
        args.run.parent().unwrap_or(Path::new("."))
    };
    report::print(&mut io::stdout().lock(), &report, folder)?;
    Ok(Exit::Ok)
}

fn export(args: &ExportArgs) -> io::Result<Exit> {
    let report = report::load(&args.run).map_err(io::Error::other)?;
    match &args.output {
        Some(path) => {
            let failed = |error| io::Error::other(format!("{}: {error}", path.display()));
            let mut out = BufWriter::new(File::create(path).map_err(failed)?);
            args.format.write(&mut out, &report)?;
            out.flush()?;
        }
        None => args.format.write(&mut io::stdout().lock(), &report)?,
    }
    Ok(Exit::Ok)
}

fn list(args: &ListArgs) -> io::Result<Exit> {
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &PRESETS)?;
        writeln!(out)?;
        return Ok(Exit::Ok);
    }
    for preset in PRESETS {
        writeln!(out, "{}\n  {}", preset.name, preset.summary)?;
        writeln!(out, "  source     {}", preset.source)?;
        writeln!(out, "  published  {}", preset.published)?;
        writeln!(out, "  hardware   {}", preset.hardware)?;
        writeln!(out, "  options    {}", preset.options.join(" "))?;
    }
    for (path, report) in report::stored() {
        let word = if report.verdict.valid { "VALID" } else { "INVALID" };
        writeln!(out, "{}  {word}  {}", path.display(), report.load.rate)?;
    }
    Ok(Exit::Ok)
}

fn execute_null_broker(args: &NullBrokerArgs) -> io::Result<Exit> {
    let journal = args.durable.then(|| JournalOptions {
        directory: args.data_dir.clone(),
        bytes: args.journal_bytes as u64,
    });
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let broker = NullBroker::start(&NullBrokerOptions {
        advertised: None,
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, args.port)),
        brokers: args.brokers,
        journal,
        retain_bytes: args.retain_bytes,
        pause: args
            .pause_after
            .zip(args.pause_for)
            .map(|(after_records, duration)| Pause {
                after_records,
                duration,
            }),
    })?;
    println!("{}", broker.ready_line());
    io::stdout().flush()?;
    signals.forever().next();
    drop(broker);
    Ok(Exit::Ok)
}
