//! Replays the corpora of the fuzz targets, and damaged copies of every file: every entry returns, whatever it is given.
//!
//! `STRANDLINE_FUZZ_COPIES` sets how many copies, `STRANDLINE_FUZZ_SEED` which.

use std::fs;
use std::path::Path;

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use strandline_wire::fuzz_entries::{ENTRIES, Entry};

/// Damaged copies of each file. The damage of a seed is the same in every run.
const COPIES_DEFAULT: u32 = 300;
const SEED_DEFAULT: u32 = 1;

fn number(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |text| text.replace('_', "").parse().expect("a number"))
}

#[test]
fn every_corpus_file_and_its_damaged_copies() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let copies = number("STRANDLINE_FUZZ_COPIES", COPIES_DEFAULT);
    let seed = number("STRANDLINE_FUZZ_SEED", SEED_DEFAULT);
    for entry in ENTRIES {
        let files = replay(entry, &corpus, copies, seed);
        println!(
            "fuzz replay: {}: {files} files, {} damaged copies",
            entry.0,
            u64::from(files) * u64::from(copies)
        );
        assert!(files > 0, "{} has no corpus", entry.0);
    }
}

fn replay((name, run): &Entry, corpus: &Path, copies: u32, seed: u32) -> u32 {
    let mut bytes = [1; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut files: Vec<_> = fs::read_dir(corpus.join(name))
        .expect("each entry has a corpus folder")
        .map(|file| file.expect("a file of the corpus").path())
        .collect();
    files.sort();
    for file in &files {
        let bytes = fs::read(file).expect("a readable file");
        run(&bytes);
        for _ in 0..copies {
            run(&damage(&bytes, &mut rng));
        }
    }
    files.len() as u32
}

/// Overwrites, inserts, removes or cuts, once to four times.
fn damage(bytes: &[u8], rng: &mut TestRng) -> Vec<u8> {
    const INTERESTING: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, 0xfe, 0x0f, 0x20];
    let mut bytes = bytes.to_vec();
    for _ in 0..=rng.next_u32() % 4 {
        let at = rng.next_u32() as usize % (bytes.len() + 1);
        let random = rng.next_u32();
        let byte = if random & 1 == 0 {
            (random >> 8) as u8
        } else {
            INTERESTING[(random >> 8) as usize % 8]
        };
        match rng.next_u32() % 8 {
            0 => bytes.insert(at, byte),
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 if at > 0 => bytes.truncate(at),
            3 => {
                let length = (bytes.len() - at).min(4);
                bytes[at..at + length].fill(byte);
            }
            _ if at < bytes.len() => bytes[at] = byte,
            _ => {}
        }
    }
    bytes
}
