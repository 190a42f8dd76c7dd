//! Decompression as a stream, with a cap on the output and on the memory.
//!
//! A batch comes from outside: it may be cut, damaged, or made to blow up (a gigabyte from a megabyte). So nothing is
//! ever materialised but one snappy block (that format cannot stream), and no decoder may keep a history larger than
//! [`WINDOW_MAX_BYTES`].

use std::io::{self, Read};

use flate2::bufread::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;

use super::Codec;

/// The largest history a decoder may keep. zstd writers below level 20 need no more; what a level above it wrote is
/// accepted as long as the whole batch is no larger than this.
pub const WINDOW_MAX_BYTES: usize = 8 << 20;

/// No snappy element makes more bytes than this from one: a copy of 64 bytes takes three.
const SNAPPY_RATIO_MAX: usize = 22;

const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
/// Magic, version and compatible version.
const XERIAL_HEADER: usize = 16;

const LZ4_FRAME_MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
const LZ4_BLOCKS_INDEPENDENT: u8 = 0x20;

const ZSTD_FRAME_MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// Reads the records of a batch as they were before compression. Reading more than the cap is an error of kind
/// [`io::ErrorKind::FileTooLarge`].
pub struct Decompressor<'a> {
    inner: Inner<'a>,
    remaining: usize,
}

enum Inner<'a> {
    Plain(&'a [u8]),
    Gzip(Box<MultiGzDecoder<&'a [u8]>>),
    Snappy(SnappyReader<'a>),
    Lz4(Box<FrameDecoder<&'a [u8]>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, &'a [u8]>>),
}

impl<'a> Decompressor<'a> {
    /// Opens compressed records, which may give `output_max` bytes at most.
    pub fn new(codec: Codec, data: &'a [u8], output_max: usize) -> io::Result<Self> {
        let mut remaining = output_max;
        let inner = match codec {
            Codec::None => Inner::Plain(data),
            Codec::Gzip => Inner::Gzip(Box::new(MultiGzDecoder::new(data))),
            Codec::Snappy => Inner::Snappy(SnappyReader::new(data, output_max)),
            Codec::Lz4 => {
                check_lz4_frame(data)?;
                Inner::Lz4(Box::new(FrameDecoder::new(data)))
            }
            Codec::Zstd => {
                if zstd_window(data)? > WINDOW_MAX_BYTES as u64 {
                    remaining = remaining.min(WINDOW_MAX_BYTES);
                }
                Inner::Zstd(Box::new(
                    zstd::stream::read::Decoder::with_buffer(data)?.single_frame(),
                ))
            }
        };
        Ok(Decompressor { inner, remaining })
    }
}

impl Read for Decompressor<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.inner {
            Inner::Plain(data) => data.read(out),
            Inner::Gzip(decoder) => decoder.read(out),
            Inner::Snappy(decoder) => decoder.read(out),
            Inner::Lz4(decoder) => decoder.read(out),
            Inner::Zstd(decoder) => decoder.read(out),
        }?;
        match self.remaining.checked_sub(count) {
            Some(remaining) => self.remaining = remaining,
            None => return Err(too_large()),
        }
        Ok(count)
    }
}

fn too_large() -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        "more bytes than the cap on decompressed batches",
    )
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Kafka reads LZ4 frames with independent blocks only, so no other may be stored. The legacy frame with its blocks of
/// 8 MiB is no LZ4 frame to it either.
fn check_lz4_frame(data: &[u8]) -> io::Result<()> {
    match data {
        [a, b, c, d, flags, ..] if [*a, *b, *c, *d] == LZ4_FRAME_MAGIC => {
            if flags & LZ4_BLOCKS_INDEPENDENT == 0 {
                return Err(damaged("LZ4 blocks that depend on one another"));
            }
            Ok(())
        }
        _ => Err(damaged("not an LZ4 frame")),
    }
}

/// The history that a zstd frame asks its decoder to keep (RFC 8878, 3.1.1.1).
fn zstd_window(data: &[u8]) -> io::Result<u64> {
    const SINGLE_SEGMENT: u8 = 0x20;
    let [a, b, c, d, descriptor, rest @ ..] = data else {
        return Err(damaged("not a zstd frame"));
    };
    if [*a, *b, *c, *d] != ZSTD_FRAME_MAGIC {
        return Err(damaged("not a zstd frame"));
    }
    if descriptor & SINGLE_SEGMENT == 0 {
        let [window, ..] = rest else {
            return Err(damaged("a zstd frame cut in its header"));
        };
        let base = 1_u64 << (10 + (window >> 3));
        return Ok(base + base / 8 * u64::from(window & 7));
    }
    // A single segment: the whole content is the window, its size follows the dictionary id.
    let dictionary_size = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let (content_size_bytes, bias) = [(1, 0), (2, 256), (4, 0), (8, 0)][usize::from(descriptor >> 6)];
    let Some(field) = rest.get(dictionary_size..dictionary_size + content_size_bytes) else {
        return Err(damaged("a zstd frame cut in its header"));
    };
    let mut content_size = [0; 8];
    content_size[..content_size_bytes].copy_from_slice(field);
    Ok(u64::from_le_bytes(content_size).saturating_add(bias))
}

/// Snappy, in the framing of `snappy-java` that Kafka's clients use, or one raw block, which some clients send.
struct SnappyReader<'a> {
    input: &'a [u8],
    framed: bool,
    output_max: usize,
    block: Vec<u8>,
    at: usize,
}

impl<'a> SnappyReader<'a> {
    fn new(data: &'a [u8], output_max: usize) -> Self {
        let framed = data.starts_with(XERIAL_MAGIC);
        SnappyReader {
            input: data,
            framed,
            output_max,
            block: Vec::new(),
            at: 0,
        }
    }

    /// The next compressed block, `None` at the end.
    fn next_block(&mut self) -> io::Result<Option<&'a [u8]>> {
        if !self.framed {
            let block = std::mem::take(&mut self.input);
            return Ok((!block.is_empty()).then_some(block));
        }
        // Streams put one after the other each have their header.
        while self.input.starts_with(XERIAL_MAGIC) {
            let Some(rest) = self.input.get(XERIAL_HEADER..) else {
                return Err(damaged("a snappy stream cut in its header"));
            };
            self.input = rest;
        }
        if self.input.is_empty() {
            return Ok(None);
        }
        let Some((length, rest)) = self.input.split_first_chunk::<4>() else {
            return Err(damaged("a snappy stream cut in a block's length"));
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > rest.len() {
            return Err(damaged("a snappy stream cut in a block"));
        }
        let (block, rest) = rest.split_at(length);
        self.input = rest;
        Ok(Some(block))
    }

    /// Decompresses the next block that is not empty. False at the end.
    fn fill(&mut self) -> io::Result<bool> {
        while let Some(compressed) = self.next_block()? {
            let size = snap::raw::decompress_len(compressed).map_err(io::Error::other)?;
            if size > compressed.len().saturating_mul(SNAPPY_RATIO_MAX) {
                return Err(damaged("a snappy block that claims more bytes than it can hold"));
            }
            if size > self.output_max {
                return Err(too_large());
            }
            self.block.resize(size, 0);
            self.at = 0;
            snap::raw::Decoder::new()
                .decompress(compressed, &mut self.block)
                .map_err(io::Error::other)?;
            if size > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Read for SnappyReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() && !self.fill()? {
            return Ok(0);
        }
        let mut rest = &self.block[self.at..];
        let count = rest.read(out)?;
        self.at += count;
        Ok(count)
    }
}
