//! Kernel, io_uring, and the limits of a process.

use io_uring::{IoUring, Probe, opcode};
use rustix::process::{Resource, getrlimit};

use super::check::{Check, Severity};
use super::host::Host;

/// The oldest kernel that the broker starts on, and the oldest whose io_uring it is meant for.
const KERNEL_MIN: (u32, u32) = (5, 8);
const KERNEL_WANTED: (u32, u32) = (5, 19);

/// Lockable memory below which no shard starts.
const MEMLOCK_MIN: u64 = 512 * 1024;

/// Descriptors: a connection needs one, a segment another.
const FILES_WANTED: u64 = 800_000;

/// Kernels from which on a feature helps, newest last.
const FEATURES: [((u32, u32), &str); 3] = [
    ((6, 0), "zero-copy sends"),
    ((6, 1), "deferred completions (DEFER_TASKRUN)"),
    ((6, 11), "atomic writes where the device has them"),
];

/// What the kernel is and allows.
pub(super) fn checks(host: &Host) -> Vec<Check> {
    vec![kernel(host), io_uring(host), opcodes(), memlock(), files()]
}

fn kernel(host: &Host) -> Check {
    const WHY: &str = "older kernels lack io_uring operations or have known faults in them";
    let required = format!(">= {}.{}", KERNEL_WANTED.0, KERNEL_WANTED.1);
    let Some(release) = host.read("/proc/sys/kernel/osrelease") else {
        return Check::unknown("kernel", Severity::Fatal, required, "not told", WHY);
    };
    let version = version(&release).unwrap_or_default();
    let severity = if version < KERNEL_MIN {
        Severity::Fatal
    } else {
        Severity::Warning
    };
    let newer: Vec<&str> = FEATURES
        .iter()
        .filter(|(from, _)| version >= *from)
        .map(|(_, feature)| *feature)
        .collect();
    let current = if newer.is_empty() {
        release
    } else {
        format!("{release}, with {}", newer.join(", "))
    };
    Check::judged(
        "kernel",
        severity,
        version >= KERNEL_WANTED,
        required,
        current,
        WHY,
    )
    .remedy("install a newer kernel")
}

/// Major and minor of `6.1.0-rc1`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn io_uring(host: &Host) -> Check {
    const WHY: &str = "every read, write and flush of a shard goes through io_uring";
    let disabled = host
        .read("/proc/sys/kernel/io_uring_disabled")
        .map_or_else(String::new, |value| {
            format!("; kernel.io_uring_disabled = {value}")
        });
    let (holds, current) = match IoUring::new(2) {
        Ok(_) => (true, format!("allowed{disabled}")),
        Err(error) => (false, format!("refused: {error}{disabled}")),
    };
    // Not by `tune`: whoever disabled it had a reason.
    Check::judged("io_uring", Severity::Fatal, holds, "allowed", current, WHY).remedy(
        "sysctl -w kernel.io_uring_disabled=0; in a container allow io_uring_setup, io_uring_enter and io_uring_register in its seccomp profile",
    )
}

fn opcodes() -> Check {
    const WHY: &str = "a kernel built without some of them, or a filter, shows only when they are used";
    const REQUIRED: &str = "read, write, fsync, fallocate, accept, connect, send, recv, poll, timeout";
    let wanted = [
        ("readv", opcode::Readv::CODE),
        ("writev", opcode::Writev::CODE),
        ("read", opcode::Read::CODE),
        ("write", opcode::Write::CODE),
        ("fsync", opcode::Fsync::CODE),
        ("fallocate", opcode::Fallocate::CODE),
        ("accept", opcode::Accept::CODE),
        ("connect", opcode::Connect::CODE),
        ("send", opcode::Send::CODE),
        ("recv", opcode::Recv::CODE),
        ("poll", opcode::PollAdd::CODE),
        ("timeout", opcode::Timeout::CODE),
    ];
    let mut probe = Probe::new();
    let asked = IoUring::new(2).and_then(|ring| ring.submitter().register_probe(&mut probe));
    if let Err(error) = asked {
        return Check::unknown(
            "io_uring operations",
            Severity::Fatal,
            REQUIRED,
            error.to_string(),
            WHY,
        );
    }
    let missing: Vec<&str> = wanted
        .iter()
        .filter(|(_, code)| !probe.is_supported(*code))
        .map(|(name, _)| *name)
        .collect();
    let current = if missing.is_empty() {
        "all".to_owned()
    } else {
        format!("without {}", missing.join(", "))
    };
    Check::judged(
        "io_uring operations",
        Severity::Fatal,
        missing.is_empty(),
        REQUIRED,
        current,
        WHY,
    )
    .remedy("install a newer kernel")
}

fn limit(resource: Resource) -> Option<u64> {
    getrlimit(resource).current
}

fn memlock() -> Check {
    const WHY: &str = "rings and their buffers are locked memory";
    let current = limit(Resource::Memlock);
    let severity = match current {
        Some(bytes) if bytes < MEMLOCK_MIN => Severity::Fatal,
        _ => Severity::Warning,
    };
    let text = current.map_or_else(|| "unlimited".to_owned(), |bytes| format!("{bytes} bytes"));
    Check::judged("memlock", severity, current.is_none(), "unlimited", text, WHY)
        .remedy("LimitMEMLOCK=infinity in the systemd unit, or ulimit -l unlimited")
}

fn files() -> Check {
    const WHY: &str = "a connection needs a descriptor, a segment another";
    // The broker raises its soft limit to the hard one.
    let current = getrlimit(Resource::Nofile).maximum;
    let text = current.map_or_else(|| "unlimited".to_owned(), |files| files.to_string());
    Check::judged(
        "open files",
        Severity::Warning,
        current.is_none_or(|files| files >= FILES_WANTED),
        format!(">= {FILES_WANTED}"),
        text,
        WHY,
    )
    .remedy("LimitNOFILE=1048576 in the systemd unit, or ulimit -Hn 1048576")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(version("6.12.3-arch1"), Some((6, 12)));
        assert_eq!(version("5.19"), Some((5, 19)));
        let folder = tempfile::tempdir().unwrap();
        let host = Host::at(folder.path());
        std::fs::create_dir_all(host.place("/proc/sys/kernel")).unwrap();
        for (release, severity, status) in [
            ("4.18.0", Severity::Fatal, Status::Failed),
            ("5.10.0", Severity::Warning, Status::Failed),
            ("5.19.0", Severity::Warning, Status::Ok),
            ("6.9.1", Severity::Warning, Status::Ok),
        ] {
            host.write("/proc/sys/kernel/osrelease", release).unwrap();
            let check = kernel(&host);
            assert_eq!((check.severity, check.status), (severity, status), "{release}");
        }
    }

    #[test]
    fn a_ring_can_be_made_where_the_tests_run() {
        assert_eq!(io_uring(&Host::this()).status, Status::Ok);
        assert_eq!(opcodes().status, Status::Ok);
    }
}
