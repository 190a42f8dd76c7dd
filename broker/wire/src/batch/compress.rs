//! Compression as a stream, in the framings that Kafka's clients read.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use super::{Codec, Compression};

/// The block of `snappy-java`: its default.
const SNAPPY_BLOCK: usize = 32 << 10;
/// Magic, version 1, compatible with version 1.
const XERIAL_HEADER: &[u8] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
/// Kafka's default level.
const ZSTD_LEVEL: i32 = 3;

/// Compresses what is written into it. [`Compressor::finish`] must be called.
pub struct Compressor<W: Write> {
    inner: Inner<W>,
}

enum Inner<W: Write> {
    Plain(W),
    Gzip(Box<GzEncoder<W>>),
    Snappy(SnappyWriter<W>),
    Lz4(Box<FrameEncoder<W>>),
    Zstd(Box<zstd::stream::write::Encoder<'static, W>>),
}

impl<W: Write> Compressor<W> {
    /// Starts a stream into `out`. A level outside the codec's range is moved into it.
    pub fn new(compression: Compression, out: W) -> io::Result<Self> {
        let inner = match compression.codec {
            Codec::None => Inner::Plain(out),
            Codec::Gzip => {
                let level = match compression.level {
                    Some(level @ 0..) => flate2::Compression::new(level.min(9) as u32),
                    _ => flate2::Compression::default(),
                };
                Inner::Gzip(Box::new(GzEncoder::new(out, level)))
            }
            Codec::Snappy => Inner::Snappy(SnappyWriter::new(out)?),
            Codec::Lz4 => {
                let frame = FrameInfo::new()
                    .block_mode(BlockMode::Independent)
                    .block_size(BlockSize::Max64KB);
                Inner::Lz4(Box::new(FrameEncoder::with_frame_info(frame, out)))
            }
            Codec::Zstd => {
                let levels = zstd::compression_level_range();
                let level = compression
                    .level
                    .unwrap_or(ZSTD_LEVEL)
                    .clamp(*levels.start(), *levels.end());
                Inner::Zstd(Box::new(zstd::stream::write::Encoder::new(out, level)?))
            }
        };
        Ok(Compressor { inner })
    }

    /// Ends the stream and gives the output back.
    pub fn finish(self) -> io::Result<W> {
        match self.inner {
            Inner::Plain(out) => Ok(out),
            Inner::Gzip(encoder) => encoder.finish(),
            Inner::Snappy(encoder) => encoder.finish(),
            Inner::Lz4(encoder) => encoder.finish().map_err(io::Error::from),
            Inner::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match &mut self.inner {
            Inner::Plain(out) => out.write(data),
            Inner::Gzip(encoder) => encoder.write(data),
            Inner::Snappy(encoder) => encoder.write(data),
            Inner::Lz4(encoder) => encoder.write(data),
            Inner::Zstd(encoder) => encoder.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct SnappyWriter<W> {
    out: W,
    block: Vec<u8>,
    compressed: Vec<u8>,
}

impl<W: Write> SnappyWriter<W> {
    fn new(mut out: W) -> io::Result<Self> {
        out.write_all(XERIAL_HEADER)?;
        Ok(SnappyWriter {
            out,
            block: Vec::with_capacity(SNAPPY_BLOCK),
            compressed: Vec::new(),
        })
    }

    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.block.len() == SNAPPY_BLOCK {
            self.write_block()?;
        }
        let count = data.len().min(SNAPPY_BLOCK - self.block.len());
        self.block.extend_from_slice(&data[..count]);
        Ok(count)
    }

    fn write_block(&mut self) -> io::Result<()> {
        self.compressed
            .resize(snap::raw::max_compress_len(self.block.len()), 0);
        let mut encoder = snap::raw::Encoder::new();
        let size = encoder
            .compress(&self.block, &mut self.compressed)
            .map_err(io::Error::other)?;
        self.out.write_all(&(size as u32).to_be_bytes())?;
        self.out.write_all(&self.compressed[..size])?;
        self.block.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<W> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        Ok(self.out)
    }
}

/// Output that refuses to grow past a size: an error of kind [`io::ErrorKind::FileTooLarge`].
pub(crate) struct CappedVec {
    pub(crate) bytes: Vec<u8>,
    pub(crate) size_max: usize,
}

impl Write for CappedVec {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.len() > self.size_max.saturating_sub(self.bytes.len()) {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "the batch passed its size limit",
            ));
        }
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::decompress::{Decompressor, WINDOW_MAX_BYTES};
    use super::*;

    fn compress(compression: impl Into<Compression>, data: &[u8]) -> Vec<u8> {
        let mut compressor = Compressor::new(compression.into(), Vec::new()).unwrap();
        compressor.write_all(data).unwrap();
        compressor.finish().unwrap()
    }

    fn decompress(codec: Codec, data: &[u8], output_max: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Decompressor::new(codec, data, output_max)?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn sample(size: usize) -> Vec<u8> {
        (0..size).map(|at| (at * at / 7) as u8).collect()
    }

    #[test]
    fn every_codec_and_size_round_trips() {
        for codec in Codec::ALL {
            for size in [
                0,
                1,
                1000,
                SNAPPY_BLOCK - 1,
                SNAPPY_BLOCK,
                SNAPPY_BLOCK + 1,
                300_000,
            ] {
                let data = sample(size);
                let compressed = compress(codec, &data);
                assert_eq!(
                    decompress(codec, &compressed, size).unwrap(),
                    data,
                    "{codec:?} {size}"
                );
            }
        }
    }

    #[test]
    fn output_past_the_cap_is_an_error_of_its_own_kind() {
        for codec in Codec::ALL {
            let compressed = compress(codec, &vec![0; 1 << 20]);
            let error = decompress(codec, &compressed, (1 << 20) - 1).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{codec:?}");
        }
    }

    #[test]
    fn cut_streams_are_errors_or_shorter_never_panics() {
        for codec in Codec::ALL {
            let compressed = compress(codec, &sample(5000));
            for length in 0..compressed.len() {
                if let Ok(data) = decompress(codec, &compressed[..length], 5000) {
                    assert!(data.len() <= 5000);
                }
            }
        }
    }

    #[test]
    fn raw_snappy_and_concatenated_xerial_streams_are_read() {
        let data = sample(100_000);
        let raw = snap::raw::Encoder::new().compress_vec(&data).unwrap();
        assert_eq!(decompress(Codec::Snappy, &raw, data.len()).unwrap(), data);
        let twice = [compress(Codec::Snappy, &data), compress(Codec::Snappy, &data)].concat();
        assert_eq!(
            decompress(Codec::Snappy, &twice, 2 * data.len()).unwrap(),
            [&data[..], &data].concat()
        );
    }

    #[test]
    fn a_snappy_length_that_cannot_be_is_refused_before_allocation() {
        let block = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
        assert_eq!(
            decompress(Codec::Snappy, &block, usize::MAX).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }

    #[test]
    fn lz4_frames_that_kafka_cannot_read_are_refused() {
        let frame = FrameInfo::new().block_mode(BlockMode::Linked);
        let mut encoder = FrameEncoder::with_frame_info(frame, Vec::new());
        encoder.write_all(&sample(1000)).unwrap();
        assert!(decompress(Codec::Lz4, &encoder.finish().unwrap(), 1000).is_err());
        let legacy = [0x02, 0x21, 0x4c, 0x18, 2, 0, 0, 0, 0x10, b'a'];
        assert!(decompress(Codec::Lz4, &legacy, 1000).is_err());
    }

    #[test]
    fn a_zstd_window_above_the_bound_lowers_the_cap() {
        let level_22 = Compression {
            codec: Codec::Zstd,
            level: Some(22),
        };
        let small = sample(100_000);
        assert_eq!(
            decompress(Codec::Zstd, &compress(level_22, &small), 100 << 20).unwrap(),
            small
        );
        let large = compress(level_22, &vec![0; WINDOW_MAX_BYTES + 1]);
        let error = decompress(Codec::Zstd, &large, 100 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let level_3 = compress(Codec::Zstd, &vec![0; WINDOW_MAX_BYTES + 1]);
        assert_eq!(
            decompress(Codec::Zstd, &level_3, 100 << 20).unwrap().len(),
            WINDOW_MAX_BYTES + 1
        );
    }
}
