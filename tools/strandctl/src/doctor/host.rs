//! What a machine says of itself in `/proc` and `/sys`, below a root that tests replace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A machine, seen through its files.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// This machine.
    pub fn this() -> Self {
        Self::at(Path::new("/"))
    }

    /// The files below `root`.
    pub fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Where `path`, which starts with a slash, really is.
    pub fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file's text without the blanks around it; `None` when it is not there or cannot be read.
    pub fn read(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.place(path)).ok()?.trim().to_owned())
    }

    /// A file's number.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// Writes a setting.
    pub fn write(&self, path: &str, value: &str) -> io::Result<()> {
        fs::write(self.place(path), value)
    }

    /// The names in a folder, in order; none when it is not there.
    pub fn names(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.place(path))
            .map(|entries| {
                entries
                    .flatten()
                    .map(|entry| entry.file_name().to_string_lossy().into_owned())
                    .collect()
            })
            .unwrap_or_default();
        names.sort_unstable();
        names
    }

    /// How many CPUs are online.
    pub fn cpus(&self) -> usize {
        self.read("/sys/devices/system/cpu/online")
            .map_or(1, |list| cpu_list(&list).len().max(1))
    }
}

/// The choice of a setting that lists all of them: `always [madvise] never`. A plain value is itself.
pub fn chosen(text: &str) -> &str {
    match (text.find('['), text.find(']')) {
        (Some(start), Some(end)) if start < end => &text[start + 1..end],
        _ => text,
    }
}

/// The CPUs of a list such as `0-3,8`; what is no number is passed over.
pub fn cpu_list(text: &str) -> Vec<usize> {
    text.trim()
        .split(',')
        .filter_map(|part| match part.split_once('-') {
            Some((from, to)) => Some(from.parse().ok()?..=to.parse().ok()?),
            None => {
                let one = part.parse().ok()?;
                Some(one..=one)
            }
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_lists_are_read() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("none"), "none");
        assert_eq!(cpu_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cpu_list(""), [] as [usize; 0]);
    }
}
