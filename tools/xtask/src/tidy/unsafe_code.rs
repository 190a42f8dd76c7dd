//! Where `unsafe` may stand, and that each block says why it is sound.

use super::source::{Source, has_word};

/// The files that may hold `unsafe`.
const FILES: &[&str] = &[
    "bench/src/ring.rs",
    "broker/runtime/src/glommio_runtime/host.rs",
    "broker/runtime/src/glommio_runtime/socket.rs",
    "broker/runtime/src/system.rs",
    "broker/src/node/large_blocks.rs",
    "broker/src/node/limits.rs",
    "storage/src/disk/glommio/buffer.rs",
    "storage/src/disk/glommio/system.rs",
    "storage/src/disk/sim/memory.rs",
    "storage/src/log/append_buffer.rs",
];

/// How far above a block its proof may start, in lines.
const PROOF_LINES: usize = 8;

/// One line for each `unsafe` outside of the table or without a proof, and for each stale entry.
pub(super) fn check(sources: &[Source]) -> Vec<String> {
    check_against(sources, FILES)
}

fn check_against(sources: &[Source], table: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources {
        let lines: Vec<&str> = source.text.lines().collect();
        let uses: Vec<usize> = source
            .code
            .lines()
            .enumerate()
            .filter(|(_, line)| has_word(line, "unsafe") || has_word(line, "allow(unsafe_code)"))
            .map(|(index, _)| index)
            .collect();
        let listed = table.contains(&source.name.as_str());
        if listed == uses.is_empty() {
            let place = format!("{}:{}", source.name, uses.first().map_or(1, |index| index + 1));
            let what = if listed {
                "no `unsafe` here any more: take it off the table"
            } else {
                "`unsafe` in a file not on the table"
            };
            findings.push(format!("{place}: {what}"));
        }
        for index in uses
            .iter()
            .filter(|index| lines[**index].contains("unsafe {") || lines[**index].contains("unsafe impl"))
        {
            let proof = lines[index.saturating_sub(PROOF_LINES)..=*index]
                .iter()
                .any(|line| line.contains("SAFETY"));
            if !proof {
                findings.push(format!(
                    "{}:{}: `unsafe` without a SAFETY comment",
                    source.name,
                    index + 1
                ));
            }
        }
    }
    for entry in table
        .iter()
        .filter(|entry| !sources.iter().any(|source| source.name == **entry))
    {
        findings.push(format!("{entry}: on the table of `unsafe`, but not in the tree"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_proofs_are_enforced() {
        let source = |text: &str| [Source::new("storage/src/a.rs", text)];
        let table = ["storage/src/a.rs"];
        let proven = "// SAFETY: x\nlet a = unsafe { b() };\n";
        assert!(check_against(&source(proven), &table).is_empty());
        assert_eq!(check_against(&source(proven), &[]).len(), 1);
        assert_eq!(
            check_against(&source("let a = unsafe { b() };\n"), &table).len(),
            1
        );
        assert_eq!(check_against(&source("// unsafe\n"), &table).len(), 1);
        assert_eq!(
            check_against(&source("// unsafe\n"), &["gone.rs", "storage/src/a.rs"]).len(),
            2
        );
        assert!(check_against(&source("// unsafe\n"), &[]).is_empty());
    }
}
