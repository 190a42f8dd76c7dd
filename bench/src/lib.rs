//! The load generator of Strandline, for any broker that speaks the Kafka protocol.
//!
//! What it does differently from the usual tools:
//! - **Open loop.** When a record is due is a function of time alone ([`schedule`]); a slow answer never delays the next record, and every
//!   latency counts from the intended time.
//! - **Nothing hidden.** No clamping, no averages of percentiles, no dropped samples ([`histogram`]); every record is verified
//!   ([`verify`]); a run that does not mean what it seems to mean is called INVALID, with the reason ([`verdict`]).
//! - **A floor to compare with.** [`null_broker`] is the least that any durable broker must do; [`limits`] is what the machine can do.
//!
//! Map: [`run`] starts the target ([`target`]), one thread a sender ([`sender`]) and a consumer ([`consumer`]), and
//! hands what they measured to [`report`]; [`live`] shows it meanwhile. [`client`] speaks the protocol, by the project's `strandline_wire`.
//!
//! This crate never depends on the broker: it talks to it through sockets, and starts it as a child process.

pub mod cli;
pub mod client;
pub mod clock;
pub mod commands;
pub mod compare;
pub mod consumer;
pub mod direct_io;
pub mod exit;
pub mod fail_if;
pub mod hiccup;
pub mod histogram;
pub mod keys;
pub mod limits;
pub mod live;
pub mod machine;
pub mod merge;
pub mod null_broker;
pub mod openmessaging;
pub mod payload;
pub mod pin;
pub mod presets;
pub mod report;
pub mod ring;
pub mod run;
pub mod schedule;
pub mod sender;
pub mod series;
pub mod sizes;
pub mod statistics;
pub mod sweep;
pub mod target;
pub mod units;
pub mod verdict;
pub mod verify;
pub mod workload;
