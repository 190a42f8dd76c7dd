//! `group list`, `group describe`, `group delete`, `group reset-offsets`.

pub mod delete;
pub mod describe;
mod ends;
pub mod list;
mod plan_file;
pub mod reset;
mod scope;

use crate::client::NamedResults;

/// The names without repetitions.
fn unique(names: &[String]) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for name in names {
        if !unique.contains(name) {
            unique.push(name.clone());
        }
    }
    unique
}

/// What came, and the names and errors of what did not.
fn split<T>(results: NamedResults<T>) -> (Vec<T>, NamedResults<()>) {
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for (name, result) in results {
        match result {
            Ok(value) => found.push(value),
            Err(error) => failed.push((name, Err(error))),
        }
    }
    (found, failed)
}
