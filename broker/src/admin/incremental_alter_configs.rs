//! IncrementalAlterConfigs (44): sets, deletes, appends to and subtracts from single keys.

use strandline_core::config::{Layers, Scope, lookup};
use strandline_core::metadata::{ConfigChange, ConfigMap, ConfigOperation, ConfigResource};
use strandline_runtime::local::{Turns, collect_in_turns};
use strandline_wire::ErrorCode;
use strandline_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use strandline_wire::messages::incremental_alter_configs_response::{
    AlterConfigsResourceResponse, IncrementalAlterConfigsResponse,
};

use super::alter_configs::decide;
use super::context::AdminContext;
use super::resource;
use super::text::{Refusal, duplicates};

static NOTHING: ConfigMap = ConfigMap::new();

/// Changes configurations; answers once every shard serves by them.
pub async fn handle(
    context: &AdminContext<'_>,
    request: IncrementalAlterConfigsRequest,
    _version: i16,
) -> IncrementalAlterConfigsResponse {
    let mut changes = Vec::with_capacity(request.resources.len());
    let mut turns = Turns::default();
    for resource in &request.resources {
        changes.push(change(context, resource).await);
        turns.item().await;
    }
    let named = request
        .resources
        .iter()
        .map(|resource| (resource.resource_type, resource.resource_name.clone()));
    let all = collect_in_turns(named.clone()).await;
    let outcomes = decide(context, all, changes, request.validate_only).await;
    let responses = named.zip(outcomes).map(|((kind, name), outcome)| {
        let answer = AlterConfigsResourceResponse::default()
            .with_resource_type(kind)
            .with_resource_name(name);
        match outcome {
            Ok(()) => answer.with_error_message(None),
            Err(refusal) => answer
                .with_error_code(refusal.code.code())
                .with_error_message(refusal.message()),
        }
    });
    IncrementalAlterConfigsResponse::default().with_responses(collect_in_turns(responses).await)
}

async fn change(context: &AdminContext<'_>, asked: &AlterConfigsResource) -> Result<ConfigChange, Refusal> {
    let resource = resource::parse(context, asked.resource_type, &asked.resource_name)?;
    let names = asked.configs.iter().map(|config| config.name.as_str());
    if let Some(twice) = duplicates(names).await.first() {
        return Err(Refusal::new(
            ErrorCode::InvalidRequest,
            format!("the request changes '{twice}' twice"),
        ));
    }
    let mut operations = Vec::with_capacity(asked.configs.len());
    let mut turns = Turns::default();
    for config in &asked.configs {
        operations.push((config.name.to_string(), operation(context, &resource, config)?));
        turns.item().await;
    }
    resource::check_bounds(context, &resource, &operations)?;
    Ok(ConfigChange {
        resource,
        replace: false,
        operations,
    })
}

fn operation(
    context: &AdminContext<'_>,
    resource: &ConfigResource,
    config: &AlterableConfig,
) -> Result<ConfigOperation, Refusal> {
    let value = || {
        config.value.as_ref().map(ToString::to_string).ok_or_else(|| {
            let text = format!("'{}' has no value: only a deletion needs none", config.name);
            Refusal::new(ErrorCode::InvalidRequest, text)
        })
    };
    let inherited = || inherited(context, resource, &config.name);
    match config.config_operation {
        0 => Ok(ConfigOperation::Set(value()?)),
        1 => Ok(ConfigOperation::Delete),
        2 => Ok(ConfigOperation::Append {
            items: value()?,
            inherited: inherited(),
        }),
        3 => Ok(ConfigOperation::Subtract {
            items: value()?,
            inherited: inherited(),
        }),
        other => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            format!("operation {other} is not known"),
        )),
    }
}

/// What the key has while the resource says nothing itself: a list is appended to that.
fn inherited(context: &AdminContext<'_>, resource: &ConfigResource, name: &str) -> String {
    let image = context.image();
    let node = &context.config.static_config;
    let (scope, layers) = match resource {
        ConfigResource::Topic(_) => {
            let own = image.broker_config(context.broker_id).unwrap_or(&NOTHING);
            (
                Scope::Topic,
                Layers::of_topic(node, image.cluster_config(), own, &NOTHING),
            )
        }
        ConfigResource::Broker(_) => (
            Scope::Broker,
            Layers::of_broker(node, image.cluster_config(), &NOTHING),
        ),
        ConfigResource::ClusterDefault => (Scope::Broker, Layers::of_broker(node, &NOTHING, &NOTHING)),
        ConfigResource::Group(_) => (Scope::Group, Layers::of_group(node, &NOTHING)),
    };
    // An unknown key is apply's to refuse.
    lookup(scope, name)
        .and_then(|key| layers.resolve(key).0)
        .unwrap_or_default()
}
