//! The codecs of record batches, and the level and topic settings around them. The streams are in
//! [`super::decompress`] and [`super::compress`].

/// A codec of record batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// Not compressed.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// snappy, in the framing of `snappy-java` (xerial); raw blocks are read too.
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// zstd.
    Zstd,
}

impl Codec {
    /// Every codec, in the order of the numbers.
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    /// The number in the batch's attributes.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The codec of a number, `None` for 5 to 7 and above.
    pub const fn from_id(id: u8) -> Option<Codec> {
        match id {
            0 => Some(Codec::None),
            1 => Some(Codec::Gzip),
            2 => Some(Codec::Snappy),
            3 => Some(Codec::Lz4),
            4 => Some(Codec::Zstd),
            _ => None,
        }
    }

    /// Kafka's name, as in `compression.type`.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// The codec of Kafka's name; `uncompressed`, the topic config's word, is [`Codec::None`] too.
    pub fn from_name(name: &str) -> Option<Codec> {
        match name {
            "uncompressed" => Some(Codec::None),
            _ => Codec::ALL.into_iter().find(|codec| codec.name() == name),
        }
    }
}

/// A codec and its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Compression {
    /// The codec.
    pub codec: Codec,
    /// The level, `None` for the codec's default. gzip: 1 to 9; zstd: its own range; the others have none here.
    pub level: Option<i32>,
}

impl From<Codec> for Compression {
    fn from(codec: Codec) -> Self {
        Compression { codec, level: None }
    }
}

/// A topic's `compression.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TopicCompression {
    /// `producer`: batches stay as sent.
    #[default]
    Producer,
    /// Every batch is stored with this codec.
    Fixed(Compression),
}
