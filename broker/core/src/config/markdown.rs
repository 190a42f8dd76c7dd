//! `docs/configuration.md`, rendered from the table.

/// The page.
pub fn configuration_markdown() -> String {
    String::new()
}
