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

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Images of a plain `cargo test`.
const IMAGES_DEFAULT: u64 = 400;
/// Images of one flush at most: without everything that no flush covered, with all of it, and some of the many between.
const IMAGES_PER_FLUSH: u64 = 6;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.replace('_', "").parse().unwrap())
}

/// Seeds that are looked at together, on as many threads as there are cores: the count after each such group alone
/// decides whether there is another, so that a number of images means the same seeds on every machine.
const SEEDS_TOGETHER: u64 = 4;
/// How many images lie between two lines of progress.
const IMAGES_PER_LINE: u64 = 2_000;

#[test]
fn every_image_recovers_what_was_acknowledged() {
    let wanted = number("STRANDLINE_CRASH_IMAGES", IMAGES_DEFAULT);
    let first_seed = number("STRANDLINE_CRASH_SEED", 1);
    let (mut images, mut seed) = (0, first_seed);
    let mut next_line = IMAGES_PER_LINE;
    while images < wanted {
        images += images_of_seeds(seed..seed + SEEDS_TOGETHER);
        seed += SEEDS_TOGETHER;
        if images >= next_line && images < wanted {
            println!("{images} of {wanted} crash images, up to seed {}", seed - 1);
            next_line = images + IMAGES_PER_LINE;
        }
    }
    println!("{images} crash images of {} seeds recovered", seed - first_seed);
}

fn images_of_seeds(seeds: Range<u64>) -> u64 {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mut images = 0;
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return images;
            }
            images += images_of_seed(seed);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

fn images_of_seed(seed: u64) -> u64 {
    let mut images = 0;
    for (index, moment) in workload::images_of(seed, IMAGES_PER_FLUSH).iter().enumerate() {
        match verify::verify(moment, seed) {
            Ok(count) => images += count,
            Err(reason) => panic!("seed {seed}, image {index}, {}: {reason}", moment.at),
        }
    }
    images
}
