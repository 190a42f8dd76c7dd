//! AlterConfigs (33), the legacy form: the keys given replace all that the resource had.

use strandline_core::metadata::{Answer, Command, ConfigChange, ConfigOperation};
use strandline_runtime::local::collect_in_turns;
use strandline_wire::ErrorCode;
use strandline_wire::messages::alter_configs_request::{AlterConfigsRequest, AlterConfigsResource};
use strandline_wire::messages::alter_configs_response::{AlterConfigsResourceResponse, AlterConfigsResponse};
use strandline_wire::protocol::StrBytes;

use super::context::{AdminContext, shard_timeout};
use super::resource;
use super::text::{Refusal, duplicates};

/// The request has no time of its own.
const TIMEOUT_MS: i32 = 10_000;

/// Replaces configurations; answers once every shard serves by them.
pub async fn handle(
    context: &AdminContext<'_>,
    request: AlterConfigsRequest,
    _version: i16,
) -> AlterConfigsResponse {
    let changes = request.resources.iter().map(|resource| change(context, resource));
    let changes = collect_in_turns(changes).await;
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
    AlterConfigsResponse::default().with_responses(collect_in_turns(responses).await)
}

fn change(context: &AdminContext<'_>, asked: &AlterConfigsResource) -> Result<ConfigChange, Refusal> {
    let resource = resource::parse(context, asked.resource_type, &asked.resource_name)?;
    let mut operations = Vec::new();
    for config in &asked.configs {
        let Some(value) = &config.value else {
            let text = format!("'{}' has no value: leave it out to reset it", config.name);
            return Err(Refusal::new(ErrorCode::InvalidRequest, text));
        };
        operations.push((config.name.to_string(), ConfigOperation::Set(value.to_string())));
    }
    resource::check_bounds(context, &resource, &operations)?;
    Ok(ConfigChange {
        resource,
        replace: true,
        operations,
    })
}

/// Has changes decided, as one command; resources that were refused before, or come twice, are left out of it.
pub(super) async fn decide(
    context: &AdminContext<'_>,
    named: Vec<(i8, StrBytes)>,
    changes: Vec<Result<ConfigChange, Refusal>>,
    validate_only: bool,
) -> Vec<Result<(), Refusal>> {
    let twice = duplicates(named.iter().map(|(kind, name)| (*kind, name.as_str()))).await;
    let changes = changes.into_iter().zip(&named).map(|(change, (kind, name))| {
        match twice.contains(&(*kind, name.as_str())) {
            true => Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "the request names this resource twice",
            )),
            false => change,
        }
    });
    let changes: Vec<Result<ConfigChange, Refusal>> = collect_in_turns(changes).await;
    let accepted: Vec<ConfigChange> = collect_in_turns(changes.iter().flatten().cloned()).await;
    let count = accepted.len();
    let command = Command::AlterConfigs { changes: accepted };
    let answer = match validate_only || count == 0 {
        true => Ok(context.image().check(&command)),
        false => context.control.propose(command, shard_timeout(TIMEOUT_MS)).await,
    };
    let decided: Vec<Result<(), Refusal>> = match answer {
        Ok(Answer::ConfigsAltered(answers)) => {
            collect_in_turns(answers.into_iter().map(|answer| answer.map_err(Refusal::from))).await
        }
        Ok(other) => unreachable!("apply answers changed configurations as such, not with {other:?}"),
        Err(error) => collect_in_turns((0..count).map(|_| Err(Refusal::from(error.clone())))).await,
    };
    let mut decided = decided.into_iter();
    let outcomes = changes.into_iter().map(|change| {
        change.and_then(|_| {
            decided
                .next()
                .expect("apply answers every resource of the command")
        })
    });
    collect_in_turns(outcomes).await
}
