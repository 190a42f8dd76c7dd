//! Starting a store from an image, and comparing it with the model.

use std::cell::RefCell;
use std::rc::Rc;

use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_storage::disk::sim::Image;
use strandline_storage::disk::{SimDisk, SimDiskOptions};
use strandline_storage::{AppendError, Log, Store};

use crate::common::{append_as, id, put, quiet};
use crate::model::{Found, Life, Model};
use crate::workload::{Moment, PARTITIONS, directory, options, producer, settings};

/// Recovers an image; what it holds must be what the model allows, and stay so through a second cut of the
/// power, one while the first recovery ran included. Gives how many images were looked at.
pub fn verify(moment: &Moment, seed: u64) -> Result<u64, String> {
    let inner = check(&moment.image, &moment.model, seed, true)?;
    let mut count = 1;
    for image in inner {
        check(&image, &moment.model, seed, false)?;
        count += 1;
    }
    Ok(count)
}

fn check(image: &Image, model: &Model, seed: u64, nested: bool) -> Result<Vec<Image>, String> {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime("node");
    let disk = SimDisk::from_image(image, runtime.clone(), SimDiskOptions::default());
    let images: Rc<RefCell<Vec<Image>>> = Rc::default();
    if nested {
        let images = images.clone();
        disk.on_flush(move |disk, point| {
            // The slots are where a recovery can go wrong; the rest is flushes of what was there.
            if point.path.to_string_lossy().contains("checkpoint") {
                // Without what was in flight, or with a part of it.
                let mut left = disk.crash_images(3);
                let without = images.borrow().len().is_multiple_of(2);
                let image = if without { left.next() } else { left.last() };
                images.borrow_mut().extend(image);
            }
        });
    }
    let (first, model) = (disk.clone(), model.clone());
    let lives = simulation.run_until(async move {
        let store = open(runtime, first.clone()).await?;
        first.on_flush(|_, _| {});
        let mut lives = Vec::new();
        for partition in 0..PARTITIONS {
            let log = store.log(id(1, partition as u32));
            let found = match &log {
                Some(log) => Some(Found::read(log).await),
                None => None,
            };
            let life = model.identify(partition, found.as_ref());
            let life = life.map_err(|reason| format!("partition {partition}: {reason}"))?;
            if let (Some(log), Some(life), Some(found)) = (log, life, found) {
                lives.push((partition, go_on(&log, life, found, partition).await?));
            }
        }
        Ok::<_, String>(lives)
    })?;
    // What was appended after the recovery survives the next cut as well.
    simulation.kill_host("node");
    disk.crash();
    let runtime = simulation.runtime("node");
    let disk = disk.attach(runtime.clone());
    simulation.run_until(async move {
        let store = open(runtime, disk)
            .await
            .map_err(|reason| format!("second open: {reason}"))?;
        for (partition, expected) in lives {
            let log = store
                .log(id(1, partition as u32))
                .ok_or("a log is missing after the second cut")?;
            let found = Found::read(&log).await;
            if found.damaged.is_some() || found.records != expected {
                return Err(format!("partition {partition} differs after the second cut"));
            }
        }
        Ok::<_, String>(())
    })?;
    let images = std::mem::take(&mut *images.borrow_mut());
    Ok(images)
}

async fn open(runtime: SimRuntime, disk: SimDisk) -> Result<Store<SimRuntime, SimDisk>, String> {
    assert!(directory().is_absolute());
    let opened = Store::open(runtime, disk, options(), quiet()).await;
    let (store, report) = opened.map_err(|error| error.to_string())?;
    if report.rot || !report.damaged.is_empty() {
        return Err(format!("a power cut is no rot: {report:?}"));
    }
    Ok(store)
}

/// The producer is known, and the log takes records.
async fn go_on(
    log: &Log<SimDisk>,
    life: Life,
    mut found: Found,
    partition: usize,
) -> Result<Vec<(i64, Vec<u8>)>, String> {
    log.set_settings(settings(false));
    if life.idempotent && found.end > 0 {
        let last = (producer(partition), 0, found.end as i32 - 1);
        match append_as(log, b"again", last) {
            Err(AppendError::Duplicate { base_offset, .. }) if base_offset == found.end - 1 => {}
            other => {
                return Err(format!(
                    "partition {partition}: the last batch again gave {other:?}"
                ));
            }
        }
    }
    for value in [&b"after the cut"[..], b"and another"] {
        let offset = if life.idempotent {
            let next = (producer(partition), 0, log.end_offset() as i32);
            let appended = append_as(log, value, next).map_err(|error| error.to_string())?;
            log.acknowledged(appended.last_offset + 1)
                .await
                .map_err(|error| error.to_string())?;
            appended.base_offset
        } else {
            put(log, value).await
        };
        found.records.push((offset, value.to_vec()));
    }
    Ok(found.records)
}
