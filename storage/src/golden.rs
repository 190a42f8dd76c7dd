//! Golden files: the bytes of every format, pinned. Test support.

/// Compares `bytes` with `tests/golden/<name>`. With `STRANDLINE_BLESS=1` set, writes the file instead.
pub(crate) fn check(name: &str, bytes: &[u8]) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("STRANDLINE_BLESS").is_some() {
        std::fs::write(&path, bytes).expect("golden file is writable");
    }
    let golden = std::fs::read(&path).expect("golden file exists");
    assert!(
        golden == bytes,
        "{name}: the format on disk changed; old directories would not open"
    );
}
