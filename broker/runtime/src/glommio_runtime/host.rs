//! What the machine must allow before an executor can start: io_uring and lockable memory.
#![allow(unsafe_code)]

use std::io;

/// Lockable memory below which an executor does not start, in bytes (glommio's own minimum).
pub const MEMLOCK_BYTES_MIN: u64 = 512 * 1024;

/// The machine refuses something a shard cannot run without.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The kernel has no io_uring.
    #[error(
        "this kernel has no io_uring ({0}): Linux 5.8 or later built with CONFIG_IO_URING is needed; in a \
         container, a seccomp profile may hide it: allow io_uring_setup, io_uring_enter and io_uring_register"
    )]
    NoIoUring(io::Error),
    /// The kernel has io_uring and refuses it to this process.
    #[error(
        "io_uring is refused to this process ({cause}; kernel.io_uring_disabled is {disabled}): set it with \
         `sysctl -w kernel.io_uring_disabled=0`; in a container, allow io_uring_setup, io_uring_enter and \
         io_uring_register in its seccomp profile"
    )]
    IoUringRefused {
        /// What the system call answered.
        cause: io::Error,
        /// The setting, or `not set` where the kernel does not know it.
        disabled: String,
    },
    /// RLIMIT_MEMLOCK is too small.
    #[error(
        "memlock is limited to {limit_bytes} bytes and a shard needs {needed_bytes}: raise it with \
         `ulimit -l`, LimitMEMLOCK= of the systemd unit, or --ulimit memlock= of the container"
    )]
    Memlock {
        /// The soft limit, in bytes.
        limit_bytes: u64,
        /// What must be lockable, in bytes.
        needed_bytes: u64,
    },
    /// Neither of these; setting up a ring failed for another reason.
    #[error("io_uring cannot be set up: {0}")]
    Other(io::Error),
}

/// Asks the kernel for a ring of one entry and looks at the memlock limit.
///
/// # Errors
/// [`HostError`], with the remedy in its text.
pub fn check_host() -> Result<(), HostError> {
    let limit_bytes = memlock_limit_bytes().map_err(HostError::Other)?;
    if limit_bytes < MEMLOCK_BYTES_MIN {
        return Err(HostError::Memlock {
            limit_bytes,
            needed_bytes: MEMLOCK_BYTES_MIN,
        });
    }
    probe_ring().map_err(refusal)
}

/// The soft RLIMIT_MEMLOCK in bytes; `u64::MAX` when unlimited.
///
/// # Errors
/// What getrlimit answered.
pub fn memlock_limit_bytes() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is a local one of the type the call fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } == 0 {
        Ok(limit.rlim_cur)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Names the cause of a failed ring set-up.
pub(crate) fn refusal(cause: io::Error) -> HostError {
    match cause.raw_os_error() {
        Some(libc::ENOSYS) => HostError::NoIoUring(cause),
        Some(libc::EPERM | libc::EACCES) => {
            let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
                .map_or_else(|_| String::from("not set"), |text| text.trim().to_owned());
            HostError::IoUringRefused { cause, disabled }
        }
        // Kernels before 5.12 count the rings themselves against memlock.
        Some(libc::ENOMEM) => match memlock_limit_bytes() {
            Ok(limit_bytes) if limit_bytes < u64::MAX => HostError::Memlock {
                limit_bytes,
                needed_bytes: limit_bytes.saturating_mul(2),
            },
            _ => HostError::Other(cause),
        },
        _ => HostError::Other(cause),
    }
}

fn probe_ring() -> io::Result<()> {
    // `struct io_uring_params` is 120 bytes; all zero asks for defaults.
    let mut parameters = [0_u64; 15];
    // SAFETY: the kernel writes at most the 120 bytes of the local array, which lives across the call.
    let answer = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1_u32, parameters.as_mut_ptr()) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and nothing else knows it.
    unsafe { libc::close(answer as libc::c_int) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_setting_and_the_remedy() {
        let refused = refusal(io::Error::from_raw_os_error(libc::EPERM)).to_string();
        assert!(
            refused.contains("kernel.io_uring_disabled") && refused.contains("seccomp"),
            "{refused}"
        );
        let missing = refusal(io::Error::from_raw_os_error(libc::ENOSYS)).to_string();
        assert!(missing.contains("seccomp"), "{missing}");
        let memlock = HostError::Memlock {
            limit_bytes: 65_536,
            needed_bytes: MEMLOCK_BYTES_MIN,
        }
        .to_string();
        assert!(
            memlock.contains("memlock") && memlock.contains("ulimit -l"),
            "{memlock}"
        );
    }

    #[test]
    fn a_ring_can_be_made_where_the_tests_run() {
        check_host().unwrap();
    }
}
