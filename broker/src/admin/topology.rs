//! What answers say about brokers and partitions, as the client's listener sees them.

use strandline_core::metadata::{Broker, BrokerId, ClusterImage, Partition};
use strandline_wire::ErrorCode;
use strandline_wire::messages;
use strandline_wire::protocol::StrBytes;
use uuid::Uuid;

use super::text::string;

/// A broker's address on a listener: host, port, rack.
pub(super) fn address(broker: &Broker, listener: &str) -> Option<(StrBytes, i32, Option<StrBytes>)> {
    let endpoint = broker.endpoint(listener)?;
    Some((
        string(&endpoint.host),
        i32::from(endpoint.port),
        Some(string(&broker.rack)),
    ))
}

/// A cluster id as Kafka writes it: base64 of its 16 bytes, safe in URLs.
pub(super) fn cluster_id(image: &ClusterImage) -> StrBytes {
    StrBytes::from_string(base64(image.cluster_id().unwrap_or_else(Uuid::nil)))
}

pub(crate) fn base64(id: Uuid) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = id.as_u128();
    // 21 digits of six bits, and one with the last two.
    let digit = |index: u32| match index {
        21 => (bits << 4) & 63,
        _ => (bits >> (122 - 6 * index)) & 63,
    };
    (0..22)
        .map(|index| char::from(DIGITS[digit(index) as usize]))
        .collect()
}

/// What an answer says about a partition's leader: the code, and who it is.
pub(super) fn leader(
    image: &ClusterImage,
    partition: &Partition,
    listener: &str,
) -> (ErrorCode, messages::BrokerId) {
    match image.broker(partition.leader).filter(|broker| !broker.fenced) {
        None => (
            ErrorCode::LeaderNotAvailable,
            messages::BrokerId(BrokerId::NONE.0),
        ),
        Some(broker) if broker.endpoint(listener).is_none() => {
            (ErrorCode::ListenerNotFound, messages::BrokerId(BrokerId::NONE.0))
        }
        Some(broker) => (ErrorCode::None, messages::BrokerId(broker.id.0)),
    }
}

pub(super) fn broker_ids(brokers: &[BrokerId]) -> Vec<messages::BrokerId> {
    brokers
        .iter()
        .map(|broker| messages::BrokerId(broker.0))
        .collect()
}

/// The replicas on brokers that do not serve.
pub(super) fn offline(image: &ClusterImage, partition: &Partition) -> Vec<messages::BrokerId> {
    let serves = |broker: &BrokerId| image.broker(*broker).is_some_and(|broker| !broker.fenced);
    let offline = partition.replicas.iter().filter(|broker| !serves(broker));
    offline.map(|broker| messages::BrokerId(broker.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_as_kafka_writes_them() {
        assert_eq!(base64(Uuid::nil()), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(base64(Uuid::max()), "_____________________w");
        let id = Uuid::from_bytes(*b"peerpeerpeerpeer");
        assert_eq!(base64(id), "cGVlcnBlZXJwZWVycGVlcg");
    }
}
