//! A mutation: a patch with a header that says what it breaks and which test must notice.

use std::path::{Path, PathBuf};

/// The seconds a test command gets when its header names no other limit.
const TIMEOUT_S: u32 = 120;

/// One patch file of `tools/mutations`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mutation {
    /// The file's name without its ending.
    pub(crate) name: String,
    /// Where the patch is.
    pub(crate) path: PathBuf,
    /// The first line: the rule that the patch breaks.
    pub(crate) rule: String,
    /// The test command, which must pass on the tree as it is and fail on the changed one.
    pub(crate) test: String,
    /// The limit of the test command; a mutant that hangs is caught too.
    pub(crate) timeout_s: u32,
}

impl Mutation {
    /// Reads the header of the patch at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(path, &String::from_utf8_lossy(&text))
    }

    fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let header: Vec<&str> = text
            .lines()
            .take_while(|line| !line.starts_with("diff "))
            .collect();
        let field = |name: &str| {
            header
                .iter()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        let complaint = |what: &str| format!("{}: {what}", path.display());
        let rule = header
            .first()
            .map(|line| line.trim())
            .filter(|line| !line.is_empty());
        if !text.lines().any(|line| line.starts_with("diff ")) {
            return Err(complaint("no `diff` line"));
        }
        Ok(Self {
            name: path
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
                .unwrap_or_default(),
            path: path.to_owned(),
            rule: rule
                .ok_or_else(|| complaint("the first line must name the rule it breaks"))?
                .to_owned(),
            test: field("Test:")
                .ok_or_else(|| complaint("no `Test: cargo test ...` line"))?
                .to_owned(),
            timeout_s: match field("Timeout:") {
                Some(seconds) => seconds
                    .parse()
                    .map_err(|_| complaint("`Timeout:` is not in seconds"))?,
                None => TIMEOUT_S,
            },
        })
    }

    /// The command that only compiles the test: a mutant that does not compile proves nothing.
    pub(crate) fn build(&self) -> String {
        match self.test.split_once(" -- ") {
            Some((cargo, _)) => format!("{cargo} --no-run"),
            None => format!("{} --no-run", self.test),
        }
    }
}

/// The mutations of `folder`, sorted; with `names`, only these.
pub(crate) fn list(folder: &Path, names: &[&str]) -> Result<Vec<Mutation>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "patch"))
        .collect();
    paths.sort();
    let all = paths
        .iter()
        .map(|path| Mutation::read(path))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(unknown) = names
        .iter()
        .find(|name| !all.iter().any(|mutation| mutation.name == **name))
    {
        return Err(format!("no mutation is called {unknown}"));
    }
    Ok(all
        .into_iter()
        .filter(|one| names.is_empty() || names.contains(&one.name.as_str()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "Acknowledged before its flush.\n\nTest: A=1 cargo test -p x --test y -- z\nTimeout: 30\n\ndiff --git a/f b/f\n";

    #[test]
    fn header_is_read() {
        let mutation = Mutation::parse(Path::new("ack-early.patch"), PATCH).unwrap();
        assert_eq!(mutation.name, "ack-early");
        assert_eq!(mutation.rule, "Acknowledged before its flush.");
        assert_eq!(mutation.test, "A=1 cargo test -p x --test y -- z");
        assert_eq!(mutation.build(), "A=1 cargo test -p x --test y --no-run");
        assert_eq!(mutation.timeout_s, 30);
    }

    #[test]
    fn incomplete_headers_are_refused() {
        for text in [
            "",
            "rule\n\ndiff --git a/f b/f\n",
            "\nTest: cargo test\ndiff --git a/f b/f\n",
            "rule\nTest: x\n",
        ] {
            assert!(Mutation::parse(Path::new("x.patch"), text).is_err(), "{text:?}");
        }
    }
}
