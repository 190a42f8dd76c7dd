//! The answering side: the controller's listener. One connection is one task; a request is answered before the next is read.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use strandline_core::controller::{CONTROLLER_VERSIONS, ControllerHello};
use strandline_runtime::{Runtime, SocketAddr, TcpListener};
use uuid::Uuid;

use super::member::Member;
use super::wire::{Request, Wire, WireError};

/// Every node has a handful to each other one; what is more comes from somewhere else.
const CONNECTIONS_MAX: usize = 512;
/// A connection that opens and says nothing is closed.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a failed accept: descriptors may be short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

struct Counted(Rc<Cell<usize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<R: Runtime> Member<R> {
    /// Answers on `listener` from now on, as long as the runtime runs.
    pub fn serve(self: &Rc<Self>, listener: R::Listener) {
        let member = self.clone();
        self.spawn(async move {
            let open = Rc::new(Cell::new(0));
            loop {
                match listener.accept().await {
                    Ok((stream, peer)) if open.get() < CONNECTIONS_MAX => {
                        open.set(open.get() + 1);
                        let counted = Counted(open.clone());
                        let wire = Wire::new(stream);
                        member.spawn(member.clone().serve_one(wire, peer, counted));
                    }
                    Ok((_, peer)) => {
                        tracing::warn!(
                            "{peer}: the controller has {CONNECTIONS_MAX} connections, and closes this one"
                        );
                    }
                    Err(error) => {
                        tracing::warn!("the controller cannot accept: {error}");
                        member.calls.runtime.sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        });
    }

    async fn serve_one(self: Rc<Self>, mut wire: Wire<R>, peer: SocketAddr, _counted: Counted) {
        let ended = self.converse(&mut wire).await;
        wire.close();
        match ended {
            Ok(()) | Err(WireError::Io(_)) => {}
            Err(error) => {
                let peer = peer.ip();
                let text = format!("{peer}: closed a connection to the controller: {error}");
                self.calls.warn_once(text);
            }
        }
    }

    async fn converse(&self, wire: &mut Wire<R>) -> Result<(), WireError> {
        let hello = {
            let received = std::pin::pin!(wire.receive_hello());
            let late = std::pin::pin!(self.calls.runtime.sleep(HELLO_TIMEOUT));
            match select(received, late).await {
                Either::Left((hello, _)) => hello?,
                Either::Right(_) => return Err(WireError::Io(std::io::ErrorKind::TimedOut.into())),
            }
        };
        let own = self.calls.identity();
        // Also to whom it refuses: the other side reads why out of it.
        let answer = ControllerHello {
            from: own,
            to: hello.from.node,
            to_directory: Uuid::nil(),
            versions: CONTROLLER_VERSIONS,
        };
        wire.send_hello(&answer).await?;
        hello.accept(&own, CONTROLLER_VERSIONS)?;
        while let Some((request, body)) = wire.receive::<Request>().await? {
            let response = self.answer(request, body).await;
            wire.send(&response, &[]).await?;
        }
        Ok(())
    }
}
