//! What is being measured: a broker that runs somewhere, or one started for this run as a child process.

mod child;

pub use child::{ChildBroker, ChildKind, ChildOptions, terminate_children};
