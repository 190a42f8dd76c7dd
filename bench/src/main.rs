//! `strandline-bench`: reads the command line and calls the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    match strandline_bench::cli::parse(std::env::args_os()) {
        Ok(cli) => strandline_bench::commands::execute(&cli).into(),
        // clap itself exits with 2 on a usage error.
        Err(error) => error.exit(),
    }
}
