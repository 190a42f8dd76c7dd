//! A file of offsets, in the form of `kafka-consumer-groups --export`: `topic,partition,offset`, or with the group before.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::client::group::Position;
use crate::failure::Failure;

/// Reads the offsets that a file has for a group; `-` is stdin.
pub(super) fn read(path: &Path, group: &str) -> Result<BTreeMap<Position, i64>, Failure> {
    let name = path.display().to_string();
    let mut text = String::new();
    let read = match name.as_str() {
        "-" => std::io::stdin().lock().read_to_string(&mut text),
        _ => std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)),
    };
    read.map_err(|error| Failure::usage(format!("--from-file {name}: {error}")))?;
    let offsets =
        parse(&text, group).map_err(|error| Failure::usage(format!("--from-file {name}:{error}")))?;
    match offsets.is_empty() {
        true => Err(Failure::usage(format!(
            "--from-file {name} has nothing of this group"
        ))),
        false => Ok(offsets),
    }
}

fn parse(text: &str, group: &str) -> Result<BTreeMap<Position, i64>, String> {
    let mut offsets = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |what: &str| format!("{}: {what}", number + 1);
        let mut fields = fields(line).ok_or_else(|| wrong("a quote is not closed"))?;
        if fields.len() == 4 && fields.remove(0) != group {
            continue;
        }
        let [topic, partition, offset] = &fields[..] else {
            return Err(wrong("not `topic,partition,offset`"));
        };
        let partition = partition.parse().ok().filter(|number| *number >= 0);
        let partition: i32 = partition.ok_or_else(|| wrong("the partition is no number"))?;
        let offset: i64 = offset.parse().map_err(|_| wrong("the offset is no number"))?;
        if offsets.insert((topic.clone(), partition), offset).is_some() {
            return Err(wrong("the partition has an offset already"));
        }
    }
    Ok(offsets)
}

/// The fields of a line of CSV; `None` if a quote is not closed.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let (mut quoted, mut chars) = (false, line.trim().chars().peekable());
    while let Some(char) = chars.next() {
        let field = fields.last_mut()?;
        match char {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => field.push(other),
        }
    }
    let trimmed = fields.into_iter().map(|field| field.trim().to_owned());
    (!quoted).then(|| trimmed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_kafkas_tool_are_read() {
        let right = BTreeMap::from([(("t".to_owned(), 0), 5), (("t".to_owned(), 1), 7)]);
        assert_eq!(parse("t,0,5\nt,1,7\n", "g"), Ok(right.clone()));
        let several = "\"g\",\"t\",0,5\r\n\ng,t,1,7\nother,t,2,9\n";
        assert_eq!(parse(several, "g"), Ok(right));
        assert_eq!(
            parse("\"a,\"\"b\",t,0,1", "a,\"b"),
            Ok(BTreeMap::from([(("t".to_owned(), 0), 1)]))
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, right) in [
            ("t,0", "1: not `topic,partition,offset`"),
            ("t,0,5\nt,0,6", "2: the partition has an offset already"),
            ("t,x,5", "1: the partition is no number"),
            ("t,-1,5", "1: the partition is no number"),
            ("t,0,", "1: the offset is no number"),
            ("\"t,0,5", "1: a quote is not closed"),
        ] {
            assert_eq!(parse(text, "g"), Err(right.to_owned()), "{text}");
        }
    }
}
