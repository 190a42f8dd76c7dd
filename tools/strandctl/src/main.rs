//! The command line for operators of Strandline and of any Kafka-compatible broker.

use std::process::ExitCode;

fn main() -> ExitCode {
    strandctl::main()
}
