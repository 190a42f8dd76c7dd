//! `cargo xtask tidy`: the rules of the project that no compiler checks.
//!
//! Each check takes the file list and what it needs of the contents, and returns one line a finding. The
//! tables that name exceptions stand beside their check; an exception that nothing needs any more is a
//! finding too.

mod arrows;
mod files;
mod names;
mod source;
mod unsafe_code;

use crate::tree;
use source::Source;
use std::path::Path;

/// Runs every check and prints the findings.
pub(crate) fn run() -> Result<(), String> {
    let root = tree::root();
    let names = tree::files(&root)?;
    let sources = sources(&root, &names)?;
    let mut findings = arrows::check(&root, &names)?;
    findings.extend(files::check(&root, &names, &sources)?);
    findings.extend(names::check(&sources));
    findings.extend(unsafe_code::check(&sources));
    if findings.is_empty() {
        println!(
            "tidy: {} files, {} of them Rust: nothing to say",
            names.len(),
            sources.len()
        );
        return Ok(());
    }
    findings.sort();
    Err(format!(
        "{}\ntidy: {} findings",
        findings.join("\n"),
        findings.len()
    ))
}

fn sources(root: &Path, names: &[String]) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    for name in names.iter().filter(|name| name.ends_with(".rs")) {
        let text = std::fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))?;
        sources.push(Source::new(name, &text));
    }
    source::mark_test_files(&mut sources);
    Ok(sources)
}
