//! The link between two shards of different nodes: a follower's shard opens one to each shard that leads what it follows.
//!
//! Pure data and rules: the [hello](Hello) that opens a link, the [messages](LinkMessage) that follow in both directions and
//! their [bytes](encode), and the [credit](CreditSender) that bounds what is on the way. All integers are little-endian, and
//! the fields are written one by one: a message is a list of small fixed entries, most of them for many partitions at once.
//!
//! What a message says beyond its bytes stands in [`replica::message`](crate::replica::message).

mod codec;
mod credit;
mod cursor;
mod hello;
mod message;
#[cfg(test)]
mod tests;

pub use codec::{ENVELOPE_BYTES, Envelope, HEAD_BYTES_MAX, decode_head, encode};
pub use credit::{CreditError, CreditReceiver, CreditSender};
pub use hello::{HELLO_BYTES, Hello, HelloError, LinkIdentity, VERSIONS, Versions};
pub use message::{Answer, LinkAck, LinkError, LinkFrames, LinkMessage, LinkOpen, LinkOpened, Window};
