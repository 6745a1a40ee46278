//! How the program ends.

use std::fmt;
use std::process::ExitCode;

/// Ended by Ctrl-C: 128 + SIGINT, as shells count.
pub(crate) const INTERRUPTED: u8 = 130;

/// Measured, and a condition of `--fail-if` was met.
pub(crate) const THRESHOLD_MISSED: u8 = 3;

/// Why the program ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something went wrong while running: exit code 1.
    Runtime(String),
    /// Flags or configuration are wrong: exit code 2.
    Usage(String),
}

impl Failure {
    pub(crate) fn runtime(error: impl fmt::Display) -> Self {
        Self::Runtime(error.to_string())
    }

    pub(crate) fn usage(error: impl fmt::Display) -> Self {
        Self::Usage(error.to_string())
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
