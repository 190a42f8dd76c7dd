//! Checks and chores of the project: `cargo xtask tidy | docs | cluster | mutations | soak`.
//!
//! Every check prints what it looked at and fails with one line a finding; nothing here reaches the network
//! or changes a tracked file, except that `docs` writes the generated pages.

mod cluster;
mod docs;
mod mutations;
mod patch;
mod process;
mod soak;
mod tidy;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  tidy                  rules that no compiler checks: dependency arrows, forbidden names, lengths, unsafe, paths
  docs [--check]        writes the pages of docs/ that are made from code, or says which are out of date
  cluster [--nodes N] [--shards N] [--dir DIR] [--set KEY=VALUE]... [--release]
                        starts a cluster on this machine and prints its addresses; Ctrl-C stops it
  mutations [NAME]... | --slice I/N
                        applies each tools/mutations/*.patch to a copy of the tree; its test must fail
  soak [images|kills|fuzz|faults|mutate]... [--images N] [--kills N] [--fuzz-copies N] [--faults N] [--seed N] [--again]
                        the long suites, a line each, and a closing line with their counts; what passed on this
                        commit is not run again";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["tidy"] => tidy::run(),
        ["docs"] => docs::run(false),
        ["docs", "--check"] => docs::run(true),
        ["cluster", words @ ..] => cluster::run(words),
        ["mutations", words @ ..] => mutations::run(words),
        ["soak", options @ ..] => soak::run(options),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
