//! A record as the line protocol carries it.

/// One record. `place` is its partition on the way in and its offset on the way out; a negative timestamp
/// lets the client choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) place: i64,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Record {
    /// A record for partition 0.
    pub(crate) fn new(key: Option<&[u8]>, value: Option<&[u8]>) -> Self {
        Self {
            place: 0,
            timestamp: -1,
            key: key.map(<[u8]>::to_vec),
            value: value.map(<[u8]>::to_vec),
            headers: Vec::new(),
        }
    }

    /// The same with one header more.
    pub(crate) fn header(mut self, name: &str, value: Option<&[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.map(<[u8]>::to_vec)));
        self
    }

    /// The same for another partition.
    pub(crate) fn partition(mut self, partition: i64) -> Self {
        self.place = partition;
        self
    }

    /// The same at a time, in milliseconds since the Unix epoch.
    pub(crate) fn at(mut self, timestamp: i64) -> Self {
        self.timestamp = timestamp;
        self
    }

    /// The same with headers of one name beside each other, where the first of them was.
    pub(crate) fn grouped(&self) -> Self {
        let first = |name: &str| self.headers.iter().position(|(other, _)| other == name);
        let mut grouped = self.clone();
        grouped.headers.sort_by_key(|(name, _)| first(name));
        grouped
    }

    /// Whether `read` carries what was written here; only a timestamp that was given is compared.
    pub(crate) fn carried_by(&self, read: &Self) -> bool {
        (&self.key, &self.value, &self.headers) == (&read.key, &read.value, &read.headers)
            && (self.timestamp < 0 || self.timestamp == read.timestamp)
    }

    /// The line of the protocol.
    pub(crate) fn to_line(&self) -> String {
        let (key, value) = (to_word(self.key.as_deref()), to_word(self.value.as_deref()));
        let mut line = format!("{} {} {key} {value}", self.place, self.timestamp);
        for (name, value) in &self.headers {
            line.push_str(&format!(" {name}={}", to_word(value.as_deref())));
        }
        line
    }

    /// The record of a line, or what is wrong with it.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let bad = || format!("not a record line: {line:.100}");
        let mut words = line.split(' ');
        let mut word = || words.next().ok_or_else(bad);
        let place = word()?.parse().map_err(|_| bad())?;
        let timestamp = word()?.parse().map_err(|_| bad())?;
        let (key, value) = (from_word(word()?)?, from_word(word()?)?);
        let mut headers = Vec::new();
        for header in words {
            let (name, value) = header.rsplit_once('=').ok_or_else(bad)?;
            headers.push((name.to_owned(), from_word(value)?));
        }
        Ok(Self {
            place,
            timestamp,
            key,
            value,
            headers,
        })
    }
}

fn to_word(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return "-".to_owned() };
    let mut word = String::with_capacity(1 + 2 * bytes.len());
    word.push('x');
    for byte in bytes {
        word.push_str(&format!("{byte:02x}"));
    }
    word
}

fn from_word(word: &str) -> Result<Option<Vec<u8>>, String> {
    if word == "-" {
        return Ok(None);
    }
    let bad = || format!("not a hex word: {word:.100}");
    let digits = word
        .strip_prefix('x')
        .filter(|digits| digits.len() % 2 == 0 && digits.is_ascii())
        .ok_or_else(bad)?;
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| bad());
    (0..digits.len())
        .step_by(2)
        .map(byte)
        .collect::<Result<Vec<u8>, _>>()
        .map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_grouped_by_name() {
        let header = |record: Record, name: &str, value: &[u8]| record.header(name, Some(value));
        let mixed = [("b", b"1"), ("a", b"2"), ("b", b"3")];
        let mixed = mixed
            .iter()
            .fold(Record::new(None, None), |record, (name, value)| {
                header(record, name, *value)
            });
        let names: Vec<_> = mixed
            .grouped()
            .headers
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        assert_eq!(names, ["b", "b", "a"]);
        assert_eq!(mixed.grouped().headers[1].1, Some(b"3".to_vec()));
    }

    #[test]
    fn lines_go_both_ways() {
        let record = Record::new(None, Some(b""))
            .header("a=b", None)
            .header("c", Some(b"\xff"))
            .partition(2)
            .at(5);
        assert_eq!(record.to_line(), "2 5 - x a=b=- c=xff");
        assert_eq!(Record::parse(&record.to_line()).unwrap(), record);
        for line in ["", "1 2 -", "1 2 - y", "1 2 - x1", "1 2 - - a", "a 2 - -"] {
            assert!(Record::parse(line).is_err(), "{line:?}");
        }
    }
}
