//! Client properties, by their Kafka names: from a file, from `-X`, from the command line.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use strandline_wire::batch::Codec;

use crate::cli::GlobalOptions;
use crate::failure::Failure;

/// Where a broker listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A name or an IP address, without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix("PLAINTEXT://").unwrap_or(text);
        let wrong = || format!("`{text}` is no host:port");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let host = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
            Some(Some(inside)) => inside,
            Some(None) => return Err(wrong()),
            None if host.contains(':') => return Err(format!("{}: write [ADDRESS]:PORT for IPv6", wrong())),
            None => host,
        };
        if host.is_empty() || port == 0 {
            return Err(wrong());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

/// Acknowledgements that a producer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// None: nothing is known of the records' fate.
    None,
    /// The leader's own.
    Leader,
    /// All replicas in sync.
    All,
}

impl Acks {
    /// The number on the wire.
    pub const fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

impl FromStr for Acks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" | "-1" => Ok(Self::All),
            "1" => Ok(Self::Leader),
            "0" => Ok(Self::None),
            _ => Err(format!("`{text}` is none of: all, -1, 1, 0")),
        }
    }
}

/// A codec by its Kafka name.
pub fn parse_codec(text: &str) -> Result<Codec, String> {
    Codec::from_name(text).ok_or_else(|| format!("`{text}` is none of: none, gzip, snappy, lz4, zstd"))
}

/// What the client is told. Defaults are Kafka's where nothing else is said.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// `bootstrap.servers`
    pub bootstrap_servers: Vec<Address>,
    /// `client.id`
    pub client_id: String,
    /// `request.timeout.ms`: how long one answer may take.
    pub request_timeout: Duration,
    /// `default.api.timeout.ms`: how long retriable errors are retried.
    pub api_timeout: Duration,
    /// `delivery.timeout.ms`: the same for produced records.
    pub delivery_timeout: Duration,
    /// `socket.connection.setup.timeout.ms`
    pub connect_timeout: Duration,
    /// `retry.backoff.ms`: the first pause; each further one doubles.
    pub retry_backoff: Duration,
    /// `retry.backoff.max.ms`
    pub retry_backoff_max: Duration,
    /// `receive.message.max.bytes` (librdkafka's name): a larger response is refused unread.
    pub response_max_bytes: usize,
    /// `acks`
    pub acks: Acks,
    /// `enable.idempotence`
    pub idempotence: bool,
    /// `compression.type`
    pub compression: Codec,
    /// `linger.ms`: how long a record waits for company.
    pub linger: Duration,
    /// `batch.size`: uncompressed bytes of one batch. Larger than Java's 16 KiB: lines come in bulk.
    pub batch_bytes: usize,
    /// `max.request.size`: uncompressed bytes sent at once, over all partitions.
    pub request_max_bytes: usize,
    /// `fetch.min.bytes`
    pub fetch_min_bytes: i32,
    /// `fetch.max.bytes`
    pub fetch_max_bytes: i32,
    /// `fetch.max.wait.ms`
    pub fetch_max_wait: Duration,
    /// `max.partition.fetch.bytes`
    pub partition_fetch_max_bytes: i32,
    /// `isolation.level`: true for `read_committed`.
    pub read_committed: bool,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            bootstrap_servers: vec![Address {
                host: "127.0.0.1".to_owned(),
                port: 9092,
            }],
            client_id: "strandctl".to_owned(),
            request_timeout: Duration::from_secs(30),
            api_timeout: Duration::from_secs(60),
            delivery_timeout: Duration::from_secs(120),
            connect_timeout: Duration::from_secs(10),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            response_max_bytes: 100_000_000,
            acks: Acks::All,
            idempotence: true,
            compression: Codec::None,
            linger: Duration::from_millis(5),
            batch_bytes: 128 * 1024,
            request_max_bytes: 1024 * 1024,
            fetch_min_bytes: 1,
            fetch_max_bytes: 50 * 1024 * 1024,
            fetch_max_wait: Duration::from_millis(500),
            partition_fetch_max_bytes: 1024 * 1024,
            read_committed: false,
        }
    }
}

impl ClientConfig {
    /// Reads the file, then `-X`, then `-b`: the later wins.
    pub fn from_options(options: &GlobalOptions) -> Result<Self, Failure> {
        let mut config = Self::default();
        if let Some(path) = &options.command_config {
            config.read_file(path)?;
        }
        for property in &options.properties {
            let (key, value) =
                split_key_value(property).map_err(|error| Failure::usage(format!("-X: {error}")))?;
            match config.set(key, value) {
                Ok(true) => {}
                Ok(false) => return Err(Failure::usage(format!("-X: strandctl knows no property `{key}`"))),
                Err(error) => return Err(Failure::usage(format!("-X {key}: {error}"))),
            }
        }
        if let Some(servers) = &options.bootstrap_server {
            config.bootstrap_servers = parse_list(servers)
                .map_err(|error| Failure::usage(format!("--bootstrap-server: {error}")))?;
        }
        if config.acks != Acks::All {
            // Sequences protect only what all replicas acknowledge, as in Java's client.
            config.idempotence = false;
        }
        Ok(config)
    }

    /// A file is often shared with Java clients: keys of theirs that mean nothing here are named once and passed over.
    fn read_file(&mut self, path: &Path) -> Result<(), Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("--command-config {}: {error}", path.display())))?;
        let mut unknown = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let place = || format!("{}:{}", path.display(), number + 1);
            let (key, value) =
                split_key_value(line).map_err(|error| Failure::usage(format!("{}: {error}", place())))?;
            match self.set(key.trim(), value.trim()) {
                Ok(true) => {}
                Ok(false) => unknown.push(key.trim().to_owned()),
                Err(error) => return Err(Failure::usage(format!("{}: {key}: {error}", place()))),
            }
        }
        if !unknown.is_empty() {
            eprintln!(
                "strandctl: {}: without effect here: {}",
                path.display(),
                unknown.join(", ")
            );
        }
        Ok(())
    }

    /// Sets one property; false when it is unknown.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "bootstrap.servers" => self.bootstrap_servers = parse_list(value)?,
            "client.id" => self.client_id = value.to_owned(),
            "request.timeout.ms" => self.request_timeout = positive_ms(value)?,
            "default.api.timeout.ms" => self.api_timeout = positive_ms(value)?,
            "delivery.timeout.ms" => self.delivery_timeout = positive_ms(value)?,
            "socket.connection.setup.timeout.ms" => self.connect_timeout = positive_ms(value)?,
            "retry.backoff.ms" => self.retry_backoff = milliseconds(value)?,
            "retry.backoff.max.ms" => self.retry_backoff_max = milliseconds(value)?,
            "receive.message.max.bytes" => self.response_max_bytes = bytes(value)?,
            "acks" => self.acks = value.parse()?,
            "enable.idempotence" => self.idempotence = boolean(value)?,
            "compression.type" => self.compression = parse_codec(value)?,
            "linger.ms" => self.linger = milliseconds(value)?,
            "batch.size" => self.batch_bytes = bytes(value)?,
            "max.request.size" => self.request_max_bytes = bytes(value)?,
            "fetch.min.bytes" => self.fetch_min_bytes = bytes(value)? as i32,
            "fetch.max.bytes" => self.fetch_max_bytes = bytes(value)? as i32,
            "fetch.max.wait.ms" => self.fetch_max_wait = milliseconds(value)?,
            "max.partition.fetch.bytes" => self.partition_fetch_max_bytes = bytes(value)? as i32,
            "isolation.level" => {
                self.read_committed = match value {
                    "read_committed" => true,
                    "read_uncommitted" => false,
                    _ => {
                        return Err(format!(
                            "`{value}` is neither read_committed nor read_uncommitted"
                        ));
                    }
                }
            }
            "security.protocol" if value == "PLAINTEXT" => {}
            "security.protocol" => {
                return Err(format!(
                    "`{value}` is not supported: strandctl speaks PLAINTEXT only (private networks)"
                ));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Splits `key=value`.
pub fn split_key_value(text: &str) -> Result<(&str, &str), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key, value)),
        _ => Err(format!("`{text}` is not KEY=VALUE")),
    }
}

fn parse_list(text: &str) -> Result<Vec<Address>, String> {
    let list = text
        .split(',')
        .map(|part| part.trim().parse())
        .collect::<Result<Vec<_>, _>>()?;
    if list.is_empty() {
        Err("names no broker".to_owned())
    } else {
        Ok(list)
    }
}

fn milliseconds(value: &str) -> Result<Duration, String> {
    match value.parse::<u32>() {
        // Kafka's ints.
        Ok(number) if number <= i32::MAX as u32 => Ok(Duration::from_millis(number.into())),
        _ => Err(format!("`{value}` is no number of milliseconds")),
    }
}

fn positive_ms(value: &str) -> Result<Duration, String> {
    match milliseconds(value)? {
        Duration::ZERO => Err("must be above 0".to_owned()),
        duration => Ok(duration),
    }
}

/// A size that fits the wire's i32.
fn bytes(value: &str) -> Result<usize, String> {
    match value.parse::<i32>() {
        Ok(number) if number >= 0 => Ok(number as usize),
        _ => Err(format!("`{value}` is no number of bytes up to {}", i32::MAX)),
    }
}

fn boolean(value: &str) -> Result<bool, String> {
    value
        .parse()
        .map_err(|_| format!("`{value}` is neither true nor false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(properties: &[&str]) -> GlobalOptions {
        GlobalOptions {
            bootstrap_server: None,
            properties: properties.iter().map(|&text| text.to_owned()).collect(),
            command_config: None,
            json: false,
        }
    }

    #[test]
    fn addresses_are_names_or_ips() {
        let address = |text: &str| text.parse::<Address>();
        assert_eq!(address("h:1").unwrap().to_string(), "h:1");
        assert_eq!(address("[::1]:9092").unwrap().host, "::1");
        assert_eq!(address("[::1]:9092").unwrap().to_string(), "[::1]:9092");
        assert_eq!(address("PLAINTEXT://h:1").unwrap().host, "h");
        for text in ["h", "h:", ":1", "h:0", "h:65536", "::1:9092", "[::1:9092", ""] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn properties_are_applied_in_order_and_the_command_line_wins() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(
            &mut file,
            b"# comment\nclient.id = from-file\nrequest.timeout.ms=5\nkey.serializer=x\nbootstrap.servers=f:1\n",
        )
        .unwrap();
        let mut options = options(&["client.id=from-x", "bootstrap.servers=x:1"]);
        options.command_config = Some(file.path().to_owned());
        let config = ClientConfig::from_options(&options).unwrap();
        assert_eq!(config.client_id, "from-x");
        assert_eq!(config.request_timeout, Duration::from_millis(5));
        assert_eq!(config.bootstrap_servers[0].to_string(), "x:1");
        options.bootstrap_server = Some("a:1, b:2".to_owned());
        let config = ClientConfig::from_options(&options).unwrap();
        assert_eq!(config.bootstrap_servers.len(), 2);
    }

    #[test]
    fn wrong_properties_are_wrong_usage() {
        for property in [
            "security.protocol=SASL_SSL",
            "no.such.key=1",
            "client.id",
            "=x",
            "request.timeout.ms=-1",
            "request.timeout.ms=0",
            "fetch.max.bytes=2147483648",
            "acks=2",
        ] {
            let failure = ClientConfig::from_options(&options(&[property])).unwrap_err();
            assert_eq!(failure.exit_code(), 2, "{property}");
        }
        assert!(ClientConfig::from_options(&options(&["security.protocol=PLAINTEXT"])).is_ok());
    }

    #[test]
    fn only_full_acknowledgement_is_idempotent() {
        assert!(ClientConfig::from_options(&options(&[])).unwrap().idempotence);
        assert!(
            !ClientConfig::from_options(&options(&["acks=1"]))
                .unwrap()
                .idempotence
        );
    }
}
