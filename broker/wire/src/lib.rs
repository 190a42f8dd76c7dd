//! The Kafka wire format.
