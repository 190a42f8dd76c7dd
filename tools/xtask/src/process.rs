//! Child processes with a limit on their time.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

/// How a child ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Exit code 0.
    Success,
    /// Another exit code, or a signal.
    Failure,
    /// Stopped because it ran longer than its limit.
    TimedOut,
}

/// `program` under the `timeout` of coreutils, which also ends the children of the child.
pub(crate) fn limited(seconds: u32, program: &str) -> Command {
    let mut command = Command::new("timeout");
    command
        .arg("--kill-after=10")
        .arg(seconds.to_string())
        .arg(program)
        .stdin(Stdio::null());
    command
}

/// Runs a command built by [`limited`] to its end.
pub(crate) fn ending(command: &mut Command) -> Result<Ending, String> {
    let status = command
        .status()
        .map_err(|error| format!("cannot run {command:?}: {error}"))?;
    Ok(of(status))
}

/// The same, with its standard output printed as it comes; gives the lines that hold `mark`.
pub(crate) fn ending_and_lines(command: &mut Command, mark: &str) -> Result<(Ending, Vec<String>), String> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run {command:?}: {error}"))?;
    let mut marked = Vec::new();
    if let Some(output) = child.stdout.take() {
        // Test output need not be UTF-8, and an unreadable line ends nothing.
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            if line.contains(mark) {
                marked.push(line.into_owned());
            }
        }
    }
    let status = child
        .wait()
        .map_err(|error| format!("cannot wait for {command:?}: {error}"))?;
    Ok((of(status), marked))
}

fn of(status: ExitStatus) -> Ending {
    // `timeout` answers 124 when it had to send its signal, 137 when that was SIGKILL.
    match status.code() {
        Some(0) => Ending::Success,
        Some(124 | 137) => Ending::TimedOut,
        _ => Ending::Failure,
    }
}

/// A command line as written in a patch's header: `[KEY=VALUE]... PROGRAM [ARGUMENT]...`.
pub(crate) fn parse_line(line: &str, seconds: u32) -> Result<Command, String> {
    let mut words = line.split_whitespace().peekable();
    let mut variables = Vec::new();
    while let Some((key, value)) = words.peek().and_then(|word| word.split_once('=')) {
        variables.push((key, value));
        words.next();
    }
    let program = words.next().ok_or_else(|| format!("no program in `{line}`"))?;
    let mut command = limited(seconds, program);
    command.args(words).envs(variables);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_variables_then_a_program() {
        let command = parse_line("A=1 B=x=y cargo test -p storage", 5).unwrap();
        let arguments: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            arguments,
            ["--kill-after=10", "5", "cargo", "test", "-p", "storage"]
        );
        let variables: Vec<_> = command
            .get_envs()
            .map(|(key, value)| (key, value.unwrap()))
            .collect();
        assert_eq!(
            variables,
            [("A".as_ref(), "1".as_ref()), ("B".as_ref(), "x=y".as_ref())]
        );
        assert!(parse_line("A=1", 5).is_err());
    }

    #[test]
    fn marked_lines_are_given_and_the_ending_too() {
        let mut command = limited(20, "printf");
        command.arg("one of two\\nnothing\\ntwo of two");
        let (ending, lines) = ending_and_lines(&mut command, " of ").unwrap();
        assert_eq!(ending, Ending::Success);
        assert_eq!(lines, ["one of two", "two of two"]);
    }

    #[test]
    fn endings_are_told_apart() {
        assert_eq!(ending(&mut limited(20, "true")).unwrap(), Ending::Success);
        assert_eq!(ending(&mut limited(20, "false")).unwrap(), Ending::Failure);
        // Reads nothing and never ends by itself.
        assert_eq!(
            ending(limited(1, "tail").args(["-f", "/dev/null"])).unwrap(),
            Ending::TimedOut
        );
    }
}
