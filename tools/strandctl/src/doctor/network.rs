//! Interrupts, network cards, backlogs.

use std::collections::BTreeSet;

use super::check::{Check, Severity, at_least};
use super::host::{Host, cpu_list};

/// What waits to be accepted, in all.
const BACKLOG_WANTED: u64 = 4096;

/// Flows that the kernel can remember the core of.
const FLOWS_WANTED: u64 = 32_768;

/// What the network is set to. `shard_cpus` are the CPUs that shards run on.
pub(super) fn checks(host: &Host, shard_cpus: &[usize]) -> Vec<Check> {
    let mut checks = interrupts(host, shard_cpus);
    checks.push(at_least(
        host,
        "table of flows",
        "/proc/sys/net/core/rps_sock_flow_entries",
        FLOWS_WANTED,
        "with it a packet is handled on the core of the shard that reads it (receive flow steering)",
    ));
    for (name, path) in [
        ("accept backlog", "/proc/sys/net/core/somaxconn"),
        ("half-open backlog", "/proc/sys/net/ipv4/tcp_max_syn_backlog"),
    ] {
        checks.push(at_least(
            host,
            name,
            path,
            BACKLOG_WANTED,
            "when thousands of clients come back at once, what does not fit waits for a retry of a second and more",
        ));
    }
    checks
}

/// An interrupt line of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interrupt {
    number: u32,
    name: String,
    cpus: BTreeSet<usize>,
}

fn interrupts(host: &Host, shard_cpus: &[usize]) -> Vec<Check> {
    let all = parse(host);
    let queues = |kind: fn(&str) -> bool| -> Vec<&Interrupt> {
        all.iter().filter(|interrupt| kind(&interrupt.name)).collect()
    };
    let mut checks = Vec::new();
    let cards = queues(is_network);
    if !cards.is_empty() {
        const WHY: &str = "an interrupt on a shard's core takes that core from the shard";
        let on: BTreeSet<usize> = cards
            .iter()
            .flat_map(|interrupt| &interrupt.cpus)
            .copied()
            .collect();
        let shared: Vec<String> = on
            .iter()
            .filter(|cpu| shard_cpus.contains(cpu))
            .map(usize::to_string)
            .collect();
        // Where shards have all cores there is no other place for interrupts.
        let elsewhere = (0..host.cpus()).any(|cpu| !shard_cpus.contains(&cpu));
        let current = format!("{} queues on CPUs {}", cards.len(), listed(&on));
        checks.push(if elsewhere && !shard_cpus.is_empty() {
            Check::judged(
                "network interrupts",
                Severity::Warning,
                shared.is_empty(),
                "on none of the shards' CPUs",
                current,
                WHY,
            )
            .remedy("write the other CPUs to /proc/irq/N/smp_affinity_list, and stop irqbalance from moving them back")
        } else {
            Check::info("network interrupts", current, WHY)
        });
    }
    let disks = queues(is_nvme);
    if !disks.is_empty() {
        let on: BTreeSet<usize> = disks
            .iter()
            .flat_map(|interrupt| &interrupt.cpus)
            .copied()
            .collect();
        checks.push(Check::judged(
            "NVMe interrupts",
            Severity::Warning,
            disks.len() == 1 || host.cpus() == 1 || on.len() > 1,
            "spread over the CPUs",
            format!("{} queues on CPUs {}", disks.len(), listed(&on)),
            "a completion on another core than the one that asked costs a hop, and one core for all of them is a limit",
        )
        .remedy("let irqbalance or the driver spread them: one queue a CPU"));
    }
    checks
}

fn listed(cpus: &BTreeSet<usize>) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn is_network(name: &str) -> bool {
    ["eth", "enp", "ens", "eno", "mlx", "virtio", "ena"]
        .iter()
        .any(|start| name.starts_with(start))
        && !name.contains("config")
        && !name.contains("req")
}

fn is_nvme(name: &str) -> bool {
    name.starts_with("nvme")
}

/// The device lines of `/proc/interrupts`, with where each may go.
fn parse(host: &Host) -> Vec<Interrupt> {
    let text = host.read("/proc/interrupts").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let number: u32 = number.trim().parse().ok()?;
            let name = rest.split_whitespace().next_back()?.to_owned();
            let cpus = host.read(&format!("/proc/irq/{number}/smp_affinity_list"))?;
            Some(Interrupt {
                number,
                name,
                cpus: cpu_list(&cpus).into_iter().collect(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;

    #[test]
    fn interrupts_on_shards_cores_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::at(folder.path());
        let files = [
            (
                "/proc/interrupts",
                "            CPU0       CPU1\n  24:       1          2   PCI-MSIX-0000:00:03.0   0-edge      eth0-Tx-Rx-0\n  25:       1          2   PCI-MSIX-0000:00:03.0   1-edge      eth0-Tx-Rx-1\n  30:   0 0 PCI-MSIX 0-edge nvme0q1\n  31:   0 0 PCI-MSIX 0-edge nvme0q2\nNMI:          0          0   Non-maskable interrupts\n",
            ),
            ("/proc/irq/24/smp_affinity_list", "0"),
            ("/proc/irq/25/smp_affinity_list", "3"),
            ("/proc/irq/30/smp_affinity_list", "1"),
            ("/proc/irq/31/smp_affinity_list", "1"),
            ("/sys/devices/system/cpu/online", "0-3"),
            ("/proc/sys/net/core/somaxconn", "128"),
            ("/proc/sys/net/ipv4/tcp_max_syn_backlog", "8192"),
        ];
        for (path, text) in files {
            let place = host.place(path);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, text).unwrap();
        }
        let statuses = |shards: &[usize]| -> Vec<(String, Status)> {
            checks(&host, shards)
                .into_iter()
                .map(|check| (check.name, check.status))
                .collect()
        };
        let found = statuses(&[2, 3]);
        assert_eq!(found[0], ("network interrupts".to_owned(), Status::Failed));
        assert_eq!(found[1], ("NVMe interrupts".to_owned(), Status::Failed));
        assert_eq!(found[2], ("table of flows".to_owned(), Status::Unknown));
        assert_eq!(found[3], ("accept backlog".to_owned(), Status::Failed));
        assert_eq!(found[4], ("half-open backlog".to_owned(), Status::Ok));
        assert_eq!(statuses(&[1, 2])[0].1, Status::Ok);
        assert_eq!(parse(&host)[1].number, 25);
    }
}
