//! Setting right what a file in `/proc/sys` or `/sys` sets, so that it can be put back.
//!
//! Before a file is written, what it held is in the state file, flushed; and the file was asked to take its own value first: one that does not
//! take back what it holds is left alone.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::check::Setting;
use super::host::{Host, chosen};
use crate::cli::TuneArgs;
use crate::failure::Failure;
use crate::output::Output;

/// A setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The file.
    pub path: String,
    /// What it held.
    pub before: String,
    /// What was written.
    pub after: String,
}

/// `strandctl tune`.
pub fn run(arguments: &TuneArgs, output: &mut Output) -> Result<(), Failure> {
    let host = Host::this();
    if arguments.revert {
        let put_back = revert(&host, &arguments.state)?;
        return report(&put_back, "put back", arguments, output);
    }
    let checks = super::checks(&host, &arguments.data_dir, &[]);
    let wanted: Vec<Setting> = checks.into_iter().flat_map(|check| check.settings).collect();
    let changes = plan(&host, &wanted);
    if let Some(path) = &arguments.output_script {
        let failed = |error| Failure::local(path.display().to_string(), error);
        fs::write(path, script(&changes)).map_err(failed)?;
        return report(&changes, "in the script", arguments, output);
    }
    if arguments.dry_run {
        return report(&changes, "would be written", arguments, output);
    }
    let (done, refused) = apply(&host, &changes, &arguments.state)?;
    report(&done, "written", arguments, output)?;
    if refused.is_empty() {
        Ok(())
    } else {
        Err(Failure::Failed(refused.join("\n")))
    }
}

fn report(changes: &[Change], what: &str, arguments: &TuneArgs, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        output.json(&changes)?;
        return output.flush();
    }
    if changes.is_empty() {
        output.line(if arguments.revert {
            "nothing to put back"
        } else {
            "nothing to change"
        })?;
    }
    for change in changes {
        output.line(format_args!(
            "{what}: {} = {} (was {})",
            change.path, change.after, change.before
        ))?;
    }
    output.flush()
}

/// What would change: settings whose present value is known and another.
fn plan(host: &Host, wanted: &[Setting]) -> Vec<Change> {
    wanted
        .iter()
        .filter_map(|setting| {
            let before = chosen(&host.read(&setting.path)?).to_owned();
            (before != setting.value).then(|| Change {
                path: setting.path.clone(),
                before,
                after: setting.value.clone(),
            })
        })
        .collect()
}

/// Writes `changes`; returns those that were made, and a sentence for each that was refused.
fn apply(host: &Host, changes: &[Change], state: &Path) -> Result<(Vec<Change>, Vec<String>), Failure> {
    let mut kept = stored(state)?;
    let (mut done, mut refused) = (Vec::new(), Vec::new());
    for change in changes {
        if let Err(error) = host.write(&change.path, &change.before) {
            refused.push(format!(
                "{}: left alone, it does not take back what it holds: {error}",
                change.path
            ));
            continue;
        }
        // What it was before the first change counts, however often it is tuned.
        if !kept.iter().any(|earlier| earlier.path == change.path) {
            kept.push(change.clone());
        }
        store(state, &kept)?;
        match host.write(&change.path, &change.after) {
            Ok(()) => done.push(change.clone()),
            Err(error) => {
                kept.retain(|earlier| earlier != change);
                store(state, &kept)?;
                refused.push(format!("{}: {error}", change.path));
            }
        }
    }
    Ok((done, refused))
}

/// Puts back everything of the state file, the newest first, and removes the file.
fn revert(host: &Host, state: &Path) -> Result<Vec<Change>, Failure> {
    let mut kept = stored(state)?;
    let mut put_back = Vec::new();
    while let Some(change) = kept.last() {
        host.write(&change.path, &change.before)
            .map_err(|error| Failure::local(change.path.clone(), error))?;
        put_back.push(Change {
            path: change.path.clone(),
            before: change.after.clone(),
            after: change.before.clone(),
        });
        kept.pop();
        store(state, &kept)?;
    }
    Ok(put_back)
}

fn stored(state: &Path) -> Result<Vec<Change>, Failure> {
    let failed = |error| Failure::local(state.display().to_string(), error);
    match fs::read(state) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| failed(error.into())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

/// Replaces the state file; with nothing to keep there is none.
fn store(state: &Path, kept: &[Change]) -> Result<(), Failure> {
    let failed = |error| Failure::local(state.display().to_string(), error);
    if kept.is_empty() {
        return match fs::remove_file(state) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        };
    }
    let folder = state.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let beside = state.with_extension("new");
    let mut file: File = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&beside)
        .map_err(failed)?;
    serde_json::to_writer_pretty(&mut file, kept).map_err(|error| failed(error.into()))?;
    file.write_all(b"\n")
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    fs::rename(&beside, state).map_err(failed)
}

/// A script that does the same at each start of the machine.
fn script(changes: &[Change]) -> String {
    let mut text =
        String::from("#!/bin/sh\n# Written by `strandctl tune --output-script`; run as root.\nset -e\n");
    for change in changes {
        text.push_str(&format!(
            "echo {} > {}  # was {}\n",
            change.after, change.path, change.before
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(folder: &Path) -> Host {
        let host = Host::at(folder);
        for (path, value) in [("/sys/a", "old"), ("/sys/b", "[x] y z"), ("/sys/c", "same")] {
            fs::create_dir_all(host.place("/sys")).unwrap();
            host.write(path, value).unwrap();
        }
        host
    }

    fn setting(path: &str, value: &str) -> Setting {
        Setting {
            path: path.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn what_was_tuned_is_put_back_however_often() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path());
        let state = folder.path().join("state/tune.json");
        let wanted = [
            setting("/sys/a", "new"),
            setting("/sys/b", "y"),
            setting("/sys/c", "same"),
            setting("/sys/missing", "1"),
        ];
        let changes = plan(&host, &wanted);
        assert_eq!(
            changes.len(),
            2,
            "what is as wanted, or not there, is not touched"
        );
        assert!(!state.exists(), "a plan changes nothing");
        let (done, refused) = apply(&host, &changes, &state).unwrap();
        assert_eq!((done.len(), refused.len()), (2, 0));
        assert_eq!(host.read("/sys/a").unwrap(), "new");
        assert_eq!(host.read("/sys/b").unwrap(), "y");
        // Again, to another value: the first one is still what comes back.
        apply(&host, &plan(&host, &[setting("/sys/a", "newer")]), &state).unwrap();
        assert_eq!(host.read("/sys/a").unwrap(), "newer");
        assert_eq!(revert(&host, &state).unwrap().len(), 2);
        assert_eq!(host.read("/sys/a").unwrap(), "old");
        assert_eq!(host.read("/sys/b").unwrap(), "x");
        assert!(!state.exists());
        assert_eq!(revert(&host, &state).unwrap(), []);
    }

    #[test]
    fn what_does_not_take_its_own_value_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path());
        let state = folder.path().join("tune.json");
        let change = Change {
            // A folder takes no value.
            path: "/sys".to_owned(),
            before: "old".to_owned(),
            after: "new".to_owned(),
        };
        let (done, refused) = apply(&host, &[change], &state).unwrap();
        assert!(
            done.is_empty() && refused[0].contains("left alone"),
            "{refused:?}"
        );
        assert!(!state.exists());
    }

    #[test]
    fn a_script_says_what_it_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path());
        let text = script(&plan(&host, &[setting("/sys/a", "new")]));
        assert!(text.contains("echo new > /sys/a  # was old\n"), "{text}");
    }
}
