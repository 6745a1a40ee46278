//! `glassline doctor`: says why it does not connect, before somebody asks.
//!
//! ```text
//! CONFIG, none ─► local:  ports, certificates, kernel, clock, disk, sources, publish and play
//! URL          ─► remote: name, TCP, TLS, HTTP, candidates, TURN, CORS, RTSP, QUIC, play
//! STREAM       ─► remote, and what the API says about the stream
//!                    └─► Vec<Finding> ─► Report ─► lines or JSON
//! ```
//!
//! Checks gather facts with [`glassline_client::probe`] and [`glassline_net`]; pure functions make
//! findings of them. What `config check --try` tries is tried here by the same functions.

#![expect(
    clippy::disallowed_methods,
    reason = "a shell: its checks wait for servers, and compare clocks"
)]

mod addresses;
mod certificates;
mod clock;
mod cross_origin;
mod disk;
mod finding;
mod group;
mod kernel;
mod listeners;
mod local;
mod media;
mod offer;
mod ports;
mod progress;
mod remote;
mod report;
mod round_trip;
mod stream;
mod target;
mod trial;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use glassline_config::Config;
use url::Url;

use crate::exit::{CHECK_FAILED, Failure};
use crate::{logging, output};
pub(crate) use local::settled;

use finding::Finding;
use listeners::NamedPorts;
use progress::Progress;
use report::Report;
use target::Target;

/// Variable with the token of an operator, for servers whose admin port asks for one.
const ADMIN_TOKEN: &str = "GLASSLINE_ADMIN_TOKEN";

/// Time that everything may take together.
const TOTAL_MAX: Duration = Duration::from_millis(9_500);

/// Flags of `glassline doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Configuration file of this machine's server; URL of a server, with a stream or not; or name
    /// of a stream. Without any, the defaults are checked.
    #[arg(value_name = "URL|STREAM|CONFIG")]
    target: Option<String>,
    /// URL of the server that has STREAM.
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
    /// Publish token of the server at URL, to publish a test picture, too.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GLASSLINE_PUBLISH_TOKEN",
        hide_env_values = true
    )]
    publish_token: Option<String>,
    /// Port of RTSP at URL [default: that of the server's API, or 8554].
    #[arg(long, value_name = "PORT")]
    rtsp_port: Option<u16>,
    /// UDP port of MoQ at URL [default: that of the server's API, or 4443].
    #[arg(long, value_name = "PORT")]
    quic_port: Option<u16>,
    /// Site whose pages shall play the streams, like `https://site.example`.
    #[arg(long, value_name = "SITE")]
    origin: Option<String>,
    /// NTP server to compare this machine's clock with.
    #[arg(long, value_name = "HOST")]
    ntp: Option<String>,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  glassline doctor /etc/glassline.yml        this machine, with its ports, files and streams
  glassline doctor https://media.example     a server, as its viewers see it
  glassline doctor cam                       a stream of the server on this machine

Exit codes: 0 nothing fails (warnings may be there), 1 the check itself failed, 2 wrong usage,
3 something does not work.";

/// The subject of the examination.
#[derive(Debug)]
enum Subject {
    Local(Box<Config>),
    Server(Box<Target>),
    Stream(Box<Target>),
}

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    let subject = subject(options)?;
    glassline_client::agent::name_process(glassline_client::agent::OF_DOCTOR);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::runtime(format_args!("cannot start threads: {error}")))?;
    let progress = Arc::new(Progress::start(quiet || options.json));
    let begun = Instant::now();
    let examined = runtime.block_on(async {
        let examining = examine(subject, options, &progress);
        tokio::time::timeout(TOTAL_MAX, examining).await
    });
    progress.finish();
    // A thread that still waits for an answer must not delay the exit.
    runtime.shutdown_background();
    let findings = examined.unwrap_or_else(|_| {
        let seconds = TOTAL_MAX.as_secs();
        let text = format!("the checks did not end within {seconds} s");
        vec![Finding::failure("doctor", "time", text)]
    });
    let target = options.target.clone();
    let target = target.unwrap_or_else(|| "the default configuration".to_owned());
    let report = Report::new(target, findings, begun.elapsed());
    let text = match options.json {
        true => report.json(),
        false => report.text(logging::color(&std::io::stdout()), quiet),
    };
    output::print_styled(&text)?;
    Ok(match report.has_failed() {
        true => ExitCode::from(CHECK_FAILED),
        false => ExitCode::SUCCESS,
    })
}

async fn examine(subject: Subject, options: &Options, progress: &Arc<Progress>) -> Vec<Finding> {
    match subject {
        Subject::Local(config) => local::examine(*config, options.ntp.clone(), progress).await,
        Subject::Server(target) => {
            let mut findings = remote::examine(*target, false, progress).await;
            if options.ntp.is_some() {
                let ntp = options.ntp.clone();
                let asked = group::blocking(move || clock::check(ntp.as_deref())).await;
                findings.extend(asked.unwrap_or_default());
            }
            findings
        }
        Subject::Stream(target) => remote::examine(*target, true, progress).await,
    }
}

/// Tells a file from a URL and from the name of a stream.
fn subject(options: &Options) -> Result<Subject, Failure> {
    let (token, publish_token) = (options.token.as_deref(), options.publish_token.as_deref());
    let site = options.origin.as_deref().map(origin).transpose()?;
    let target = |url: &Url| {
        let ports = NamedPorts {
            rtsp: options.rtsp_port,
            quic: options.quic_port,
        };
        let site = site.clone();
        Box::new(Target {
            ports,
            site,
            ..Target::parse(url, token, publish_token)
        })
    };
    let Some(text) = &options.target else {
        return Ok(Subject::Local(Box::default()));
    };
    let path = Path::new(text);
    let is_yaml = path
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("yml") || it.eq_ignore_ascii_case("yaml"));
    if text.contains("://") {
        let url = glassline_client::whep::parse_url(text).map_err(|error| {
            Failure::usage(format_args!(
                "{error}; doctor takes the URL of the page, and finds the other ports"
            ))
        })?;
        return Ok(Subject::Server(target(&url)));
    }
    if path.is_file() || is_yaml {
        let config = Config::load(path).map_err(Failure::usage)?;
        let wrong = |error: &dyn std::fmt::Display| Failure::usage(format_args!("{text}: {error}"));
        config.check_ports().map_err(|error| wrong(&error))?;
        config.check_cluster().map_err(|error| wrong(&error))?;
        let specs = config.specs();
        config
            .check_programs(&specs)
            .map_err(|error| wrong(&error))?;
        return Ok(Subject::Local(Box::new(config)));
    }
    if text.contains([':', '.']) {
        return Err(Failure::usage(format_args!(
            "{text}: no such file; a server is written http://{text}"
        )));
    }
    let mut url = options.url.clone();
    url.set_path(&format!("{}/{text}", url.path().trim_end_matches('/')));
    Ok(Subject::Stream(target(&url)))
}

/// Reads the origin of a site as browsers write it (RFC 6454 §6.2).
fn origin(text: &str) -> Result<String, Failure> {
    let url = Url::parse(text).ok();
    let url = url.filter(|it| matches!(it.scheme(), "http" | "https") && it.has_host());
    let url = url.ok_or_else(|| {
        Failure::usage(format_args!(
            "--origin {text}: a site is written https://site.example"
        ))
    })?;
    Ok(url.origin().ascii_serialization())
}

/// Returns the token of an operator, if the environment has one.
fn admin_token() -> Option<String> {
    let token = std::env::var(ADMIN_TOKEN).ok();
    token.filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_flags::parse;

    fn kind(words: &[&str]) -> Result<&'static str, String> {
        let options: Options = parse(words)?;
        let subject = subject(&options).map_err(|error| error.to_string())?;
        Ok(match subject {
            Subject::Local(_) => "local",
            Subject::Server(_) => "server",
            Subject::Stream(_) => "stream",
        })
    }

    #[test]
    fn a_target_is_a_file_a_url_or_a_stream() {
        assert_eq!(kind(&[]), Ok("local"));
        assert_eq!(kind(&["examples/glassline.yml"]), Ok("local"));
        assert_eq!(kind(&["https://media.test/cam"]), Ok("server"));
        assert_eq!(kind(&["cam"]), Ok("stream"));
    }

    #[test]
    fn a_target_that_is_none_is_told_what_it_could_be() {
        let missing = kind(&["nowhere.yml"]).expect_err("no such file");
        assert!(missing.contains("nowhere.yml"), "{missing}");
        let host = kind(&["media.test:8889"]).expect_err("no scheme");
        assert!(host.contains("http://media.test:8889"), "{host}");
        let site = kind(&["http://media.test", "--origin", "site.test"]).expect_err("no scheme");
        assert!(site.contains("https://site.example"), "{site}");
        let rtsp = kind(&["rtsp://media.test/cam"]).expect_err("not HTTP");
        assert!(rtsp.contains("the URL of the page"), "{rtsp}");
    }
}
