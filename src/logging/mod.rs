//! The log, which is written to stderr and never makes a thread of the server wait.
//!
//! ```text
//!  tracing event ─► filter ─► LineLimit (per place in the code) ─► one line, fields shortened
//!     ─► LineQueue: bounded in bytes and lines ─► thread `log` ─► stderr
//! ```
//!
//! Whoever reads stderr may stop reading. Lines that find no room in the queue are dropped and
//! counted, and the log says so when the reader goes on. Strangers cause lines, too, so each place
//! in the code may write some lines at once and a few a second. Lines about operators' changes are
//! not limited, and have room of their own in the queue.

#![expect(
    clippy::disallowed_methods,
    reason = "the log reads the clock, and its own threads wait"
)]

mod fields;
mod json;
mod line_limit;
mod line_queue;

pub(crate) use fields::escaped_lines;

use std::io::IsTerminal as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::{Args, ValueEnum};
use glassline_server::LogFilter;
use tracing_subscriber::layer::{Layered, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::exit::Failure;
use line_limit::LineLimit;
use line_queue::LineQueue;

/// Log filter without `--log`: our notes, warnings of dependencies, and errors only of moq-net,
/// whose warnings are mostly about sessions that ended normally.
const DEFAULT: &str = "warn,moq_net=error,glassline=info";

/// Longest time that the end of the program waits for the reader of stderr.
const FLUSH: Duration = Duration::from_millis(500);

/// The queue of the process's log; unset before [`start`].
static QUEUE: OnceLock<Arc<LineQueue>> = OnceLock::new();

/// The filter, if the command line has none; unset before [`start`].
static FILTER: OnceLock<Arc<Filter>> = OnceLock::new();

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Print errors only.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Log filter, like `debug` or `warn,glassline=trace`.
    #[arg(long, global = true, value_name = "FILTER", env = "RUST_LOG")]
    log: Option<String>,
    /// Form of the log's lines.
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        env = "GLASSLINE_LOG_FORMAT",
        value_enum,
        default_value_t
    )]
    log_format: Format,
}

/// The form of the log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text for people, in colors on a terminal.
    #[default]
    Text,
    /// One JSON object a line: time, level, target, message, fields.
    Json,
}

impl Format {
    /// Returns `text`, which is no event, as a line.
    fn line(self, level: &str, text: &str) -> String {
        match self {
            Self::Text => format!("{}\n", escaped_lines(text.trim_end())),
            Self::Json => json::line(level, text),
        }
    }
}

impl Options {
    /// Logs nothing unless a filter is given.
    pub(crate) fn keep_silent(&mut self) {
        self.log.get_or_insert_with(|| "off".to_owned());
    }
}

/// The filter of the log, which the configuration may change.
struct Filter(tracing_subscriber::reload::Handle<EnvFilter, Unfiltered>);

/// The layers below the filter, boxed so that they have a name.
type Unfiltered = Layered<Lines, Registry>;
type Lines = Box<dyn Layer<Registry> + Send + Sync>;

impl Filter {
    fn parse(filter: Option<&str>) -> Result<EnvFilter, String> {
        let filter = filter.unwrap_or(DEFAULT);
        let parsed = EnvFilter::builder().parse(filter);
        parsed.map_err(|error| format!("'{filter}': {error}; write a level like debug"))
    }
}

impl LogFilter for Filter {
    fn check(&self, filter: Option<&str>) -> Result<(), String> {
        Self::parse(filter).map(drop)
    }

    fn set(&self, filter: Option<&str>) {
        let filter = Self::parse(filter).expect("the filter was checked");
        // An error means that the log is gone.
        let _ = self.0.reload(filter);
    }
}

/// Puts `log.filter` of the configuration in force. Returns what a reload changes; `None` if the
/// command line or the environment has the filter, which wins.
pub(crate) fn filter_of_configuration(
    filter: Option<&str>,
) -> Result<Option<Arc<dyn LogFilter>>, Failure> {
    Filter::parse(filter).map_err(|error| Failure::usage(format_args!("log.filter {error}")))?;
    let Some(log) = FILTER.get() else {
        return Ok(None);
    };
    log.set(filter);
    let log: Arc<dyn LogFilter> = Arc::<Filter>::clone(log);
    Ok(Some(log))
}

/// Starts logging to stderr.
pub(crate) fn start(options: &Options) -> Result<(), Failure> {
    let default = if options.quiet { "error" } else { DEFAULT };
    let filter = options.log.as_deref().unwrap_or(default);
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|error| Failure::usage(format_args!("--log '{filter}': {error}")))?;
    let is_fixed = options.quiet || options.log.is_some();
    let (filter, handle) = tracing_subscriber::reload::Layer::new(filter);
    if !is_fixed {
        FILTER.get_or_init(|| Arc::new(Filter(handle)));
    }
    let format = options.log_format;
    let queue = LineQueue::start(std::io::stderr(), &glassline_server::LOG, format)
        .map_err(|error| Failure::runtime(format_args!("cannot start the log: {error}")))?;
    let lines = tracing_subscriber::fmt::layer()
        .fmt_fields(fields::shortened())
        .with_writer(line_queue::Lines(Arc::clone(&queue)))
        .with_ansi(format == Format::Text && color(&std::io::stderr()));
    let lines: Lines = match format {
        Format::Text => lines.boxed(),
        Format::Json => lines.event_format(json::Json).boxed(),
    };
    let limit = LineLimit::start(&glassline_server::LOG);
    let lines: Lines = Layer::<Registry>::and_then(limit, lines).boxed();
    tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .init();
    // The hook of the standard library writes to stderr itself, and so would wait for its reader.
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string);
        let thread = std::thread::current();
        tracing::error!(
            thread = thread.name().unwrap_or("unnamed"),
            place = place.as_deref().unwrap_or("unknown"),
            "panic, which is a bug of glassline: {message}"
        );
        let backtrace = std::backtrace::Backtrace::capture();
        if backtrace.status() == std::backtrace::BacktraceStatus::Captured
            && let Some(queue) = QUEUE.get()
        {
            queue.push(&backtrace.to_string());
        }
    }));
    QUEUE.get_or_init(|| queue);
    Ok(())
}

/// Prints `text` as a line to stderr, behind the log.
pub(crate) fn print(text: &str) {
    match QUEUE.get() {
        Some(queue) => queue.push(text),
        None => eprintln!("{text}"),
    }
}

/// Waits until the reader of stderr has the lines of the log, for half a second at most.
pub(crate) fn finish() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH);
    }
}

/// Whether to use colors on `stream`: it is a terminal, and NO_COLOR is not set (no-color.org).
pub(crate) fn color(stream: &impl std::io::IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether stdout is a terminal.
pub(crate) fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}
