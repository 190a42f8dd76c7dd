//! Processors, clocks, memory.

use super::check::{Check, Severity, choice};
use super::host::{Host, chosen};

/// Memory for each core: a shard's budget, and the kernel's part.
const MEMORY_BYTES_A_CORE: u64 = 2 * 1_000_000_000;

/// Clock sources that are read without a system call.
const CLOCKS: [&str; 4] = [
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
];

/// Above so many shards, clients of librdkafka, which run a thread a broker, get expensive.
const SHARDS_NOTED: usize = 16;

/// What the processors and the memory are set to.
pub(super) fn checks(host: &Host) -> Vec<Check> {
    let mut checks = governors(host);
    checks.push(boost(host));
    checks.extend(idle_states(host));
    checks.push(clock(host));
    checks.push(huge_pages(host));
    checks.push(swappiness(host));
    checks.push(zero(
        host,
        "NUMA balancing",
        "/proc/sys/kernel/numa_balancing",
        "it unmaps pages to see who uses them; pinned shards keep their memory where it is",
    ));
    checks.push(zero(
        host,
        "autogroups of the scheduler",
        "/proc/sys/kernel/sched_autogroup_enabled",
        "they let any shell's jobs take as much of a core as a shard",
    ));
    checks.push(memory(host));
    checks.extend(isolation(host));
    checks.push(time_sync(host));
    checks
}

fn governors(host: &Host) -> Vec<Check> {
    const WHY: &str = "a core that clocks down answers late when work comes";
    let folder = "/sys/devices/system/cpu/cpufreq";
    let policies: Vec<String> = host
        .names(folder)
        .into_iter()
        .filter(|name| name.starts_with("policy"))
        .collect();
    if policies.is_empty() {
        return vec![Check::unknown(
            "frequency governor",
            Severity::Warning,
            "performance",
            "not told (a virtual machine has none)",
            WHY,
        )];
    }
    let paths: Vec<String> = policies
        .iter()
        .map(|policy| format!("{folder}/{policy}/scaling_governor"))
        .collect();
    let wrong: Vec<&String> = paths
        .iter()
        .filter(|path| host.read(path).is_some_and(|governor| governor != "performance"))
        .collect();
    let current = wrong
        .first()
        .and_then(|path| host.read(path))
        .unwrap_or_else(|| "performance".to_owned());
    let mut check = Check::judged(
        "frequency governor",
        Severity::Warning,
        wrong.is_empty(),
        "performance",
        current,
        WHY,
    )
    .remedy("cpupower frequency-set -g performance");
    for path in wrong {
        check = check.set(path, "performance");
    }
    vec![check]
}

fn boost(host: &Host) -> Check {
    let current = host
        .read("/sys/devices/system/cpu/cpufreq/boost")
        .or_else(|| {
            let no_turbo = host.read("/sys/devices/system/cpu/intel_pstate/no_turbo")?;
            Some(if no_turbo == "0" { "1" } else { "0" }.to_owned())
        })
        .unwrap_or_else(|| "not told".to_owned());
    Check::info(
        "boost",
        current,
        "with boost, figures depend on temperature and on how many cores are busy",
    )
}

fn idle_states(host: &Host) -> Option<Check> {
    let current = host.number("/sys/module/intel_idle/parameters/max_cstate")?;
    let check = Check::judged(
        "idle states",
        Severity::Warning,
        current == 0,
        "0",
        current.to_string(),
        "leaving a deep idle state takes up to 200 µs, at each wake-up of a quiet shard",
    );
    Some(check.remedy("add intel_idle.max_cstate=0 processor.max_cstate=1 to the kernel's command line"))
}

fn clock(host: &Host) -> Check {
    const WHY: &str = "other clocks are read by a system call or from a slow device, at every request";
    match host.read("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
        Some(clock) => {
            let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
            let better = host
                .read("/sys/devices/system/clocksource/clocksource0/available_clocksource")
                .and_then(|available| {
                    let best = CLOCKS
                        .iter()
                        .find(|name| available.split(' ').any(|one| one == **name));
                    best.map(|name| (*name).to_owned())
                });
            let check = Check::judged(
                "clock source",
                Severity::Warning,
                CLOCKS.contains(&clock.as_str()),
                "tsc, or the hypervisor's",
                clock,
                WHY,
            );
            match better {
                Some(better) => check.remedy(format!("echo {better} > {path}")).set(path, better),
                None => check.remedy("clocksource=tsc tsc=reliable on the kernel's command line"),
            }
        }
        None => Check::unknown(
            "clock source",
            Severity::Warning,
            "tsc, or the hypervisor's",
            "not told",
            WHY,
        ),
    }
}

fn huge_pages(host: &Host) -> Check {
    const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    const WHY: &str = "always lets the kernel stop a shard to build huge pages; with madvise the broker asks where it helps";
    match host.read(PATH) {
        // `never` costs some speed and no evenness.
        Some(text) if chosen(&text) == "never" => Check::judged(
            "transparent huge pages",
            Severity::Warning,
            true,
            "madvise",
            "never",
            WHY,
        ),
        _ => choice(host, "transparent huge pages", PATH, "madvise", WHY),
    }
}

fn swappiness(host: &Host) -> Check {
    const PATH: &str = "/proc/sys/vm/swappiness";
    const WHY: &str = "a shard whose memory was swapped out stands still until it is back";
    match host.number(PATH) {
        Some(current) => Check::judged(
            "swappiness",
            Severity::Warning,
            current <= 1,
            "<= 1",
            current.to_string(),
            WHY,
        )
        .remedy("sysctl -w vm.swappiness=1")
        .set(PATH, "1"),
        None => Check::unknown("swappiness", Severity::Warning, "<= 1", "not told", WHY),
    }
}

fn zero(host: &Host, name: &str, path: &str, why: &'static str) -> Check {
    match host.read(path) {
        Some(_) => choice(host, name, path, "0", why),
        // A kernel built without it is as wanted.
        None => Check::judged(name, Severity::Warning, true, "0", "not in this kernel", why),
    }
}

fn memory(host: &Host) -> Check {
    const WHY: &str = "a shard's budget holds its buffers, its cache and the requests in flight";
    let wanted = host.cpus() as u64 * MEMORY_BYTES_A_CORE;
    let required = format!(">= {} GB", wanted / 1_000_000_000);
    let total = host.read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kibibytes * 1024)
    });
    match total {
        Some(bytes) => Check::judged(
            "memory",
            Severity::Warning,
            bytes >= wanted,
            required,
            format!("{:.1} GB", bytes as f64 / 1e9),
            WHY,
        )
        .remedy("run fewer shards: --shards"),
        None => Check::unknown("memory", Severity::Warning, required, "not told", WHY),
    }
}

fn isolation(host: &Host) -> Vec<Check> {
    let isolated = host
        .read("/sys/devices/system/cpu/isolated")
        .filter(|list| !list.is_empty())
        .unwrap_or_else(|| "none".to_owned());
    let cpus = host.cpus();
    vec![
        Check::info(
            "isolated CPUs",
            isolated,
            "the scheduler puts nothing else on them: best for shards that share a machine",
        ),
        Check::judged(
            "CPUs",
            Severity::Warning,
            cpus <= SHARDS_NOTED,
            format!("<= {SHARDS_NOTED} shards, or clients that can afford more"),
            cpus.to_string(),
            "a shard is a broker to clients, and those built on librdkafka run a thread for each broker",
        )
        .remedy(format!(
            "start with --shards {SHARDS_NOTED} if many small clients connect"
        )),
    ]
}

fn time_sync(host: &Host) -> Check {
    const WHY: &str = "records are timed, and kept for as long as was asked, by the wall clock";
    let by = [
        ("/run/systemd/timesync/synchronized", "systemd-timesyncd"),
        ("/run/chrony/chronyd.pid", "chrony"),
        ("/run/chronyd.pid", "chrony"),
        ("/run/ntpd.pid", "ntpd"),
    ]
    .into_iter()
    .find(|(path, _)| host.place(path).exists());
    match by {
        Some((_, name)) => Check::judged(
            "time synchronisation",
            Severity::Warning,
            true,
            "running",
            name,
            WHY,
        ),
        None => Check::unknown(
            "time synchronisation",
            Severity::Warning,
            "running",
            "neither systemd-timesyncd, chrony nor ntpd is seen",
            WHY,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;
    use std::path::Path;

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
    fn each_wrong_setting_is_found_and_has_its_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(
            folder.path(),
            &[
                ("/sys/devices/system/cpu/online", "0-3"),
                (
                    "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
                    "performance",
                ),
                (
                    "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor",
                    "powersave",
                ),
                ("/sys/module/intel_idle/parameters/max_cstate", "9"),
                (
                    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                    "hpet",
                ),
                (
                    "/sys/devices/system/clocksource/clocksource0/available_clocksource",
                    "hpet tsc",
                ),
                (
                    "/sys/kernel/mm/transparent_hugepage/enabled",
                    "[always] madvise never",
                ),
                ("/proc/sys/vm/swappiness", "60"),
                ("/proc/sys/kernel/numa_balancing", "1"),
                ("/proc/meminfo", "MemTotal:        4000000 kB\n"),
            ],
        );
        let checks = checks(&host);
        let failed: Vec<&str> = checks
            .iter()
            .filter(|check| check.status == Status::Failed)
            .map(|check| check.name.as_str())
            .collect();
        assert_eq!(
            failed,
            [
                "frequency governor",
                "idle states",
                "clock source",
                "transparent huge pages",
                "swappiness",
                "NUMA balancing",
                "memory"
            ]
        );
        assert!(
            checks
                .iter()
                .filter(|check| check.status == Status::Failed)
                .all(|check| check.remedy.is_some())
        );
        let settings: Vec<String> = checks
            .iter()
            .flat_map(|check| &check.settings)
            .map(|setting| format!("{} {}", setting.path.rsplit('/').next().unwrap(), setting.value))
            .collect();
        assert_eq!(
            settings,
            [
                "scaling_governor performance",
                "current_clocksource tsc",
                "enabled madvise",
                "swappiness 1",
                "numa_balancing 0"
            ]
        );
    }
}
