//! Which file system holds a path, from `/proc/self/mountinfo`.

use std::path::{Path, PathBuf};

/// Kinds that take O_DIRECT and buffer all the same, or refuse it: nothing on them survives as a flush promises.
const WITHOUT_DIRECT_IO: [&str; 3] = ["tmpfs", "ramfs", "rootfs"];

/// The kind of the file system at `path` (or at its nearest existing parent), if it is one without direct I/O.
pub(super) fn without_direct_io(path: &Path) -> Option<String> {
    let existing = std::path::absolute(path).ok()?;
    let existing = existing
        .ancestors()
        .find_map(|parent| parent.canonicalize().ok())?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let kind = kind_at(&existing, &mounts)?;
    WITHOUT_DIRECT_IO.contains(&kind.as_str()).then_some(kind)
}

/// The kind of the innermost mount that holds `path`; of two at one place, the later hides the earlier.
fn kind_at(path: &Path, mounts: &str) -> Option<String> {
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let point = PathBuf::from(unescape(left.split(' ').nth(4)?));
        let kind = right.split(' ').next()?.to_owned();
        path.starts_with(&point)
            .then_some((point.components().count(), kind))
    };
    mounts
        .lines()
        .filter_map(mount)
        .max_by_key(|(depth, _)| *depth)
        .map(|(_, kind)| kind)
}

/// Spaces and a few others are written as three octal digits.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        25 22 0:5 / /dev rw - devtmpfs none rw\n\
        30 22 0:26 / /mnt/my\\040disk rw shared:1 - tmpfs tmpfs rw\n\
        31 22 0:27 / /mnt/real rw - xfs /dev/vdb rw\n";

    #[test]
    fn the_innermost_mount_decides() {
        let kind = |path| kind_at(Path::new(path), MOUNTS).unwrap();
        assert_eq!(kind("/var/lib"), "ext4");
        assert_eq!(kind("/mnt/my disk/data"), "tmpfs");
        assert_eq!(kind("/mnt/real"), "xfs");
        assert_eq!(kind("/mnt/reality"), "ext4");
    }
}
