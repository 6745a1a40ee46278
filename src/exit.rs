//! Exit codes and the error that ends the program.

use std::fmt;
use std::process::ExitCode;

use crate::logging;

/// Exit code after Ctrl-C: 128 + SIGINT, as shells count.
pub(crate) const INTERRUPTED: u8 = 130;

/// Exit code of a measurement for which a `--fail-if` condition was met.
pub(crate) const THRESHOLD_MISSED: u8 = 3;

/// Exit code of `doctor` and of `config check --try` if something does not work, and of `hls check` if a
/// rule is broken.
pub(crate) const CHECK_FAILED: u8 = 3;

/// Error that ends the program, with its text for the user. Servers have a part in it, so characters
/// are escaped that would change how it is shown.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something failed while running: exit code 1.
    Runtime(String),
    /// Flags or configuration are wrong: exit code 2.
    Usage(String),
}

impl Failure {
    pub(crate) fn runtime(error: impl fmt::Display) -> Self {
        Self::Runtime(logging::escaped_lines(&error.to_string()))
    }

    pub(crate) fn usage(error: impl fmt::Display) -> Self {
        Self::Usage(logging::escaped_lines(&error.to_string()))
    }

    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Runtime(_) => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runtime(text) | Self::Usage(text) => f.write_str(text),
        }
    }
}
