//! The layers of configuration, and which of them decides. A group's value: its own; else what the node was started with.
//!
//! A topic's value: its own; else the broker's dynamic one; else the cluster's dynamic one; else what the node was
//! started with; else the default. In each layer below the topic the synonyms are looked at in their order.

use std::collections::BTreeMap;

use super::key::{Key, Scope, Synonym};
use super::lookup;

type Map = BTreeMap<String, String>;

static NOTHING: Map = Map::new();

/// What a node was started with: only the keys that somebody set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticConfig(pub BTreeMap<String, String>);

/// Where a value comes from; the numbers are those of DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Source {
    /// The topic's own configuration.
    DynamicTopic = 1,
    /// One broker's dynamic configuration.
    DynamicBroker = 2,
    /// The cluster's dynamic configuration.
    DynamicDefaultBroker = 3,
    /// What the node was started with.
    StaticBroker = 4,
    /// The table; for a group's key also the broker's value, as in Kafka.
    Default = 5,
    /// The group's own configuration.
    Group = 8,
}

/// A value of one layer, under the name it was set by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerValue {
    /// The key that was set.
    pub name: &'static str,
    /// Its value, in that key's unit; `None` is null.
    pub value: Option<String>,
    /// The layer.
    pub source: Source,
    factor: i64,
}

/// The layers that hold for one resource on one broker.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    scope: Scope,
    /// The topic's or the group's.
    own: Option<&'a Map>,
    broker: &'a Map,
    cluster: &'a Map,
    node: &'a StaticConfig,
}

impl<'a> Layers<'a> {
    /// Of one broker.
    pub fn of_broker(node: &'a StaticConfig, cluster: &'a Map, broker: &'a Map) -> Self {
        Self {
            scope: Scope::Broker,
            own: None,
            broker,
            cluster,
            node,
        }
    }

    /// Of one topic, on one broker.
    pub fn of_topic(node: &'a StaticConfig, cluster: &'a Map, broker: &'a Map, topic: &'a Map) -> Self {
        Self {
            scope: Scope::Topic,
            own: Some(topic),
            broker,
            cluster,
            node,
        }
    }

    /// Of one group. None of the broker's keys behind a group's can be changed while a node runs.
    pub fn of_group(node: &'a StaticConfig, group: &'a Map) -> Self {
        Self {
            scope: Scope::Group,
            own: Some(group),
            broker: &NOTHING,
            cluster: &NOTHING,
            node,
        }
    }

    /// Every value set for `key`, the one that decides first, the default last if there is one.
    pub fn chain(&self, key: &Key) -> Vec<LayerValue> {
        let mut chain = Vec::new();
        if let Some(value) = self.own.and_then(|own| own.get(key.name)) {
            let source = match self.scope {
                Scope::Group => Source::Group,
                Scope::Topic | Scope::Broker => Source::DynamicTopic,
            };
            chain.push(LayerValue::set(Synonym::same(key.name), value, source));
        }
        if self.scope == Scope::Group {
            // Kafka names the group's key alone, whatever the broker was started with.
            for synonym in key.synonyms {
                let set = self.node.0.get(synonym.name).map(String::as_str);
                let value = set.or_else(|| lookup(Scope::Broker, synonym.name)?.default);
                let own = Synonym::same(key.name);
                chain.extend(value.map(|value| LayerValue::set(own, value, Source::Default)));
            }
            return chain;
        }
        let own = [Synonym::same(key.name)];
        let synonyms = if key.synonyms.is_empty() && key.scope == Scope::Broker {
            &own
        } else {
            key.synonyms
        };
        let layers = [
            (self.broker, Source::DynamicBroker),
            (self.cluster, Source::DynamicDefaultBroker),
            (&self.node.0, Source::StaticBroker),
        ];
        for (layer, source) in layers {
            for synonym in synonyms {
                if let Some(value) = layer.get(synonym.name) {
                    chain.push(LayerValue::set(*synonym, value, source));
                }
            }
        }
        for synonym in synonyms {
            if let Some(default) = lookup(Scope::Broker, synonym.name).and_then(|key| key.default) {
                chain.push(LayerValue::set(*synonym, default, Source::Default));
            }
        }
        chain
    }

    /// The value of `key` and where it comes from.
    pub fn resolve(&self, key: &Key) -> (Option<String>, Source) {
        match self.chain(key).first() {
            Some(first) => (first.converted(), first.source),
            None => (key.default.map(str::to_owned), Source::Default),
        }
    }

    /// The value of a key that has one; empty for null.
    pub fn text(&self, name: &str) -> String {
        let key = lookup(self.scope, name).expect("the code asks for keys of the table only");
        self.resolve(key).0.unwrap_or_default()
    }

    /// The value of a numeric key, brought into the range of `T`.
    pub fn number<T: TryFrom<i64> + Bounded>(&self, name: &str) -> T {
        let number = self.text(name).parse::<i64>().ok().or_else(|| {
            // A value stored by a version that allowed more than this one does.
            lookup(self.scope, name)?.default?.parse().ok()
        });
        let number = number.expect("every numeric key the code asks for has a numeric default");
        T::try_from(number).unwrap_or(if number < 0 { T::LEAST } else { T::MOST })
    }

    /// The value of a key with a fraction.
    pub fn fraction(&self, name: &str) -> f64 {
        let default = || lookup(self.scope, name)?.default?.parse().ok();
        let value = self.text(name).parse().ok().or_else(default);
        value.expect("every key of this kind has a default that is a number")
    }

    /// The value of a boolean key.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name).eq_ignore_ascii_case("true")
    }
}

impl LayerValue {
    fn set(synonym: Synonym, value: &str, source: Source) -> Self {
        Self {
            name: synonym.name,
            // As Kafka reads it; the checks looked at the same.
            value: Some(value.trim().to_owned()),
            source,
            factor: synonym.factor,
        }
    }

    /// The value in the unit of the key that was asked for.
    fn converted(&self) -> Option<String> {
        let value = self.value.as_ref()?;
        match (self.factor, value.parse::<i64>()) {
            (1, _) | (_, Err(_)) => Some(value.clone()),
            // A negative retention means "for ever" in every unit.
            (_, Ok(negative)) if negative < 0 => Some("-1".to_owned()),
            (factor, Ok(number)) => Some(number.saturating_mul(factor).to_string()),
        }
    }
}

/// The ends of a number type.
pub trait Bounded {
    /// The smallest value.
    const LEAST: Self;
    /// The largest value.
    const MOST: Self;
}

macro_rules! bounded {
    ($($kind:ty)*) => {
        $(impl Bounded for $kind {
            const LEAST: Self = <$kind>::MIN;
            const MOST: Self = <$kind>::MAX;
        })*
    };
}

bounded!(i16 i32 i64 u16 u32 u64 usize);
