//! The dependency arrows between crates, as the table of the design has them.

use std::collections::BTreeMap;
use std::path::Path;

/// A crate with a place in the design: the crates of this workspace and the outside ones it may or may not
/// depend on. Dev-dependencies are free: tests may look from anywhere.
struct Rule {
    name: &'static str,
    may_use: &'static [&'static str],
    never: &'static [&'static str],
}

/// What brings I/O, clocks, executors or randomness, and so must stay out of pure crates.
const IMPURE: &[&str] = &[
    "glommio",
    "tokio",
    "io-uring",
    "rand",
    "axum",
    "hyper",
    "redb",
    "libc",
    "nix",
    "rustix",
    "crossbeam",
    "openraft",
    "getrandom",
];

const RULES: &[Rule] = &[
    Rule {
        name: "strandline-wire",
        may_use: &[],
        never: IMPURE,
    },
    Rule {
        name: "strandline-core",
        may_use: &["strandline-wire"],
        never: IMPURE,
    },
    Rule {
        name: "strandline-runtime",
        may_use: &[],
        never: &["axum", "redb", "openraft"],
    },
    Rule {
        name: "strandline-storage",
        may_use: &["strandline-wire", "strandline-runtime"],
        never: &["tokio", "rand", "axum", "redb", "openraft"],
    },
    Rule {
        name: "strandline",
        may_use: &[
            "strandline-wire",
            "strandline-core",
            "strandline-runtime",
            "strandline-storage",
        ],
        never: &["glommio", "rand"],
    },
    Rule {
        name: "strandline-bench",
        may_use: &["strandline-wire"],
        never: &[],
    },
];

/// The folder whose crates may depend on anything.
const FREE_FOLDER: &str = "tools/";

/// One line for each arrow that points the wrong way, and for each crate without a rule.
pub(super) fn check(root: &Path, names: &[String]) -> Result<Vec<String>, String> {
    let mut manifests = BTreeMap::new();
    for name in names
        .iter()
        .filter(|name| name.ends_with("/Cargo.toml") && !name.contains("/fuzz/"))
    {
        let text = std::fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))?;
        let manifest: toml::Table = text.parse().map_err(|error| format!("{name}: {error}"))?;
        manifests.insert(name.as_str(), manifest);
    }
    let ours: Vec<&str> = manifests.values().map(package_name).collect();
    Ok(manifests
        .iter()
        .flat_map(|(path, manifest)| findings(path, manifest, &ours))
        .collect())
}

fn findings(path: &str, manifest: &toml::Table, ours: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    let lints = manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"))
        .and_then(toml::Value::as_bool);
    if lints != Some(true) {
        findings.push(format!("{path}: does not take the lints of the workspace"));
    }
    if path.starts_with(FREE_FOLDER) {
        return findings;
    }
    let name = package_name(manifest);
    let Some(rule) = RULES.iter().find(|rule| rule.name == name) else {
        findings.push(format!(
            "{path}: crate `{name}` has no place in the table of arrows"
        ));
        return findings;
    };
    for used in dependencies(manifest) {
        let outside = !ours.contains(&used);
        let allowed = if outside {
            !rule.never.contains(&used)
        } else {
            rule.may_use.contains(&used)
        };
        if !allowed {
            findings.push(format!("{path}: `{name}` must not depend on `{used}`"));
        }
    }
    findings
}

fn package_name(manifest: &toml::Table) -> &str {
    manifest
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(toml::Value::as_str)
        .unwrap_or_default()
}

/// The packages of `[dependencies]` and `[build-dependencies]`, also those of one target only.
fn dependencies(manifest: &toml::Table) -> Vec<&str> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables = std::iter::once(manifest).chain(
        targets
            .into_iter()
            .flat_map(|all| all.values())
            .filter_map(toml::Value::as_table),
    );
    tables
        .flat_map(|table| ["dependencies", "build-dependencies"].map(|kind| table.get(kind)))
        .flatten()
        .filter_map(toml::Value::as_table)
        .flat_map(|entries| entries.iter())
        .map(|(key, entry)| entry.get("package").and_then(toml::Value::as_str).unwrap_or(key))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        let ours = [
            "strandline-wire",
            "strandline-core",
            "strandline-storage",
            "strandline",
        ];
        findings(
            path,
            &format!("{text}\n[lints]\nworkspace = true\n").parse().unwrap(),
            &ours,
        )
        .len()
    }

    #[test]
    fn arrows_point_one_way() {
        let core = "[package]\nname = \"strandline-core\"\n[dependencies]\n";
        assert_eq!(
            count(
                "broker/core/Cargo.toml",
                &format!("{core}strandline-wire.workspace = true\n")
            ),
            0
        );
        assert_eq!(
            count(
                "broker/core/Cargo.toml",
                &format!("{core}strandline-storage.workspace = true\n")
            ),
            1
        );
        assert_eq!(
            count(
                "broker/core/Cargo.toml",
                &format!("{core}x = {{ package = \"tokio\", version = \"1\" }}\n")
            ),
            1
        );
        assert_eq!(
            count(
                "broker/core/Cargo.toml",
                &format!("{core}[target.'cfg(unix)'.dependencies]\nrand = \"1\"\n")
            ),
            1
        );
        assert_eq!(
            count(
                "broker/core/Cargo.toml",
                &format!("{core}[dev-dependencies]\nrand = \"1\"\n")
            ),
            0
        );
    }

    #[test]
    fn strangers_and_missing_lints_are_found() {
        assert_eq!(
            count("broker/extra/Cargo.toml", "[package]\nname = \"extra\"\n"),
            1
        );
        assert_eq!(
            count("tools/extra/Cargo.toml", "[package]\nname = \"extra\"\n"),
            0
        );
        let manifest = "[package]\nname = \"extra\"\n".parse().unwrap();
        assert_eq!(findings("tools/extra/Cargo.toml", &manifest, &[]).len(), 1);
    }
}
