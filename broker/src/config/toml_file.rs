//! TOML: the same keys, quoted (`"log.dirs" = "/data"`) or as tables; arrays become lists.

use toml::{Table, Value};

/// The pairs of a file, by key.
///
/// # Errors
/// The line and what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| in_a_line(text, &error))?;
    let mut pairs = Vec::new();
    flatten("", &table, &mut pairs)?;
    Ok(pairs)
}

/// The error with its place; its own text takes several lines, with a drawing.
fn in_a_line(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let message = error.message().trim_end().replace('\n', "; ");
    match before {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

fn flatten(prefix: &str, table: &Table, pairs: &mut Vec<(String, String)>) -> Result<(), String> {
    for (name, value) in table {
        let key = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        match value {
            Value::Table(inner) => flatten(&key, inner, pairs)?,
            Value::Array(items) => {
                let items: Result<Vec<_>, _> = items.iter().map(|item| scalar(&key, item)).collect();
                pairs.push((key, items?.join(",")));
            }
            other => {
                let value = scalar(&key, other)?;
                pairs.push((key, value));
            }
        }
    }
    Ok(())
}

fn scalar(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(flag) => Ok(flag.to_string()),
        Value::Array(_) | Value::Table(_) | Value::Datetime(_) => Err(format!(
            "'{key}' must be a string, a number, true or false, or an array of these"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_and_nested_keys_are_alike() {
        let text = "\"log.dirs\" = [\"/a\", \"/b\"]\nlog.retention.hours = 5\n[auto.create.topics]\nenable = false\n";
        let mut pairs = parse(text).unwrap();
        pairs.sort();
        let expected = [
            ("auto.create.topics.enable", "false"),
            ("log.dirs", "/a,/b"),
            ("log.retention.hours", "5"),
        ];
        assert_eq!(
            pairs,
            expected.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
        assert!(parse("a = 1979-05-27").unwrap_err().contains("'a' must be"));
        let error = parse("b = 1\na = ").unwrap_err();
        assert!(error.starts_with("line 2: ") && !error.contains('\n'), "{error}");
    }
}
