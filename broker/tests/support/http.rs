//! The HTTP endpoint of a broker, and what its page of metrics says.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::broker::Broker;

/// Labels, in the order of their names.
pub type Labels = BTreeMap<String, String>;

/// Status line and body.
pub fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// Where a broker serves HTTP.
pub fn http(broker: &Broker) -> SocketAddr {
    let (_, address) = broker.ready_line().rsplit_once("HTTP ").unwrap();
    address.trim().parse().unwrap()
}

/// Every series of the page: name, labels, value. Panics on a line that is none, and on a series that comes twice.
pub fn metrics(broker: &Broker) -> BTreeMap<(String, Labels), f64> {
    let (status, page) = get(http(broker), "/metrics");
    assert!(status.contains("200"), "{status}");
    assert!(page.ends_with("\n# EOF\n"), "{page}");
    let mut series = BTreeMap::new();
    for line in page.lines().filter(|line| !line.starts_with("# ")) {
        let (name, labels, value) = parse(line).unwrap_or_else(|| panic!("no series: {line}"));
        assert!(series.insert((name, labels), value).is_none(), "twice: {line}");
    }
    series
}

/// A line by the grammar of the OpenMetrics text format.
fn parse(line: &str) -> Option<(String, Labels, f64)> {
    let is_word = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let name_end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(name_end);
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            if !is_word(label) || labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            rest = after;
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}')?;
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    is_word(name).then(|| (name.to_owned(), labels, value))
}

/// What stands before the closing quote, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                escaped @ ('"' | '\\') => escaped,
                _ => return None,
            }),
            other => value.push(other),
        }
    }
    None
}
