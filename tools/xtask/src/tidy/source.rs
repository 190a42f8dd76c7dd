//! A Rust file as the checks see it: code without comments and literals, and which of it is test code.
//!
//! A scanner, not a parser: it knows comments, strings, characters and braces, which is all that the checks
//! ask about.

use std::collections::BTreeSet;

/// One Rust file.
pub(super) struct Source {
    /// The path from the root of the tree.
    pub(super) name: String,
    /// The file as it is.
    pub(super) text: String,
    /// The file with every comment and the inside of every literal blanked; line numbers stay.
    pub(super) code: String,
    /// Whether the whole file is compiled for tests only.
    pub(super) is_test: bool,
    test_lines: Vec<(usize, usize)>,
    test_modules: Vec<String>,
}

impl Source {
    /// Scans `text`.
    pub(super) fn new(name: &str, text: &str) -> Self {
        let code = blank(text);
        let (test_lines, test_modules) = test_items(&code, text);
        let is_test = ["/tests/", "/benches/", "/fuzz/"]
            .iter()
            .any(|folder| name.contains(folder));
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
            code,
            is_test,
            test_lines,
            test_modules,
        }
    }

    /// The lines of code outside test items, with their numbers from 1.
    pub(super) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
            .filter(|(number, _)| {
                !self.is_test
                    && !self
                        .test_lines
                        .iter()
                        .any(|(first, last)| (*first..=*last).contains(number))
            })
    }
}

/// Marks the files of modules that are declared as `#[cfg(test)] mod name;`.
pub(super) fn mark_test_files(sources: &mut [Source]) {
    let mut folders = BTreeSet::new();
    for source in &*sources {
        let (folder, file) = source.name.rsplit_once('/').unwrap_or(("", &source.name));
        let own = match file.trim_end_matches(".rs") {
            "lib" | "main" | "mod" => folder.to_owned(),
            stem => format!("{folder}/{stem}"),
        };
        folders.extend(
            source
                .test_modules
                .iter()
                .map(|module| match module.strip_prefix("../") {
                    // `#[path]` counts from the folder of the file that names it.
                    Some(path) => format!("{folder}/{path}"),
                    None => format!("{own}/{module}"),
                }),
        );
    }
    for source in sources {
        let stem = source.name.trim_end_matches(".rs");
        source.is_test |= folders.iter().any(|folder| {
            stem.strip_prefix(folder.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
    }
}

/// Whether `word` stands in `code` as a path or identifier of its own, not as part of a longer one.
pub(super) fn has_word(code: &str, word: &str) -> bool {
    let part_of_word = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

/// Replaces comments and the inside of literals by blanks.
fn blank(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let end = match characters[at] {
            '/' if characters.get(at + 1) == Some(&'/') => line_end(&characters, at),
            '/' if characters.get(at + 1) == Some(&'*') => comment_end(&characters, at),
            '"' => string_end(&characters, at + 1),
            'r' if starts_raw_string(&characters, at) => raw_string_end(&characters, at + 1),
            '\'' => character_end(&characters, at),
            _ => at,
        };
        if end == at {
            out.push(characters[at]);
            at += 1;
            continue;
        }
        out.extend(
            characters[at..end]
                .iter()
                .map(|character| if *character == '\n' { '\n' } else { ' ' }),
        );
        at = end;
    }
    out
}

fn line_end(characters: &[char], at: usize) -> usize {
    characters[at..]
        .iter()
        .position(|character| *character == '\n')
        .map_or(characters.len(), |length| at + length)
}

fn comment_end(characters: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < characters.len() {
        match (characters[at], characters.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(characters.len())
}

fn string_end(characters: &[char], mut at: usize) -> usize {
    while at < characters.len() {
        match characters[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    characters.len()
}

fn starts_raw_string(characters: &[char], at: usize) -> bool {
    let hashes = characters[at + 1..]
        .iter()
        .take_while(|character| **character == '#')
        .count();
    let part_of_word = at > 0 && (characters[at - 1].is_alphanumeric() && characters[at - 1] != 'b');
    !part_of_word && characters.get(at + 1 + hashes) == Some(&'"')
}

fn raw_string_end(characters: &[char], at: usize) -> usize {
    let hashes = characters[at..]
        .iter()
        .take_while(|character| **character == '#')
        .count();
    let closes = |end: &usize| {
        characters[*end] == '"'
            && characters[end + 1..]
                .iter()
                .take_while(|character| **character == '#')
                .count()
                >= hashes
    };
    (at + hashes + 1..characters.len())
        .find(closes)
        .map_or(characters.len(), |end| end + 1 + hashes)
}

/// The end of a character literal, or `at` when the quote starts a lifetime.
fn character_end(characters: &[char], at: usize) -> usize {
    match (characters.get(at + 1), characters.get(at + 2)) {
        (Some('\\'), _) => (at + 3..characters.len())
            .find(|end| characters[*end] == '\'')
            .map_or(characters.len(), |end| end + 1),
        (Some(_), Some('\'')) => at + 3,
        _ => at,
    }
}

/// The line ranges of items under `#[cfg(test)]` (or `cfg(all(test, ..))`, `#[test]` needs none: it stands
/// inside of these), and the names of modules declared so in files of their own.
fn test_items(code: &str, text: &str) -> (Vec<(usize, usize)>, Vec<String>) {
    let (mut ranges, mut modules) = (Vec::new(), Vec::new());
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(").map(|at| from + at) {
        let after = found + code[found..].find(']').unwrap_or(code.len() - found);
        from = after;
        let attribute = &code[found..after];
        if !has_word(attribute, "test") || attribute.contains("not(test)") {
            continue;
        }
        let rest = &code[after..];
        let (brace, semicolon) = (rest.find('{'), rest.find(';'));
        let end = match (brace, semicolon) {
            (Some(brace), Some(semicolon)) if semicolon < brace => after + semicolon,
            (None, Some(semicolon)) => after + semicolon,
            (Some(brace), _) => after + closing_brace(rest, brace),
            (None, None) => code.len(),
        };
        let item = code[after..end.min(code.len())].trim_start_matches(']');
        if let Some(name) = item.split_once("mod ").map(|(_, name)| name.trim())
            && brace.is_none_or(|brace| after + brace > end)
        {
            let path = text[after..end]
                .split_once("path = \"")
                .and_then(|(_, path)| path.split_once(".rs\""));
            modules.push(path.map_or_else(|| name.to_owned(), |(path, _)| format!("../{path}")));
        }
        ranges.push((line_of(code, found), line_of(code, end)));
        from = end;
    }
    (ranges, modules)
}

fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, character) in code[open..].char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at;
        }
    }
    code.len()
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at.min(code.len())].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(text: &str) -> Vec<usize> {
        let source = Source::new("broker/src/x.rs", text);
        source
            .product_lines()
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(number, _)| number)
            .collect()
    }

    #[test]
    fn comments_and_literals_are_blank() {
        let text = "a /* b /* c */ d */ e // f\n\"g \\\" h\" i r#\"j\" k\"# l b'm' '\\'' 'n' &'o p";
        let words: Vec<String> = blank(text).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["a", "e", "i", "l", "b", "&'o", "p"]);
        assert_eq!(blank(text).matches('\n').count(), 1);
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("use rand::Rng;", "rand"));
        assert!(!has_word("let operand = strand;", "rand"));
        assert!(has_word("std::time::Instant::now()", "Instant::now"));
    }

    #[test]
    fn test_items_are_not_product() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { if c {} }\n}\nfn d() {}\n";
        assert_eq!(product(text), [1, 6]);
        assert_eq!(product("#[cfg(not(test))]\nfn a() {}\n"), [1, 2]);
        assert_eq!(product("#[cfg(all(test, unix))]\nuse x;\nfn a() {}\n"), [3]);
    }

    #[test]
    fn test_modules_in_files_are_found() {
        let mut sources = vec![
            Source::new("broker/src/lib.rs", "#[cfg(test)]\nmod images;\nmod real;\n"),
            Source::new("broker/src/images/deep.rs", ""),
            Source::new("broker/src/images.rs", ""),
            Source::new("broker/src/real.rs", "#[cfg(test)]\nmod tests;\n"),
            Source::new("broker/src/real/tests.rs", ""),
            Source::new(
                "broker/src/é.rs",
                "// é\n#[cfg(test)]\n#[path = \"other_tests.rs\"]\nmod tests;\n",
            ),
            Source::new("broker/src/other_tests.rs", ""),
        ];
        mark_test_files(&mut sources);
        let marked: Vec<bool> = sources.iter().map(|source| source.is_test).collect();
        assert_eq!(marked, [false, true, true, false, true, false, true]);
    }
}
