//! Names that only certain modules may use: what keeps the simulator running the real code.

use super::source::{Source, has_word};

/// Time, network, randomness and executors: reachable only through the runtime and disk seams.
const FORBIDDEN: [&str; 7] = [
    "glommio",
    "tokio::net",
    "tokio::time",
    "Instant::now",
    "SystemTime::now",
    "std::net",
    "rand",
];

/// The modules (a file, or a folder with its files) that implement a seam or tie the real ones together, and
/// the names they may use.
const ALLOWED: &[(&str, &[&str])] = &[
    // The trait re-exports the address types, which are plain data.
    ("broker/runtime/src/runtime", &["std::net"]),
    ("broker/runtime/src/glommio_runtime", &["glommio", "std::net"]),
    (
        "broker/runtime/src/tokio_runtime",
        &["tokio::net", "tokio::time", "std::net"],
    ),
    // The real clocks, for both.
    ("broker/runtime/src/system", &["Instant::now", "SystemTime::now"]),
    ("storage/src/disk/glommio", &["glommio"]),
    // Declares the module of that name.
    ("storage/src/disk/mod", &["glommio"]),
    // The resolver of the system: at the start, and on threads of its own.
    ("broker/src/config/hosts", &["std::net"]),
    // The control thread's HTTP endpoint, which no simulated node opens.
    ("broker/src/http/server", &["tokio::net", "tokio::time"]),
    // The same of its socket for operators.
    ("broker/src/node/operations", &["tokio::net", "tokio::time"]),
];

/// One line for each use outside of [`ALLOWED`], and for each exception that nothing needs.
pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut findings: Vec<String> = sources.iter().flat_map(check_source).collect();
    for (module, names) in ALLOWED {
        let uses = |name: &str| {
            let inside = sources.iter().filter(|source| is_inside(&source.name, module));
            inside
                .flat_map(Source::product_lines)
                .any(|(_, line)| has_word(line, name))
        };
        let stale = names.iter().filter(|name| !uses(name));
        findings.extend(
            stale.map(|name| format!("{module}: may use `{name}` and does not: take it off the table")),
        );
    }
    findings
}

fn check_source(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in source.product_lines() {
        if line.contains(".unwrap()") {
            findings.push(format!("{}:{number}: unwrap() outside tests", source.name));
        }
        if line.contains("allow(missing_docs)") {
            findings.push(format!("{}:{number}: allow(missing_docs)", source.name));
        }
        if !source.name.starts_with("broker/") && !source.name.starts_with("storage/") {
            continue;
        }
        for name in FORBIDDEN
            .iter()
            .filter(|name| has_word(line, name) && !is_allowed(&source.name, name))
        {
            findings.push(format!(
                "{}:{number}: `{name}` outside the modules that may use it",
                source.name
            ));
        }
    }
    findings
}

fn is_allowed(file: &str, name: &str) -> bool {
    ALLOWED
        .iter()
        .any(|(module, names)| is_inside(file, module) && names.contains(&name))
}

/// Whether `file` is the module's own or one of its folder.
fn is_inside(file: &str, module: &str) -> bool {
    file.strip_prefix(module)
        .is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, text: &str) -> usize {
        check_source(&Source::new(name, text)).len()
    }

    #[test]
    fn seams_hold_in_broker_and_storage() {
        for text in [
            "use glommio::x;",
            "let a = Instant::now();",
            "use std::net::TcpStream;",
            "rand::random()",
        ] {
            assert_eq!(findings("broker/src/shard/mod.rs", text), 1, "{text}");
            assert_eq!(findings("bench/src/main.rs", text), 0, "{text}");
            assert_eq!(findings("broker/tests/kill.rs", text), 0, "{text}");
        }
        assert_eq!(findings("storage/src/disk/glommio.rs", "use glommio::x;"), 0);
        assert_eq!(
            findings("storage/src/disk/glommio_other.rs", "use glommio::x;"),
            1
        );
        assert_eq!(findings("storage/src/disk/glommio.rs", "use std::net::x;"), 1);
    }

    #[test]
    fn comments_and_tests_may_name_anything() {
        assert_eq!(
            findings(
                "storage/src/a.rs",
                "// glommio\n#[cfg(test)]\nmod tests { use glommio::x; }\n"
            ),
            0
        );
    }

    #[test]
    fn unwrap_is_for_tests() {
        assert_eq!(findings("tools/a.rs", "x.unwrap();"), 1);
        assert_eq!(findings("tools/a.rs", "x.unwrap_or(1); \".unwrap()\";"), 0);
        assert_eq!(
            findings("tools/a.rs", "#[cfg(test)]\nmod tests { fn a() { x.unwrap(); } }"),
            0
        );
    }
}
