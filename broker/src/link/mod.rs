//! Links to shards of other nodes: a TCP connection with the messages of [`strandline_core::link`].
//!
//! A follower's shard opens one to each shard of another node that leads what it follows ([`dial`]); the leader's shard accepts it
//! ([`serve`]). Both then speak as the shards of one process do: what they say waits in a mailbox, which a link empties into the
//! socket ([`converse`]), and what comes is handed on in the poll that read it. [`transport`] is the socket itself.
//!
//! Invariants:
//! - Nothing of another cluster, shard, registration or version is ever delivered, nor bytes whose checksum is wrong.
//! - Whoever reads never waits for a write, a disk or memory: frames come only against credit, which is memory reserved before.
//! - Memory grows with what came, not with what was announced.
//! - A link that says nothing, or takes nothing, is closed; one that was refused is not tried again at once.

mod converse;
mod dial;
mod serve;
#[cfg(test)]
mod tests;
mod transport;

pub(crate) use dial::dial;
pub(crate) use serve::accept;
