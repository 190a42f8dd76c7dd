//! The file system and the device that hold the data directory.

use rustix::fs::{Mode, OFlags, open, statvfs, unlink};
use std::path::{Path, PathBuf};

use super::check::{Check, Severity, choice};
use super::host::Host;

/// Free space below which the broker soon has to stop taking records.
const FREE_BYTES_WANTED: u64 = 10 * 1_000_000_000;

/// A line of `/proc/mounts`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    source: String,
    kind: String,
    options: String,
}

/// What holds the data directory.
pub(super) fn checks(host: &Host, data_dir: &Path) -> Vec<Check> {
    let existing = existing_above(data_dir);
    let mut checks = Vec::new();
    match mount_of(host, &existing) {
        Some(mount) => {
            checks.extend(file_system(&mount));
            checks.push(direct_io(&existing));
            checks.extend(device(host, &mount));
        }
        None => checks.push(Check::unknown(
            "file system",
            Severity::Warning,
            "xfs or ext4",
            "not told",
            "which file system holds the data directory is not known",
        )),
    }
    checks.push(free_space(&existing));
    checks
}

/// The folder itself, or the nearest one above that is there already.
fn existing_above(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.ancestors()
        .find_map(|folder| folder.canonicalize().ok())
        .unwrap_or_else(|| PathBuf::from("/"))
}

/// The mount with the longest path above `folder`; of several at one place, the last.
fn mount_of(host: &Host, folder: &Path) -> Option<Mount> {
    let mounts = host.read("/proc/mounts")?;
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (source, at, kind, options) =
                (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            folder.starts_with(at).then(|| {
                let mount = Mount {
                    source: source.to_owned(),
                    kind: kind.to_owned(),
                    options: options.to_owned(),
                };
                (at.len(), mount)
            })
        })
        .max_by_key(|(length, _)| *length)
        .map(|(_, mount)| mount)
}

fn file_system(mount: &Mount) -> [Check; 2] {
    let kind = mount.kind.as_str();
    let severity = if matches!(kind, "tmpfs" | "ramfs" | "overlay") {
        Severity::Fatal
    } else {
        Severity::Warning
    };
    let options: Vec<&str> = mount.options.split(',').collect();
    let holds = matches!(kind, "xfs" | "ext4");
    [
        Check::judged(
            "file system",
            severity,
            holds,
            "xfs or ext4",
            kind,
            "asynchronous direct I/O and flushes are known to work there; memory keeps nothing",
        )
        .remedy("put the data directory on a file system of its own: mkfs.xfs, or mkfs.ext4"),
        Check::judged(
            "noatime",
            Severity::Warning,
            options.contains(&"noatime"),
            "noatime",
            options
                .iter()
                .find(|option| option.contains("atime"))
                .copied()
                .unwrap_or("atime"),
            "times of access are writes that nobody reads",
        )
        .remedy("add noatime to the file system's line of /etc/fstab"),
    ]
}

/// Whether a file in `folder` can be opened past the page cache.
fn direct_io(folder: &Path) -> Check {
    const WHY: &str = "a shard reads and writes past the page cache";
    let path = folder.join(format!(".strandctl-doctor-{}", std::process::id()));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    match open(&path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(_) => {
            let left = unlink(&path).err();
            let current = left.map_or_else(
                || "allowed".to_owned(),
                |error| format!("allowed; {} is left behind: {error}", path.display()),
            );
            Check::judged("direct I/O", Severity::Fatal, true, "allowed", current, WHY)
        }
        Err(rustix::io::Errno::INVAL) => Check::judged(
            "direct I/O",
            Severity::Fatal,
            false,
            "allowed",
            "refused (EINVAL)",
            WHY,
        )
        .remedy("put the data directory on xfs or ext4"),
        Err(error) => Check::unknown(
            "direct I/O",
            Severity::Fatal,
            "allowed",
            format!("not tried, {}: {error}", folder.display()),
            WHY,
        ),
    }
}

/// The queue of the device below a mount.
fn device(host: &Host, mount: &Mount) -> Vec<Check> {
    let Some(name) = mount
        .source
        .strip_prefix("/dev/")
        .and_then(|name| disk_of(host, name))
    else {
        return vec![Check::info(
            "block device",
            format!("{}: not a device of this machine's /sys/block", mount.source),
            "its queue cannot be looked at",
        )];
    };
    let queue = format!("/sys/block/{name}/queue");
    let mut checks = vec![
        choice(
            host,
            &format!("{name}: I/O scheduler"),
            &format!("{queue}/scheduler"),
            "none",
            "shards order their writes themselves; a scheduler adds a wait and a lock",
        ),
        choice(
            host,
            &format!("{name}: merging"),
            &format!("{queue}/nomerges"),
            "2",
            "shards write large pieces; looking for neighbours to merge costs and finds none",
        ),
    ];
    for (file, why) in [
        (
            "write_cache",
            "with write back, a flush is what makes a write durable",
        ),
        ("logical_block_size", "direct I/O is aligned to it"),
        (
            "physical_block_size",
            "smaller writes are read, changed and written by the device",
        ),
        ("nr_requests", "how much may be in flight"),
    ] {
        if let Some(value) = host.read(&format!("{queue}/{file}")) {
            checks.push(Check::info(format!("{name}: {file}"), value, why));
        }
    }
    checks
}

/// The disk that holds `name`, which may be a partition of it: the longest name in /sys/block that starts it.
fn disk_of(host: &Host, name: &str) -> Option<String> {
    // Device mapper's names are links to dm-N.
    let real = host
        .place(&format!("/dev/{name}"))
        .canonicalize()
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| name.to_owned());
    host.names("/sys/block")
        .into_iter()
        .filter(|disk| {
            real.strip_prefix(disk.as_str()).is_some_and(|rest| {
                rest.is_empty() || rest.trim_start_matches('p').chars().all(|c| c.is_ascii_digit())
            })
        })
        .max_by_key(String::len)
}

fn free_space(folder: &Path) -> Check {
    const WHY: &str = "a broker that runs out of space stops taking records";
    let required = format!(">= {} GB", FREE_BYTES_WANTED / 1_000_000_000);
    match statvfs(folder) {
        Ok(space) => {
            let free = space.f_bavail * space.f_frsize;
            Check::judged(
                "free space",
                Severity::Warning,
                free >= FREE_BYTES_WANTED,
                required,
                format!("{:.1} GB", free as f64 / 1e9),
                WHY,
            )
            .remedy("free some, or choose another --data-dir")
        }
        Err(error) => Check::unknown("free space", Severity::Warning, required, error.to_string(), WHY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::{Setting, Status};

    fn host(folder: &Path, files: &[(&str, &str)]) -> Host {
        let host = Host::at(folder);
        for (path, text) in files {
            let place = host.place(path);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, text).unwrap();
        }
        host
    }

    #[test]
    fn the_mount_and_the_disk_below_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(
            folder.path(),
            &[
                (
                    "/proc/mounts",
                    "/dev/sda1 / ext4 rw,relatime 0 0\n/dev/nvme0n1p2 /data xfs rw,noatime 0 0\ntmpfs /data/tmp tmpfs rw 0 0\n",
                ),
                ("/sys/block/nvme0n1/queue/scheduler", "[mq-deadline] none"),
                ("/sys/block/nvme0n1/queue/nomerges", "2"),
                ("/sys/block/nvme0n1/queue/write_cache", "write back"),
                ("/sys/block/sda/queue/scheduler", "[none]"),
            ],
        );
        let mount = mount_of(&host, Path::new("/data/x")).unwrap();
        assert_eq!(
            (mount.source.as_str(), mount.kind.as_str()),
            ("/dev/nvme0n1p2", "xfs")
        );
        assert_eq!(
            mount_of(&host, Path::new("/database")).unwrap().source,
            "/dev/sda1"
        );
        let checks = device(&host, &mount);
        assert_eq!(checks[0].name, "nvme0n1: I/O scheduler");
        assert_eq!(checks[0].status, Status::Failed);
        assert_eq!(
            checks[0].settings,
            [Setting {
                path: "/sys/block/nvme0n1/queue/scheduler".to_owned(),
                value: "none".to_owned(),
            }]
        );
        assert_eq!(checks[1].status, Status::Ok);
        assert_eq!(checks[2].current, "write back");
        let memory = mount_of(&host, Path::new("/data/tmp/x")).unwrap();
        assert!(file_system(&memory)[0].is_fatal());
        assert_eq!(file_system(&mount)[1].status, Status::Ok);
    }

    #[test]
    fn a_probe_leaves_nothing_behind() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        assert!(!direct_io(folder.path()).is_fatal());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(
            existing_above(&folder.path().join("a/b")),
            folder.path().canonicalize().unwrap()
        );
    }
}
