//! DescribeConfigs (32).

use std::collections::BTreeSet;

use strandline_core::metadata::ConfigResource;
use strandline_runtime::local::collect_in_turns;
use strandline_wire::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use strandline_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};

use super::context::AdminContext;
use super::entries::{self, Entry};
use super::resource;
use super::text::{Refusal, string};

/// Answers from the newest image.
pub async fn handle(
    context: &AdminContext<'_>,
    request: DescribeConfigsRequest,
    _version: i16,
) -> DescribeConfigsResponse {
    // One that is named twice is answered once: an answer grows with what there is, not with what is asked.
    let mut seen = BTreeSet::new();
    let once = |resource: &&DescribeConfigsResource| {
        seen.insert((resource.resource_type, resource.resource_name.clone()))
    };
    let results = request.resources.iter().filter(once).map(|resource| {
        let answer = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        match describe(context, resource) {
            Ok(entries) => {
                let shown = |entry| show(entry, request.include_synonyms, request.include_documentation);
                answer
                    .with_error_message(None)
                    .with_configs(entries.into_iter().map(shown).collect())
            }
            Err(refusal) => answer
                .with_error_code(refusal.code.code())
                .with_error_message(refusal.message()),
        }
    });
    DescribeConfigsResponse::default().with_results(collect_in_turns(results).await)
}

fn describe(context: &AdminContext<'_>, asked: &DescribeConfigsResource) -> Result<Vec<Entry>, Refusal> {
    let image = context.image();
    let mut entries = match resource::parse(context, asked.resource_type, &asked.resource_name)? {
        ConfigResource::Topic(name) => {
            let configs = image
                .topic_by_name(&name)
                .map(|topic| topic.configs.clone())
                .unwrap_or_default();
            entries::of_topic(context.config, &image, context.broker_id, &configs)
        }
        ConfigResource::Broker(broker) => entries::of_broker(context.config, &image, broker),
        ConfigResource::ClusterDefault => entries::of_cluster_default(&image),
        ConfigResource::Group(group) => entries::of_group(context.config, &image, &group),
    };
    // An empty list asks for everything, as a missing one does.
    if let Some(keys) = asked.configuration_keys.as_ref().filter(|keys| !keys.is_empty()) {
        let keys: BTreeSet<&str> = keys.iter().map(|key| key.as_str()).collect();
        entries.retain(|entry| keys.contains(entry.key.name));
    }
    Ok(entries)
}

fn show(entry: Entry, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult {
    let key = entry.key;
    let synonyms = match synonyms {
        true => entry.synonyms,
        false => Vec::new(),
    };
    let synonym = |layer: strandline_core::config::LayerValue| {
        DescribeConfigsSynonym::default()
            .with_name(string(layer.name))
            .with_value(layer.value.map(|value| string(&value)))
            .with_source(layer.source as i8)
    };
    DescribeConfigsResourceResult::default()
        .with_name(string(key.name))
        .with_value(entry.value.map(|value| string(&value)))
        .with_read_only(entry.read_only)
        .with_config_source(entry.source as i8)
        .with_is_sensitive(key.kind == strandline_core::config::Kind::Password)
        .with_synonyms(synonyms.into_iter().map(synonym).collect())
        .with_config_type(key.kind as i8)
        .with_documentation(documentation.then(|| string(key.doc)))
}
