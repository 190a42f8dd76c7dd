//! Configuration: one table of every key, and the rules by which layers of it decide.
//!
//! Parsing at start, DescribeConfigs, AlterConfigs, `--help` and `docs/configuration.md` all read the same [`Key`]s.

mod groups;
mod key;
mod layers;
mod markdown;
mod settings;
mod table;
mod validate;

pub use groups::{ConsumerGroupSettings, GroupSettings};
pub use key::{Check, Effect, Key, Kind, Scope, Synonym, Update};
pub use layers::{Bounded, LayerValue, Layers, Source, StaticConfig};
pub use markdown::configuration_markdown;
pub use settings::{BrokerSettings, CleanerSettings, Compression, TopicSettings};
pub use table::{keys, lookup};
pub use validate::{check_value, is_list, validate_dynamic_broker, validate_group, validate_topic};

#[cfg(test)]
mod tests;
