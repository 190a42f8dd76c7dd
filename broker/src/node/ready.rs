//! The `ready:` line, and the one to try next.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use strandline_runtime::SocketAddr;
use tokio::sync::oneshot;

use super::context::StartedShard;
use crate::config::BrokerConfig;

/// Where `strandctl` connects if nobody says.
const BOOTSTRAP_DEFAULT: &str = "127.0.0.1:9092";

/// Waits until every shard serves, and says so on stdout.
pub(super) async fn announce(
    config: Arc<BrokerConfig>,
    http: Option<SocketAddr>,
    started: oneshot::Receiver<Vec<StartedShard>>,
) {
    // A node that fails before it is ready has nothing to announce.
    let Ok(started) = started.await else { return };
    let lines = lines(&config, http, &started);
    // Whoever started the node may have closed its stdout.
    let _ = std::io::stdout().write_all(lines.as_bytes());
    let _ = std::io::stdout().flush();
}

fn lines(config: &BrokerConfig, http: Option<SocketAddr>, started: &[StartedShard]) -> String {
    let mut text = format!("ready: node {}", config.node_id);
    for (index, listener) in config.listeners.iter().enumerate() {
        let addresses = started.iter().map(|shard| shard.addresses[index].to_string());
        let _ = write!(
            text,
            ", {} {}",
            listener.name,
            addresses.collect::<Vec<_>>().join(" ")
        );
    }
    if let Some(http) = http {
        let _ = write!(text, ", HTTP {http}");
    }
    text.push('\n');
    let (host, port) = config.listeners[0]
        .advertised
        .of_shard(0, started[0].addresses[0].port());
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host
    };
    let bootstrap = format!("{host}:{port}");
    let bootstrap = if bootstrap == BOOTSTRAP_DEFAULT {
        String::new()
    } else {
        format!("-b {bootstrap} ")
    };
    let strandctl = format!("cargo run -qr -p strandctl -- {bootstrap}");
    let _ = writeln!(
        text,
        "try:   echo hello | {strandctl}produce greetings && {strandctl}consume greetings -o start -n 1"
    );
    text
}
