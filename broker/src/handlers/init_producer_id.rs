//! InitProducerId for idempotent producers; a transactional one is refused until transactions are served.

use bytes::Bytes;
use strandline_runtime::Runtime;
use strandline_storage::disk::Disk;
use strandline_wire::ErrorCode;
use strandline_wire::messages::init_producer_id_response::InitProducerIdResponse;
use strandline_wire::messages::{InitProducerIdRequest, ProducerId};

use super::Request;
use crate::connection::{Answer, Close};

/// Refuses a transactional id with a code that clients do not retry.
const NO_TRANSACTIONS: &str = "transactions are not served by this version";

const NO_PRODUCER_ID: i64 = -1;
const NO_PRODUCER_EPOCH: i16 = -1;

pub(super) async fn serve<R: Runtime, D: Disk>(
    request: &Request<R, D>,
    body: Bytes,
) -> Result<Answer<D>, Close> {
    let asked: InitProducerIdRequest = request.decode(body)?;
    let shard = &request.shard;
    let allocated = match &asked.transactional_id {
        Some(id) if id.is_empty() => Err((
            ErrorCode::InvalidRequest,
            "the transactional id is empty".to_owned(),
        )),
        Some(_) => Err((
            ErrorCode::TransactionalIdAuthorizationFailed,
            NO_TRANSACTIONS.to_owned(),
        )),
        None if (asked.producer_id.0 == NO_PRODUCER_ID) != (asked.producer_epoch == NO_PRODUCER_EPOCH) => {
            Err((
                ErrorCode::InvalidRequest,
                "producer id and epoch go together".to_owned(),
            ))
        }
        // A producer id in the request asks for the next epoch of a transactional one: an idempotent producer
        // that lost its epoch starts anew, as in Kafka.
        None => shard.producer_ids.next(&shard.control, shard.broker_id).await,
    };
    let answer = InitProducerIdResponse::default()
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    match allocated {
        Ok(id) => request.encode(
            &answer.with_producer_id(ProducerId(id)).with_producer_epoch(0),
            std::iter::once(ErrorCode::None),
        ),
        Err((code, reason)) => {
            request.refused(code, &"-", -1, &reason);
            request.encode(&answer.with_error_code(code.code()), std::iter::once(code))
        }
    }
}
