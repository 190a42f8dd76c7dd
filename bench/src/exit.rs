//! What the process answers to its caller; documented in `--help`, relied on by CI.

use std::process::ExitCode;

/// How a command ended, worst first where several hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: it ran, and nothing speaks against the result.
    Ok,
    /// 1: it could not run (no broker, refused topic, full disk).
    Failed,
    /// 2: the command line asks for something impossible.
    Usage,
    /// 3: it ran, but the figures do not mean what they seem to mean.
    Invalid,
    /// 4: acknowledged records are missing, or records came twice, out of order or changed.
    VerificationFailed,
    /// 99: a `--fail-if` condition held.
    FailIf,
}

impl Exit {
    /// The number the process exits with.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Invalid => 3,
            Self::VerificationFailed => 4,
            Self::FailIf => 99,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The exit codes as `--help` prints them.
pub const HELP: &str = "Exit codes:\n  0   ran, result VALID\n  1   could not run\n  2   usage\n  \
3   ran, result INVALID (the reasons are printed)\n  4   verification failed: records lost, duplicated, reordered or changed\n  \
99  a --fail-if condition held, or had no samples to judge";
