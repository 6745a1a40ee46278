//! `glassline hls check`: judges the HLS of any server by the text.
//!
//! ```text
//! URL ─► load ─► Presentation: the multivariant playlist and its media playlists
//!                   ├─► follow, a thread each: reload after reload, hints, reports ─┐
//!                   └─► question: directives, delta update, gzip, bytes of media ───┴─► Report ─► lines, JSON
//! ```
//!
//! The rules are those of `glassline_hls::judge`; here playlists are loaded, and nothing is judged that is
//! not written there.

#![expect(
    clippy::disallowed_methods,
    reason = "a shell: it loads playlists, and measures how long answers take"
)]

mod follow;
mod load;
mod presentation;
mod question;
mod report;
#[cfg(test)]
mod test_server;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use glassline_client::hls::Fetcher;
use glassline_client::trust::Trust;
use url::Url;

use crate::exit::{CHECK_FAILED, Failure};
use crate::{logging, output};
use presentation::Presentation;
use report::Report;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Judge the HLS of any server: load its playlists, follow them, and report what breaks the
    /// standard.
    ///
    /// The rules are those of draft-pantos-hls-rfc8216bis-22. What the standard calls a MUST is an
    /// error, a SHOULD a warning.
    Check(Options),
}

/// Flags of `glassline hls check`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Playlist, multivariant or of media; its query stays in requests for it.
    #[arg(value_name = "URL")]
    url: Url,
    /// Time for which live playlists are followed; 0 loads them once.
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=3600))]
    seconds: u64,
    /// Token that is sent as `Authorization: Bearer`.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GLASSLINE_READ_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// PEM file with the authority of the server's certificate.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(long)]
    insecure: bool,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  glassline hls check http://127.0.0.1:8889/cam/hls/index.m3u8
  glassline hls check https://cdn.example/live.m3u8?token=x --seconds 120 --json

Exit codes: 0 no error (warnings may be there), 1 the playlist cannot be loaded, 2 wrong usage, 3
errors were found.";

pub(crate) fn run(action: &Action, quiet: bool) -> Result<ExitCode, Failure> {
    let Action::Check(options) = action;
    let report = options.check()?;
    let text = match options.json {
        true => report.json(),
        false => report.text(logging::color(&std::io::stdout()), quiet),
    };
    output::print_styled(&text)?;
    Ok(match report.has_errors() {
        true => ExitCode::from(CHECK_FAILED),
        false => ExitCode::SUCCESS,
    })
}

/// Follows the playlists that are live until a moment, and asks the questions.
fn examine(presentation: &Presentation, fetcher: &Fetcher, trust: Trust, until: Instant) {
    std::thread::scope(|scope| {
        for member in presentation.members() {
            let (following, asking) = (fetcher.clone(), fetcher.clone());
            scope.spawn(move || follow::follow(presentation, member, &following, until));
            scope.spawn(move || question::ask(presentation, member, &asking, until));
        }
    });
    if let Some(first) = presentation.members().first() {
        question::transport(presentation, first, fetcher, trust);
    }
}

impl Options {
    fn check(&self) -> Result<Report, Failure> {
        if !matches!(self.url.scheme(), "http" | "https") {
            let url = glassline_client::hls::shown(&self.url);
            return Err(Failure::usage(format_args!(
                "{url} is not an http or https URL"
            )));
        }
        let trust = match (&self.ca, self.insecure) {
            // As long as the process lives, its command line does.
            (Some(file), _) => Trust::Authorities(Box::leak(file.clone().into_boxed_path())),
            (None, true) => Trust::Anyone,
            (None, false) => Trust::System,
        };
        let fetcher = Fetcher::new(trust, self.token.clone());
        let began = Instant::now();
        let presentation = Presentation::load(&fetcher, &self.url).map_err(Failure::runtime)?;
        let until = Instant::now() + Duration::from_secs(self.seconds);
        examine(&presentation, &fetcher, trust, until);
        Ok(Report::new(&self.url, presentation, began.elapsed()))
    }
}
