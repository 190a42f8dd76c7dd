//! Routes, and the socket they are served on.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use strandline_runtime::SocketAddr;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, oneshot};
use tokio::time::timeout;

use super::metrics;
use crate::config::BrokerConfig;
use crate::control::run::{ShardHandle, ShardMailbox};
use crate::node::connections::ConnectionLimits;
use crate::node::context::{ImageSlot, ShardMessage};
use crate::node::report::{Detail, ShardReport};

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A shard that does not answer for so long serves nobody.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// The endpoint could not be bound.
#[derive(Debug, Error)]
#[error(
    "HTTP cannot listen on {address}: {source}; choose another port by --http-port, or set strandline.http.enable=false"
)]
pub struct HttpError {
    address: SocketAddr,
    source: io::Error,
}

/// The bound endpoint.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    state: Arc<Endpoint>,
}

struct Endpoint {
    shards: Vec<ShardMailbox>,
    images: ImageSlot,
    node: strandline_core::metadata::NodeId,
    connections: ConnectionLimits,
    /// One question to the shards at a time: a mailbox is no place for a crowd of them.
    asking: Arc<Mutex<()>>,
}

impl Server {
    /// Binds the configured address; `None` if the endpoint is off.
    ///
    /// # Errors
    /// [`HttpError`].
    pub async fn bind(
        config: &BrokerConfig,
        shards: &[ShardHandle],
        images: ImageSlot,
        connections: ConnectionLimits,
    ) -> Result<Option<Self>, HttpError> {
        let Some(address) = config.http_address else {
            return Ok(None);
        };
        let failed = |source| HttpError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let state = Arc::new(Endpoint {
            shards: shards.iter().map(|shard| shard.mailbox.clone()).collect(),
            images,
            node: config.node_id,
            connections,
            asking: Arc::default(),
        });
        Ok(Some(Self {
            listener,
            address,
            state,
        }))
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the runtime ends.
    pub fn serve(self) -> impl Future<Output = ()> {
        let router = Router::new()
            .route("/metrics", get(scrape))
            .route("/health/live", get(async || "live\n"))
            .route("/health/ready", get(ready))
            .with_state(self.state);
        async move {
            if let Err(error) = axum::serve(self.listener, router).await {
                tracing::error!("HTTP ended: {error}");
            }
        }
    }
}

/// Ready while every shard of the node is registered, unfenced, answers, and takes records.
async fn ready(State(endpoint): State<Arc<Endpoint>>) -> (StatusCode, String) {
    match reason_not_ready(&endpoint).await {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

async fn reason_not_ready(endpoint: &Arc<Endpoint>) -> Option<String> {
    let image = endpoint.images.latest();
    let mut shards = 0..endpoint.shards.len() as u32;
    let serves = |shard| {
        image
            .broker(endpoint.node.broker(shard))
            .is_some_and(|broker| !broker.fenced)
    };
    if !shards.all(serves) {
        return Some("starting".to_owned());
    }
    let Ok(reports) = timeout(READY_TIMEOUT, ask(endpoint, Detail::Shard)).await else {
        return Some(format!(
            "a shard did not answer within {} s",
            READY_TIMEOUT.as_secs()
        ));
    };
    if reports.len() < endpoint.shards.len() {
        return Some("a shard has ended".to_owned());
    }
    reports
        .iter()
        .find_map(|(shard, report)| cannot_append(*shard, report))
}

/// Why a shard takes no records.
fn cannot_append(shard: u32, report: &ShardReport) -> Option<String> {
    if report.storage_stopped {
        return Some(format!(
            "the storage of shard {shard} has stopped: the log names the reason"
        ));
    }
    report.disk_full.then(|| {
        format!(
            "shard {shard} refuses appends: its disk has {} bytes free, and strandline.disk.free.min.bytes is {}",
            report.disk_free_bytes.unwrap_or_default(),
            report.disk_reserve_bytes
        )
    })
}

/// Every shard's report; of those that live.
async fn ask(endpoint: &Arc<Endpoint>, detail: Detail) -> Vec<(u32, ShardReport)> {
    let turn = endpoint.asking.clone().lock_owned().await;
    let mut waiting = Vec::new();
    for shard in &endpoint.shards {
        let (reply, report) = oneshot::channel();
        // A full mailbox or an ended shard drops the sender, and the report is missing.
        let _ = shard.send(ShardMessage::Report(detail, reply));
        waiting.push(report);
    }
    let collect = async move {
        let _turn = turn;
        let mut reports = Vec::new();
        for (shard, report) in (0..).zip(waiting) {
            reports.extend(report.await.ok().map(|report| (shard, report)));
        }
        reports
    };
    // The turn ends with the last report, not with a client that went away: each mailbox holds one question at most.
    tokio::spawn(collect).await.unwrap_or_default()
}

async fn scrape(State(endpoint): State<Arc<Endpoint>>) -> Response {
    let reports = ask(&endpoint, Detail::Everything).await;
    let (node, image, connections) = (
        endpoint.node,
        endpoint.images.latest(),
        endpoint.connections.open(),
    );
    // A page of thousands of partitions takes its time: not the control loop's.
    let page = tokio::task::spawn_blocking(move || metrics::render(node, reports, image, connections)).await;
    match page.unwrap_or(Err(std::fmt::Error)) {
        Ok(page) => ([(header::CONTENT_TYPE, METRICS_TYPE)], page).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use strandline_core::metadata::NodeId;
    use strandline_runtime::mailbox::{Receiver, mailbox};

    use super::*;
    use crate::admin::tests::serving;

    fn endpoint(shards: u32) -> (Arc<Endpoint>, Vec<Receiver<ShardMessage>>) {
        let (shards, mailboxes): (Vec<_>, Vec<_>) = (0..shards)
            .map(|_| {
                let (sender, receiver) = mailbox(4);
                (ShardMailbox::new(sender), receiver)
            })
            .unzip();
        let endpoint = Endpoint {
            images: ImageSlot::new(Arc::new(serving(shards.len() as u32))),
            shards,
            node: NodeId(1),
            connections: ConnectionLimits::default(),
            asking: Arc::default(),
        };
        (Arc::new(endpoint), mailboxes)
    }

    fn answer(mailbox: &mut Receiver<ShardMessage>, report: ShardReport) {
        let Some(ShardMessage::Report(_, reply)) = mailbox.try_receive() else {
            panic!("the shard was not asked")
        };
        reply.send(report).unwrap();
    }

    #[tokio::test]
    async fn clients_that_went_away_leave_one_question_in_a_mailbox() {
        let (endpoint, mut mailboxes) = endpoint(1);
        for _ in 0..100 {
            assert!(ask(&endpoint, Detail::Everything).now_or_never().is_none());
        }
        let stays = tokio::spawn(async move { ask(&endpoint, Detail::Everything).await });
        answer(&mut mailboxes[0], ShardReport::default());
        assert!(
            mailboxes[0].try_receive().is_none(),
            "a second question came before the first was answered"
        );
        while !stays.is_finished() {
            tokio::task::yield_now().await;
            if let Some(ShardMessage::Report(_, reply)) = mailboxes[0].try_receive() {
                reply.send(ShardReport::default()).unwrap();
            }
        }
        assert_eq!(stays.await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_node_is_not_ready_with_a_stopped_storage_or_an_ended_shard() {
        let stopped = ShardReport {
            storage_stopped: true,
            ..ShardReport::default()
        };
        let (endpoint, mut mailboxes) = endpoint(2);
        let cases = [
            (ShardReport::default(), None),
            (stopped, Some("the storage of shard 1 has stopped")),
        ];
        for (report, expected) in cases {
            let mut asked = std::pin::pin!(reason_not_ready(&endpoint));
            assert!((&mut asked).now_or_never().is_none());
            answer(&mut mailboxes[0], ShardReport::default());
            answer(&mut mailboxes[1], report);
            let reason = asked.await;
            match expected {
                None => assert_eq!(reason, None),
                Some(text) => assert!(reason.unwrap().starts_with(text)),
            }
        }
        mailboxes.pop();
        let mut asked = std::pin::pin!(reason_not_ready(&endpoint));
        assert!((&mut asked).now_or_never().is_none());
        answer(&mut mailboxes[0], ShardReport::default());
        assert_eq!(asked.await.as_deref(), Some("a shard has ended"));
    }
}
