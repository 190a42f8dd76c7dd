//! Produce: every batch validated, appended in order, acknowledged once it is durable.

mod append;
mod pending;

use std::rc::Rc;
use std::time::Duration;

use strandline_core::fetch_session::TopicKey;
use strandline_core::replica::Acks;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::produce::{ProduceRequest, TopicRef, decode_request};

pub(crate) use append::code_of;
pub(crate) use pending::PendingProduce;

use self::append::{Appender, Refusal};
use super::Request;
use super::lookup::Named;
use crate::connection::{Answer, Close};

/// The first version that is served; older ones carry message formats that Kafka 4 does not know.
pub(crate) const FIRST_VERSION: i16 = strandline_wire::produce::FIRST_SERVED_VERSION;

/// No request names more partitions: an answer takes far more memory than the few bytes that name a partition, and a shard
/// serves far fewer.
const PARTITIONS_MAX: usize = 1 << 17;

/// Serves a produce: on return every batch of it is appended or refused, and its answer waits in the outbox.
pub(crate) async fn serve<R: Runtime, D: Disk>(request: &Request<R, D>, body: &[u8]) -> Result<(), Close> {
    let shard = &request.shard;
    let asked = loop {
        let asked = decode_request(request.version, body)?;
        let count = asked.topics.item_count();
        if count > PARTITIONS_MAX {
            let reason = format!("a produce names {count} partitions; at most {PARTITIONS_MAX} are served");
            return Err(Close::Refused(reason.into()));
        }
        let bytes = PendingProduce::bytes_of(&asked);
        if shard.answers.fits(bytes) {
            break asked;
        }
        // Decoded again later: what is decoded takes memory too.
        drop(asked);
        request.connection.room_for_answer(shard, bytes).await?;
    };
    let acks = match asked.acks {
        0 => Ok(None),
        1 => Ok(Some(Acks::Leader)),
        -1 => Ok(Some(Acks::All)),
        other => Err(Refusal::new(
            ErrorCode::InvalidRequiredAcks,
            format!("acks is {other}; it may be 0, 1 or -1 (all)"),
        )),
    };
    let timeout = Duration::from_millis(u64::try_from(asked.timeout_ms).unwrap_or_default());
    let deadline = request.arrived + timeout;
    let pending = Rc::new(PendingProduce::new(
        request,
        request.connection.outbox.news.clone(),
        deadline,
        shard.answers.lend_counted(PendingProduce::bytes_of(&asked)),
    ));
    let refused = acks
        .as_ref()
        .err()
        .cloned()
        .or_else(|| refuse_transactional(&asked));
    let acks = acks.unwrap_or_default();

    let appender = Appender {
        request,
        acks,
        deadline,
    };
    for (topic, partitions) in asked.topics.iter() {
        let key = match topic {
            TopicRef::Name(name) => TopicKey::Name(Rc::from(*name)),
            TopicRef::Id(id) => TopicKey::Id(*id),
        };
        let topic = shard.topic(&key);
        // Known topics lend their name: no allocation for the usual case would need a look before the key.
        pending.begin_topic(key.clone());
        for partition in partitions {
            let outcome = match &refused {
                Some(refusal) => Err(refusal.clone()),
                None => appender.append(topic.as_ref(), &key, partition, &pending).await,
            };
            if let Err(refusal) = outcome {
                request.refused(refusal.code, &Named(&key), partition.index, &refusal.reason);
                pending.refuse(partition.index, refusal);
            }
            // One that is refused has waited for nothing, and neither has one that had room.
            shard.runtime.yield_if_needed().await;
        }
    }
    pending.appended(shard.runtime.now());
    if asked.acks == 0 {
        return finish_unacknowledged(request, &pending);
    }
    request.connection.outbox.push(Answer::Produce(pending));
    Ok(())
}

/// A producer that wants no answer learns of an error by its connection's end, as from Kafka.
fn finish_unacknowledged<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    pending: &PendingProduce,
) -> Result<(), Close> {
    request
        .shard
        .metrics
        .answered_with(request.api.key(), pending.codes().into_iter());
    match pending.first_error() {
        None => Ok(()),
        Some(code) => Err(Close::Refused(
            format!("a produce with acks=0 failed with {}", code.name()).into(),
        )),
    }
}

/// Transactions are not served yet; this code is the one that clients do not retry.
fn refuse_transactional(asked: &ProduceRequest<'_>) -> Option<Refusal> {
    asked.transactional_id.map(|_| append::no_transactions())
}
