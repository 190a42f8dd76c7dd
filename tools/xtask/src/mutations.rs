//! `cargo xtask mutations`: are the tests able to fail?
//!
//! Each patch of `tools/mutations` breaks one rule of the storage or the server in a copy of the tree under `target`. Its
//! test must pass on the copy as it is, and fail (or hang) once the patch is applied. A patch that no longer
//! applies or compiles fails the run: it would prove nothing.

use crate::patch::{self, Mutation};
use crate::process::{self, Ending};
use crate::tree;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

/// The seconds one build may take; the first one compiles every dependency.
const BUILD_TIMEOUT_S: u32 = 1800;

/// What a run gave.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Mutations that a test noticed.
    pub(crate) caught: usize,
    /// The names of the others.
    pub(crate) missed: Vec<String>,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} caught, {} missed", self.caught, self.missed.len())
    }
}

/// Which of them a run builds and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice<'a> {
    /// Those named; all of them when none is.
    Named(&'a [&'a str]),
    /// Every `of`th, counted from `number`.
    Slice { number: usize, of: usize },
}

impl<'a> Choice<'a> {
    fn parse(words: &'a [&'a str]) -> Result<Self, String> {
        let ["--slice", slice] = words else {
            return match words.iter().find(|word| word.starts_with('-')) {
                Some(option) => Err(format!("unknown option {option}")),
                None => Ok(Self::Named(words)),
            };
        };
        let parts = slice.split_once('/').and_then(|(number, of)| {
            let (number, of) = (number.parse().ok()?, of.parse().ok()?);
            (number < of).then_some(Self::Slice { number, of })
        });
        parts.ok_or_else(|| format!("--slice takes I/N with I below N, not {slice}"))
    }

    fn takes(self, index: usize) -> bool {
        match self {
            Self::Named(_) => true,
            Self::Slice { number, of } => index % of == number,
        }
    }
}

/// Runs the mutations named, a slice of them (`--slice I/N`), or all of them.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let counts = chosen(Choice::parse(words)?)?;
    if counts.missed.is_empty() {
        Ok(())
    } else {
        Err(format!("mutations not caught: {}", counts.missed.join(", ")))
    }
}

/// All of them, for whoever wants the counts.
pub(crate) fn counted() -> Result<Counts, String> {
    chosen(Choice::Named(&[]))
}

fn chosen(choice: Choice<'_>) -> Result<Counts, String> {
    let root = tree::root();
    let names = match choice {
        Choice::Named(names) => names,
        Choice::Slice { .. } => &[],
    };
    let listed = patch::list(&root.join("tools/mutations"), names)?;
    let copy = Copy::create(&root)?;
    // Also of those that this run leaves out: what no longer applies guards nothing.
    for mutation in &listed {
        copy.check(mutation)?;
    }
    let total = listed.len();
    let mutations: Vec<Mutation> = listed
        .into_iter()
        .enumerate()
        .filter_map(|(index, mutation)| choice.takes(index).then_some(mutation))
        .collect();
    println!("mutations: {} of {total} are run, all apply", mutations.len());
    for test in mutations
        .iter()
        .map(|mutation| mutation.test.as_str())
        .collect::<BTreeSet<_>>()
    {
        let limit_s = BUILD_TIMEOUT_S + patch_timeout(&mutations, test);
        if copy.run(test, limit_s)? != Ending::Success {
            return Err(format!(
                "the tree as it is fails `{test}`: a mutation could not be told from it"
            ));
        }
    }
    let mut counts = Counts::default();
    for mutation in &mutations {
        let began = Instant::now();
        let outcome = copy.try_one(mutation);
        let seconds = began.elapsed().as_secs();
        match outcome {
            Ok(how) => {
                println!(
                    "caught in {seconds} s: {} ({}){how}",
                    mutation.name, mutation.rule
                );
                counts.caught += 1;
            }
            Err(why) => {
                println!("MISSED in {seconds} s: {}: {why}", mutation.name);
                counts.missed.push(mutation.name.clone());
            }
        }
    }
    println!("mutations: {counts}");
    Ok(counts)
}

fn patch_timeout(mutations: &[Mutation], test: &str) -> u32 {
    mutations
        .iter()
        .filter(|one| one.test == test)
        .map(|one| one.timeout_s)
        .max()
        .unwrap_or_default()
}

/// A copy of the tree with a target folder of its own.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Lays the copy, or refreshes an earlier one: files that did not change keep their time, so that cargo
    /// builds only what a patch touched.
    fn create(source: &Path) -> Result<Self, String> {
        let root = source.join("target/mutations/tree");
        let files = tree::files(source)?;
        remove_strangers(&root, &root, &files)?;
        for name in &files {
            let bytes = std::fs::read(source.join(name)).map_err(|error| format!("{name}: {error}"))?;
            let to = root.join(name);
            if std::fs::read(&to).ok().as_ref() == Some(&bytes) {
                continue;
            }
            let folder = to.parent().unwrap_or(&root);
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            std::fs::write(&to, bytes).map_err(|error| format!("{}: {error}", to.display()))?;
        }
        Ok(Self {
            root,
            target: source.join("target/mutations/build"),
        })
    }

    /// Whether a patch applies.
    fn check(&self, mutation: &Mutation) -> Result<(), String> {
        self.git_apply(&mutation.path, &["--check"])
            .map_err(|why| format!("{} no longer applies: {why}", mutation.name))
    }

    /// Applies, builds, tests and takes back one patch; `Ok` says how it was caught.
    fn try_one(&self, mutation: &Mutation) -> Result<&'static str, String> {
        self.git_apply(&mutation.path, &[])?;
        let outcome = self.build_and_test(mutation);
        self.git_apply(&mutation.path, &["--reverse"])?;
        outcome
    }

    fn build_and_test(&self, mutation: &Mutation) -> Result<&'static str, String> {
        if self.run(&mutation.build(), BUILD_TIMEOUT_S)? != Ending::Success {
            return Err("does not compile".to_owned());
        }
        match self.run(&mutation.test, mutation.timeout_s)? {
            Ending::Success => Err(format!("`{}` passes with it: {}", mutation.test, mutation.rule)),
            Ending::Failure => Ok(""),
            Ending::TimedOut => Ok(": it hangs"),
        }
    }

    fn run(&self, line: &str, seconds: u32) -> Result<Ending, String> {
        let mut command = process::parse_line(line, seconds)?;
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        process::ending(&mut command)
    }

    /// `git apply` as outside of any repository: inside of one it would skip paths that are not below the
    /// current folder, without a word.
    fn git_apply(&self, patch: &Path, options: &[&str]) -> Result<(), String> {
        let output = std::process::Command::new("git")
            .args(["apply", "--whitespace=nowarn"])
            .args(options)
            .arg(patch)
            .current_dir(&self.root)
            .env(
                "GIT_CEILING_DIRECTORIES",
                self.root.parent().unwrap_or(&self.root),
            )
            .output()
            .map_err(|error| format!("cannot run git: {error}"))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    }
}

/// Removes files of an earlier copy that the tree no longer has.
fn remove_strangers(root: &Path, folder: &Path, files: &[String]) -> Result<(), String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        if path.is_dir() {
            remove_strangers(root, &path, files)?;
            continue;
        }
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .to_string_lossy()
            .into_owned();
        if files.binary_search(&name).is_err() {
            std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_take_each_mutation_once() {
        for of in 1..6 {
            let slices: Vec<String> = (0..of).map(|number| format!("{number}/{of}")).collect();
            for index in 0..40 {
                let takers = slices
                    .iter()
                    .filter(|slice| Choice::parse(&["--slice", slice]).unwrap().takes(index));
                assert_eq!(takers.count(), 1, "{index} of {of}");
            }
        }
    }

    #[test]
    fn what_is_no_choice_is_refused() {
        for words in [
            &["--slice", "3/3"][..],
            &["--slice", "0/0"],
            &["--slice", "a/2"],
            &["--slice", "2"],
            &["--slice"],
            &["--slices"],
        ] {
            Choice::parse(words).unwrap_err();
        }
        assert!(Choice::parse(&["--other"]).unwrap_err().contains("--other"));
        assert_eq!(Choice::parse(&["a", "b"]).unwrap(), Choice::Named(&["a", "b"]));
    }
}
