//! `docs/configuration.md`, rendered from the table.

use std::fmt::Write;

use super::key::{Check, Effect, Key, Scope, Update};
use super::keys;

const INTRODUCTION: &str = "# Configuration

<!-- Generated from the table in `broker/core/src/config/table` by `cargo xtask docs`: change that, not this. -->

Every broker and topic key of Apache Kafka 4.2, and the keys of Strandline's own, which start with `strandline.`.

A broker's key can be set in a file (`--config FILE`: Kafka's `.properties`, or TOML with quoted keys), as an environment
variable (`STRANDLINE_` and the key in upper case with `_` for `.`; our own prefix is not repeated), and by
`--set KEY=VALUE`; the later of these wins. `--check-config` judges the result, `--print-config` shows it. Keys marked
*cluster* or *broker* can be changed while the node runs, for all brokers or for one, and then survive a restart and win
over the file. A topic's keys are set when it is created, or changed later; without a value of its own a topic follows the
broker's keys named with it. So does a group, whose keys are set on the resource type GROUP (`kafka-configs --entity-type groups`).

What setting a key does in this version:

- **obeyed**: what the text says.
- **in part**: what the note says, and a warning.
- **no effect**: the key is known, so that a Kafka configuration can be used as it is; a warning tells.
- **refused**: any value but the default is an error, since to ignore it would be unsafe.
";

/// The page.
pub fn configuration_markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    let own = |key: &&Key| key.name.starts_with("strandline.");
    section(
        &mut page,
        "Strandline's own keys",
        keys().filter(|key| key.scope == Scope::Broker && own(key)),
    );
    section(
        &mut page,
        "Topic keys",
        keys().filter(|key| key.scope == Scope::Topic),
    );
    section(
        &mut page,
        "Group keys",
        keys().filter(|key| key.scope == Scope::Group),
    );
    section(
        &mut page,
        "Broker keys",
        keys().filter(|key| key.scope == Scope::Broker && !own(key)),
    );
    page
}

fn section<'a>(page: &mut String, title: &str, keys: impl Iterator<Item = &'a Key>) {
    let mut keys: Vec<&Key> = keys.filter(|key| !key.internal).collect();
    keys.sort_by_key(|key| key.name);
    let _ = write!(
        page,
        "\n## {title}\n\n| key | type, default | change | what it does |\n|---|---|---|---|\n"
    );
    for key in keys {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            key.name,
            kind(key),
            change(key),
            text(key)
        );
    }
}

fn kind(key: &Key) -> String {
    let default = match key.default {
        None => "none".to_owned(),
        Some("") => "empty".to_owned(),
        Some(default) => format!("`{default}`"),
    };
    format!("{}, {default}{}", key.kind.name(), range(key.check))
}

fn range(check: Check) -> String {
    match check {
        Check::Any => String::new(),
        Check::AtLeast(least) => format!("; at least {least}"),
        Check::Between(least, most) => format!("; {least} to {most}"),
        Check::BetweenOr(least, most, also) => format!("; {least} to {most}, or {also}"),
        Check::Fraction(least, most) => format!("; {least} to {most}"),
        Check::OneOf(words) | Check::OneOfAnyCase(words) => format!("; of {}", words.join(", ")),
        Check::NotEmpty => "; not empty".to_owned(),
        Check::HostCounts => "; host:count".to_owned(),
        Check::ThrottledReplicas => "; partition:broker, or *".to_owned(),
    }
}

fn change(key: &Key) -> &'static str {
    match (key.scope, key.update) {
        (Scope::Topic, _) => "topic",
        (Scope::Group, _) => "group",
        (_, Update::ReadOnly) => "restart",
        (_, Update::PerBroker) => "broker",
        (_, Update::ClusterWide) => "cluster",
    }
}

fn text(key: &Key) -> String {
    let effect = match key.effect {
        Effect::Obeyed => String::new(),
        Effect::Partly(reason) => format!(" **In part**: {reason}."),
        Effect::Without(reason) => format!(" **No effect**: {reason}."),
        Effect::Refused(reason) => format!(" **Refused**: {reason}."),
    };
    let names: Vec<String> = key
        .synonyms
        .iter()
        .filter(|synonym| synonym.name != key.name || key.scope != Scope::Broker)
        .map(|synonym| format!("`{}`", synonym.name))
        .collect();
    let synonyms = match (names.is_empty(), key.scope) {
        (true, _) => String::new(),
        (false, Scope::Topic | Scope::Group) => format!(" Default: {}.", names.join(", ")),
        (false, Scope::Broker) => format!(" Else: {}.", names.join(", ")),
    };
    format!("{}{synonyms}{effect}", key.doc.replace('|', "\\|"))
}
