//! What is being measured: a broker that runs somewhere, or one started for this run as a child process.

mod build;
mod child;

pub use build::build_beside;
pub use child::{ChildBroker, ChildKind, ChildOptions, terminate_children};
