//! Starting a store from what a power cut left during a cleaning.

use strandline_runtime::Runtime;
use strandline_runtime::sim::{SimRuntime, Simulation};
use strandline_storage::disk::{SimDisk, SimDiskOptions};
use strandline_storage::{Log, Store};

use crate::common::{id, quiet, validated};
use crate::files::check_files;
use crate::model::{Model, Written, read};
use crate::workload::{Moment, SimStore, check_producers, cleaning, options, settings};

/// Everything is there, and a cleaning goes through; again after a restart.
pub fn verify(moment: &Moment, seed: u64) -> Result<(), String> {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime("node");
    // The new world's clock goes on from the old one's.
    simulation.set_clock_offset_ms("node", moment.now_ms - runtime.wall_clock_ms());
    let disk = SimDisk::from_image(&moment.image, runtime.clone(), SimDiskOptions::default());
    let (mut model, segment_bytes) = (moment.model.clone(), moment.segment_bytes);
    simulation.run_until(async move {
        let (store, log) = open(&runtime, &disk, segment_bytes).await?;
        if log.cleaned_to() < model.cleaned_to {
            return Err(format!(
                "clean to {} alone, of {}",
                log.cleaned_to(),
                model.cleaned_to
            ));
        }
        check(&runtime, &log, &mut model).await?;
        check_producers(&log, &model);
        let mut builder = strandline_wire::batch::BatchBuilder::new();
        let record = Written {
            key: Some(b"key-0".to_vec()),
            value: Some(b"after the cut".to_vec()),
            timestamp: runtime.wall_clock_ms(),
        };
        builder.record(record.timestamp, record.key.as_deref(), record.value.as_deref());
        let bytes = builder.finish().unwrap();
        let appended = log
            .append(&validated(&bytes))
            .map_err(|error| error.to_string())?;
        log.acknowledged(appended.last_offset + 1).await.unwrap();
        log.set_high_watermark(log.end_offset());
        model.records.push(record);
        model.acknowledged = log.end_offset();
        let task = cleaning(log.high_watermark(), 1 << 16);
        store
            .clean(&log, &task)
            .await
            .map_err(|error| error.to_string())?;
        check(&runtime, &log, &mut model).await?;
        store.checkpoint().await.unwrap();
        store.unlinked().await.unwrap();
        check_files(&disk, &options(), &log).await;
        store.close().await.unwrap();
        let (_, log) = open(&runtime, &disk, segment_bytes).await?;
        check(&runtime, &log, &mut model).await?;
        check_producers(&log, &model);
        Ok(())
    })
}

async fn open(
    runtime: &SimRuntime,
    disk: &SimDisk,
    segment_bytes: u64,
) -> Result<(SimStore, Log<SimDisk>), String> {
    let opened = Store::open(runtime.clone(), disk.clone(), options(), quiet()).await;
    let (store, report) = opened.map_err(|error| error.to_string())?;
    if report.rot || !report.damaged.is_empty() {
        return Err(format!("a power cut is no rot: {report:?}"));
    }
    let log = store.log(id(1, 0)).ok_or("the log is gone")?;
    log.set_settings(settings(segment_bytes));
    Ok((store, log))
}

async fn check(runtime: &SimRuntime, log: &Log<SimDisk>, model: &mut Model) -> Result<(), String> {
    let (start, end) = (log.start_offset(), log.end_offset());
    if start < model.start_durable || start > model.start {
        return Err(format!(
            "the log starts at {start}, which is not in {}..={}",
            model.start_durable, model.start
        ));
    }
    if end < model.acknowledged || end as usize > model.records.len() {
        return Err(format!(
            "the log ends at {end}, acknowledged were {}",
            model.acknowledged
        ));
    }
    model.records.truncate(end as usize);
    for from in (start..=end).step_by(97) {
        let found = read(log, from, 30_000).await;
        if from == start {
            // A cleaning that nobody saw the end of may have stamped horizons.
            for record in found.iter().filter(|record| record.record.value.is_none()) {
                if let Some(horizon) = record.horizon {
                    let known = *model.horizons.entry(record.offset).or_insert(horizon);
                    if known != horizon {
                        return Err(format!("the horizon at {} moved", record.offset));
                    }
                }
            }
        }
        model.check(&found, from, end, runtime.wall_clock_ms())?;
    }
    Ok(())
}
