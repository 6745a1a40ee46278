//! `glassline trace`: where a stream's milliseconds went, asked of a running server.

mod latency;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use url::Url;

use crate::exit::Failure;
use crate::logging;
use crate::output;
use latency::Latency;

/// For the answer of a server that is there.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A stream with some thousand reporting viewers stays below.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Between two looks with `--watch`; the figures cover ten seconds.
const REFRESH: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The stream.
    #[arg(value_name = "NAME")]
    name: String,
    /// The server.
    #[arg(long, default_value = "http://127.0.0.1:8889", value_name = "URL")]
    url: Url,
    /// Its read token.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GLASSLINE_READ_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// Write the answer as JSON; `-` for stdout instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the stages as CSV; `-` for stdout instead of the table.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Look again every second until Ctrl-C.
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    watch: bool,
}

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    if options.url.scheme() != "http" {
        let hint = "trace speaks plain HTTP: ask on the server's machine, or through `ssh -L 8889:127.0.0.1:8889`";
        return Err(Failure::usage(format_args!(
            "--url {}: {hint}",
            options.url
        )));
    }
    let server = Server::new(options);
    loop {
        let answer = server.get(&["api", "v1", "streams", &options.name, "latency"])?;
        let latency: Latency = serde_json::from_str(&answer).map_err(|error| {
            Failure::runtime(format_args!(
                "{} sent no latency table: {error}",
                options.url
            ))
        })?;
        let written = [
            (&options.json, pretty(&answer)),
            (&options.csv, table::csv(&latency)),
        ];
        let mut to_stdout = false;
        for (path, text) in written {
            if let Some(path) = path {
                to_stdout |= write(path, &text)?;
            }
        }
        if !quiet && !to_stdout {
            show(&latency, options.watch)?;
        }
        if !options.watch {
            return Ok(ExitCode::SUCCESS);
        }
        pause();
    }
}

fn show(latency: &Latency, again: bool) -> Result<(), Failure> {
    const CLEAR: &str = "\x1b[H\x1b[J";
    let terminal = logging::stdout_is_terminal();
    let text = table::text(latency, logging::colour(&std::io::stdout()));
    let clear = if again && terminal { CLEAR } else { "" };
    let gap = if again && !terminal { "\n" } else { "" };
    output::print(&format!("{clear}{text}{gap}"))
}

#[expect(clippy::disallowed_methods, reason = "a command may wait")]
fn pause() {
    std::thread::sleep(REFRESH);
}

/// Writes `text` to the file at `path`; true if that means stdout.
fn write(path: &Path, text: &str) -> Result<bool, Failure> {
    if path == Path::new("-") {
        return output::print(text).map(|()| true);
    }
    std::fs::write(path, text)
        .map(|()| false)
        .map_err(|error| Failure::runtime(format_args!("{}: {error}", path.display())))
}

fn pretty(json: &str) -> String {
    serde_json::from_str::<serde_json::Value>(json)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .map_or_else(|_| json.to_owned(), |text| text + "\n")
}

/// The server that is asked.
struct Server {
    agent: ureq::Agent,
    url: Url,
    token: Option<String>,
}

/// What the server says when it will not (RFC 9457).
#[derive(Debug, Deserialize)]
struct Problem {
    detail: Option<String>,
    title: Option<String>,
}

impl Server {
    fn new(options: &Options) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .build();
        Self {
            agent: config.into(),
            url: options.url.clone(),
            token: options.token.clone(),
        }
    }

    /// The body at `path` below the server's URL.
    fn get(&self, path: &[&str]) -> Result<String, Failure> {
        let mut url = self.url.clone();
        url.path_segments_mut()
            .expect("an http URL has a path")
            .pop_if_empty()
            .extend(path);
        let mut request = self.agent.get(url.as_str());
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let unreachable = |error: ureq::Error| {
            let hint = "is `glassline serve` or `glassline demo` running there?";
            Failure::runtime(format_args!("{}: {error}; {hint}", self.url))
        };
        let mut response = request.call().map_err(unreachable)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let body = body.read_to_string().map_err(unreachable)?;
        match status {
            200..=299 => Ok(body),
            401 | 403 => Err(Failure::runtime(format_args!(
                "{}: {}; give --token or GLASSLINE_READ_TOKEN",
                self.url,
                problem(&body, status)
            ))),
            _ => Err(Failure::runtime(format_args!(
                "{}: {}",
                self.url,
                problem(&body, status)
            ))),
        }
    }
}

/// What a refusal says, for people.
fn problem(body: &str, status: u16) -> String {
    serde_json::from_str::<Problem>(body)
        .ok()
        .and_then(|problem| problem.detail.or(problem.title))
        .unwrap_or_else(|| format!("HTTP status {status}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_their_reason() {
        let body =
            r#"{"type":"about:blank","title":"Not found","status":404,"detail":"no stream 'x'"}"#;
        assert_eq!(problem(body, 404), "no stream 'x'");
        assert_eq!(problem(r#"{"title":"Nope"}"#, 400), "Nope");
        assert_eq!(problem("<html>", 502), "HTTP status 502");
    }
}
