//! `cargo xtask docs`: the pages of `docs/` that are made from code.

use crate::tree;

/// A page and what makes it.
type Page = (&'static str, fn() -> String);

const PAGES: [Page; 1] = [(
    "docs/configuration.md",
    strandline_core::config::configuration_markdown,
)];

/// Writes the pages, or with `check` only says which are not as the code has them.
pub(crate) fn run(check: bool) -> Result<(), String> {
    let mut stale = Vec::new();
    for (name, make) in PAGES {
        let (path, text) = (tree::root().join(name), make());
        if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
            println!("docs: {name} is as the code has it");
        } else if check {
            stale.push(name);
        } else {
            std::fs::write(&path, text).map_err(|error| format!("{name}: {error}"))?;
            println!("docs: {name} written");
        }
    }
    if stale.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "out of date: {}; run `cargo xtask docs`",
            stale.join(", ")
        ))
    }
}
