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
}

/// The sizes of a run.
#[derive(Debug, PartialEq, Eq)]
struct Sizes {
    images: u64,
    kills: u64,
    fuzz_seconds: u64,
    mutations: bool,
}

impl Sizes {
    fn parse(options: &[&str]) -> Result<Self, String> {
        let mut sizes = Self {
            images: 100_000,
            kills: 100,
            fuzz_seconds: 600,
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
                "--kills" => sizes.kills = number()?,
                "--fuzz-seconds" => sizes.fuzz_seconds = number()?,
                "--skip-mutations" => sizes.mutations = false,
                _ => return Err(format!("unknown option {option}")),
            }
        }
        Ok(sizes)
    }

    fn parts(&self) -> Vec<Part> {
        let Self {
            images,
            kills,
            fuzz_seconds,
            ..
        } = self;
        let part = |name, line, seconds: u64| Part {
            name,
            line,
            timeout: Duration::from_secs(900 + seconds),
        };
        vec![
            part(
                "crash images",
                format!(
                    "STRANDLINE_CRASH_IMAGES={images} cargo test --release -p strandline-storage --test crash_images"
                ),
                images / 10,
            ),
            part(
                "kill -9 loop",
                format!("STRANDLINE_KILLS={kills} cargo test --release -p strandline --test kill_loop"),
                kills * 30,
            ),
            part(
                "fuzz",
                format!(
                    "STRANDLINE_FUZZ_SECONDS={fuzz_seconds} cargo test --release -p strandline-wire --test fuzz"
                ),
                fuzz_seconds * 2,
            ),
        ]
    }
}

/// Runs every suite, also after one that failed.
pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    let sizes = Sizes::parse(options)?;
    let (mut passed, mut failed) = (0, Vec::new());
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
        let ending = process::ending(command.current_dir(tree::root()))?;
        close(part.name, began, ending == Ending::Success);
    }
    if sizes.mutations {
        let began = Instant::now();
        let outcome = mutations::run(&[]);
        if let Err(message) = &outcome {
            eprintln!("{message}");
        }
        close("mutations", began, outcome.is_ok());
    }
    println!(
        "soak: {} crash images, {} kills, {} s of fuzzing: {passed} passed, {} failed",
        sizes.images,
        sizes.kills,
        sizes.fuzz_seconds,
        failed.len()
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
                kills: 3,
                fuzz_seconds: 600,
                mutations: false
            }
        );
        assert!(
            sizes.parts()[0]
                .line
                .starts_with("STRANDLINE_CRASH_IMAGES=2000 cargo test")
        );
        assert!(Sizes::parse(&["--images"]).is_err());
        assert!(Sizes::parse(&["--other"]).is_err());
    }
}
