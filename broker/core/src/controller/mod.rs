//! The wire between controllers, one connection for requests in each direction: the [hello](ControllerHello) of both sides,
//! then requests and answers in turn, each a [frame](encode_frame) with a text and, behind some, bytes.
//!
//! Pure data and rules. All integers are little-endian. Both sides say which versions they speak, who they are and whom they
//! mean: a controller never talks to another cluster, nor to a node whose data directory is another than the quorum knows.

mod frame;
mod hello;
#[cfg(test)]
mod tests;

pub use frame::{
    BODY_BYTES_MAX, FRAME_ENVELOPE_BYTES, FrameEnvelope, FrameError, HEAD_BYTES_MAX, encode_frame,
};
pub use hello::{
    CONTROLLER_HELLO_BYTES, CONTROLLER_VERSIONS, ControllerHello, ControllerHelloError, ControllerIdentity,
};
