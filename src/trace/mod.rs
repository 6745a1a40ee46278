//! `glassline trace`: delays of each stage, for a stream of a running server or for a call from
//! log files.

mod latency;
mod logs;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use glassline_lab::waterfall::{StageDelay, Waterfall};
use serde::Deserialize;
use url::Url;

use crate::bench::files::OutputPaths;
use crate::exit::Failure;
use crate::logging;
use crate::output;
use latency::Latency;

/// Longest time to wait for the server's answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Largest answer that is read, in bytes. A stream with some thousand reporting viewers stays
/// below.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Time between two requests with `--watch`; the figures cover ten seconds.
const REFRESH: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Name of a stream; or WebRTC log files of one or both ends of a call; or Chromium's trace
    /// events of category webrtc, as JSON.
    #[arg(value_name = "NAME|LOG", required = true)]
    names: Vec<String>,
    /// URL of the server.
    #[arg(long, default_value = "http://127.0.0.1:8889", value_name = "URL")]
    url: Url,
    /// Read token of the server.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GLASSLINE_READ_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    #[command(flatten)]
    files: OutputPaths,
    /// Show the table again every second.
    #[arg(long, conflicts_with_all = ["json", "csv", "svg"])]
    watch: bool,
}

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    let is_file = |name: &&String| Path::new(name).is_file();
    let files = options.names.iter().filter(is_file).count();
    match options.names.as_slice() {
        all if files == all.len() => logs::run(options, quiet),
        [name] => stream(options, name, quiet),
        all => {
            let missing = all.iter().find(|name| !is_file(name));
            let missing = missing.map_or("", String::as_str);
            Err(Failure::usage(format_args!(
                "{missing}: no such file; give the name of one stream, or log files only"
            )))
        }
    }
}

fn stream(options: &Options, name: &str, quiet: bool) -> Result<ExitCode, Failure> {
    if options.url.scheme() != "http" {
        let hint = "trace supports plain HTTP only: run it on the server's machine, or through `ssh -L 8889:127.0.0.1:8889 HOST`";
        return Err(Failure::usage(format_args!(
            "--url {}: {hint}",
            options.url
        )));
    }
    let server = Server::new(options);
    loop {
        let answer = server.get(&["api", "v1", "streams", name, "latency"])?;
        let latency: Latency = serde_json::from_str(&answer).map_err(|error| {
            Failure::runtime(format_args!(
                "{} sent no latency table: {error}",
                options.url
            ))
        })?;
        let written = [
            (&options.files.json, pretty(&answer)),
            (&options.files.csv, table::csv(&latency)),
            (&options.files.svg, chart(&latency).draw()),
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

/// Returns the chart of a stream's delays.
fn chart(latency: &Latency) -> Waterfall {
    let delay = |name: &str, p50_ms, p95_ms| StageDelay {
        name: name.replace('_', " "),
        p50_ms,
        p95_ms,
    };
    let stages = latency.stages.iter();
    let wholes = table::wholes(latency);
    Waterfall {
        title: format!(
            "{}: delay by stage, last {} s",
            latency.stream, latency.window_s
        ),
        stages: stages
            .map(|it| delay(&it.stage, it.p50_ms, it.p95_ms))
            .collect(),
        wholes: wholes
            .map(|(name, it)| delay(name, it.p50_ms, it.p95_ms))
            .collect(),
    }
}

fn show(latency: &Latency, again: bool) -> Result<(), Failure> {
    let terminal = logging::stdout_is_terminal();
    let text = table::text(latency, logging::color(&std::io::stdout()));
    if again && terminal {
        output::clear()?;
    }
    let gap = if again && !terminal { "\n" } else { "" };
    output::print_styled(&format!("{text}{gap}"))
}

#[expect(clippy::disallowed_methods, reason = "a command may wait")]
fn pause() {
    std::thread::sleep(REFRESH);
}

/// Writes `text` to the file at `path`; returns true if that is stdout.
fn write(path: &Path, text: &str) -> Result<bool, Failure> {
    if path == Path::new("-") {
        return output::print(text).map(|()| true);
    }
    std::fs::write(path, text)
        .map(|()| false)
        .map_err(|error| Failure::runtime(format_args!("{}: {error}", path.display())))
}

fn pretty(json: &str) -> String {
    let value = serde_json::from_str::<serde_json::Value>(json);
    value.map_or_else(|_| json.to_owned(), |value| output::json(&value))
}

/// Client of the server's HTTP API.
struct Server {
    agent: ureq::Agent,
    url: Url,
    token: Option<String>,
}

/// Problem details of a refused request (RFC 9457).
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

    /// Body of the answer at `path` below the server's URL.
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

/// The reason for a refusal: the problem's detail or title, else the HTTP status.
fn problem(body: &str, status: u16) -> String {
    serde_json::from_str::<Problem>(body)
        .ok()
        .and_then(|problem| problem.detail.or(problem.title))
        .unwrap_or_else(|| format!("HTTP status {status}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_flags;

    fn refused(flags: &[&str]) -> String {
        let options: Options = test_flags::parse(flags).expect("flags that clap takes");
        match run(&options, true) {
            Err(Failure::Usage(text)) => text,
            other => panic!("{flags:?}: {other:?}"),
        }
    }

    #[test]
    fn streams_and_files_do_not_mix() {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let mixed = refused(&[here, "demo"]);
        assert!(mixed.starts_with("demo: no such file"), "{mixed}");
        let neither = refused(&[here]);
        assert!(neither.contains("neither a marker"), "{neither}");
        assert!(refused(&[here, "--watch"]).contains("--watch"));
        assert!(test_flags::parse::<Options>(&[]).is_err());
    }

    #[test]
    fn logs_become_files_of_each_form() {
        let folder = std::env::temp_dir().join(format!("glassline-trace-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = |name: &str| folder.join(name).display().to_string();
        let log = "(x.cc:1): Recording delay:10\n(x.cc:1): Recording delay:11\n";
        std::fs::write(folder.join("a.log"), log).expect("written");
        let (log, json, csv, svg) = (path("a.log"), path("a.json"), path("a.csv"), path("a.svg"));
        let flags = [&log, &log, "--json", &json, "--csv", &csv, "--svg", &svg];
        let options: Options = test_flags::parse(&flags).expect("good flags");
        run(&options, true).expect("two logs");
        let read = |path: &str| std::fs::read_to_string(path).expect("written");
        assert!(read(&csv).contains("capture_interval,ms,11,2,0.500000,"));
        assert!(read(&json).contains("\"stage\": \"capture_interval\""));
        assert!(read(&svg).contains("Capture interval"));
        std::fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn refusals_say_their_reason() {
        let body =
            r#"{"type":"about:blank","title":"Not found","status":404,"detail":"no stream 'x'"}"#;
        assert_eq!(problem(body, 404), "no stream 'x'");
        assert_eq!(problem(r#"{"title":"Nope"}"#, 400), "Nope");
        assert_eq!(problem("<html>", 502), "HTTP status 502");
    }
}
