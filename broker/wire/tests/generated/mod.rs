//! What the comparisons with the generated codec share: topics of random partitions, in both forms.

use bytes::BytesMut;
use kafka_protocol::messages;
use kafka_protocol::protocol::{Encodable, StrBytes};
use proptest::collection::vec;
use proptest::prelude::*;
use strandline_wire::Uuid;
use strandline_wire::produce::TopicRef;

pub(crate) fn text() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9é._-]{0,24}"
}

#[derive(Clone, Debug)]
pub(crate) struct Topic<P> {
    pub(crate) name: String,
    pub(crate) id: [u8; 16],
    pub(crate) partitions: Vec<P>,
}

pub(crate) fn topics<P: std::fmt::Debug>(
    partition: impl Strategy<Value = P>,
) -> impl Strategy<Value = Vec<Topic<P>>> {
    let topic = (text(), any::<[u8; 16]>(), vec(partition, 0..4));
    vec(
        topic.prop_map(|(name, id, partitions)| Topic { name, id, partitions }),
        0..4,
    )
}

impl<P> Topic<P> {
    pub(crate) fn reference(&self, by_id: bool) -> TopicRef<'_> {
        if by_id {
            TopicRef::Id(Uuid::from_bytes(self.id))
        } else {
            TopicRef::Name(&self.name)
        }
    }

    /// Name and id as the generated types hold them: only the one that the version has.
    pub(crate) fn their_reference(&self, by_id: bool) -> (messages::TopicName, Uuid) {
        if by_id {
            (messages::TopicName::default(), Uuid::from_bytes(self.id))
        } else {
            (
                messages::TopicName(StrBytes::from_string(self.name.clone())),
                Uuid::nil(),
            )
        }
    }
}

pub(crate) fn their_bytes(message: &impl Encodable, version: i16) -> BytesMut {
    let mut out = BytesMut::new();
    message.encode(&mut out, version).expect("their codec encodes it");
    out
}
