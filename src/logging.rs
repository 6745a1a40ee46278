//! The log, which is written to stderr.

use std::io::IsTerminal as _;

use clap::Args;
use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// Log filter without `--log`: our notes, warnings of dependencies, and errors only of moq-net,
/// whose warnings are mostly about sessions that ended normally.
const DEFAULT: &str =
    "warn,moq_net=error,glassline=info,glassline_server=info,glassline_client::publish=info";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Print errors only.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Log filter, like `debug` or `warn,glassline_server=trace`.
    #[arg(long, global = true, value_name = "FILTER", env = "RUST_LOG")]
    log: Option<String>,
}

/// Starts logging to stderr.
pub(crate) fn start(options: &Options) -> Result<(), Failure> {
    let default = if options.quiet { "error" } else { DEFAULT };
    let filter = options.log.as_deref().unwrap_or(default);
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|error| Failure::usage(format_args!("--log '{filter}': {error}")))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(color(&std::io::stderr()))
        .init();
    Ok(())
}

/// Whether to use colors on `stream`: it is a terminal, and NO_COLOR is not set (no-color.org).
pub(crate) fn color(stream: &impl std::io::IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether stdout is a terminal.
pub(crate) fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}
