//! Resources of configuration, as requests name them.

use strandline_core::config::ConsumerGroupSettings;
use strandline_core::metadata::{BrokerId, ConfigOperation, ConfigResource};
use strandline_wire::{ErrorCode, topic_name};

use super::context::AdminContext;
use super::text::Refusal;

pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
pub(super) const BROKER_LOGGER: i8 = 8;
pub(super) const CLIENT_METRICS: i8 = 16;
pub(super) const GROUP: i8 = 32;

/// The resource of a type and a name; an empty broker name is the cluster's default.
pub(super) fn parse(context: &AdminContext<'_>, kind: i8, name: &str) -> Result<ConfigResource, Refusal> {
    match kind {
        TOPIC => {
            topic_name::validate(name)
                .map_err(|error| Refusal::new(ErrorCode::InvalidTopicException, error.to_string()))?;
            match context.image().topic_by_name(name) {
                Some(_) => Ok(ConfigResource::Topic(name.to_owned())),
                None => {
                    let text = format!("topic '{name}' does not exist");
                    Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, text))
                }
            }
        }
        BROKER if name.is_empty() => Ok(ConfigResource::ClusterDefault),
        BROKER => {
            let broker = name.parse().ok().map(BrokerId);
            let known = broker.filter(|broker| context.image().broker(*broker).is_some());
            known.map(ConfigResource::Broker).ok_or_else(|| {
                Refusal::new(
                    ErrorCode::InvalidRequest,
                    format!("no broker has the id '{name}'"),
                )
            })
        }
        BROKER_LOGGER => Err(unserved(
            "log levels of a running broker (set RUST_LOG and restart)",
        )),
        CLIENT_METRICS => Err(unserved("subscriptions of client metrics")),
        GROUP if name.is_empty() => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            "Group name must not be empty",
        )),
        GROUP => Ok(ConfigResource::Group(name.to_owned())),
        other => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            format!("resource type {other} is not known"),
        )),
    }
}

/// Whether a group's values are within what this broker allows: bounds that the cluster's metadata does not know.
pub(super) fn check_bounds(
    context: &AdminContext<'_>,
    resource: &ConfigResource,
    operations: &[(String, ConfigOperation)],
) -> Result<(), Refusal> {
    if !matches!(resource, ConfigResource::Group(_)) {
        return Ok(());
    }
    let settings = ConsumerGroupSettings::new(&context.config.static_config);
    for (key, operation) in operations {
        if let ConfigOperation::Set(value) = operation {
            settings
                .check(key, value)
                .map_err(|reason| Refusal::new(ErrorCode::InvalidConfig, reason))?;
        }
    }
    Ok(())
}

fn unserved(what: &str) -> Refusal {
    Refusal::new(
        ErrorCode::InvalidRequest,
        format!("{what} are not served by this version"),
    )
}
