//! Where values come from, and which source wins: the table's default, then the file, the environment
//! (`STRANDLINE_KEY_WITH_UNDERSCORES`), `--set KEY=VALUE`, and last the flags that have a name of their own.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use strandline_core::config::{Scope, keys};

use super::error::ConfigError;
use super::{properties, toml_file};

/// Prefix of environment variables that are keys.
const ENVIRONMENT_PREFIX: &str = "STRANDLINE_";

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the file.
    File(String),
    /// In this environment variable.
    Environment(String),
    /// By `--set`.
    Set,
    /// By this flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => formatter.write_str(path),
            Self::Environment(name) => formatter.write_str(name),
            Self::Set => formatter.write_str("--set"),
            Self::Flag(flag) => formatter.write_str(flag),
        }
    }
}

/// Every value that somebody set, by key, with the source that won.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, (String, Origin)>);

impl Settings {
    /// Sets a value; a later call wins.
    pub fn set(&mut self, key: &str, value: &str, origin: Origin) {
        self.0.insert(key.to_owned(), (value.to_owned(), origin));
    }

    /// The value set for a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|(value, _)| value.as_str())
    }

    /// Every key, value and origin, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &Origin)> {
        self.0
            .iter()
            .map(|(key, (value, origin))| (key.as_str(), value.as_str(), origin))
    }

    /// Adds the pairs of a file: TOML if its name ends so, else `.properties`.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`] or [`ConfigError::Syntax`].
    pub fn read_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        let is_toml = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
        let pairs = if is_toml {
            toml_file::parse(&text)
        } else {
            properties::parse(&text)
        };
        let pairs = pairs.map_err(|reason| ConfigError::Syntax {
            path: path.to_owned(),
            reason,
        })?;
        for (key, value) in pairs {
            self.set(&key, &value, Origin::File(path.display().to_string()));
        }
        Ok(())
    }

    /// Adds the keys among environment variables; gives the names that start like one and are none, which an
    /// orchestrator may have put there (`STRANDLINE_SERVICE_HOST`), so they are no error.
    pub fn read_environment(&mut self, variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
        let known: HashMap<String, &str> = keys()
            .filter(|key| key.scope == Scope::Broker)
            .map(|key| (environment_name(key.name), key.name))
            .collect();
        let mut unknown = Vec::new();
        for (name, value) in variables.filter(|(name, _)| name.starts_with(ENVIRONMENT_PREFIX)) {
            match known.get(&name) {
                Some(key) => self.set(key, &value, Origin::Environment(name.clone())),
                None => unknown.push(name),
            }
        }
        unknown
    }

    /// Adds the pairs of `--set`.
    ///
    /// # Errors
    /// [`ConfigError::Conflict`] for one without `=`.
    pub fn read_assignments(&mut self, assignments: &[String]) -> Result<(), ConfigError> {
        for assignment in assignments {
            let Some((key, value)) = assignment.split_once('=') else {
                return Err(ConfigError::Conflict(format!(
                    "--set {assignment}: write it as KEY=VALUE"
                )));
            };
            self.set(key.trim(), value.trim(), Origin::Set);
        }
        Ok(())
    }
}

/// The variable of a key: upper case, `_` for `.`, and our own prefix not twice.
pub fn environment_name(key: &str) -> String {
    let key = key.strip_prefix("strandline.").unwrap_or(key);
    format!(
        "{ENVIRONMENT_PREFIX}{}",
        key.to_ascii_uppercase().replace(['.', '-'], "_")
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_key_has_a_variable_of_its_own() {
        let mut seen = HashSet::new();
        for key in keys().filter(|key| key.scope == Scope::Broker) {
            assert!(seen.insert(environment_name(key.name)), "{}", key.name);
        }
    }

    #[test]
    fn later_sources_win_and_strange_variables_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("server.properties");
        std::fs::write(&file, "num.partitions=2\nlog.dirs=/a\n").unwrap();
        let mut settings = Settings::default();
        settings.read_file(&file).unwrap();
        let variables = [
            ("STRANDLINE_NUM_PARTITIONS", "3"),
            ("STRANDLINE_SERVICE_HOST", "10.0.0.1"),
            ("HOME", "/"),
        ];
        let unknown = settings.read_environment(
            variables
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        assert_eq!(unknown, ["STRANDLINE_SERVICE_HOST"]);
        assert_eq!(settings.get("num.partitions"), Some("3"));
        settings
            .read_assignments(&["num.partitions = 4".to_owned()])
            .unwrap();
        assert_eq!(
            (settings.get("num.partitions"), settings.get("log.dirs")),
            (Some("4"), Some("/a"))
        );
        assert!(settings.read_assignments(&["x".to_owned()]).is_err());
    }
}
