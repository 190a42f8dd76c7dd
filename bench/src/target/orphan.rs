//! A child must not outlive this process, not even when it is killed.

#![allow(unsafe_code)]

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets the kernel stop the command's process (SIGTERM) when the thread that starts it ends.
pub(super) fn end_with_parent(command: &mut Command) {
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // A parent that ended before that is not noticed by it.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::ErrorKind::Interrupted.into())
        }
    };
    // SAFETY: between fork and exec only async-signal-safe work is allowed. `ask` makes two system calls (prctl, getppid)
    // through rustix, which takes no lock and allocates nothing; the error it may build is a plain code without allocation.
    unsafe { command.pre_exec(ask) };
}
