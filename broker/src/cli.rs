//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use strandline_core::config::{Scope, keys};

use crate::config::sources::{Origin, Settings, environment_name};
use crate::config::{ConfigError, listeners};

/// A Kafka-compatible log broker for Linux, one shard a core.
#[derive(Debug, Parser)]
#[command(name = "strandline", version, about, after_long_help = own_keys())]
pub struct Arguments {
    /// Configuration: Kafka's .properties, or TOML with quoted keys.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the data lives: the one-entry form of log.dirs.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// node.id.
    #[arg(long, value_name = "N")]
    pub node_id: Option<i32>,
    /// The address to listen on, and to tell clients.
    #[arg(long, value_name = "ADDR")]
    pub host: Option<String>,
    /// The port of shard 0; the others follow. 0 takes free ones.
    #[arg(long, value_name = "P")]
    pub port: Option<u16>,
    /// How many shards, each a Kafka broker on a core of its own.
    #[arg(long, value_name = "N")]
    pub shards: Option<u32>,
    /// The port of /metrics and /health; 0 takes a free one.
    #[arg(long, value_name = "P")]
    pub http_port: Option<u16>,
    /// Any key of the configuration; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub assignments: Vec<String>,
    /// Check the configuration and the data directories, name ports in use, touch nothing, exit 0 or 2.
    #[arg(long)]
    pub check_config: bool,
    /// Print every value in effect and where it comes from, touch nothing.
    #[arg(long)]
    pub print_config: bool,
    /// How log lines on stderr look.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log_format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Arguments {
    /// Everything that was set, from all sources; and the environment variables that look like keys and are none.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn settings(
        &self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(Settings, Vec<String>), ConfigError> {
        let mut settings = Settings::default();
        if let Some(path) = &self.config {
            settings.read_file(path)?;
        }
        let unknown = settings.read_environment(environment);
        settings.read_assignments(&self.assignments)?;
        let mut flag = |flag: &'static str, key: &str, value: Option<String>| {
            if let Some(value) = value {
                settings.set(key, &value, Origin::Flag(flag));
            }
        };
        flag(
            "--data-dir",
            "log.dirs",
            self.data_dir.as_ref().map(|path| path.display().to_string()),
        );
        flag("--node-id", "node.id", self.node_id.map(|id| id.to_string()));
        flag(
            "--shards",
            "strandline.shards",
            self.shards.map(|shards| shards.to_string()),
        );
        flag(
            "--http-port",
            "strandline.http.port",
            self.http_port.map(|port| port.to_string()),
        );
        self.set_listener(&mut settings)?;
        Ok((settings, unknown))
    }

    /// `--host` and `--port` change the one listener that there is.
    fn set_listener(&self, settings: &mut Settings) -> Result<(), ConfigError> {
        let origin = match (&self.host, self.port) {
            (None, None) => return Ok(()),
            (Some(_), _) => "--host",
            (None, Some(_)) => "--port",
        };
        let current = settings.get("listeners").unwrap_or("PLAINTEXT://127.0.0.1:9092");
        let mut current = listeners::parse_list("listeners", current)?;
        current.retain(|listener| listener.name != "CONTROLLER");
        let [listener] = current.as_slice() else {
            return Err(ConfigError::Conflict(format!(
                "{origin} changes one listener, and 'listeners' has {}: change that key instead",
                current.len()
            )));
        };
        let host = self
            .host
            .as_deref()
            .unwrap_or(&listener.host)
            .trim_matches(['[', ']']);
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        let port = self.port.unwrap_or(listener.port);
        settings.set(
            "listeners",
            &format!("{}://{host}:{port}", listener.name),
            Origin::Flag(origin),
        );
        Ok(())
    }
}

/// Our own keys, for `--help`; Kafka's are too many.
fn own_keys() -> String {
    let mut text = String::from(
        "Every broker key of Kafka 4.2 can be set in the file, by --set, or as an environment variable; \
         docs/configuration.md lists them all. Keys that Kafka does not have:\n",
    );
    for key in keys().filter(|key| key.scope == Scope::Broker && key.name.starts_with("strandline.")) {
        let default = key.default.map_or_else(|| "derived".to_owned(), str::to_owned);
        text.push_str(&format!(
            "\n  {}  [{}; default: {default}; {}]\n      {}\n",
            key.name,
            key.kind.name(),
            environment_name(key.name),
            key.doc
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(arguments: &[&str]) -> Result<Settings, String> {
        let arguments = Arguments::parse_from(std::iter::once("strandline").chain(arguments.iter().copied()));
        let settings = arguments.settings(std::iter::empty());
        settings
            .map(|(settings, _)| settings)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn flags_are_keys() {
        let settings = settings(&[
            "--data-dir",
            "/d",
            "--node-id",
            "7",
            "--shards",
            "3",
            "--http-port",
            "0",
        ])
        .unwrap();
        let values =
            ["log.dirs", "node.id", "strandline.shards", "strandline.http.port"].map(|key| settings.get(key));
        assert_eq!(values, [Some("/d"), Some("7"), Some("3"), Some("0")]);
    }

    #[test]
    fn host_and_port_change_the_listener() {
        let listeners =
            |arguments: &[&str]| settings(arguments).unwrap().get("listeners").unwrap().to_owned();
        assert_eq!(listeners(&["--port", "0"]), "PLAINTEXT://127.0.0.1:0");
        assert_eq!(listeners(&["--host", "::1"]), "PLAINTEXT://[::1]:9092");
        assert_eq!(
            listeners(&["--set", "listeners=OUT://h:1", "--port", "5"]),
            "OUT://h:5"
        );
        assert!(
            settings(&["--set", "listeners=A://h:1,B://h:2", "--port", "5"])
                .unwrap_err()
                .contains("has 2")
        );
    }
}
