//! DescribeCluster (60).

use std::sync::Arc;

use strandline_core::metadata::Broker;
use strandline_wire::messages::describe_cluster_request::DescribeClusterRequest;
use strandline_wire::messages::describe_cluster_response::{DescribeClusterBroker, DescribeClusterResponse};
use strandline_wire::{ErrorCode, messages};

use super::context::AdminContext;
use super::operations;
use super::text::string;
use super::topology::{address, cluster_id};

const ENDPOINT_BROKERS: i8 = 1;
const ENDPOINT_CONTROLLERS: i8 = 2;

/// Answers from the newest image.
pub async fn handle(
    context: &AdminContext<'_>,
    request: DescribeClusterRequest,
    _version: i16,
) -> DescribeClusterResponse {
    let refuse = |code: ErrorCode, text: &str| {
        DescribeClusterResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(string(text)))
            .with_endpoint_type(request.endpoint_type)
            .with_cluster_authorized_operations(operations::OMITTED)
    };
    match request.endpoint_type {
        ENDPOINT_BROKERS => {}
        ENDPOINT_CONTROLLERS => {
            return refuse(
                ErrorCode::MismatchedEndpointType,
                "this is a broker's endpoint: ask for brokers here",
            );
        }
        _ => {
            return refuse(
                ErrorCode::UnsupportedEndpointType,
                "the endpoint type is not known",
            );
        }
    }
    let image = context.image();
    let broker = |broker: &Arc<Broker>| {
        let (host, port, rack) = address(broker, context.listener)?;
        let answer = DescribeClusterBroker::default().with_broker_id(messages::BrokerId(broker.id.0));
        Some(
            answer
                .with_host(host)
                .with_port(port)
                .with_rack(rack)
                .with_is_fenced(broker.fenced),
        )
    };
    let shown = image
        .brokers()
        .filter(|broker| request.include_fenced_brokers || !broker.fenced);
    DescribeClusterResponse::default()
        .with_endpoint_type(ENDPOINT_BROKERS)
        .with_cluster_id(cluster_id(&image))
        .with_controller_id(messages::BrokerId(context.broker_id.0))
        .with_brokers(shown.filter_map(broker).collect())
        .with_cluster_authorized_operations(match request.include_cluster_authorized_operations {
            true => operations::CLUSTER,
            false => operations::OMITTED,
        })
}
