//! The asking side: one connection to one controller, one request at a time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use strandline_core::controller::{CONTROLLER_VERSIONS, ControllerHello, ControllerIdentity};
use strandline_core::metadata::NodeId;
use strandline_runtime::runtime::IpAddr;
use strandline_runtime::{Runtime, SocketAddr};
use thiserror::Error;
use uuid::Uuid;

use super::types::{VoterAddress, VoterId};
use super::wire::{Request, Response, Wire, WireError};

/// Names of hosts to addresses, without holding the thread up; an error is worth another try.
pub type Resolve = Rc<dyn Fn(&str) -> Result<IpAddr, String>>;

/// Texts that are remembered as said.
const SAID_MAX: usize = 64;

/// What every connection of a node shares.
pub struct Calls<R> {
    /// Clock, timers and sockets.
    pub runtime: R,
    /// This node.
    pub voter: VoterId,
    /// The cluster it is of; nil before it has one.
    pub cluster_id: Cell<Uuid>,
    /// The system's resolver.
    pub resolve: Resolve,
    /// What was said already: a refusal comes again with every try.
    pub said: RefCell<BTreeSet<String>>,
}

impl<R> Calls<R> {
    /// Warns, unless the same was said not long ago.
    pub fn warn_once(&self, text: String) {
        let mut said = self.said.borrow_mut();
        if said.contains(&text) {
            return;
        }
        tracing::warn!("{text}");
        if said.len() >= SAID_MAX {
            said.clear();
        }
        said.insert(text);
    }

    /// Who this node is, to others.
    pub fn identity(&self) -> ControllerIdentity {
        ControllerIdentity {
            cluster_id: self.cluster_id.get(),
            node: self.voter.node,
            directory_id: self.voter.directory,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum CallError {
    /// Nothing was asked: there is no connection.
    #[error("{0}")]
    Unreachable(String),
    /// Nothing was asked: the other side is not who was meant, and another try will not help.
    #[error("{0}")]
    Refused(String),
    /// It was asked, and the answer did not come.
    #[error("{0}")]
    Lost(String),
}

/// One controller, to be asked.
pub struct Peer<R: Runtime> {
    calls: Rc<Calls<R>>,
    node: NodeId,
    /// Nil for any.
    directory: Uuid,
    address: VoterAddress,
    wire: Option<Wire<R>>,
}

impl<R: Runtime> Peer<R> {
    /// The controller of `node` at `address`, with the given directory or, if that is nil, any.
    pub fn new(calls: Rc<Calls<R>>, node: NodeId, directory: Uuid, address: VoterAddress) -> Self {
        Self {
            calls,
            node,
            directory,
            address,
            wire: None,
        }
    }

    /// Asks, and waits for the answer, within `timeout` altogether. A connection that failed, or whose answer is not
    /// waited for any more, is closed; the next call opens another.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call(
        &mut self,
        request: &Request,
        body: &[u8],
        timeout: Duration,
    ) -> Result<Response, CallError> {
        let asked = Cell::new(false);
        // Out of its place for as long as it takes: whoever drops this call drops the connection.
        let wire = self.wire.take();
        let runtime = self.calls.runtime.clone();
        let outcome = {
            let exchange = std::pin::pin!(self.exchange(wire, request, body, &asked));
            let deadline = std::pin::pin!(runtime.sleep(timeout));
            match select(exchange, deadline).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right(_) => Err(WireError::Io(std::io::ErrorKind::TimedOut.into())),
            }
        };
        match outcome {
            Ok((response, wire)) => {
                self.wire = Some(wire);
                Ok(response)
            }
            Err(error) => {
                let text = format!(
                    "the controller of node {} at {}: {error}",
                    self.node, self.address
                );
                Err(match error {
                    _ if asked.get() => CallError::Lost(text),
                    WireError::Hello(_) => {
                        self.calls.warn_once(text.clone());
                        CallError::Refused(text)
                    }
                    _ => CallError::Unreachable(text),
                })
            }
        }
    }

    async fn exchange(
        &self,
        wire: Option<Wire<R>>,
        request: &Request,
        body: &[u8],
        asked: &Cell<bool>,
    ) -> Result<(Response, Wire<R>), WireError> {
        let mut wire = match wire {
            Some(wire) => wire,
            None => self.connect().await?,
        };
        asked.set(true);
        wire.send(request, body).await?;
        match wire.receive().await? {
            Some((response, _)) => Ok((response, wire)),
            None => Err(WireError::Io(std::io::ErrorKind::UnexpectedEof.into())),
        }
    }

    async fn connect(&self) -> Result<Wire<R>, WireError> {
        let host = &self.address.host;
        let address = (self.calls.resolve)(host)
            .map_err(|error| std::io::Error::other(format!("the host '{host}' does not resolve: {error}")))?;
        let address = SocketAddr::new(address, self.address.port);
        let mut wire = Wire::<R>::new(self.calls.runtime.connect(address).await?);
        let hello = ControllerHello {
            from: self.calls.identity(),
            to: self.node,
            to_directory: self.directory,
            versions: CONTROLLER_VERSIONS,
        };
        wire.send_hello(&hello).await?;
        let answer = wire.receive_hello().await?;
        answer.accept_answer(&hello, CONTROLLER_VERSIONS)?;
        Ok(wire)
    }
}
