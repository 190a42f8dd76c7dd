//! What the figures were measured on. A figure without its machine is no figure.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The machine, as far as it matters and can be told without asking other programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Kernel release.
    pub kernel: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The file system that holds the results, and with it the data of an embedded broker.
    pub file_system: String,
    /// The clock source of the kernel.
    pub clock_source: String,
    /// Whether a hypervisor runs below.
    pub virtual_machine: bool,
    /// Version of this tool.
    pub tool_version: String,
}

impl Machine {
    /// Looks at this machine, `directory` being where the results go.
    pub fn look(directory: &Path) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kibibytes =
            field(&meminfo, "MemTotal").and_then(|value| value.split(' ').next()?.parse::<u64>().ok());
        Self {
            cpu: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            cores: crate::pin::cores(),
            kernel: read_line("/proc/sys/kernel/osrelease"),
            memory_bytes: kibibytes.unwrap_or(0) * 1024,
            file_system: file_system(directory).unwrap_or_else(|| "unknown".to_owned()),
            clock_source: read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            virtual_machine: field(&cpuinfo, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

fn read_line(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// The value of the first `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The type and mount point of the file system that holds `directory`: the mount with the longest path above it.
fn file_system(directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            Some((fields.next()?, fields.next()?))
        })
        .filter(|(mount, _)| directory.starts_with(mount))
        .max_by_key(|(mount, _)| mount.len())
        .map(|(mount, kind)| format!("{kind} at {mount}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: other\n";
        assert_eq!(field(text, "model name"), Some("Some CPU @ 2 GHz"));
        assert_eq!(field(text, "flags"), None);
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        let machine = Machine::look(Path::new("."));
        assert!(machine.cores > 0 && machine.memory_bytes > 0);
        assert!(machine.file_system.contains(" at /"));
    }
}
