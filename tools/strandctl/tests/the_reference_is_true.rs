//! `docs/strandctl.md` is what `--help` says of every verb. `STRANDCTL_WRITE_REFERENCE=1` writes it anew.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use strandctl::cli::Cli;

const HEAD: &str = "\
# strandctl

The command line for operators, of Strandline and of any Kafka-compatible broker from Kafka 2.8 on. Answers go to stdout, as
tables or with `--json` as JSON, one value a line; everything else goes to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage.
An error names Kafka's code and, where one is known, a remedy. Nothing is deleted unasked: without a terminal say `--yes`.

This page is written from the program: `STRANDCTL_WRITE_REFERENCE=1 cargo test -p strandctl --test the_reference_is_true`.
";

/// Every verb that does something, with its words, in the order of the help.
fn verbs<'a>(command: &'a Command, words: &str, found: &mut Vec<(String, &'a Command)>) {
    let mut below = command
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help")
        .peekable();
    if below.peek().is_none() {
        found.push((words.to_owned(), command));
    }
    for verb in below {
        verbs(verb, &format!("{words} {}", verb.get_name()), found);
    }
}

fn row(page: &mut String, argument: &Arg) {
    let values = argument.get_value_names().unwrap_or_default().join(" ");
    let takes = argument.get_action().takes_values() && !values.is_empty();
    let name = match (argument.get_short(), argument.get_long()) {
        (None, None) => format!("`{}`", argument.get_value_names().unwrap_or_default().join(" ")),
        (short, long) => {
            let short = short.map(|short| format!("-{short}"));
            let long = long.map(|long| format!("--{long}"));
            let names: Vec<String> = [short, long].into_iter().flatten().collect();
            let values = if takes {
                format!(" {values}")
            } else {
                String::new()
            };
            format!("`{}{values}`", names.join(", "))
        }
    };
    let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let choices: Vec<String> = match argument.get_action().takes_values() {
        true => argument
            .get_possible_values()
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect(),
        false => Vec::new(),
    };
    if !choices.is_empty() {
        write!(help, " ({})", choices.join(", ")).unwrap();
    }
    let defaults: Vec<_> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if takes && !defaults.is_empty() {
        write!(help, " [default: {}]", defaults.join(" ")).unwrap();
    }
    writeln!(
        page,
        "| {} | {} |",
        name.replace('|', "\\|"),
        help.replace('|', "\\|")
    )
    .unwrap();
}

fn table<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let mut shown = arguments
        .filter(|argument| {
            !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
        })
        .peekable();
    if shown.peek().is_some() {
        page.push_str("\n| | |\n|---|---|\n");
        shown.for_each(|argument| row(page, argument));
    }
}

fn reference() -> String {
    let mut root = Cli::command();
    root.build();
    let mut page = HEAD.to_owned();
    page.push_str("\n## Options of every verb\n");
    table(&mut page, root.get_arguments());
    let mut all = Vec::new();
    verbs(&root, "strandctl", &mut all);
    for (words, verb) in all {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        write!(page, "\n## {words}\n\n{about}.\n").unwrap();
        table(
            &mut page,
            verb.get_arguments().filter(|argument| !argument.is_global_set()),
        );
    }
    page
}

#[test]
fn the_page_is_what_the_help_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/strandctl.md");
    let right = reference();
    if std::env::var_os("STRANDCTL_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, &right).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == right,
        "docs/strandctl.md is out of date: STRANDCTL_WRITE_REFERENCE=1 writes it anew"
    );
}
