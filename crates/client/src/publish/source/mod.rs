//! Where units come from: threads that read, wait until units are due, and deliver.
//!
//! Each source hears from its session, through [`Steer`], which bitrate to make and
//! when a keyframe is wanted; those who cannot do either do not listen.

mod camera;
mod files;
mod ladder;
mod pipe;
mod raw;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use glassline_demux::Frame;
use glassline_media::{Bitrate, Kind, Track};
use tokio::sync::mpsc;

use crate::publish::clock::{Pace, Timeline};
use crate::publish::encoder;
use crate::publish::input::{Input, Spec};
use crate::publish::unit::Unit;

/// Units that a source may be ahead of its session, which takes each at once.
const AHEAD: usize = 256;

/// How long a sleep goes without looking whether to stop.
const NAP: Duration = Duration::from_millis(100);

/// What a session tells its source.
#[derive(Debug)]
pub struct Steer {
    target_bps: AtomicU64,
    keyframe: AtomicBool,
    stop: AtomicBool,
}

impl Steer {
    /// To begin with `target`.
    pub(crate) const fn new(target: Bitrate) -> Self {
        Self {
            target_bps: AtomicU64::new(target.bps()),
            keyframe: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
    }

    /// What to make.
    pub fn target(&self) -> Bitrate {
        Bitrate::from_bps(self.target_bps.load(Ordering::Relaxed))
    }

    /// Makes the source aim at `target`.
    pub fn set_target(&self, target: Bitrate) {
        self.target_bps.store(target.bps(), Ordering::Relaxed);
    }

    /// Asks for a keyframe.
    pub fn want_keyframe(&self) {
        self.keyframe.store(true, Ordering::Relaxed);
    }

    fn take_keyframe(&self) -> bool {
        self.keyframe.swap(false, Ordering::Relaxed)
    }

    /// Ends the source's threads, but for one that waits for a pipe.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps until `due`; false if the source is to stop.
    fn sleep_until(&self, due: Instant) -> bool {
        loop {
            if self.is_stopped() {
                return false;
            }
            match due.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => thread::sleep(left.min(NAP)),
                _ => return true,
            }
        }
    }
}

/// What a source did and did not make.
#[derive(Debug, Default)]
pub struct Tally {
    /// Raw frames that came while the encoder was busy with an older one.
    pub raw_dropped: AtomicU64,
    /// Frames that the encoder left out to keep its bitrate.
    pub skipped: AtomicU64,
    /// Changes of rendition.
    pub switches: AtomicU64,
}

impl Tally {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a source delivers.
#[derive(Debug)]
pub enum Event {
    /// A unit, when it is due.
    Unit(Unit),
    /// The source came to its end, or failed.
    Ended(Result<(), Error>),
}

/// An open source, whose first unit is due about now.
#[derive(Debug)]
pub struct Source {
    /// What it has, video first.
    pub tracks: Vec<Track>,
    /// What it delivers.
    pub events: mpsc::Receiver<Event>,
    /// What it hears.
    pub steer: Arc<Steer>,
    /// What it counts.
    pub tally: Arc<Tally>,
    /// It makes what it is told: it has an encoder, or renditions.
    pub adapts: bool,
    /// When media time zero was.
    pub zero: Instant,
}

/// What the end of a thread means for its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The end of all.
    Lead,
    /// Nothing: audio beside video of another source.
    Beside,
}

/// What the threads of a source share.
#[derive(Clone, Debug)]
struct Feed {
    timeline: Timeline,
    events: mpsc::Sender<Event>,
    steer: Arc<Steer>,
    tally: Arc<Tally>,
}

impl Feed {
    /// False if nobody takes it any more.
    fn deliver(&self, unit: Unit) -> bool {
        self.events.blocking_send(Event::Unit(unit)).is_ok()
    }

    /// Delivers what `next` reads, frame and track, when each is due, to its end or until
    /// the source is to stop.
    fn play(
        &self,
        mut next: impl FnMut() -> Result<Option<(usize, Frame)>, Error>,
    ) -> Result<(), Error> {
        let mut pace = Pace::new(self.timeline, Instant::now());
        while let Some((track, frame)) = next()? {
            if !self.steer.sleep_until(pace.due(frame.decode_time)) {
                return Ok(());
            }
            if pace.catch_up(frame.decode_time, Instant::now()) {
                tracing::warn!("the machine stood still; going on from here");
            }
            let unit = Unit {
                track,
                time: pace.place(frame.time),
                keyframe: frame.keyframe,
                data: frame.data,
                made: pace.due(frame.decode_time),
            };
            if !self.deliver(unit) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn end(&self, how: Result<(), Error>) {
        // Nobody there to hear of it: it was told to stop.
        let _ = self.events.blocking_send(Event::Ended(how));
    }

    fn spawn(
        &self,
        name: &str,
        part: Part,
        run: impl FnOnce(&Self) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let feed = self.clone();
        let thread = thread::Builder::new().name(name.to_owned());
        let started = thread.spawn(move || {
            let how = run(&feed);
            match (part, how) {
                _ if feed.steer.is_stopped() => {}
                (Part::Lead, how) => feed.end(how),
                (Part::Beside, Ok(())) => {}
                (Part::Beside, Err(error)) => tracing::warn!("audio ended: {error}"),
            }
        });
        started.map(drop).map_err(Error::Thread)
    }
}

/// Opens what `spec` says. Waits until it is known what the tracks are, which of a pipe
/// is when its first frame came. Must be called within tokio.
///
/// # Errors
/// [`Error`] names the input and what to do.
pub async fn open(spec: &Spec) -> Result<Source, Error> {
    let (events, receiver) = mpsc::channel(AHEAD);
    let zero = Instant::now();
    let feed = Feed {
        timeline: Timeline::new(zero),
        events,
        steer: Arc::new(Steer::new(spec.start)),
        tally: Arc::new(Tally::default()),
    };
    let (steer, tally) = (Arc::clone(&feed.steer), Arc::clone(&feed.tally));
    let camera = match &spec.input {
        Input::Camera(camera) => Some(camera::play(camera, &feed, spec.carries).await?),
        _ => None,
    };
    let spec = spec.clone();
    let opening = tokio::task::spawn_blocking(move || begin(&spec, &feed, camera));
    let opened = opening.await.expect("opening an input does not panic");
    let (tracks, adapts) = opened?;
    Ok(Source {
        tracks,
        events: receiver,
        steer,
        tally,
        adapts,
        zero,
    })
}

/// Starts the threads; returns the tracks and whether the source adapts. A camera's
/// tracks are known already.
fn begin(
    spec: &Spec,
    feed: &Feed,
    camera: Option<Vec<Track>>,
) -> Result<(Vec<Track>, bool), Error> {
    let audio = match &spec.audio {
        Some(path) => Some(files::open_audio(path, spec.once)?),
        None => None,
    };
    let carries = spec.carries;
    let (mut tracks, adapts) = match &spec.input {
        Input::Files { paths, fps } if spec.rungs.is_empty() => {
            let source = files::open(paths, spec, *fps)?;
            (files::play(source, feed, 0, carries)?, false)
        }
        Input::Files { paths, fps } => (ladder::play(paths, spec, *fps, feed)?, true),
        _ if !spec.rungs.is_empty() => return Err(Error::RungsWithoutFile),
        Input::Clip => (files::play(files::clip(spec)?, feed, 0, carries)?, false),
        Input::Camera(_) => (camera.unwrap_or_default(), false),
        Input::Pattern { width, height, fps } => {
            let track = raw::play_pattern((*width, *height), *fps, spec, feed)?;
            (vec![track], true)
        }
        Input::Pipe { path } => {
            let (track, adapts) = pipe::open(path.as_deref(), spec, feed)?;
            (vec![track], adapts)
        }
    };
    if let Some(audio) = audio {
        let has_audio = tracks.iter().any(|track| track.kind() == Kind::Audio);
        if has_audio {
            return Err(Error::SecondAudio);
        }
        tracks.extend(files::play(audio, feed, tracks.len(), carries)?);
    }
    Ok((tracks, adapts))
}

/// Why a source cannot be opened, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file.
    #[error(transparent)]
    File(#[from] Box<glassline_demux::Error>),
    /// A pipe that is neither video nor y4m.
    #[error("the piped input: {0}")]
    Pipe(#[from] glassline_demux::live::Error),
    /// Raw frames that cannot be taken.
    #[error("the piped input: {0}")]
    Raw(#[from] glassline_demux::y4m::Error),
    /// It cannot be opened or read.
    #[error("the piped input: {0}")]
    Read(std::io::Error),
    /// A camera.
    #[error("{url}: {why}")]
    Camera {
        /// Without its user.
        url: String,
        /// What is wrong.
        why: String,
        /// Calling again does not help.
        lasting: bool,
    },
    /// Nothing came.
    #[error("the piped input ended before its first frame: is the command before the | well?")]
    NothingPiped,
    /// The encoder.
    #[error(transparent)]
    Encoder(#[from] encoder::Error),
    /// A track that is not sent.
    #[error(
        "{codec} is not sent: convert it first, video to H.264 and audio to Opus \
         (ffmpeg -c:v libx264 -bf 0 -c:a libopus)"
    )]
    Codec {
        /// Which.
        codec: glassline_media::Codec,
    },
    /// Renditions of something that is encoded here.
    #[error("--rendition goes with files; what is encoded here needs none")]
    RungsWithoutFile,
    /// A rendition that does not fit the others.
    #[error("rendition {name}: {why}")]
    Rung {
        /// Which.
        name: String,
        /// What does not fit.
        why: String,
    },
    /// `--audio` beside an input with audio.
    #[error("--audio: the input has audio already; leave one of them out")]
    SecondAudio,
    /// `--audio` without audio.
    #[error("--audio {name}: there is no audio in it")]
    NoAudio {
        /// The file.
        name: String,
    },
    /// The system has no more threads.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

impl From<glassline_demux::Error> for Error {
    fn from(error: glassline_demux::Error) -> Self {
        Self::File(Box::new(error))
    }
}
