//! Streams that doctor itself publishes and plays.

use std::str::FromStr as _;
use std::time::{Duration, Instant};

use glassline_client::publish::input::{BitrateRange, Input, Spec};
use glassline_client::publish::session::{self, Figures, Watcher};
use glassline_client::publish::uplink::Destination;
use glassline_client::publish::{Algorithm, Rule, source};
use glassline_client::trust::Trust;
use glassline_client::viewers::{self, Endpoint, IceTransport, Join, Pool, State, Viewer};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use url::Url;

use super::finding::Finding;

/// Time between two looks at a viewer.
const LOOK: Duration = Duration::from_millis(20);

/// Pause before joining a stream again that is not there yet.
const PAUSE: Duration = Duration::from_millis(150);

/// The built-in clip, while it is published.
pub(super) struct Publication {
    stop: oneshot::Sender<()>,
    is_connected: watch::Receiver<bool>,
    task: JoinHandle<Result<(), String>>,
}

impl Publication {
    /// Begins to publish to `url`, a WHIP endpoint or a URL of MoQ.
    pub(super) fn start(url: String) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (connected, is_connected) = watch::channel(false);
        Self {
            stop,
            is_connected,
            task: tokio::spawn(async move { publish(&url, Connection(connected), stopped).await }),
        }
    }

    /// Waits until the server takes the stream, or says why not.
    ///
    /// # Errors
    /// The reason, for people.
    pub(super) async fn established(&mut self, deadline: Instant) -> Result<(), String> {
        let established = async { self.is_connected.wait_for(|it| *it).await.is_ok() };
        match tokio::time::timeout_at(deadline.into(), established).await {
            Ok(true) => Ok(()),
            // The publisher is gone.
            Ok(false) => Err(match (&mut self.task).await {
                Ok(Err(failure)) => failure,
                _ => "it ended".to_owned(),
            }),
            Err(_) => Err("no connection: no address of the answer replies".to_owned()),
        }
    }

    /// Says goodbye to the server.
    pub(super) async fn end(self, grace: Duration) {
        let _ = self.stop.send(());
        let _ = tokio::time::timeout(grace, self.task).await;
    }
}

async fn publish(
    url: &str,
    mut connection: Connection,
    stop: oneshot::Receiver<()>,
) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let destination = Destination::parse(url, Trust::Anyone);
    let options = session::Options {
        destination: destination.map_err(|error| text(&error))?,
        algorithm: Algorithm::Glide,
        rule: Rule::Coupled,
        bitrate: BitrateRange::from_str("500k..3M").map_err(|error| text(&error))?,
        delay_max: None,
    };
    let spec = Spec {
        input: Input::from_str("demo").map_err(|error| text(&error))?,
        fps: None,
        once: false,
        live: false,
        audio: None,
        rungs: Vec::new(),
        layers: Vec::new(),
        start: options.start(),
        carries: options.destination.carries(),
    };
    let source = source::open(&spec).await.map_err(|error| text(&error))?;
    let stopped = async {
        // A sender that is gone stops the stream, too.
        let _ = stop.await;
    };
    let ended = session::run(source, &options, &mut connection, stopped).await;
    ended.map(drop).map_err(|error| text(&error))
}

/// Learns from a publisher that the connection stands.
struct Connection(watch::Sender<bool>);

impl Watcher for Connection {
    fn note(&mut self, _: &str) {}

    fn figures(&mut self, figures: &Figures) {
        if figures.connected {
            self.0.send_replace(true);
        }
    }
}

/// The WHEP endpoint `url`, reached over `transport`.
pub(super) const fn whep(url: Url, transport: IceTransport) -> Endpoint {
    Endpoint::Whep { url, transport }
}

/// How to play a stream.
#[derive(Clone, Debug)]
pub(super) struct Play {
    pub(super) endpoint: Endpoint,
    pub(super) token: Option<String>,
    pub(super) trust: Trust,
    /// Whether the stream may not be there yet.
    pub(super) is_awaited: bool,
    /// Time to go on after the first frame, to measure the stream.
    pub(super) linger: Duration,
    pub(super) deadline: Instant,
}

impl Play {
    /// Plays until the first keyframe, or until the first packet of a stream without video, and
    /// `linger` longer. Blocks.
    ///
    /// # Errors
    /// The reason, for people.
    pub(super) fn run(&self) -> Result<Viewer, String> {
        let options = viewers::Options {
            token: self.token.clone(),
            trust: self.trust,
            signalling_threads: 1,
            ..viewers::Options::default()
        };
        let pool = Pool::start(options).map_err(|error| error.to_string())?;
        loop {
            let id = pool.join(Join::new(self.endpoint.clone()));
            let failure = match self.watch(&pool) {
                Ok(viewer) => return Ok(viewer),
                Err(failure) => failure,
            };
            pool.leave(id);
            if !self.is_awaited || Instant::now() + PAUSE >= self.deadline {
                // A thread of the pool may still wait for an answer.
                std::thread::spawn(move || drop(pool));
                return Err(failure);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn watch(&self, pool: &Pool) -> Result<Viewer, String> {
        let mut until = None;
        loop {
            let viewers = pool.snapshot();
            let viewer = viewers.into_iter().next_back();
            let viewer = viewer.ok_or("the viewer has gone")?;
            let now = Instant::now();
            if until.is_none() && is_playing(&viewer) {
                until = Some((now + self.linger).min(self.deadline));
            }
            if until.is_some_and(|until| now >= until) {
                return Ok(viewer);
            }
            if viewer.state == State::Ended {
                return Err(viewer.failure.unwrap_or_else(|| "it ended".to_owned()));
            }
            if now >= self.deadline {
                return Err(match viewer.state {
                    State::Signalling => "no answer to the offer".to_owned(),
                    State::Connecting => {
                        "no connection: no address of the answer replies".to_owned()
                    }
                    State::Connected => "connected, but no media came".to_owned(),
                    _ => "packets came, but no keyframe".to_owned(),
                });
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Whether a picture could be shown, or sound be heard of a stream without pictures.
fn is_playing(viewer: &Viewer) -> bool {
    viewer.frame_time.is_some() || viewer.video.received == 0 && viewer.audio.received > 50
}

/// A finding about a stream that was played, or was not.
pub(super) fn played(
    check: &'static str,
    subject: &str,
    outcome: &Result<Viewer, String>,
) -> Finding {
    let failure = match outcome {
        Ok(viewer) => {
            let ms = |span: Option<Duration>| span.unwrap_or_default().as_millis();
            let what = match viewer.frame_time {
                Some(first) => format!("first picture after {} ms", ms(Some(first))),
                None => format!("first sound after {} ms", ms(viewer.join_time)),
            };
            return Finding::ok(check, subject, what);
        }
        Err(failure) => failure,
    };
    let finding = Finding::failure(check, subject, format!("does not play: {failure}"))
        .why("this is what viewers get");
    if failure.contains(" answers 422") {
        // RTSP and MoQ may play it, and the finding about the stream has the remedies.
        let not_for_browsers = format!("not for browsers: {failure}");
        return Finding::warning(check, subject, not_for_browsers)
            .why("browsers show no picture; players of RTSP and MoQ may")
            .change("see the finding about `stream`, or put ?transcode behind the page's URL");
    }
    let change = match failure.as_str() {
        text if text.contains(" 401") || text.contains(" 403") => {
            "give the read token: `--token TOKEN`, or GLASSLINE_READ_TOKEN"
        }
        text if text.contains(" 404") => "see the names of streams on the index page",
        text if text.contains(" 409") => {
            "see why the stream has no source: the finding about `stream`, or the server's log"
        }
        text if text.contains("no connection") => "see the findings about `media`",
        _ => "see `glassline doctor STREAM` on the server's machine, and its log",
    };
    finding.change(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_that_is_refused_is_told_what_to_give() {
        let of = |failure: &str| played("whep", "cam", &Err(failure.to_owned())).change;
        assert!(of("https://h/cam/whep answers 401: no token").contains("--token"));
        assert!(of("https://h/cam/whep answers 409: stream 'cam' is down").contains("source"));
        assert!(of("https://h/cam/whep answers 404: no stream").contains("index"));
        assert!(of("no connection: no address of the answer replies").contains("media"));
    }
}
