//! Power cuts: at each flush of random operations, the images that the disk may be left in recover with
//! everything that was acknowledged and nothing that was not asked for.
//!
//! `STRANDLINE_CRASH_IMAGES` sets how many images to look at, `STRANDLINE_CRASH_SEED` where the seeds begin.

#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;
mod model;
mod verify;
mod workload;

/// Images of a plain `cargo test`.
const IMAGES_DEFAULT: u64 = 400;
/// Images of one flush at most.
const IMAGES_PER_FLUSH: u64 = 2;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.replace('_', "").parse().unwrap())
}

#[test]
fn every_image_recovers_what_was_acknowledged() {
    let wanted = number("STRANDLINE_CRASH_IMAGES", IMAGES_DEFAULT);
    let first_seed = number("STRANDLINE_CRASH_SEED", 1);
    let mut images = 0;
    let mut seed = first_seed;
    while images < wanted {
        for (index, moment) in workload::images_of(seed, IMAGES_PER_FLUSH).iter().enumerate() {
            match verify::verify(moment, seed) {
                Ok(count) => images += count,
                Err(reason) => panic!("seed {seed}, image {index}, {}: {reason}", moment.at),
            }
        }
        seed += 1;
    }
    println!("{images} crash images of {} seeds recovered", seed - first_seed);
}
