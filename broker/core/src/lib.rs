//! Pure state machines of the broker.
