//! Rules about files: their length, where they may stand, and what no tracked file may name.

use super::source::Source;
use std::path::Path;

/// The longest Rust file; one idea fits in it.
const LINES_MAX: usize = 600;
/// The longest file of tests.
const TEST_LINES_MAX: usize = 800;
/// The source folders at the top of the tree.
const TOP_FOLDERS: [&str; 6] = ["broker", "storage", "bench", "tools", "perf", "docs"];
/// Folders of a machine, in pieces, so that this table does not find itself.
const MACHINE_FOLDERS: [&str; 4] = ["root", "home", "Users", "work"];

/// One line for each file that breaks a rule.
pub(super) fn check(root: &Path, names: &[String], sources: &[Source]) -> Result<Vec<String>, String> {
    let mut findings: Vec<String> = sources.iter().filter_map(too_long).collect();
    findings.extend(names.iter().filter_map(|name| misplaced(name)));
    let paths = machine_paths(root);
    for name in names {
        let bytes = std::fs::read(root.join(name)).map_err(|error| format!("{name}: {error}"))?;
        findings.extend(machine_path_in(name, &String::from_utf8_lossy(&bytes), &paths));
    }
    Ok(findings)
}

fn too_long(source: &Source) -> Option<String> {
    let (lines, limit) = (
        source.text.lines().count(),
        if source.is_test { TEST_LINES_MAX } else { LINES_MAX },
    );
    (lines > limit).then(|| format!("{}: {lines} lines, more than {limit}", source.name))
}

fn misplaced(name: &str) -> Option<String> {
    let (top, _) = name.split_once('/')?;
    let allowed = top.starts_with('.') || TOP_FOLDERS.contains(&top);
    (!allowed).then(|| format!("{name}: no source folder `{top}` stands at the top"))
}

/// The folder that holds this checkout, and the usual homes.
fn machine_paths(root: &Path) -> Vec<String> {
    let mut paths: Vec<String> = MACHINE_FOLDERS
        .iter()
        .map(|folder| format!("/{folder}/"))
        .collect();
    let holder = root
        .canonicalize()
        .ok()
        .and_then(|path| path.parent().map(|parent| format!("{}/", parent.display())));
    paths.extend(holder.filter(|path| path.len() > 1 && !paths.contains(path)));
    paths
}

fn machine_path_in(name: &str, text: &str, paths: &[String]) -> Vec<String> {
    let starts_path = |line: &str, path: &str| {
        line.match_indices(path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|character| character.is_alphanumeric() || "_-.}*$)".contains(character))
        })
    };
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for path in paths.iter().filter(|path| starts_path(line, path)) {
            findings.push(format!("{name}:{}: names the machine path {path}", index + 1));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_found() {
        let text = "\n".repeat(LINES_MAX + 1);
        assert!(too_long(&Source::new("storage/src/a.rs", &text)).is_some());
        assert!(too_long(&Source::new("storage/tests/a.rs", &text)).is_none());
        assert!(
            too_long(&Source::new(
                "storage/tests/a.rs",
                &"\n".repeat(TEST_LINES_MAX + 1)
            ))
            .is_some()
        );
    }

    #[test]
    fn top_folders_are_known() {
        assert!(misplaced("README.md").is_none());
        assert!(misplaced(".ci/run").is_none());
        assert!(misplaced("storage/src/lib.rs").is_none());
        assert!(misplaced("src/main.rs").is_some());
    }

    #[test]
    fn machine_paths_are_found() {
        let paths = machine_paths(Path::new("/"));
        let home = format!("cd /{}/me", MACHINE_FOLDERS[1]);
        assert_eq!(machine_path_in("a", &home, &paths).len(), 1);
        assert!(machine_path_in("a", "target/work/x and ${home}/work/x", &paths).is_empty());
    }
}
