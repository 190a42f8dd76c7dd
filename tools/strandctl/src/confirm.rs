//! Destructive verbs ask first.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::failure::Failure;

/// Asks on the terminal whether to go on; `yes` is the user's `--yes`. Without a terminal there is nobody to ask, so
/// that a script must say `--yes`.
pub fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "{question} There is no terminal to ask on: say --yes to do it"
        )));
    }
    let mut stderr = io::stderr().lock();
    let asked = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    asked
        .and_then(|()| io::stdin().lock().read_line(&mut answer))
        .map_err(|source| Failure::local("asking on the terminal", source))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Failure::Declined)
    }
}
