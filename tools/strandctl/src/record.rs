//! One consumed record, as it is printed.

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::output::text_or_base64;

/// A record with the place it was read from.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Name of the topic.
    pub topic: &'a str,
    /// Partition index.
    pub partition: i32,
    /// Absolute offset.
    pub offset: i64,
    /// Milliseconds since 1970; -1 when the producer set none.
    pub timestamp_ms: i64,
    /// True when the broker set the timestamp.
    pub log_append_time: bool,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; null is a tombstone in a compacted topic.
    pub value: Option<&'a [u8]>,
    /// Headers in their order; keys may repeat.
    pub headers: Vec<Header<'a>>,
}

/// Key and value of a header.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// `key` and `value` are text where they are UTF-8; otherwise `key_base64` and `value_base64` take their place, so
/// that no byte is lost or guessed.
impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Record", 8)?;
        object.serialize_field("topic", self.topic)?;
        object.serialize_field("partition", &self.partition)?;
        object.serialize_field("offset", &self.offset)?;
        object.serialize_field("timestamp", &self.timestamp_ms)?;
        let timestamp_type = if self.log_append_time {
            "LogAppendTime"
        } else {
            "CreateTime"
        };
        object.serialize_field("timestamp_type", timestamp_type)?;
        match text_or_base64(self.key) {
            Ok(text) => object.serialize_field("key", &text)?,
            Err(base64) => object.serialize_field("key_base64", &base64)?,
        }
        match text_or_base64(self.value) {
            Ok(text) => object.serialize_field("value", &text)?,
            Err(base64) => object.serialize_field("value_base64", &base64)?,
        }
        let headers: Vec<_> = self.headers.iter().map(JsonHeader).collect();
        object.serialize_field("headers", &headers)?;
        object.end()
    }
}

struct JsonHeader<'a>(&'a Header<'a>);

impl Serialize for JsonHeader<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (key, value) = *self.0;
        let mut object = serializer.serialize_struct("Header", 2)?;
        match text_or_base64(Some(key)) {
            Ok(text) => object.serialize_field("key", &text)?,
            Err(base64) => object.serialize_field("key_base64", &base64)?,
        }
        match text_or_base64(value) {
            Ok(text) => object.serialize_field("value", &text)?,
            Err(base64) => object.serialize_field("value_base64", &base64)?,
        }
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_null_empty_and_binary_apart() {
        let record = Record {
            topic: "t",
            partition: 0,
            offset: 9,
            timestamp_ms: -1,
            log_append_time: false,
            key: None,
            value: Some(b"\xff"),
            headers: vec![(b"h", None), (b"h", Some(b""))],
        };
        assert_eq!(
            serde_json::to_string(&record).unwrap(),
            r#"{"topic":"t","partition":0,"offset":9,"timestamp":-1,"timestamp_type":"CreateTime","key":null,"value_base64":"/w==","headers":[{"key":"h","value":null},{"key":"h","value":""}]}"#
        );
    }
}
