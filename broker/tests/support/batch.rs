//! Record batches by hand: every field can be set, also to what no client would send.

use std::io::{Read, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    None = 0,
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

pub const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub offset_delta: i32,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub base_offset: i64,
    pub leader_epoch: i32,
    pub codec: Codec,
    /// Bits beside the codec's.
    pub flags: i16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub record_count: i32,
    pub records: Vec<Record>,
}

pub const LOG_APPEND_TIME: i16 = 0x08;
pub const TRANSACTIONAL: i16 = 0x10;
pub const CONTROL: i16 = 0x20;

impl Record {
    pub fn new(timestamp: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> Self {
        Self {
            offset_delta: 0,
            timestamp,
            key: key.map(<[u8]>::to_vec),
            value: value.map(<[u8]>::to_vec),
            headers: Vec::new(),
        }
    }
}

impl Batch {
    /// A batch as a well-behaved client builds it.
    pub fn new(records: Vec<Record>) -> Self {
        let mut records = records;
        for (delta, record) in records.iter_mut().enumerate() {
            record.offset_delta = delta as i32;
        }
        Self {
            base_offset: 0,
            leader_epoch: -1,
            codec: Codec::None,
            flags: 0,
            last_offset_delta: records.len() as i32 - 1,
            base_timestamp: records.first().map_or(-1, |record| record.timestamp),
            max_timestamp: records.iter().map(|record| record.timestamp).max().unwrap_or(-1),
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: records.len() as i32,
            records,
        }
    }

    /// Records without keys, at the time now.
    pub fn of_values<V: AsRef<[u8]>>(values: impl IntoIterator<Item = V>) -> Self {
        let now = now_ms();
        Self::new(
            values
                .into_iter()
                .map(|value| Record::new(now, None, Some(value.as_ref())))
                .collect(),
        )
    }

    pub fn compressed(self, codec: Codec) -> Self {
        Self { codec, ..self }
    }

    pub fn by_producer(self, id: i64, epoch: i16, sequence: i32) -> Self {
        Self {
            producer_id: id,
            producer_epoch: epoch,
            base_sequence: sequence,
            ..self
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut records = Vec::new();
        for record in &self.records {
            encode_record(&mut records, record, self.base_timestamp);
        }
        self.encode_with(&compress(self.codec, &records))
    }

    /// The batch with these bytes in the place of its records.
    pub fn encode_with(&self, records: &[u8]) -> Vec<u8> {
        let mut rest = Vec::new();
        rest.extend((self.flags | self.codec as i16).to_be_bytes());
        rest.extend(self.last_offset_delta.to_be_bytes());
        rest.extend(self.base_timestamp.to_be_bytes());
        rest.extend(self.max_timestamp.to_be_bytes());
        rest.extend(self.producer_id.to_be_bytes());
        rest.extend(self.producer_epoch.to_be_bytes());
        rest.extend(self.base_sequence.to_be_bytes());
        rest.extend(self.record_count.to_be_bytes());
        rest.extend_from_slice(records);
        let mut out = Vec::new();
        out.extend(self.base_offset.to_be_bytes());
        out.extend((rest.len() as i32 + 9).to_be_bytes());
        out.extend(self.leader_epoch.to_be_bytes());
        out.push(2);
        out.extend(crc32c::crc32c(&rest).to_be_bytes());
        out.extend_from_slice(&rest);
        out
    }

    pub fn values(&self) -> Vec<Vec<u8>> {
        self.records
            .iter()
            .map(|record| record.value.clone().unwrap_or_default())
            .collect()
    }

    pub fn last_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta)
    }
}

pub fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("the clock is past 1970").as_millis() as i64
}

/// Every whole batch in a record set; panics on a wrong CRC or a batch that does not parse.
pub fn decode_all(bytes: &[u8]) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut rest = bytes;
    while rest.len() >= 12 {
        let length = i32::from_be_bytes(rest[8..12].try_into().unwrap()) as usize + 12;
        if rest.len() < length {
            break;
        }
        batches.push(decode(&rest[..length]));
        rest = &rest[length..];
    }
    batches
}

fn decode(batch: &[u8]) -> Batch {
    let i16_at = |at: usize| i16::from_be_bytes(batch[at..at + 2].try_into().unwrap());
    let i32_at = |at: usize| i32::from_be_bytes(batch[at..at + 4].try_into().unwrap());
    let i64_at = |at: usize| i64::from_be_bytes(batch[at..at + 8].try_into().unwrap());
    assert_eq!(batch[16], 2, "magic");
    assert_eq!(
        i32_at(17) as u32,
        crc32c::crc32c(&batch[21..]),
        "CRC of the batch at {}",
        i64_at(0)
    );
    let attributes = i16_at(21);
    let codec = CODECS[usize::from(attributes as u16 & 7)];
    let base_timestamp = i64_at(27);
    let plain = decompress(codec, &batch[61..]);
    let mut at = &plain[..];
    let count = i32_at(57);
    let records = (0..count)
        .map(|_| decode_record(&mut at, base_timestamp))
        .collect();
    assert!(at.is_empty(), "{} bytes after the last record", at.len());
    Batch {
        base_offset: i64_at(0),
        leader_epoch: i32_at(12),
        codec,
        flags: attributes & !7,
        last_offset_delta: i32_at(23),
        base_timestamp,
        max_timestamp: i64_at(35),
        producer_id: i64_at(43),
        producer_epoch: i16_at(51),
        base_sequence: i32_at(53),
        record_count: count,
        records,
    }
}

fn encode_record(out: &mut Vec<u8>, record: &Record, base_timestamp: i64) {
    let mut body = vec![0u8];
    varint(&mut body, record.timestamp - base_timestamp);
    varint(&mut body, i64::from(record.offset_delta));
    nullable(&mut body, record.key.as_deref());
    nullable(&mut body, record.value.as_deref());
    varint(&mut body, record.headers.len() as i64);
    for (name, value) in &record.headers {
        nullable(&mut body, Some(name.as_bytes()));
        nullable(&mut body, value.as_deref());
    }
    varint(out, body.len() as i64);
    out.extend_from_slice(&body);
}

fn decode_record(at: &mut &[u8], base_timestamp: i64) -> Record {
    let length = take_varint(at) as usize;
    let (mut body, rest) = at.split_at(length);
    *at = rest;
    body = &body[1..];
    let timestamp = base_timestamp + take_varint(&mut body);
    let offset_delta = take_varint(&mut body) as i32;
    let key = take_nullable(&mut body);
    let value = take_nullable(&mut body);
    let headers = (0..take_varint(&mut body))
        .map(|_| {
            let name = take_nullable(&mut body).expect("a header has a name");
            (String::from_utf8(name).expect("UTF-8"), take_nullable(&mut body))
        })
        .collect();
    assert!(body.is_empty());
    Record {
        offset_delta,
        timestamp,
        key,
        value,
        headers,
    }
}

fn nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    varint(out, bytes.map_or(-1, |bytes| bytes.len() as i64));
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn take_nullable(at: &mut &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(take_varint(at)).ok()?;
    let (bytes, rest) = at.split_at(length);
    *at = rest;
    Some(bytes.to_vec())
}

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)) as u64;
    while zigzag >= 0x80 {
        out.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}

fn take_varint(at: &mut &[u8]) -> i64 {
    let (mut zigzag, mut shift) = (0u64, 0);
    loop {
        let byte = at[0];
        *at = &at[1..];
        zigzag |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        }
        shift += 7;
    }
}

pub fn compress(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    match codec {
        Codec::None => bytes.to_vec(),
        Codec::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Snappy => {
            // The framing of snappy-java: a header, then blocks with their lengths.
            let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
            for block in bytes.chunks(32 << 10) {
                let block = snap::raw::Encoder::new().compress_vec(block).unwrap();
                out.extend((block.len() as i32).to_be_bytes());
                out.extend(block);
            }
            out
        }
        Codec::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Zstd => zstd::bulk::compress(bytes, 3).unwrap(),
    }
}

pub fn decompress(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match codec {
        Codec::None => return bytes.to_vec(),
        Codec::Gzip => {
            flate2::read::MultiGzDecoder::new(bytes)
                .read_to_end(&mut out)
                .unwrap();
        }
        Codec::Snappy => {
            let mut rest = bytes
                .strip_prefix(&b"\x82SNAPPY\0"[..])
                .map(|rest| &rest[8..])
                .unwrap();
            while let Some(length) = rest.first_chunk::<4>() {
                let length = i32::from_be_bytes(*length) as usize;
                out.extend(
                    snap::raw::Decoder::new()
                        .decompress_vec(&rest[4..4 + length])
                        .unwrap(),
                );
                rest = &rest[4 + length..];
            }
        }
        Codec::Lz4 => {
            lz4_flex::frame::FrameDecoder::new(bytes)
                .read_to_end(&mut out)
                .unwrap();
        }
        Codec::Zstd => return zstd::stream::decode_all(bytes).unwrap(),
    }
    out
}
