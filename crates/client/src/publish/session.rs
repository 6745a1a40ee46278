//! A stream that is being published: a source, the send queue, and a connection that is made
//! again when it breaks.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_congestion::adaptation::Rule;
use glassline_media::{Bitrate, Kind, Track};
use tokio::time::{sleep, timeout_at};

use crate::publish::dispatch::{self, Dispatch};
use crate::publish::input::BitrateRange;
use crate::publish::queue::{self, Dropped};
use crate::publish::source::{self, Event, Source};
use crate::publish::uplink::{self, Destination, Settings, Uplink, UplinkFigures};
use crate::ways::Ways;

/// How a stream is published.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the stream is published.
    pub destination: Destination,
    /// Congestion control of the connection.
    pub algorithm: Algorithm,
    /// Rule that decides the bitrate.
    pub rule: Rule,
    /// Range of the bitrate.
    pub bitrate: BitrateRange,
    /// Longest time that a unit waits; `None` for what suits the rule.
    pub delay_max: Option<Duration>,
}

impl Options {
    /// Bitrate at the beginning: a third of the range's highest, as in the study's encoder.
    pub fn start(&self) -> Bitrate {
        let third = Bitrate::from_bps(self.bitrate.max.bps() / 3);
        third.clamp(self.bitrate.min, self.bitrate.max)
    }

    fn queue(&self) -> queue::Config {
        let usual = queue::Config::of(self.rule);
        queue::Config {
            delay_max: self.delay_max.unwrap_or(usual.delay_max),
            ..usual
        }
    }
}

/// State of a published stream.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// Time since the source was opened.
    pub elapsed: Duration,
    /// Whether a connection is established.
    pub connected: bool,
    /// Number of reconnections to the server so far.
    pub reconnects: u64,
    /// Bitrate that the encoder, or the choice of a rendition, aims at.
    pub target: Bitrate,
    /// Bitrate that the path is estimated to carry.
    pub deliverable: Option<Bitrate>,
    /// Bytes of media from the source.
    pub made_bytes: u64,
    /// Units from the source.
    pub made_units: u64,
    /// Bytes of media that the transport took.
    pub handed_bytes: u64,
    /// Bytes of media that are neither acknowledged nor dropped.
    pub backlog_bytes: u64,
    /// Time that the oldest unit has waited in the send queue.
    pub queue_delay: Duration,
    /// Units that were not sent.
    pub dropped: Dropped,
    /// Raw frames that the encoder had no time for.
    pub raw_dropped: u64,
    /// Frames that the encoder left out to keep the bitrate.
    pub skipped: u64,
    /// Number of changes to another rendition so far.
    pub switches: u64,
    /// Figures of the connection; sums cover all connections.
    pub path: UplinkFigures,
}

/// Receives notes and figures of a stream, for the user.
pub trait Watcher: Send {
    /// Takes a note about an event.
    fn note(&mut self, text: &str);

    /// Takes the current figures, four times a second.
    fn figures(&mut self, figures: &Figures);
}

/// How a stream ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The source ended, and all its media is sent.
    Source,
    /// The caller stopped the stream.
    Stopped,
}

/// The reason why a stream ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source of the media failed.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// The connection cannot be made, and trying again does not help.
    #[error("{destination}: {error}")]
    Uplink {
        /// URL of the destination.
        destination: String,
        /// The reason why the uplink failed.
        error: uplink::Error,
    },
}

/// Time between two looks at the queue while media waits for the transport: a packet's time
/// at 2 Mbit/s.
const BUSY_TICK: Duration = Duration::from_millis(5);
/// Time between two looks at the queue while nothing waits.
const IDLE_TICK: Duration = Duration::from_millis(50);
/// Time between two reports of figures.
const SHOW: Duration = Duration::from_millis(250);

/// Longest pause before reconnecting.
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// Time for which a server that was lost may still hold the stream for this publisher.
const FORMER: Duration = Duration::from_secs(20);

/// Sends `source` until it ends or `stop` completes. The first connection must succeed; later
/// ones are retried without limit.
///
/// # Errors
/// [`Error`] says whether source or destination is at fault.
pub async fn run(
    source: Source,
    options: &Options,
    watcher: &mut dyn Watcher,
    stop: impl Future<Output = ()>,
) -> Result<(End, Figures), Error> {
    let settings = Settings {
        algorithm: options.algorithm,
        deadline: options.queue().delay_max,
        zero: source.zero,
        bitrate_max: options.bitrate.max,
        bitrate_start: options.start(),
    };
    let mut session = Session::new(source, options);
    let mut stop = std::pin::pin!(stop);
    let mut ways = Ways::new(options.destination.clone(), PAUSE_MAX);
    let (mut first, mut lost) = (true, None::<Instant>);
    let result = loop {
        let destination = ways.present().clone();
        let tracks = session.source.tracks.clone();
        let connecting = destination.connect(&tracks, &settings);
        let connected = tokio::select! {
            connected = connecting => connected,
            // Units that the source makes meanwhile are dropped when they are late.
            ended = session.wait(watcher) => break ended.map(|()| End::Source),
            () = &mut stop => break Ok(End::Stopped),
        };
        let (why, was_connected) = match connected {
            Ok(uplink) => {
                let feedback = uplink.figures().feedback;
                let feedback = feedback.map_or(String::new(), |it| format!(", which follows {it}"));
                watcher.note(&format!("publishing to {destination}{feedback}"));
                first = false;
                session.attach(uplink);
                let ended = tokio::select! {
                    ended = session.send(watcher) => ended,
                    () = &mut stop => Ok(Ok(End::Stopped)),
                };
                match ended {
                    Ok(ended) => {
                        session.detach(true).await;
                        break ended;
                    }
                    Err(why) => (why, true),
                }
            }
            Err(error) => (error, false),
        };
        if let Some(uplink) = &session.uplink {
            ways.name(uplink.alternates());
        }
        session.detach(false).await;
        if why.is_loss() {
            lost = Some(Instant::now());
        }
        let is_former = why.is_taken() && lost.is_some_and(|at| at.elapsed() < FORMER);
        // What another server was named for may have become invalid: the user's destination decides.
        let may_go_on = why.is_transient() || is_former || !ways.is_own();
        if first || !may_go_on {
            break Err(Error::Uplink {
                destination: destination.to_string(),
                error: why,
            });
        }
        watcher.note(&format!("{destination}: {why}; reconnecting"));
        let pause = if was_connected {
            ways.lost()
        } else {
            ways.failed()
        };
        tokio::select! {
            () = sleep(pause) => {}
            ended = session.wait(watcher) => break ended.map(|()| End::Source),
            () = &mut stop => break Ok(End::Stopped),
        }
        session.figures.reconnects += 1;
    };
    session.source.controls.stop();
    let end = result?;
    Ok((end, session.figures(Instant::now())))
}

struct Session {
    source: Source,
    dispatch: Dispatch,
    uplink: Option<Box<dyn Uplink>>,
    figures: Figures,
    /// Figures of the earlier connections.
    before: UplinkFigures,
    next_show: Instant,
    source_ended: bool,
}

impl Session {
    fn new(source: Source, options: &Options) -> Self {
        let config = dispatch::Config {
            rule: options.rule,
            bitrate: options.bitrate,
            start: options.start(),
            queue: options.queue(),
        };
        let kinds: Vec<Kind> = source.tracks.iter().map(Track::kind).collect();
        Self {
            dispatch: Dispatch::new(&config, &kinds),
            source,
            uplink: None,
            figures: Figures::default(),
            before: UplinkFigures::default(),
            next_show: Instant::now(),
            source_ended: false,
        }
    }

    fn attach(&mut self, uplink: Box<dyn Uplink>) {
        self.uplink = Some(uplink);
        // The server has none of the groups that the last connection began.
        self.dispatch.restart();
    }

    async fn detach(&mut self, gently: bool) {
        let Some(uplink) = self.uplink.take() else {
            return;
        };
        self.before = self.before.then(uplink.figures());
        if gently {
            uplink.finish().await;
        }
    }

    /// Drops what becomes late until the source ends; for times without a connection.
    async fn wait(&mut self, watcher: &mut dyn Watcher) -> Result<(), Error> {
        loop {
            self.take_until(Instant::now() + IDLE_TICK).await?;
            let now = Instant::now();
            while self.dispatch.next(now, false).is_some() {}
            self.show(now, watcher);
            if self.source_ended {
                return Ok(());
            }
        }
    }

    /// Sends until the source ends or fails (inner result), or the connection does.
    async fn send(
        &mut self,
        watcher: &mut dyn Watcher,
    ) -> Result<Result<End, Error>, uplink::Error> {
        loop {
            let now = Instant::now();
            self.set_source_bitrate(now);
            let is_busy = self.hand_over(now)?;
            self.show(now, watcher);
            if self.source_ended && !is_busy {
                return Ok(Ok(End::Source));
            }
            let tick = if is_busy { BUSY_TICK } else { IDLE_TICK };
            if let Err(error) = self.take_until(now + tick).await {
                return Ok(Err(error));
            }
        }
    }

    /// Takes at least one event of the source, or waits until `deadline`.
    async fn take_until(&mut self, deadline: Instant) -> Result<(), Error> {
        if self.source_ended {
            sleep(deadline.saturating_duration_since(Instant::now())).await;
            return Ok(());
        }
        let Ok(event) = timeout_at(deadline.into(), self.source.events.recv()).await else {
            return Ok(());
        };
        match event {
            Some(Event::Unit(unit)) => {
                self.figures.made_units += 1;
                self.figures.made_bytes += unit.data.len() as u64;
                self.dispatch.push(Instant::now(), unit);
            }
            Some(Event::Ended(Err(error))) => return Err(error.into()),
            Some(Event::Ended(Ok(()))) | None => self.source_ended = true,
        }
        Ok(())
    }

    /// Tells the source which bitrate to make.
    fn set_source_bitrate(&mut self, now: Instant) {
        let Some(uplink) = &mut self.uplink else {
            return;
        };
        let path = uplink.path(now);
        self.figures.deliverable = path.deliverable;
        self.figures.backlog_bytes = path.backlog_bytes;
        // Until the server takes media, nothing can be learned about the path.
        if uplink.figures().is_wanted {
            self.dispatch.observe(now, &path);
        }
        let target = self.dispatch.target();
        uplink.tell_bitrate(target);
        self.source.controls.set_target(target);
        if uplink.take_keyframe_request() | self.dispatch.take_keyframe_request() {
            self.source.controls.want_keyframe();
        }
    }

    /// Gives the transport as much as it takes; returns whether anything still waits.
    fn hand_over(&mut self, now: Instant) -> Result<bool, uplink::Error> {
        let Some(uplink) = &mut self.uplink else {
            return Ok(false);
        };
        if let Some(why) = uplink.ended() {
            return Err(why);
        }
        while let Some(action) = self.dispatch.next(now, uplink.room() > 0) {
            if let queue::SendAction::Send { unit, .. } = &action {
                self.figures.handed_bytes += unit.data.len() as u64;
            }
            uplink.execute(action)?;
        }
        Ok(self.dispatch.queue().bytes() > 0)
    }

    fn show(&mut self, now: Instant, watcher: &mut dyn Watcher) {
        if now >= self.next_show {
            self.next_show = now + SHOW;
            watcher.figures(&self.figures(now));
        }
    }

    fn figures(&self, now: Instant) -> Figures {
        let queue = self.dispatch.queue();
        let counters = &self.source.counters;
        let path = match &self.uplink {
            Some(uplink) => self.before.then(uplink.figures()),
            None => self.before,
        };
        Figures {
            elapsed: now.saturating_duration_since(self.source.zero),
            connected: self.uplink.is_some(),
            target: self.dispatch.target(),
            backlog_bytes: self.figures.backlog_bytes + queue.bytes(),
            queue_delay: queue.delay(now),
            dropped: queue.dropped(),
            raw_dropped: counters.raw_dropped.load(Ordering::Relaxed),
            skipped: counters.skipped.load(Ordering::Relaxed),
            switches: counters.switches.load(Ordering::Relaxed),
            path,
            ..self.figures.clone()
        }
    }
}
