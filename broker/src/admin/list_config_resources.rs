//! ListConfigResources (74).

use strandline_wire::ErrorCode;
use strandline_wire::messages::list_config_resources_request::ListConfigResourcesRequest;
use strandline_wire::messages::list_config_resources_response::{
    ConfigResource, ListConfigResourcesResponse,
};

use super::context::AdminContext;
use super::resource::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use super::text::string;

/// Every type, which an empty list asks for.
const ALL: [i8; 5] = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP];

/// Lists what has, or can have, configuration. Version 0 asks for client metrics alone.
pub async fn handle(
    context: &AdminContext<'_>,
    request: ListConfigResourcesRequest,
    version: i16,
) -> ListConfigResourcesResponse {
    let asked = match (version, request.resource_types.as_slice()) {
        (0, _) => vec![CLIENT_METRICS],
        (_, []) => ALL.to_vec(),
        (_, some) => some.to_vec(),
    };
    if asked.iter().any(|kind| !ALL.contains(kind)) {
        return ListConfigResourcesResponse::default().with_error_code(ErrorCode::UnsupportedVersion.code());
    }
    let image = context.image();
    let brokers = || image.live_brokers().map(|broker| broker.id.to_string());
    let mut resources = Vec::new();
    for kind in ALL.into_iter().filter(|kind| asked.contains(kind)) {
        let names: Vec<String> = match kind {
            TOPIC => image.topics_by_name().map(|topic| topic.name.clone()).collect(),
            BROKER | BROKER_LOGGER => brokers().collect(),
            GROUP => image.configured_groups().map(str::to_owned).collect(),
            // Client metrics cannot be configured yet.
            _ => Vec::new(),
        };
        let resource = |name: String| {
            ConfigResource::default()
                .with_resource_name(string(&name))
                .with_resource_type(kind)
        };
        resources.extend(names.into_iter().map(resource));
    }
    ListConfigResourcesResponse::default().with_config_resources(resources)
}
