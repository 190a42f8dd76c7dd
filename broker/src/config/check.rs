//! Judges what was set by the table: unknown keys, values out of range, values this version refuses or ignores.

use strandline_core::config::{Effect, Key, Scope, check_value, keys, lookup};

use super::error::{ConfigError, Errors};
use super::sources::{Origin, Settings};

/// Keys of older Kafkas, with what to do instead.
const GONE: [(&str, &str); 6] = [
    ("zookeeper.", "ZooKeeper is not used: remove it"),
    ("inter.broker.protocol.version", "it is negotiated: remove it"),
    (
        "log.message.format.version",
        "only the current record format is stored: remove it",
    ),
    (
        "log.message.timestamp.difference.max.ms",
        "use log.message.timestamp.before.max.ms and .after.max.ms",
    ),
    (
        "listener.name.",
        "keys of a single listener are not served yet: remove it",
    ),
    ("advertised.host.name", "use advertised.listeners"),
];

/// Checks every setting; gives one warning for each that has no effect, or only part of it.
///
/// # Errors
/// [`ConfigError`]: every key and value that is wrong.
pub fn check(settings: &Settings) -> Result<Vec<String>, ConfigError> {
    let mut warnings = Vec::new();
    let mut errors = Errors::default();
    for (name, value, origin) in settings.iter() {
        let Some(key) = lookup(Scope::Broker, name) else {
            errors.add(unknown(name, origin));
            continue;
        };
        if let Err(reason) = check_value(key, value) {
            errors.add(ConfigError::Value {
                origin: origin.to_string(),
                reason,
            });
            continue;
        }
        if key.default.unwrap_or_default() == value {
            continue;
        }
        match key.effect {
            Effect::Obeyed => {}
            Effect::Partly(reason) => warnings.push(format!("'{name}' is obeyed in part: {reason}")),
            Effect::Without(reason) => warnings.push(format!("'{name}' has no effect: {reason}")),
            Effect::Refused(reason) => errors.add(refused(key, reason, origin)),
        }
    }
    errors.result().map(|()| warnings)
}

fn refused(key: &Key, reason: &str, origin: &Origin) -> ConfigError {
    let default = match key.default {
        None | Some("") => "remove it".to_owned(),
        Some(default) => format!("remove it, or set '{default}'"),
    };
    ConfigError::Value {
        origin: origin.to_string(),
        reason: format!("'{}' cannot be set: {reason}; {default}", key.name),
    }
}

/// Letters of an unknown key that its error shows.
const KEY_SHOWN_MAX: usize = 200;
/// An unknown key is taken for a misspelt one up to so many letters.
const DISTANCE_MAX: usize = 3;

fn unknown(name: &str, origin: &Origin) -> ConfigError {
    let gone = GONE.iter().find(|(prefix, _)| name.starts_with(prefix));
    let hint = match gone {
        Some((_, remedy)) => format!(": {remedy}"),
        None if lookup(Scope::Topic, name).is_some() => topic_hint(name),
        None => nearest(name)
            .map(|key| format!(": did you mean '{key}'?"))
            .unwrap_or_default(),
    };
    ConfigError::UnknownKey {
        origin: origin.to_string(),
        key: match name.char_indices().nth(KEY_SHOWN_MAX) {
            Some((end, _)) => format!("{}...", &name[..end]),
            None => name.to_owned(),
        },
        hint,
    }
}

fn topic_hint(name: &str) -> String {
    let broker_key = lookup(Scope::Topic, name).and_then(|key| key.synonyms.first());
    match broker_key {
        Some(synonym) => format!(
            ": it is a topic's key; its default for all topics is '{}'",
            synonym.name
        ),
        None => ": it is a topic's key".to_owned(),
    }
}

/// The broker's key that differs in the fewest letters, if that is few.
fn nearest(name: &str) -> Option<&'static str> {
    let names = keys()
        .filter(|key| key.scope == Scope::Broker && !key.internal)
        .map(|key| key.name);
    // No other key is near, and a file that is none of keys takes no minutes to be refused.
    let names = names.filter(|key| key.len().abs_diff(name.len()) <= DISTANCE_MAX);
    let (distance, key) = names.map(|key| (distance(name, key), key)).min()?;
    (distance <= DISTANCE_MAX).then_some(key)
}

/// Levenshtein's.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(key: &str, value: &str) -> Result<Vec<String>, String> {
        let mut settings = Settings::default();
        settings.set(key, value, Origin::Set);
        check(&settings).map_err(|error| error.to_string())
    }

    /// The search for a near key took minutes.
    #[test]
    fn a_key_of_any_length_is_refused_in_a_line() {
        let error = judge(&"a".repeat(5_000_000), "1").unwrap_err();
        assert!(error.len() < 300, "{error}");
    }

    #[test]
    fn unknown_keys_get_a_hint() {
        assert_eq!(
            judge("num.partition", "1").unwrap_err(),
            "--set: unknown key 'num.partition': did you mean 'num.partitions'?"
        );
        assert!(
            judge("zookeeper.connect", "x")
                .unwrap_err()
                .ends_with("ZooKeeper is not used: remove it")
        );
        assert!(
            judge("retention.ms", "1")
                .unwrap_err()
                .contains("'log.retention.ms'")
        );
        assert_eq!(judge("xyzzy", "1").unwrap_err(), "--set: unknown key 'xyzzy'");
    }

    #[test]
    fn everything_that_is_wrong_is_told() {
        let mut settings = Settings::default();
        for (key, value) in [
            ("num.partitions", "none"),
            ("num.partition", "1"),
            ("num.io.threads", "3"),
            ("authorizer.class.name", "x.Y"),
        ] {
            settings.set(key, value, Origin::Set);
        }
        let error = check(&settings).unwrap_err().to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 3, "{error}");
        for (line, part) in lines
            .iter()
            .zip(["authorizer", "unknown key", "invalid value 'none'"])
        {
            assert!(line.contains(part), "{error}");
        }
    }

    #[test]
    fn values_are_judged() {
        assert_eq!(judge("num.partitions", "3").unwrap(), Vec::<String>::new());
        assert_eq!(
            judge("num.partitions", "0").unwrap_err(),
            "--set: invalid value '0' for 'num.partitions': it must be at least 1"
        );
        assert!(
            judge("authorizer.class.name", "x.Y")
                .unwrap_err()
                .contains("cannot be set")
        );
        assert_eq!(judge("num.network.threads", "4").unwrap().len(), 1);
        assert_eq!(judge("num.network.threads", "3").unwrap().len(), 0);
    }
}
