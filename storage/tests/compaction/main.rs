//! Compaction against a reference: what a reader of any offset sees is right before, during and after each cleaning, and after
//! a power cut at any flush of it.
//!
//! `STRANDLINE_COMPACTION_SEEDS` sets how many histories are run, `STRANDLINE_CRASH_SEED` where the seeds begin.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod changes;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod model;
mod rules;
mod verify;
mod workload;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.replace('_', "").parse().unwrap())
}

#[test]
fn every_reader_is_right_at_any_time() {
    let first = number("STRANDLINE_CRASH_SEED", 1);
    let seeds = number("STRANDLINE_COMPACTION_SEEDS", 16);
    for seed in first..first + seeds {
        workload::run(seed, 0);
    }
}

#[test]
fn every_image_of_a_cleaning_recovers() {
    let first = number("STRANDLINE_CRASH_SEED", 1);
    let seeds = number("STRANDLINE_COMPACTION_SEEDS", 16) / 8;
    let (mut images, mut flushes) = (0, 0);
    for seed in first..first + seeds {
        let moments = workload::run(seed, 3);
        // The images of a flush follow one another.
        flushes += moments.chunk_by(|one, other| one.flush == other.flush).count();
        for (index, moment) in moments.iter().enumerate() {
            if let Err(reason) = verify::verify(moment, seed) {
                panic!("seed {seed}, image {index}, {}: {reason}", moment.at);
            }
            images += 1;
        }
    }
    println!(
        "compaction: {images} crash images at {flushes} flushes, all of {seeds} seeds' cleanings, recovered"
    );
    assert!(images > seeds * 10 && flushes as u64 > seeds * 5);
}
