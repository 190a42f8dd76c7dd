//! `group delete`: groups without members, and everything that they have committed.

use serde::Serialize;
use strandline_wire::ErrorCode;

use super::unique;
use crate::cli::GroupDeleteArgs;
use crate::client::Client;
use crate::client_config::ClientConfig;
use crate::commands::sum_up;
use crate::confirm::confirm;
use crate::failure::Failure;
use crate::output::{Output, printable};

#[derive(Serialize)]
struct Deleted<'a> {
    group: &'a str,
    deleted: bool,
}

/// `strandctl group delete`
pub fn delete(
    config: &ClientConfig,
    arguments: &GroupDeleteArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let groups = unique(&arguments.groups);
    let names: Vec<_> = groups.iter().map(|group| printable(group)).collect();
    let noun = if groups.len() == 1 { "group" } else { "groups" };
    let question = format!("Delete {noun} {} with all committed offsets?", names.join(", "));
    confirm(&question, arguments.yes)?;
    let mut results = Client::connect(config)?.delete_groups(&groups);
    if arguments.if_exists {
        results.retain(
            |(_, result)| !matches!(result, Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound)),
        );
    }
    for (group, result) in &results {
        if result.is_ok() && output.is_json() {
            output.json(&Deleted { group, deleted: true })?;
        } else if result.is_ok() {
            output.line(format_args!("deleted group {}", printable(group)))?;
        }
    }
    sum_up(results, output.is_json())
}
