//! What the machine gives: cores, memory, descriptors. Read from `/proc` and `/sys`, so that nothing here is unsafe.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What defaults are derived from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// One logical processor of each physical core of the affinity mask, ascending.
    pub cores: Vec<usize>,
    /// The smaller of the memory and the cgroup's limit.
    pub memory_bytes: u64,
    /// How many descriptors the process may have.
    pub descriptors_max: u64,
}

/// Used where `/proc` says nothing: a machine that small still starts.
const MEMORY_BYTES_UNKNOWN: u64 = 1 << 30;
const DESCRIPTORS_UNKNOWN: u64 = 1024;

impl Machine {
    /// Looks at this machine.
    pub fn detect() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let allowed = field(&status, "Cpus_allowed_list:")
            .map(parse_ranges)
            .unwrap_or_default();
        let allowed = if allowed.is_empty() { vec![0] } else { allowed };
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        Self {
            cores: distinct_cores(&allowed, core_of),
            memory_bytes: physical_memory().min(cgroup_memory().unwrap_or(u64::MAX)),
            descriptors_max: open_files(&limits).unwrap_or(DESCRIPTORS_UNKNOWN),
        }
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

/// `0-3,8,10-11`.
fn parse_ranges(list: &str) -> Vec<usize> {
    let range = |item: &str| {
        let (first, last) = item.trim().split_once('-').unwrap_or((item.trim(), item.trim()));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Package and core of a logical processor; hyper-threads of one core share them.
fn core_of(cpu: usize) -> Option<(u64, u64)> {
    let read = |name: &str| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    Some((read("physical_package_id")?, read("core_id")?))
}

fn distinct_cores(allowed: &[usize], core_of: impl Fn(usize) -> Option<(u64, u64)>) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    // A processor without topology counts as a core of its own.
    let mut is_new = |cpu: &usize| core_of(*cpu).is_none_or(|core| seen.insert(core));
    allowed.iter().copied().filter(|cpu| is_new(cpu)).collect()
}

fn physical_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes =
        field(&text, "MemTotal:").and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.map_or(MEMORY_BYTES_UNKNOWN, |kibibytes| kibibytes * 1024)
}

/// The tightest `memory.max` on the path of this process's cgroup (version 2).
fn cgroup_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/'));
    let limits = own
        .ancestors()
        .take_while(|folder| folder.starts_with("/sys/fs/cgroup"));
    limits
        .filter_map(|folder| {
            fs::read_to_string(folder.join("memory.max"))
                .ok()?
                .trim()
                .parse()
                .ok()
        })
        .min()
}

fn open_files(limits: &str) -> Option<u64> {
    let values = field(limits, "Max open files")?;
    match values.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyper_threads_are_one_core() {
        let topology = |cpu: usize| Some((0, cpu as u64 % 2));
        assert_eq!(distinct_cores(&[0, 1, 2, 3], topology), [0, 1]);
        assert_eq!(distinct_cores(&[2, 3], topology), [2, 3]);
        assert_eq!(distinct_cores(&[4, 5], |_| None), [4, 5]);
    }

    #[test]
    fn proc_files_are_read() {
        assert_eq!(parse_ranges("0-2,5,7-8"), [0, 1, 2, 5, 7, 8]);
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096 files\n";
        assert_eq!(open_files(limits), Some(1024));
        let machine = Machine::detect();
        assert!(!machine.cores.is_empty() && machine.memory_bytes > 0 && machine.descriptors_max > 0);
    }
}
