//! Reads flags of one command, for tests.

use clap::{Args, Parser};

/// A command line that has the flags of `T` alone.
#[derive(Debug, Parser)]
struct CommandLine<T: Args> {
    #[command(flatten)]
    options: T,
}

/// Parses the flags of a command.
///
/// # Errors
/// The text that a user sees.
pub(crate) fn parse<T: Args>(flags: &[&str]) -> Result<T, String> {
    let line = CommandLine::try_parse_from(std::iter::once(&"glassline").chain(flags));
    line.map(|line| line.options)
        .map_err(|error| error.to_string())
}
