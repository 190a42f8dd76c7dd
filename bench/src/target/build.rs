//! Building the broker for who has only typed `cargo run -p strandline-bench`, which builds this program alone.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Builds the `strandline` executable beside this one, when cargo started this program in its own tree; once a process. What cargo says
/// goes to stderr. The error is a sentence to print.
pub fn build_beside(quiet: bool) -> Result<(), String> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    DONE.get_or_init(|| build(quiet)).clone()
}

fn build(quiet: bool) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| format!("where this program lies: {error}"))?;
    let this = Path::new(env!("CARGO_MANIFEST_DIR"));
    let by_cargo = std::env::var_os("CARGO_MANIFEST_DIR").is_some_and(|folder| Path::new(&folder) == this);
    let (Some(cargo), true, Some(profile)) = (std::env::var_os("CARGO"), by_cargo, own.parent()) else {
        return Ok(());
    };
    let (Some(target), Some(name)) = (
        profile.parent(),
        profile.file_name().and_then(|name| name.to_str()),
    ) else {
        return Ok(());
    };
    let mut command = Command::new(cargo);
    command
        .args(["build", "--package", "strandline", "--bin", "strandline"])
        .arg("--manifest-path")
        .arg(this.with_file_name("Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    if name != "debug" {
        command.args(["--profile", name]);
    }
    if quiet {
        command.arg("--quiet");
    } else if profile.join("strandline").is_file() {
        eprintln!("bringing the broker up to date");
    } else {
        eprintln!("building the broker first; this takes some minutes, once");
    }
    let status = command.status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("cargo could not build the broker ({status})"))
    }
}
