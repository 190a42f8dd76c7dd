//! `strandline-bench`: reads the command line and calls the library.

use clap::Parser;
use std::process::ExitCode;
use strandline_bench::cli::Cli;

fn main() -> ExitCode {
    // clap itself exits with 2 on a usage error.
    strandline_bench::commands::execute(&Cli::parse()).into()
}
