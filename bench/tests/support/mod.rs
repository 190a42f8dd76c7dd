//! What tests of whole runs share: a reference broker in this process, and a run against it.

// Each test file uses its part of it.
#![allow(dead_code, unreachable_pub)]

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use strandline_bench::cli::{self, Command, RunArgs};
use strandline_bench::null_broker::{NullBroker, NullBrokerOptions};
use strandline_bench::run::{Finished, RunError, run};

/// Enough for every record of these tests.
pub const RETAIN_BYTES: usize = 64 << 20;

/// One broker on a free port of loopback that acknowledges at once and keeps what it got.
pub fn options() -> NullBrokerOptions {
    NullBrokerOptions {
        advertised: None,
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        brokers: 1,
        journal: None,
        retain_bytes: RETAIN_BYTES,
        pause: None,
    }
}

/// The same, looking like several.
pub fn brokers(count: u16) -> NullBroker {
    let options = NullBrokerOptions {
        brokers: count,
        ..options()
    };
    NullBroker::start(&options).unwrap()
}

/// What was typed, as `run` takes it.
pub fn run_args<'a>(
    bootstrap: &'a str,
    output: &Path,
    options: impl IntoIterator<Item = &'a str>,
) -> RunArgs {
    let begin = ["strandline-bench", "run", "--quiet", "-b", bootstrap, "--output"].map(Into::into);
    let options = options.into_iter().map(OsString::from);
    let all = begin.into_iter().chain([output.into()]).chain(options);
    let Command::Run(args) = cli::parse(all).unwrap().command else {
        unreachable!("the command is run")
    };
    *args
}

/// A run with these options against `broker`.
pub fn try_finish(broker: &NullBroker, output: &Path, options: &str) -> Result<Finished, RunError> {
    let bootstrap = broker.addresses()[0].to_string();
    let args = run_args(&bootstrap, output, options.split_whitespace());
    run(&args, &Arc::new(AtomicBool::new(false)))
}

/// The same, which ends well.
pub fn finish(broker: &NullBroker, output: &Path, options: &str) -> Finished {
    try_finish(broker, output, options).unwrap()
}
