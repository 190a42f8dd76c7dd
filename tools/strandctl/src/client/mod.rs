//! A small blocking Kafka client: one request at a time on each connection, one connection a broker.
//!
//! It never joins a group and keeps no threads of its own, except that each [`fetch::Lane`] waits for one broker's
//! answer. Versions are agreed per connection, so that older and newer brokers are served alike.

pub mod admin;
pub mod chunk;
pub mod configs;
mod connection;
pub mod consumer;
mod error;
pub mod fetch;
pub mod group;
pub mod log_dirs;
pub mod metadata;
pub mod offsets;
pub mod partitioner;
pub mod partitions;
pub mod produce;
pub mod quorum;
mod retry;
mod versions;

use std::collections::BTreeMap;

pub use connection::{Connection, Sent};
pub use error::ClientError;
pub use retry::Retry;

use crate::client_config::{Address, ClientConfig};
use metadata::Metadata;

/// A broker's id.
pub type BrokerId = i32;

/// What became of each of several named things, in the order asked.
pub type NamedResults<T> = Vec<(String, Result<T, ClientError>)>;

/// The client: what it was told, whom it knows, and its open connections.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    addresses: BTreeMap<BrokerId, Address>,
    connections: BTreeMap<BrokerId, Connection>,
    /// The connection made first; its broker's id is not known, and need not be.
    seed: Option<Connection>,
}

impl Client {
    /// Connects to the first bootstrap server that answers. That none does is told at once: at the start, a wrong
    /// address is likelier than a restart.
    pub fn connect(config: &ClientConfig) -> Result<Self, ClientError> {
        let mut client = Self {
            config: config.clone(),
            addresses: BTreeMap::new(),
            connections: BTreeMap::new(),
            seed: None,
        };
        client.any()?;
        Ok(client)
    }

    /// What the client was told.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// Runs `ask` on a connection to whichever broker answers. An error closes the connection.
    pub fn ask_any<T>(
        &mut self,
        ask: impl FnOnce(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let result = ask(self.any()?);
        if matches!(&result, Err(error) if breaks_connection(error)) {
            self.seed = None;
        }
        result
    }

    /// Runs `ask` on the connection to one broker. An error closes the connection.
    pub fn ask<T>(
        &mut self,
        broker: BrokerId,
        ask: impl FnOnce(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let result = ask(self.broker(broker)?);
        if matches!(&result, Err(error) if breaks_connection(error)) {
            self.connections.remove(&broker);
        }
        result
    }

    /// The address of a broker, as the last metadata named it.
    pub fn address(&self, broker: BrokerId) -> Option<&Address> {
        self.addresses.get(&broker)
    }

    /// Takes over the brokers of fresh metadata.
    fn learn(&mut self, metadata: &Metadata) {
        self.addresses = metadata
            .brokers
            .values()
            .map(|broker| (broker.id, broker.address.clone()))
            .collect();
        let addresses = &self.addresses;
        // A broker that moved is not the one the connection leads to.
        self.connections
            .retain(|id, connection| addresses.get(id) == Some(connection.address()));
    }

    fn any(&mut self) -> Result<&mut Connection, ClientError> {
        let connection = match self.seed.take() {
            Some(connection) => connection,
            None => self.connect_anywhere()?,
        };
        Ok(self.seed.insert(connection))
    }

    /// The bootstrap servers first, then the brokers known from metadata. The first bootstrap server's error is told.
    fn connect_anywhere(&self) -> Result<Connection, ClientError> {
        let mut first_error = None;
        for address in self
            .config
            .bootstrap_servers
            .iter()
            .chain(self.addresses.values())
        {
            match Connection::open(address, &self.config) {
                Ok(connection) => return Ok(connection),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.expect("the configuration names at least one server"))
    }

    fn broker(&mut self, id: BrokerId) -> Result<&mut Connection, ClientError> {
        if !self.connections.contains_key(&id) {
            let address = self.addresses.get(&id).ok_or_else(|| unknown_broker(id))?;
            let connection = Connection::open(address, &self.config)?;
            self.connections.insert(id, connection);
        }
        self.connections.get_mut(&id).ok_or_else(|| unknown_broker(id))
    }
}

/// A leader that the metadata names without listing it: it is just going or coming.
fn unknown_broker(id: BrokerId) -> ClientError {
    ClientError::broker(
        format!("broker {id}"),
        strandline_wire::ErrorCode::LeaderNotAvailable,
        None,
    )
}

/// A refusal leaves the connection as it is; after anything else its bytes cannot be trusted.
fn breaks_connection(error: &ClientError) -> bool {
    !matches!(
        error,
        ClientError::Broker { .. } | ClientError::Unsupported { .. } | ClientError::Encode { .. }
    )
}

/// The result of an error code with its text.
pub(crate) fn check(
    subject: impl Into<String>,
    code: i16,
    text: Option<&strandline_wire::protocol::StrBytes>,
) -> Result<(), ClientError> {
    let code = strandline_wire::ErrorCode::from_code(code);
    if code.is_none() {
        return Ok(());
    }
    Err(ClientError::broker(
        subject,
        code,
        text.map(|text| text.to_string()),
    ))
}
