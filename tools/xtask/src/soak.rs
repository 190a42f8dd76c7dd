//! `cargo xtask soak [PART]...`: the suites that are too long for every change.
//!
//! The tests read their sizes from the environment; this command sets them, runs one part after the other, each with a
//! line of its own, and closes with one line of counts. A part that passed on this very commit with the same sizes is not
//! run again, so that a run that was cut short goes on.

use crate::process::{self, Ending};
use crate::{mutations, tree};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A part is to be over within this time, its build apart.
const PART_SECONDS: u64 = 45 * 60;
/// What a part may take more, before it counts as hanging: the first one builds everything, optimised.
const BUILD_SECONDS: u64 = 30 * 60;

/// What a part runs.
enum Work {
    /// A command, and what marks the lines of its output that hold its counts.
    Line { line: String, mark: &'static str },
    /// Every mutation.
    Mutations,
}

/// Crash images that a history with cleanings, or with rounds of retention, gives at least.
const IMAGES_PER_SEED: u64 = 300;

/// One part.
struct Part {
    name: &'static str,
    work: Work,
}

/// The sizes of a run, and what of it is wanted.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    images: u64,
    seed: u64,
    kills: u64,
    fuzz_copies: u64,
    faults: u64,
    again: bool,
    parts: Vec<String>,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            images: 100_000,
            seed: 1,
            kills: 100,
            fuzz_copies: 20_000,
            faults: 1_000,
            again: false,
            parts: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().and_then(|word| word.replace('_', "").parse().ok());
                value.ok_or_else(|| format!("{word} takes a number"))
            };
            match *word {
                "--images" => options.images = number()?,
                "--seed" => options.seed = number()?,
                "--kills" => options.kills = number()?,
                "--fuzz-copies" => options.fuzz_copies = number()?,
                "--faults" => options.faults = number()?,
                "--again" => options.again = true,
                option if option.starts_with('-') => return Err(format!("unknown option {option}")),
                part => options.parts.push(part.to_owned()),
            }
        }
        let known: Vec<&str> = options.all().iter().map(|part| part.name).collect();
        match options.parts.iter().find(|part| !known.contains(&part.as_str())) {
            Some(part) => Err(format!("no part {part}: there are {}", known.join(", "))),
            None => Ok(options),
        }
    }

    fn all(&self) -> Vec<Part> {
        let Self {
            images,
            seed,
            kills,
            fuzz_copies,
            faults,
            ..
        } = self;
        let part = |name, mark, line| Part {
            name,
            work: Work::Line { line, mark },
        };
        vec![
            part(
                "images",
                "recovered",
                format!(
                    "STRANDLINE_CRASH_IMAGES={images} STRANDLINE_CRASH_SEED={seed} cargo test --release \
                     -p strandline-storage --test crash_images -- --nocapture"
                ),
            ),
            part(
                "kills",
                "kill loop:",
                format!(
                    "STRANDLINE_KILLS={kills} cargo test --release -p strandline --test kill_loop -- --nocapture"
                ),
            ),
            part(
                "kills-cleaned",
                "kill loop of cleaned topics:",
                format!(
                    "STRANDLINE_KILLS={kills} cargo test --release -p strandline --test kill_loop_cleaned -- --nocapture"
                ),
            ),
            part(
                "images-cleaned",
                "crash images at",
                format!(
                    "STRANDLINE_COMPACTION_SEEDS={} STRANDLINE_RETENTION_SEEDS={} STRANDLINE_CRASH_SEED={seed} \
                     cargo test --release -p strandline-storage --test compaction --test retention_follows_its_model -- \
                     --nocapture",
                    // Of these an eighth is looked at flush by flush.
                    images / IMAGES_PER_SEED * 8,
                    images / IMAGES_PER_SEED,
                ),
            ),
            part(
                "fuzz",
                "fuzz replay:",
                format!(
                    "STRANDLINE_FUZZ_COPIES={fuzz_copies} STRANDLINE_FUZZ_SEED={seed} cargo test --release \
                     -p strandline-wire --test fuzz_replay -- --nocapture"
                ),
            ),
            part(
                "faults",
                "random faults:",
                format!(
                    "STRANDLINE_FAULT_SEEDS={faults} STRANDLINE_FAULT_SEED={seed} cargo test --release -p strandline \
                     --test follower_shards_survive_random_faults acknowledged -- --nocapture"
                ),
            ),
            // A hundred thousand groups of an offset each; half of the memory is what groups may take.
            part(
                "groups",
                "groups:",
                "STRANDLINE_GROUPS=100000 STRANDLINE_GROUPS_MEMORY=268435456 cargo test --release -p strandline \
                 --test group_masses_are_bounded thousands_of_groups -- --nocapture"
                    .to_owned(),
            ),
            Part {
                name: "mutate",
                work: Work::Mutations,
            },
        ]
    }

    fn wanted(&self) -> Vec<Part> {
        let mut parts = self.all();
        parts.retain(|part| self.parts.is_empty() || self.parts.iter().any(|name| name == part.name));
        parts
    }
}

impl Part {
    /// Its counts, or why it failed.
    fn run(&self) -> Result<String, String> {
        match &self.work {
            Work::Line { line, mark } => {
                let limit = u32::try_from(BUILD_SECONDS + PART_SECONDS).unwrap_or(u32::MAX);
                let mut command = process::parse_line(line, limit)?;
                command.current_dir(tree::root());
                let (ending, lines) = process::ending_and_lines(&mut command, mark)?;
                match ending {
                    Ending::Success if lines.is_empty() => {
                        Err(format!("no line with `{mark}`: nothing was counted"))
                    }
                    Ending::Success => Ok(lines.join("; ")),
                    Ending::Failure => Err("a test failed".to_owned()),
                    Ending::TimedOut => Err(format!("not over after {limit} s")),
                }
            }
            Work::Mutations => {
                let found = mutations::counted()?;
                if found.missed.is_empty() {
                    Ok(format!("mutations: {found}"))
                } else {
                    Err(format!("mutations: {found}: {}", found.missed.join(", ")))
                }
            }
        }
    }

    /// What its result holds for.
    fn key(&self, commit: &str) -> String {
        match &self.work {
            Work::Line { line, .. } => format!("{commit} {line}"),
            Work::Mutations => format!("{commit} {}", self.name),
        }
    }
}

/// Which parts have passed, a line each: what it holds for, a tab, the counts.
struct Record {
    path: PathBuf,
    /// `None` with changes that are not committed: a result would hold for nothing that has a name.
    commit: Option<String>,
    lines: Vec<(String, String)>,
}

impl Record {
    fn open(root: &Path) -> Self {
        let path = root.join("target/soak/passed");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        Self {
            path,
            commit: clean_commit(root),
            lines: lines
                .map(|(key, counts)| (key.to_owned(), counts.to_owned()))
                .collect(),
        }
    }

    fn find(&self, part: &Part) -> Option<&str> {
        let key = part.key(self.commit.as_deref()?);
        self.lines
            .iter()
            .find(|(of, _)| *of == key)
            .map(|(_, counts)| counts.as_str())
    }

    fn add(&mut self, part: &Part, counts: &str) -> Result<(), String> {
        let Some(commit) = &self.commit else {
            return Ok(());
        };
        self.lines.push((part.key(commit), counts.to_owned()));
        let text: String = self
            .lines
            .iter()
            .map(|(key, counts)| format!("{key}\t{counts}\n"))
            .collect();
        let folder = self.path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&self.path, text))
            .map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// The commit of a checkout without changes.
fn clean_commit(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(root)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let commit = git(&["rev-parse", "HEAD"])?;
    git(&["status", "--porcelain"])?.is_empty().then_some(commit)
}

/// Runs every part wanted, also after one that failed.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let options = Options::parse(words)?;
    let mut record = Record::open(&tree::root());
    let (mut counts, mut failed) = (Vec::new(), Vec::new());
    for part in options.wanted() {
        let name = part.name;
        if !options.again
            && let Some(before) = record.find(&part)
        {
            println!("soak: {name}: passed before on this commit: {before}");
            counts.push(before.to_owned());
            continue;
        }
        let began = Instant::now();
        let outcome = part.run();
        let seconds = began.elapsed().as_secs();
        match outcome {
            Ok(found) => {
                println!("soak: {name}: passed in {seconds} s: {found}");
                record.add(&part, &found)?;
                counts.push(found);
            }
            Err(why) => {
                println!("soak: {name}: FAILED in {seconds} s: {why}");
                failed.push(name);
            }
        }
    }
    println!(
        "soak: {} parts passed, {} failed: {}",
        counts.len(),
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
        assert_eq!(Options::parse(&[]).unwrap().images, 100_000);
        let options = Options::parse(&["--images", "2_000", "mutate", "--kills", "3", "images"]).unwrap();
        assert_eq!((options.images, options.kills, options.seed), (2_000, 3, 1));
        let wanted = options.wanted();
        assert_eq!(
            wanted.iter().map(|part| part.name).collect::<Vec<_>>(),
            ["images", "mutate"]
        );
        assert!(
            wanted[0]
                .key("c")
                .starts_with("c STRANDLINE_CRASH_IMAGES=2000 STRANDLINE_CRASH_SEED=1 cargo test")
        );
        assert!(Options::parse(&["--images"]).is_err());
        assert!(Options::parse(&["--other"]).is_err());
        assert!(Options::parse(&["other"]).unwrap_err().contains("mutate"));
    }

    #[test]
    fn a_part_that_passed_is_known_for_its_commit_and_sizes_only() {
        let root = std::env::temp_dir().join(format!("strandline-soak-{}", std::process::id()));
        let parts = |words: &[&str]| Options::parse(words).unwrap().wanted();
        let mut record = Record::open(&root);
        record.commit = Some("one".to_owned());
        record.add(&parts(&["images"])[0], "7 recovered").unwrap();
        let mut again = Record::open(&root);
        // The folder is no repository.
        assert_eq!(again.commit, None);
        assert_eq!(again.find(&parts(&["images"])[0]), None);
        again.commit = Some("one".to_owned());
        assert_eq!(again.find(&parts(&["images"])[0]), Some("7 recovered"));
        assert_eq!(again.find(&parts(&["images", "--seed", "2"])[0]), None);
        assert_eq!(again.find(&parts(&["mutate"])[0]), None);
        again.commit = Some("two".to_owned());
        assert_eq!(again.find(&parts(&["images"])[0]), None);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
