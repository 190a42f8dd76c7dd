//! Regular expressions of subscriptions: RE2's syntax, matched against the whole name of a topic.
//!
//! The `regex` crate has RE2's semantics and its linear time. Where its syntax differs, the pattern is rewritten: RE2
//! quotes between `\Q` and `\E`, and knows no sets within sets, so that `[` and doubled operators in a class are
//! themselves.

use regex::{Regex, RegexBuilder};

/// A compiled pattern may take this much: patterns come from clients, and a group may have as many as it has members.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Regex);

impl Pattern {
    /// Compiles a pattern, or says what is wrong with it.
    pub(super) fn compile(pattern: &str) -> Result<Self, String> {
        let translated = translate(pattern);
        // On its own first: `a)(b` must not become valid inside the group below.
        build(&translated)?;
        build(&format!(r"\A(?:{translated})\z")).map(Self)
    }

    /// Whether the whole name matches.
    pub(super) fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

fn build(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
            // The text shows the pattern with a marker over several lines; the last one says what is wrong.
            error => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default();
                last.trim_start_matches("error: ").to_owned()
            }
        })
}

/// RE2's syntax in the crate's.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    // Whether a class is open, and whether its first character, which may be a `]`, is still to come.
    let mut class: Option<bool> = None;
    while let Some(character) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix(r"\Q") {
            let (literal, after) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
            out.push_str(&regex::escape(literal));
            class = class.map(|_| false);
            rest = after;
            continue;
        }
        let mut taken = character.len_utf8();
        match (character, class) {
            ('\\', _) => {
                taken += rest[taken..].chars().next().map_or(0, char::len_utf8);
                class = class.map(|_| false);
            }
            ('[', None) => {
                class = Some(true);
                if rest[taken..].starts_with('^') {
                    taken += 1;
                }
            }
            (']', Some(true)) => {
                out.push('\\');
                class = Some(false);
            }
            (']', Some(false)) => class = None,
            ('[', Some(_)) => {
                let named = rest.starts_with("[:").then(|| rest.find(":]")).flatten();
                match named {
                    Some(end) => taken = end + 2,
                    None => out.push('\\'),
                }
                class = Some(false);
            }
            ('&' | '~', Some(_)) => {
                out.push('\\');
                class = Some(false);
            }
            ('-', Some(true)) => {
                out.push('\\');
                class = Some(false);
            }
            // A range that ends in a hyphen.
            ('-', Some(false)) if rest[taken..].starts_with('-') => {
                out.push_str(r"-\-");
                rest = &rest[2..];
                continue;
            }
            (_, Some(true)) => class = Some(false),
            _ => {}
        }
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::compile(pattern).unwrap().matches(name)
    }

    #[test]
    fn the_whole_name_must_match() {
        assert!(!matches("^topic*", "topic-1"));
        assert!(matches("^topic.*", "topic-1") && matches("^topic.*", "topic"));
        assert!(!matches("topic", "my-topic") && !matches("topic", "topic-1"));
        // The alternatives are within the whole, and the shorter one does not win.
        assert!(matches("a|ab", "ab") && !matches("a|ab", "abc"));
        assert!(matches("(?i)TOPIC", "topic"));
        assert!(matches(r"\d+_\w+", "12_ab") && matches(r"\p{L}+", "abc"));
    }

    #[test]
    fn re2_syntax_that_the_crate_lacks() {
        assert!(matches(r"\Qa.b\E.*", "a.b-c") && !matches(r"\Qa.b\E.*", "axb"));
        assert!(matches(r"\Qa.b", "a.b"));
        assert!(matches(r"[]a]+", "a]") && matches(r"[^]a]", "b"));
        assert!(matches(r"[[a]+", "[a"));
        assert!(matches(r"[[:digit:]_]+", "1_2") && !matches(r"[[:digit:]_]+", "a"));
        assert!(matches(r"[a&&b]+", "a&b") && matches(r"[a~~b]+", "~"));
        assert!(matches(r"[\]\-a]+", "-]a") && matches(r"[a-c]+", "abc") && !matches(r"[a-c]+", "-"));
        assert!(matches(r"[!--]+", "-,"));
    }

    #[test]
    fn bad_patterns_say_what_is_wrong() {
        for pattern in [
            "[",
            "(",
            "a)(b",
            "*",
            "(?<",
            r"a\",
            "a{2,1}",
            "(?=a)",
            r"(a)\1",
            "(?x)a # comment",
        ] {
            let error = Pattern::compile(pattern).unwrap_err();
            assert!(!error.is_empty() && !error.contains('\n'), "{pattern}: {error}");
        }
        assert_eq!(
            Pattern::compile("(?:a{1000}){1000}").unwrap_err(),
            "it is too large"
        );
    }
}
