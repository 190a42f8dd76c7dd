//! A check: what is wanted, what is there, why it matters, and what would set it right.

use serde::Serialize;

use super::host::{Host, chosen};

/// How bad it is when a check does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The broker does not start, or loses what it promised to keep.
    Fatal,
    /// It is slower, or less even, than the machine allows.
    Warning,
    /// Nothing is wanted: it is told so that a measurement can be judged.
    Info,
}

/// Whether it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As wanted, or nothing is wanted.
    Ok,
    /// Not as wanted.
    Failed,
    /// This machine has no such thing, or does not tell.
    Unknown,
}

/// A file whose text is a setting, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The file.
    pub path: String,
    /// What it should hold.
    pub value: String,
}

/// One row of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// A short name.
    pub name: String,
    /// How bad it is when it does not hold.
    pub severity: Severity,
    /// Whether it holds.
    pub status: Status,
    /// What is wanted.
    pub required: String,
    /// What is there.
    pub current: String,
    /// Why it matters.
    pub why: &'static str,
    /// What to do by hand, when it does not hold.
    pub remedy: Option<String>,
    /// What `tune` would write, when it does not hold.
    pub settings: Vec<Setting>,
}

impl Check {
    /// A fact that is only told.
    pub fn info(name: impl Into<String>, current: impl Into<String>, why: &'static str) -> Self {
        Self {
            name: name.into(),
            severity: Severity::Info,
            status: Status::Ok,
            required: String::new(),
            current: current.into(),
            why,
            remedy: None,
            settings: Vec::new(),
        }
    }

    /// A check that holds or not.
    pub fn judged(
        name: impl Into<String>,
        severity: Severity,
        holds: bool,
        required: impl Into<String>,
        current: impl Into<String>,
        why: &'static str,
    ) -> Self {
        Self {
            severity,
            status: if holds { Status::Ok } else { Status::Failed },
            required: required.into(),
            ..Self::info(name, current, why)
        }
    }

    /// A check that this machine gives no answer to.
    pub fn unknown(
        name: impl Into<String>,
        severity: Severity,
        required: impl Into<String>,
        current: impl Into<String>,
        why: &'static str,
    ) -> Self {
        Self {
            status: Status::Unknown,
            ..Self::judged(name, severity, false, required, current, why)
        }
    }

    /// What to do by hand if it does not hold.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        if self.status == Status::Failed {
            self.remedy = Some(remedy.into());
        }
        self
    }

    /// What `tune` writes if it does not hold.
    #[must_use]
    pub fn set(mut self, path: impl Into<String>, value: impl Into<String>) -> Self {
        if self.status == Status::Failed {
            self.settings.push(Setting {
                path: path.into(),
                value: value.into(),
            });
        }
        self
    }

    /// Whether the broker should not be run like this.
    pub fn is_fatal(&self) -> bool {
        self.severity == Severity::Fatal && self.status == Status::Failed
    }
}

/// A warning about one file whose choice should be `wanted`.
pub fn choice(host: &Host, name: &str, path: &str, wanted: &str, why: &'static str) -> Check {
    match host.read(path) {
        Some(text) => {
            let current = chosen(&text).to_owned();
            Check::judged(name, Severity::Warning, current == wanted, wanted, current, why)
                .remedy(format!("echo {wanted} > {path}"))
                .set(path, wanted)
        }
        None => Check::unknown(name, Severity::Warning, wanted, "not told", why),
    }
}

/// A warning about one file whose number should be at least `wanted`.
pub fn at_least(host: &Host, name: &str, path: &str, wanted: u64, why: &'static str) -> Check {
    let required = format!(">= {wanted}");
    match host.number(path) {
        Some(current) => Check::judged(
            name,
            Severity::Warning,
            current >= wanted,
            required,
            current.to_string(),
            why,
        )
        .remedy(format!("echo {wanted} > {path}"))
        .set(path, wanted.to_string()),
        None => Check::unknown(name, Severity::Warning, required, "not told", why),
    }
}
