//! A row of the configuration table.

/// A configuration key: everything the broker knows about it, in one place.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name; Kafka's own, or one that starts with `strandline.`.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// The value if nobody sets one; `None` is Kafka's null.
    pub default: Option<&'static str>,
    /// Whether it is a broker's or a topic's.
    pub scope: Scope,
    /// Whether and where it can be changed while the node runs.
    pub update: Update,
    /// Which values it takes.
    pub check: Check,
    /// Other keys that say the same, the stronger first: for a broker's key all of its kind, itself included; for a
    /// topic's or a group's key the broker's keys that are its default.
    pub synonyms: &'static [Synonym],
    /// What setting it does.
    pub effect: Effect,
    /// Whether Kafka hides it from tools.
    pub internal: bool,
    /// For operators: what it does, in a sentence or two.
    pub doc: &'static str,
}

/// The type of a value; the numbers are those of DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Kind {
    /// `true` or `false`.
    Boolean = 1,
    /// Text.
    String = 2,
    /// A number of 32 bits.
    Int = 3,
    /// A number of 16 bits.
    Short = 4,
    /// A number of 64 bits.
    Long = 5,
    /// A number with a fraction.
    Double = 6,
    /// Items separated by commas.
    List = 7,
    /// A Java class, in Kafka.
    Class = 8,
    /// A secret: never shown.
    Password = 9,
}

/// Whose key it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// A node's, a shard's, or the cluster's.
    Broker,
    /// A topic's.
    Topic,
    /// A group's.
    Group,
}

/// Whether a value can be changed while the node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Only by a restart.
    ReadOnly,
    /// For one broker.
    PerBroker,
    /// For one broker or for all.
    ClusterWide,
}

/// Which values a key takes, beyond its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Check {
    /// All of its type.
    Any,
    /// At least this.
    AtLeast(i64),
    /// From the first to the second, both included.
    Between(i64, i64),
    /// As [`Check::Between`], or this one besides.
    BetweenOr(i64, i64, i64),
    /// A fraction from the first to the second, both included.
    Fraction(f64, f64),
    /// One of these words; for a list, each item is.
    OneOf(&'static [&'static str]),
    /// One of these words, whatever the case.
    OneOfAnyCase(&'static [&'static str]),
    /// Not empty.
    NotEmpty,
    /// `host:number` pairs, separated by commas.
    HostCounts,
    /// `partition:broker` pairs, separated by commas, or `*`.
    ThrottledReplicas,
}

/// Another name of the same setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synonym {
    /// A broker's key.
    pub name: &'static str,
    /// What its value is multiplied with to get the value here: hours to milliseconds, for example.
    pub factor: i64,
}

/// What setting a key does in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What its documentation says.
    Obeyed,
    /// Part of it, as the text says; setting it gets a warning.
    Partly(&'static str),
    /// Nothing, for the reason given; setting it gets a warning.
    Without(&'static str),
    /// Nothing, and relying on it would be unsafe: any value but the default is an error.
    Refused(&'static str),
}

impl Key {
    /// A broker's key that cannot be changed while the node runs, takes every value of its type, and is obeyed.
    pub const fn broker(name: &'static str, kind: Kind, default: Option<&'static str>) -> Self {
        Self {
            name,
            kind,
            default,
            scope: Scope::Broker,
            update: Update::ReadOnly,
            check: Check::Any,
            synonyms: &[],
            effect: Effect::Obeyed,
            internal: false,
            doc: "",
        }
    }

    /// A topic's key, with the broker's keys that are its default.
    pub const fn topic(
        name: &'static str,
        kind: Kind,
        default: Option<&'static str>,
        synonyms: &'static [Synonym],
    ) -> Self {
        let mut key = Self::broker(name, kind, default);
        key.scope = Scope::Topic;
        key.update = Update::ClusterWide;
        key.synonyms = synonyms;
        key
    }

    /// A group's key, with the broker's key that is its default.
    pub const fn group(name: &'static str, kind: Kind, synonyms: &'static [Synonym]) -> Self {
        let mut key = Self::topic(name, kind, None, synonyms);
        key.scope = Scope::Group;
        key
    }

    /// With other names of the same setting.
    pub const fn synonyms(mut self, synonyms: &'static [Synonym]) -> Self {
        self.synonyms = synonyms;
        self
    }

    /// Changeable for one broker or for all.
    pub const fn cluster_wide(mut self) -> Self {
        self.update = Update::ClusterWide;
        self
    }

    /// Changeable for one broker.
    pub const fn per_broker(mut self) -> Self {
        self.update = Update::PerBroker;
        self
    }

    /// With a narrower range of values.
    pub const fn check(mut self, check: Check) -> Self {
        self.check = check;
        self
    }

    /// At least `minimum`.
    pub const fn at_least(self, minimum: i64) -> Self {
        self.check(Check::AtLeast(minimum))
    }

    /// With another effect than to be obeyed.
    pub const fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Hidden from tools.
    pub const fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    /// With its documentation.
    pub const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }
}

impl Synonym {
    /// The same value under another name.
    pub const fn same(name: &'static str) -> Self {
        Self { name, factor: 1 }
    }

    /// A value in a larger unit.
    pub const fn times(name: &'static str, factor: i64) -> Self {
        Self { name, factor }
    }
}

impl Kind {
    /// The name of the type, as the documentation writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Int => "int",
            Self::Short => "short",
            Self::Long => "long",
            Self::Double => "double",
            Self::List => "list",
            Self::Class => "class",
            Self::Password => "password",
        }
    }
}
