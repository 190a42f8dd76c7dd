//! The admin APIs: one file each, one `handle` each, called by the dispatcher of the shard that got the request.

pub mod context;

pub use context::AdminContext;
