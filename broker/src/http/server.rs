//! Routes, and the socket they are served on.

use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use strandline_runtime::SocketAddr;
use strandline_runtime::mailbox::Sender;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, oneshot};

use super::metrics;
use crate::config::BrokerConfig;
use crate::control::run::ShardHandle;
use crate::node::connections::ConnectionLimits;
use crate::node::context::{ImageSlot, ShardMessage};
use crate::node::report::ShardReport;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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
    shards: Vec<Sender<ShardMessage>>,
    images: ImageSlot,
    node: strandline_core::metadata::NodeId,
    connections: ConnectionLimits,
    /// One scrape at a time: a shard's mailbox is no place for a crowd of them.
    scrape: Mutex<()>,
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
            scrape: Mutex::new(()),
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

/// Ready while every shard of the node is registered and unfenced.
async fn ready(State(endpoint): State<Arc<Endpoint>>) -> (StatusCode, &'static str) {
    let image = endpoint.images.latest();
    let mut live = 0..endpoint.shards.len() as u32;
    let serves = |shard| {
        image
            .broker(endpoint.node.broker(shard))
            .is_some_and(|broker| !broker.fenced)
    };
    match live.all(serves) {
        true => (StatusCode::OK, "ready\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
    }
}

async fn scrape(State(endpoint): State<Arc<Endpoint>>) -> Response {
    let _one = endpoint.scrape.lock().await;
    let mut waiting = Vec::new();
    for shard in &endpoint.shards {
        let (reply, report) = oneshot::channel();
        // A full mailbox or an ended shard drops the sender, and the report is missing.
        let _ = shard.send(ShardMessage::Report(reply));
        waiting.push(report);
    }
    let mut reports: Vec<(u32, ShardReport)> = Vec::new();
    for (shard, report) in (0..).zip(waiting) {
        if let Ok(report) = report.await {
            reports.push((shard, report));
        }
    }
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
