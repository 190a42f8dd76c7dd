//! `group list`: which groups there are.

use clap::ValueEnum;
use serde::Serialize;

use crate::cli::GroupListArgs;
use crate::client::Client;
use crate::client::group::CLASSIC;
use crate::client_config::ClientConfig;
use crate::failure::Failure;
use crate::output::{Output, printable};

#[derive(Serialize)]
struct Listed {
    group: String,
    r#type: String,
    protocol_type: String,
    /// Null where the broker is too old to tell.
    state: Option<String>,
}

/// `strandctl group list`
pub fn list(config: &ClientConfig, arguments: &GroupListArgs, output: &mut Output) -> Result<(), Failure> {
    let groups = Client::connect(config)?.list_groups()?;
    let groups: Vec<Listed> = groups
        .into_iter()
        .map(|group| Listed {
            group: group.name,
            // Who does not tell the type has one alone; Kafka writes it in capitals or not.
            r#type: group.kind.as_deref().unwrap_or(CLASSIC).to_ascii_lowercase(),
            protocol_type: group.protocol_type,
            state: group.state,
        })
        .filter(|group| {
            is_one_of(&arguments.types, Some(&group.r#type))
                && is_one_of(&arguments.states, group.state.as_deref())
        })
        .collect();
    if output.is_json() {
        return output.json(&groups);
    }
    let row = |group: &Listed| {
        let state = group.state.as_deref().unwrap_or("-");
        [
            printable(&group.group).into_owned(),
            group.r#type.clone(),
            group.protocol_type.clone(),
            state.to_owned(),
        ]
    };
    let rows: Vec<_> = groups.iter().map(row).collect();
    output.table(["GROUP", "TYPE", "PROTOCOL", "STATE"], &rows)
}

/// Whether a name is that of one of the values; without any, each is.
fn is_one_of<V: ValueEnum>(wanted: &[V], name: Option<&str>) -> bool {
    let names = |value: &V| {
        let value = value.to_possible_value();
        value.is_some_and(|value| name.is_some_and(|name| value.get_name().eq_ignore_ascii_case(name)))
    };
    wanted.is_empty() || wanted.iter().any(names)
}
