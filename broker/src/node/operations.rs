//! What an operator of this machine asks of single shards, by a Unix socket in the first data directory.
//!
//! A connection is one line, `shard <pause|stop|start> <number>`, answered by one: `ok`, or `error` and why not. It is
//! answered once it is so: a shard that stops is fenced by then, one that starts serves. Only the user whom the node runs
//! as, and root, are heard; nothing of it can be reached from another machine.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use strandline_core::metadata::NodeId;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{sleep, timeout};

use super::context::ImageSlot;
use crate::control::client::{ControlClient, OrderError, ShardOrder};

/// The socket's name in the directory.
const SOCKET: &str = "operations.sock";
/// A line is much shorter.
const LINE_BYTES_MAX: u64 = 128;
/// How long a line may take to come.
const LINE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an order may take: a shard closes its store, or replays its journal.
const ORDER_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks at the image.
const LOOK: Duration = Duration::from_millis(20);
/// Between two tries to accept, when the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The bound socket.
pub(super) struct Operations {
    listener: UnixListener,
    path: PathBuf,
    operator: Operator,
}

#[derive(Clone)]
struct Operator {
    client: ControlClient,
    images: ImageSlot,
    node: NodeId,
    /// Whom the node runs as.
    user: u32,
}

impl Operations {
    /// Binds the socket in `directory`, whose lock this process holds: a socket that is there is of a process that is gone.
    ///
    /// # Errors
    /// The system's: above all, a path beyond the 107 bytes that such an address has.
    pub(super) fn bind(
        directory: &Path,
        client: ControlClient,
        images: ImageSlot,
        node: NodeId,
    ) -> io::Result<Self> {
        let path = directory.join(SOCKET);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        let user = std::fs::metadata(&path)?.uid();
        Ok(Self {
            listener,
            path,
            operator: Operator {
                client,
                images,
                node,
                user,
            },
        })
    }

    /// Serves until the runtime ends.
    pub(super) async fn serve(self) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(self.operator.clone().answer(stream))),
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    }
}

impl Drop for Operations {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Operator {
    async fn answer(self, mut stream: UnixStream) {
        let answer = match self.hear(&mut stream).await {
            Ok(()) => "ok\n".to_owned(),
            Err(reason) => format!("error {reason}\n"),
        };
        let _ = stream.write_all(answer.as_bytes()).await;
    }

    async fn hear(&self, stream: &mut UnixStream) -> Result<(), String> {
        let peer = stream.peer_cred().map_err(|error| error.to_string())?.uid();
        if peer != self.user && peer != 0 {
            return Err(format!("only user {} and root may ask this node", self.user));
        }
        let mut line = String::new();
        let mut reader = BufReader::new(stream.take(LINE_BYTES_MAX));
        match timeout(LINE_TIMEOUT, reader.read_line(&mut line)).await {
            Ok(Ok(_)) if line.ends_with('\n') => {}
            _ => return Err("no whole line came".to_owned()),
        }
        let (shard, order) = parse(&line)?;
        let answer = self.client.order(shard, order).await;
        let answer = answer.unwrap_or(Err(OrderError::NotServing));
        answer.map_err(|error| error.to_string())?;
        let fenced = match order {
            ShardOrder::Stop => true,
            ShardOrder::Start => false,
            ShardOrder::Pause | ShardOrder::Lost => return Ok(()),
        };
        timeout(ORDER_TIMEOUT, self.until(shard, fenced))
            .await
            .map_err(|_| {
                format!(
                    "not done within {} s: the node's log says why",
                    ORDER_TIMEOUT.as_secs()
                )
            })
    }

    async fn until(&self, shard: u32, fenced: bool) {
        let id = self.node.broker(shard);
        while self
            .images
            .latest()
            .broker(id)
            .is_none_or(|broker| broker.fenced != fenced)
        {
            sleep(LOOK).await;
        }
    }
}

fn parse(line: &str) -> Result<(u32, ShardOrder), String> {
    let mut words = line.split_whitespace();
    let (Some("shard"), Some(verb), Some(number), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("expected: shard <pause|stop|start> <number>".to_owned());
    };
    let order = match verb {
        "pause" => ShardOrder::Pause,
        "stop" => ShardOrder::Stop,
        "start" => ShardOrder::Start,
        other => return Err(format!("a shard cannot {other}: it can pause, stop and start")),
    };
    let number = number
        .parse()
        .map_err(|_| format!("`{number}` is no number of a shard"))?;
    Ok((number, order))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_strictly() {
        assert_eq!(parse("shard stop 2\n"), Ok((2, ShardOrder::Stop)));
        assert_eq!(parse("shard pause 0\n"), Ok((0, ShardOrder::Pause)));
        for wrong in [
            "",
            "shard stop",
            "shard stop x",
            "shard kill 1",
            "node stop 1",
            "shard stop 1 2",
        ] {
            parse(wrong).unwrap_err();
        }
    }
}
