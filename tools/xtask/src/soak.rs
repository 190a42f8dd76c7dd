//! `cargo xtask soak`: the suites that are too long for every change.
//!
//! The tests read their sizes from the environment; this command sets them, runs the suites one after the
//! other and closes with one line of counts.

use crate::process::{self, Ending};
use crate::{mutations, tree};
use std::time::{Duration, Instant};

/// One suite: what it runs, and how long it may take.
struct Part {
    name: &'static str,
    line: String,
    timeout: Duration,
    /// Marks the lines of its output that hold its counts.
    mark: &'static str,
}

/// The sizes of a run.
#[derive(Debug, PartialEq, Eq)]
struct Sizes {
    images: u64,
    seed: u64,
    kills: u64,
    fuzz_copies: u64,
    mutations: bool,
}

/// The seconds that a suite may take beyond what its size asks for: the first one builds everything, optimised.
const BUILD_SECONDS: u64 = 1800;
/// Crash images a second at least: a fiftieth of what two cores do.
const IMAGES_PER_SECOND: u64 = 5;
/// Seconds of one start, load, kill -9 and comparison at most.
const SECONDS_PER_KILL: u64 = 30;
/// Damaged copies of each corpus file a second at least.
const COPIES_PER_SECOND: u64 = 10;

impl Sizes {
    fn parse(options: &[&str]) -> Result<Self, String> {
        let mut sizes = Self {
            images: 100_000,
            seed: 1,
            kills: 100,
            fuzz_copies: 20_000,
            mutations: true,
        };
        let mut words = options.iter();
        while let Some(option) = words.next() {
            let mut number = || {
                let value = words.next().and_then(|word| word.replace('_', "").parse().ok());
                value.ok_or_else(|| format!("{option} takes a number"))
            };
            match *option {
                "--images" => sizes.images = number()?,
                "--seed" => sizes.seed = number()?,
                "--kills" => sizes.kills = number()?,
                "--fuzz-copies" => sizes.fuzz_copies = number()?,
                "--skip-mutations" => sizes.mutations = false,
                _ => return Err(format!("unknown option {option}")),
            }
        }
        Ok(sizes)
    }

    fn parts(&self) -> Vec<Part> {
        let Self {
            images,
            seed,
            kills,
            fuzz_copies,
            ..
        } = self;
        let part = |name, mark, line, seconds: u64| Part {
            name,
            line,
            timeout: Duration::from_secs(BUILD_SECONDS + seconds),
            mark,
        };
        vec![
            part(
                "crash images",
                "recovered",
                format!(
                    "STRANDLINE_CRASH_IMAGES={images} STRANDLINE_CRASH_SEED={seed} cargo test --release \
                     -p strandline-storage --test crash_images -- --nocapture"
                ),
                images / IMAGES_PER_SECOND,
            ),
            part(
                "kill -9 loop",
                "kill loop:",
                format!(
                    "STRANDLINE_KILLS={kills} cargo test --release -p strandline --test kill_loop -- --nocapture"
                ),
                kills * SECONDS_PER_KILL,
            ),
            part(
                "fuzz replay",
                "fuzz replay:",
                format!(
                    "STRANDLINE_FUZZ_COPIES={fuzz_copies} STRANDLINE_FUZZ_SEED={seed} cargo test --release \
                     -p strandline-wire --test fuzz_replay -- --nocapture"
                ),
                fuzz_copies / COPIES_PER_SECOND,
            ),
        ]
    }
}

/// Runs every suite, also after one that failed.
pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    let sizes = Sizes::parse(options)?;
    let (mut counts, mut passed, mut failed) = (Vec::new(), 0, Vec::new());
    let mut close = |name: &'static str, began: Instant, good: bool| {
        println!(
            "soak: {name}: {} in {} s",
            if good { "passed" } else { "FAILED" },
            began.elapsed().as_secs()
        );
        if good { passed += 1 } else { failed.push(name) }
    };
    for part in sizes.parts() {
        let began = Instant::now();
        let mut command = process::parse_line(
            &part.line,
            u32::try_from(part.timeout.as_secs()).unwrap_or(u32::MAX),
        )?;
        command.current_dir(tree::root());
        let (ending, lines) = process::ending_and_lines(&mut command, part.mark)?;
        counts.extend(lines);
        close(part.name, began, ending == Ending::Success);
    }
    if sizes.mutations {
        let began = Instant::now();
        let good = match mutations::counted(&[]) {
            Ok(found) => {
                counts.push(format!("mutations: {found}"));
                found.missed.is_empty()
            }
            Err(message) => {
                eprintln!("{message}");
                false
            }
        };
        close("mutations", began, good);
    }
    println!(
        "soak: {passed} suites passed, {} failed: {}",
        failed.len(),
        counts.join("; ")
    );
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("soak: failed: {}", failed.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_defaults_and_options() {
        assert_eq!(Sizes::parse(&[]).unwrap().images, 100_000);
        let sizes = Sizes::parse(&["--images", "2_000", "--skip-mutations", "--kills", "3"]).unwrap();
        assert_eq!(
            sizes,
            Sizes {
                images: 2_000,
                seed: 1,
                kills: 3,
                fuzz_copies: 20_000,
                mutations: false
            }
        );
        assert!(
            sizes.parts()[0]
                .line
                .starts_with("STRANDLINE_CRASH_IMAGES=2000 STRANDLINE_CRASH_SEED=1 cargo test")
        );
        assert!(Sizes::parse(&["--images"]).is_err());
        assert!(Sizes::parse(&["--other"]).is_err());
    }
}
