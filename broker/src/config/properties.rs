//! Java's `.properties` format, as Kafka's own configuration files use it.

/// The pairs of a file, in order; a later one of the same key replaces an earlier one.
///
/// # Errors
/// The line and what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let start = line.trim_start();
        if start.is_empty() || start.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = start.to_owned();
        while continues(&logical) {
            logical.pop();
            match lines.next() {
                Some((next, _)) => logical.push_str(next.trim_start()),
                None => break,
            }
        }
        pairs.push(split(&logical).map_err(|reason| format!("line {number}: {reason}"))?);
    }
    Ok(pairs)
}

/// An odd number of backslashes at the end joins the next line.
fn continues(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The key ends at the first `=`, `:` or space that no backslash precedes.
fn split(line: &str) -> Result<(String, String), String> {
    let mut escaped = false;
    let end = line.find(|character: char| {
        let ends = !escaped && (matches!(character, '=' | ':') || character.is_whitespace());
        escaped = !escaped && character == '\\';
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start();
    Ok((unescape(key)?, unescape(value)?.trim_end().to_owned()))
}

fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\u{c}'),
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16)
                    .ok()
                    .filter(|_| digits.len() == 4);
                let code = code.and_then(char::from_u32);
                plain.push(code.ok_or_else(|| format!("\\u{digits} is no character"))?);
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_java_reads() {
        let text = "# comment\n! comment\n\na=1\nb : two words \n  c   spaced\nd=x\\\n   y\nkey\\=with=\\u0041\\tz\nempty=\n";
        let pairs = parse(text).unwrap();
        let expected = [
            ("a", "1"),
            ("b", "two words"),
            ("c", "spaced"),
            ("d", "xy"),
            ("key=with", "A\tz"),
            ("empty", ""),
        ];
        assert_eq!(
            pairs,
            expected.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
        assert_eq!(parse("a=\\u00").unwrap_err(), "line 1: \\u00 is no character");
    }
}
