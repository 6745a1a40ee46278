//! `glassline publish`: sends one live stream to a server.

mod report;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use glassline_client::publish::input::{BitrateRange, Input, Rung, Spec};
use glassline_client::publish::session::{self, End};
use glassline_client::publish::source;
use glassline_client::publish::uplink::Destination;
use glassline_client::publish::{Algorithm, Rule, Trust};

use crate::bench::files::{Output, OutputPaths, Outputs};
use crate::bench::quantity;
use crate::exit::{Failure, INTERRUPTED};
use crate::serve::Signals;
use report::Report;
use terminal::Terminal;

/// Flags of `glassline publish INPUT URL`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Source: FILE[,FILE…], rtsp://…, `-` for standard input (y4m, or H.264 or H.265 in Annex B
    /// form), test[?size=1280x720&fps=30] for a test pattern, or demo.
    #[arg(value_name = "INPUT")]
    input: Input,
    /// Target: moq://HOST:4443/NAME, https://HOST… for MoQ through WebTransport, a WHIP endpoint
    /// (http://HOST:8889/NAME/whip; whip:// or whips:// for other paths), or rtsp://HOST:8554/NAME
    /// (rtsps:// within TLS); ?token=… for a token, #sha256=… to pin the certificate.
    #[arg(value_name = "URL")]
    url: String,
    /// Frames per second where the input does not say; wins for standard input.
    #[arg(long, value_name = "N", value_parser = frame_rate)]
    fps: Option<f64>,
    /// Repeat a file without end, which is the default.
    #[arg(long = "loop", conflicts_with = "once")]
    looped: bool,
    /// Play a file once, then exit.
    #[arg(long)]
    once: bool,
    /// Send frames of standard input as they arrive.
    #[arg(long)]
    live: bool,
    /// Audio file for a video input that has no audio.
    #[arg(long, value_name = "FILE")]
    audio: Option<PathBuf>,
    /// Further rendition, FILE or FILE@RATE, with keyframes at the same times; the bitrate decides.
    /// Repeatable.
    #[arg(long = "rendition", value_name = "FILE[@RATE]")]
    renditions: Vec<Rung>,
    /// Lower encoding of the video, which is sent beside the input for viewers with less bandwidth: FILE,
    /// a pipe with H.264 or H.265, or test?size=…; the best first. By moq:// or WHIP. Repeatable.
    #[arg(long = "layer", value_name = "INPUT", conflicts_with = "renditions")]
    layers: Vec<Input>,
    /// Transport of the media to an rtsp:// server [default: tcp].
    #[arg(long, value_enum, value_name = "tcp|udp", hide_possible_values = true)]
    transport: Option<Transport>,
    /// Congestion control: cubic, bbr, bbr-lt, bbr-loss-tolerant, copa, copa-competitive, glide,
    /// rfc9260-reno.
    #[arg(long, value_name = "NAME", default_value = "glide")]
    congestion: Algorithm,
    /// Lowest and highest bitrate of the video.
    #[arg(long, value_name = "MIN..MAX", default_value = "500k..3M")]
    bitrate: BitrateRange,
    /// Rule for the bitrate: coupled follows the path's rate, study the data that wait.
    #[arg(long, value_name = "RULE", default_value = "coupled")]
    adaptation: Rule,
    /// Drop groups of pictures that have waited longer [default: 1.5s; 8s with study].
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    max_delay: Option<Duration>,
    /// Publish token of the server.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GLASSLINE_PUBLISH_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// Trust these certificate authorities (PEM file).
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Accept any certificate; whoever is on the path can then read and change the stream.
    #[arg(long)]
    insecure: bool,
    /// Write figures of the stream as JSON to this file; `-` for stdout.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a CSV row each second to this file; `-` for stdout.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// How media goes to an RTSP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Transport {
    /// Within the RTSP connection.
    Tcp,
    /// Datagrams to ports of the server.
    Udp,
}

const EXAMPLES: &str = "\
Examples:
  glassline publish film.mp4 'moq://media.example/cam?token=…'
  ffmpeg -i rtsp://camera/stream -c:v copy -an -f h264 - | glassline publish --live - moq://host/cam
  ffmpeg -f v4l2 -i /dev/video0 -pix_fmt yuv420p -f yuv4mpegpipe - | glassline publish --live - URL
  glassline publish high.mp4 URL --rendition mid.mp4@1M --rendition low.mp4@400k
  glassline publish high.mp4 URL --layer mid.mp4 --layer low.mp4
  glassline publish demo http://host:8889/cam/whip
  glassline publish 'test?fps=25' rtsp://host:8554/cam
  glassline publish voice.mkv http://host:8889/door/talk
  glassline publish 'test?size=640x360' URL --audio music.ogg --congestion cubic --bitrate 300k..2M

Exit codes: 0 the input was sent to its end or SIGTERM came, 1 failed, 2 wrong usage,
130 interrupted.";

fn frame_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|it| (0.1..=240.0).contains(it));
    rate.ok_or_else(|| "give a number from 0.1 to 240".to_owned())
}

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    let session = options.session()?;
    let spec = options.spec(&session);
    let Outputs { json, csv, .. } = Outputs::open(&OutputPaths {
        json: options.json.clone(),
        csv: options.csv.clone(),
        svg: None,
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::runtime(format_args!("cannot start threads: {error}")))?;
    let report = Report::new(options.congestion, options.adaptation, csv);
    let code = runtime.block_on(publish(&spec, &session, report, json, quiet));
    // A thread that is blocked on standard input must not delay the exit.
    runtime.shutdown_background();
    code
}

async fn publish(
    spec: &Spec,
    options: &session::Options,
    report: Report,
    json: Option<Output>,
    quiet: bool,
) -> Result<ExitCode, Failure> {
    let mut signals = Signals::new()?;
    let source = tokio::select! {
        source = source::open(spec) => source.map_err(failure)?,
        code = signals.next() => return Ok(code_of(code)),
    };
    let mut terminal = Terminal::new(quiet, report);
    let mut stopped = None;
    let stop = async { stopped = Some(signals.next().await) };
    let outcome = session::run(source, options, &mut terminal, stop).await;
    let report = terminal.end();
    let (end, figures) = outcome.map_err(|error| match error {
        session::Error::Source(error) => failure(error),
        other => advise(&other.to_string()),
    })?;
    report.finish(&options.destination, &figures, json)?;
    Ok(match end {
        End::Source => ExitCode::SUCCESS,
        End::Stopped => stopped.map_or(ExitCode::SUCCESS, code_of),
    })
}

/// Exit code by fault: wrong files and formats are the user's, everything else is the run's.
fn failure(error: source::Error) -> Failure {
    match error {
        source::Error::RungsWithoutFile
        | source::Error::Rung { .. }
        | source::Error::CameraAsLayer
        | source::Error::Layer { .. }
        | source::Error::SecondAudio
        | source::Error::NoAudio { .. }
        | source::Error::Codec { .. } => Failure::usage(error),
        other => Failure::runtime(other),
    }
}

/// Adds advice to the two errors with which most first connections fail.
fn advise(error: &str) -> Failure {
    let advice = if error.contains("certificate") {
        "; pin the server's certificate (#sha256=… behind the URL), name its authority (--ca \
         FILE), or take any (--insecure)"
    } else if error.contains("no session within") {
        "; is the server running there, and does its UDP port pass the firewalls?"
    } else {
        ""
    };
    Failure::runtime(format_args!("{error}{advice}"))
}

/// Exit code for a signal: Ctrl-C is an interruption; SIGTERM, which service managers send, is a
/// normal end.
fn code_of(signal: u8) -> ExitCode {
    match signal {
        INTERRUPTED => ExitCode::from(INTERRUPTED),
        _ => ExitCode::SUCCESS,
    }
}

impl Options {
    fn session(&self) -> Result<session::Options, Failure> {
        let trust = match (&self.ca, self.insecure) {
            // As long as the process lives, its command line does.
            (Some(file), _) => Trust::Authorities(Box::leak(file.clone().into_boxed_path())),
            (None, true) => Trust::Anyone,
            (None, false) => Trust::System,
        };
        let url = with_token(&self.url, self.token.as_deref());
        let destination = Destination::parse(&url, trust).map_err(Failure::usage)?;
        let destination = match self.transport {
            None => destination,
            Some(Transport::Tcp) if destination.is_rtsp() => destination,
            Some(_) => destination.over_udp().map_err(Failure::usage)?,
        };
        if !self.layers.is_empty() && !destination.takes_layers() {
            let text = "--layer: by RTSP a stream has one encoding; give moq:// or a WHIP endpoint";
            return Err(Failure::usage(text));
        }
        Ok(session::Options {
            destination,
            algorithm: self.congestion,
            rule: self.adaptation,
            bitrate: self.bitrate,
            delay_max: self.max_delay,
        })
    }

    fn spec(&self, session: &session::Options) -> Spec {
        Spec {
            input: self.input.clone(),
            fps: self.fps,
            once: self.once,
            live: self.live,
            audio: self.audio.clone(),
            rungs: self.renditions.clone(),
            layers: self.layers.clone(),
            start: session.start(),
            carries: session.destination.carries(),
        }
    }
}

/// The URL with the token in its query, unless the query has a token already.
fn with_token(url: &str, token: Option<&str>) -> String {
    let Some(token) = token else {
        return url.to_owned();
    };
    let Ok(mut parsed) = url::Url::parse(url) else {
        return url.to_owned();
    };
    if parsed.query_pairs().all(|(key, _)| key != "token") {
        parsed.query_pairs_mut().append_pair("token", token);
    }
    parsed.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_flags::parse as parse_flags;

    fn parse(words: &[&str]) -> Result<Options, String> {
        parse_flags(words)
    }

    #[test]
    fn all_has_a_default_but_input_and_url() {
        let options = parse(&["test", "moq://host/cam"]).expect("enough");
        let session = options.session().expect("valid");
        assert_eq!(session.algorithm.as_str(), "glide");
        assert_eq!(session.rule, Rule::Coupled);
        assert_eq!(session.start().bps(), 1_000_000);
        assert_eq!(session.destination.to_string(), "moq://host:4443/cam");
    }

    #[test]
    fn mistakes_are_told_before_anything_runs() {
        for words in [
            &["test", "moq://host/cam", "--congestion", "reno"][..],
            &["test", "moq://host/cam", "--bitrate", "3M..1M"],
            &["test", "moq://host/cam", "--once", "--loop"],
            &["srt://host", "moq://host/cam"],
            &["test"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
        for words in [
            &["test", "moq://host/cam", "--transport", "udp"][..],
            &["test", "moq://host/cam", "--transport", "tcp"],
            &["test", "rtsps://host/cam", "--transport", "udp"],
        ] {
            let options = parse(words).expect("known flags");
            let refused = options.session().expect_err("no choice").to_string();
            assert!(refused.contains("only rtsp://"), "{refused}");
        }
        let layer = ["--layer", "low.mp4", "--layer", "test?size=64x64"];
        let layered = |url| parse(&[&["test", url][..], &layer].concat()).expect("known flags");
        let spec = layered("moq://host/cam");
        assert_eq!(
            spec.spec(&spec.session().expect("it takes layers"))
                .layers
                .len(),
            2
        );
        let refused = layered("rtsp://host/cam")
            .session()
            .expect_err("one encoding");
        assert!(refused.to_string().contains("--layer"), "{refused}");
        let options = parse(&["test", "srt://host:8889/cam"]).expect("a URL");
        let refused = options.session().expect_err("no SRT").to_string();
        assert!(refused.contains("moq://"), "{refused}");
    }

    #[test]
    fn a_first_connection_that_fails_comes_with_advice() {
        let text = |error| advise(error).to_string();
        assert!(text("invalid peer certificate: UnknownIssuer").contains("--insecure"));
        assert!(text("the server opened no session within 10 s").contains("UDP"));
        assert_eq!(text("not authorized"), "not authorized");
    }

    #[test]
    fn a_token_goes_into_the_query_unless_one_is_there() {
        let url = |url, token| with_token(url, token);
        assert_eq!(url("moq://h/cam", Some("a b")), "moq://h/cam?token=a+b");
        assert_eq!(url("moq://h/cam?token=x", Some("y")), "moq://h/cam?token=x");
        assert_eq!(
            url("moq://h/cam?user=ann#sha256=00", Some("y")),
            "moq://h/cam?user=ann&token=y#sha256=00"
        );
        assert_eq!(url("moq://h/cam", None), "moq://h/cam");
    }
}
