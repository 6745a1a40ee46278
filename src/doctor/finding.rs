//! Findings: what a check saw, and, if something is wrong, why that matters and what to change.

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// The subject is in order.
    Ok,
    /// Something that an operator may want to know; nothing has to be changed.
    Notice,
    /// Some viewers, or some load, will suffer.
    Warning,
    /// Something does not work: the command ends with exit code 3.
    Failure,
}

/// One finding of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Name of the check, like `ports`.
    pub(super) check: &'static str,
    /// The checked thing: a key of the configuration, an address, a file.
    pub(super) subject: String,
    pub(super) severity: Severity,
    /// The fact in words.
    pub(super) what: String,
    /// The reason why that matters; empty if all is well.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) why: String,
    /// Which line to change, or what to do; empty if all is well.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) change: String,
}

impl Finding {
    /// A finding that all is well.
    pub(super) fn ok(
        check: &'static str,
        subject: impl Into<String>,
        what: impl Into<String>,
    ) -> Self {
        Self {
            check,
            subject: subject.into(),
            severity: Severity::Ok,
            what: what.into(),
            why: String::new(),
            change: String::new(),
        }
    }

    /// Something worth knowing.
    pub(super) fn notice(
        check: &'static str,
        subject: impl Into<String>,
        what: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Notice,
            ..Self::ok(check, subject, what)
        }
    }

    /// Something that will hurt some viewers or some load.
    pub(super) fn warning(
        check: &'static str,
        subject: impl Into<String>,
        what: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::ok(check, subject, what)
        }
    }

    /// Something that does not work.
    pub(super) fn failure(
        check: &'static str,
        subject: impl Into<String>,
        what: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Failure,
            ..Self::ok(check, subject, what)
        }
    }

    /// Adds why the finding matters.
    pub(super) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Adds what to change.
    pub(super) fn change(mut self, change: impl Into<String>) -> Self {
        self.change = change.into();
        self
    }
}
