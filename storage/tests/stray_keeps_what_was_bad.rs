//! A journal's space is used again; where an acknowledged entry is missing, its pages are kept under `stray/` first.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{formatted, id, put, quiet, simulated_options as options};
use strandline_runtime::sim::Simulation;
use strandline_storage::disk::{Disk, DiskFile, SimDisk, SimDiskOptions};
use strandline_storage::{LogSettings, Store};

async fn content(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let file = disk
        .open(path, strandline_storage::disk::OpenMode::Read)
        .await
        .unwrap();
    let length = file.size().await.unwrap() as usize;
    file.read_at(0, length).await.unwrap().to_vec()
}

fn holds(bytes: &[u8], value: &[u8]) -> Option<usize> {
    bytes.windows(value.len()).position(|at| at == value)
}

/// Writes ten records, lets the directory of the entry of `rotten` rot, and gives what `stray/` holds after an open.
fn stray_after_rot(rotten: &'static str) -> Vec<(String, Vec<u8>)> {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime("node");
    let disk = simulation.run_until(async move {
        let disk = formatted(&runtime, SimDiskOptions::default(), &options()).await;
        let (store, _) = Store::open(runtime, disk.clone(), options(), quiet())
            .await
            .unwrap();
        let log = store.create_log(id(1, 0), LogSettings::default()).unwrap();
        for at in 0..10 {
            put(&log, format!("record {at} of ten").as_bytes()).await;
        }
        let seal = store.durable_sequence().next();
        store.durable(seal).await.unwrap();
        let journal = options().directory.join("journal-0");
        let place = holds(&content(&disk, &journal).await, rotten.as_bytes()).unwrap();
        disk.rot(&journal, (place / 4096 * 4096 + 40) as u64, 1).unwrap();
        disk
    });
    simulation.kill_host("node");
    disk.crash();
    let runtime = simulation.runtime("node");
    simulation.run_until(async move {
        let disk = disk.attach(runtime.clone());
        let (_, report) = Store::open(runtime, disk.clone(), options(), quiet())
            .await
            .unwrap();
        assert!(report.rot);
        let stray = options().directory.join("stray");
        let mut kept = Vec::new();
        for entry in disk.list(&stray).await.unwrap() {
            let bytes = content(&disk, &stray.join(&entry.name)).await;
            kept.push((entry.name, bytes));
        }
        kept
    })
}

#[test]
fn the_pages_of_a_missing_entry_are_kept_and_the_entries_behind_it() {
    let stray = stray_after_rot("record 4 of ten");
    let pages: Vec<_> = stray
        .iter()
        .filter(|(name, _)| name.starts_with("journal-pages-"))
        .collect();
    assert_eq!(pages.len(), 1);
    assert_eq!(pages[0].1.len(), 4096, "the one entry that is missing");
    assert!(holds(&pages[0].1, b"record 4 of ten").is_some());
    for at in 5..10 {
        let value = format!("record {at} of ten");
        let entry = |(name, bytes): &(String, Vec<u8>)| {
            name.starts_with("journal-entry-") && holds(bytes, value.as_bytes()).is_some()
        };
        assert!(stray.iter().any(entry), "{value} is kept");
    }
}

#[test]
fn the_pages_of_a_missing_last_entry_are_kept() {
    let stray = stray_after_rot("record 9 of ten");
    let kept = |(name, bytes): &(String, Vec<u8>)| {
        name.starts_with("journal-pages-") && holds(bytes, b"record 9 of ten").is_some()
    };
    assert!(stray.iter().any(kept));
}
