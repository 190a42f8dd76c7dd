//! DeleteTopics (20), by name or by id.

use strandline_core::metadata::{Answer, Command, TopicReference};
use strandline_runtime::local::collect_in_turns;
use strandline_wire::ErrorCode;
use strandline_wire::messages::delete_topics_request::DeleteTopicsRequest;
use strandline_wire::messages::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
use uuid::Uuid;

use super::context::{AdminContext, shard_timeout};
use super::text::{Refusal, duplicates, topic_name};

/// From this version on a disabled deletion has a code of its own.
const VERSION_WITH_DELETION_DISABLED: i16 = 3;

/// Deletes topics; answers once no shard of the node serves them any more.
pub async fn handle(
    context: &AdminContext<'_>,
    request: DeleteTopicsRequest,
    version: i16,
) -> DeleteTopicsResponse {
    let asked: Vec<_> = collect_in_turns(references(&request)).await;
    let twice = duplicates(asked.iter().map(key)).await;
    let checked = asked
        .iter()
        .map(key)
        .map(|(name, id)| check(context, twice.contains(&(name, id)), name, id, version));
    let checked: Vec<Result<TopicReference, Refusal>> = collect_in_turns(checked).await;
    let topics: Vec<TopicReference> = collect_in_turns(checked.iter().flatten().cloned()).await;
    let count = topics.len();
    let decided: Vec<Result<(Uuid, String), Refusal>> = if count == 0 {
        Vec::new()
    } else {
        match context
            .control
            .propose(
                Command::DeleteTopics { topics },
                shard_timeout(request.timeout_ms),
            )
            .await
        {
            Ok(Answer::TopicsDeleted(answers)) => {
                collect_in_turns(answers.into_iter().map(|answer| answer.map_err(Refusal::from))).await
            }
            Ok(other) => unreachable!("apply answers a deletion with topics, not {other:?}"),
            Err(error) => collect_in_turns((0..count).map(|_| Err(Refusal::from(error.clone())))).await,
        }
    };
    let mut decided = decided.into_iter();
    let responses = checked.into_iter().zip(asked).map(|(checked, (name, id))| {
        let outcome = checked.and_then(|_| decided.next().expect("apply answers every topic of the command"));
        let answer = DeletableTopicResult::default();
        match outcome {
            Ok((id, name)) => answer.with_name(Some(topic_name(&name))).with_topic_id(id),
            Err(refusal) => answer
                .with_name(name.as_deref().map(topic_name))
                .with_topic_id(id)
                .with_error_code(refusal.code.code())
                .with_error_message(refusal.message()),
        }
    });
    DeleteTopicsResponse::default().with_responses(collect_in_turns(responses).await)
}

/// Name and id of each topic asked for, whichever version wrote them.
fn references(request: &DeleteTopicsRequest) -> impl Iterator<Item = (Option<String>, Uuid)> {
    let names = request
        .topic_names
        .iter()
        .map(|name| (Some(name.to_string()), Uuid::nil()));
    let states = request
        .topics
        .iter()
        .map(|topic| (topic.name.as_ref().map(|name| name.0.to_string()), topic.topic_id));
    names.chain(states)
}

fn key((name, id): &(Option<String>, Uuid)) -> (Option<&str>, Uuid) {
    (name.as_deref(), *id)
}

fn check(
    context: &AdminContext<'_>,
    is_named_twice: bool,
    name: Option<&str>,
    id: Uuid,
    version: i16,
) -> Result<TopicReference, Refusal> {
    if !context.config.delete_topic_enable {
        let code = match version < VERSION_WITH_DELETION_DISABLED {
            true => ErrorCode::InvalidRequest,
            false => ErrorCode::TopicDeletionDisabled,
        };
        return Err(Refusal::new(
            code,
            "deletion of topics is turned off: delete.topic.enable is false",
        ));
    }
    if is_named_twice {
        return Err(Refusal::new(
            ErrorCode::InvalidRequest,
            "the request names this topic twice",
        ));
    }
    match (name, id.is_nil()) {
        (Some(name), true) => Ok(TopicReference::Name(name.to_owned())),
        (None, false) => Ok(TopicReference::Id(id)),
        (Some(_), false) => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            "name the topic or give its id, not both",
        )),
        (None, true) => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            "neither the topic's name nor its id is given",
        )),
    }
}
