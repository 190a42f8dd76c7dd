//! Whether a machine is ready for a broker, and what would make it so. It asks no other program, and looks only; [`tune`] changes.

pub mod check;
mod cpu;
pub mod host;
mod kernel;
mod network;
mod storage;
pub mod tune;

use std::path::Path;

use check::{Check, Severity, Status};
use host::Host;

use crate::cli::DoctorArgs;
use crate::failure::Failure;
use crate::output::Output;

/// All checks. `shard_cpus` are the CPUs that shards run on; empty for all.
pub fn checks(host: &Host, data_dir: &Path, shard_cpus: &[usize]) -> Vec<Check> {
    let mut checks = kernel::checks(host);
    checks.extend(storage::checks(host, data_dir));
    checks.extend(cpu::checks(host));
    checks.extend(network::checks(host, shard_cpus));
    checks
}

/// `strandctl doctor`: prints every check; fails when a fatal one does.
pub fn run(arguments: &DoctorArgs, output: &mut Output) -> Result<(), Failure> {
    let checks = checks(&Host::this(), &arguments.data_dir, &arguments.shard_cpus()?);
    if output.is_json() {
        output.json(&checks)?;
    } else {
        print(&checks, output)?;
    }
    output.flush()?;
    let fatal: Vec<&str> = checks
        .iter()
        .filter(|check| check.is_fatal())
        .map(|check| check.name.as_str())
        .collect();
    if fatal.is_empty() {
        Ok(())
    } else {
        Err(Failure::Failed(format!("fatal: {}", fatal.join(", "))))
    }
}

fn print(checks: &[Check], output: &mut Output) -> Result<(), Failure> {
    let rows: Vec<[String; 4]> = checks
        .iter()
        .map(|check| {
            [
                word(check).to_owned(),
                check.name.clone(),
                check.required.clone(),
                check.current.clone(),
            ]
        })
        .collect();
    output.table(["", "CHECK", "REQUIRED", "CURRENT"], &rows)?;
    for check in checks.iter().filter(|check| check.status == Status::Failed) {
        output.line(format_args!("\n{}: {}", check.name, check.why))?;
        if let Some(remedy) = &check.remedy {
            output.line(format_args!("  remedy: {remedy}"))?;
        }
    }
    let by_tune = checks.iter().filter(|check| !check.settings.is_empty()).count();
    if by_tune > 0 {
        output.line(format_args!(
            "\n`strandctl tune` sets {by_tune} of them and can put them back; `--dry-run` shows what it would write"
        ))?;
    }
    Ok(())
}

fn word(check: &Check) -> &'static str {
    match (check.status, check.severity) {
        (_, Severity::Info) => "info",
        (Status::Ok, _) => "ok",
        (Status::Unknown, _) => "unknown",
        (Status::Failed, Severity::Fatal) => "FATAL",
        (Status::Failed, Severity::Warning) => "warning",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_answers_every_check_of_the_table() {
        let checks = checks(&Host::this(), Path::new("."), &[]);
        for name in [
            "kernel",
            "io_uring",
            "memlock",
            "open files",
            "file system",
            "direct I/O",
            "frequency governor",
            "boost",
            "clock source",
            "transparent huge pages",
            "swappiness",
            "NUMA balancing",
            "autogroups of the scheduler",
            "table of flows",
            "accept backlog",
            "isolated CPUs",
            "time synchronisation",
            "free space",
            "memory",
        ] {
            assert!(checks.iter().any(|check| check.name == name), "{name}");
        }
        assert!(
            checks
                .iter()
                .all(|check| !check.current.is_empty() && !check.why.is_empty())
        );
    }
}
