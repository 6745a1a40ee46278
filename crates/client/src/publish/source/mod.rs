//! Sources of units: threads that read, wait until units are due, and deliver them.
//!
//! Through [`SourceControls`] a session tells its source the bitrate to make and when a keyframe is
//! wanted. Sources that can do neither ignore it.

mod camera;
mod controls;
mod files;
mod ladder;
mod layers;
mod pipe;
mod raw;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use glassline_demux::Frame;
use glassline_media::{Kind, Track, TrackIndex};
use tokio::sync::mpsc;

use crate::publish::clock::{Pace, Timeline};
use crate::publish::encoder;
use crate::publish::input::{Input, Spec};
use crate::publish::unit::Unit;

pub use controls::{SourceControl, SourceControls};

/// Most units that a source may be ahead of its session, which takes each at once.
const AHEAD: usize = 256;

/// Longest sleep without checking whether to stop.
const NAP: Duration = Duration::from_millis(100);

/// Counts of a source.
#[derive(Debug, Default)]
pub struct SourceCounters {
    /// Raw frames that were replaced while the encoder was busy with an older one.
    pub raw_dropped: AtomicU64,
    /// Frames that the encoder left out to keep its bitrate.
    pub skipped: AtomicU64,
    /// Number of changes to another rendition so far.
    pub switches: AtomicU64,
}

impl SourceCounters {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Events of a source.
#[derive(Debug)]
pub enum Event {
    /// A unit, at the time when it is due.
    Unit(Unit),
    /// The source came to its end, or failed.
    Ended(Result<(), Error>),
}

/// An open source, whose first unit is due about now.
#[derive(Debug)]
pub struct Source {
    /// Tracks of the source, video first.
    pub tracks: Vec<Track>,
    /// Units and the end.
    pub events: mpsc::Receiver<Event>,
    /// Requests to the source.
    pub controls: SourceControls,
    /// Counts of the source.
    pub counters: Arc<SourceCounters>,
    /// Whether the source follows the requested bitrate: it has an encoder, or renditions.
    pub adapts: bool,
    /// When media time zero was.
    pub zero: Instant,
}

/// The meaning of a thread's end for its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadRole {
    /// The source ends with this thread.
    Primary,
    /// The source continues; the thread adds audio or a layer to another thread's video.
    Auxiliary,
}

/// Data that the threads of a source share.
#[derive(Clone, Debug)]
struct SourceContext {
    timeline: Timeline,
    events: mpsc::Sender<Event>,
    control: Arc<SourceControl>,
    counters: Arc<SourceCounters>,
    /// Number of the video's track: 0, or that of a layer.
    video: TrackIndex,
    /// When the first units are due, once all inputs are open.
    began: Arc<OnceLock<Instant>>,
}

impl SourceContext {
    /// Returns whether the source brings a lower encoding of another one's video.
    fn is_layer(&self) -> bool {
        self.video != TrackIndex(0)
    }

    /// Waits until all inputs are open; returns when that was, so that they play in step.
    fn began(&self) -> Instant {
        *self.began.wait()
    }

    /// Delivers a unit; returns false if the session takes none any more.
    fn deliver(&self, unit: Unit) -> bool {
        self.events.blocking_send(Event::Unit(unit)).is_ok()
    }

    /// Delivers the frames that `next` reads, with their tracks, when each is due, to the end
    /// or until the source is to stop.
    fn play(
        &self,
        mut next: impl FnMut() -> Result<Option<(TrackIndex, Frame)>, Error>,
    ) -> Result<(), Error> {
        let mut pace = Pace::new(self.timeline, self.began());
        while let Some((track, frame)) = next()? {
            if !self.control.sleep_until(pace.due(frame.decode_time)) {
                return Ok(());
            }
            if pace.catch_up(frame.decode_time, Instant::now()) {
                tracing::warn!(
                    "the process stalled for more than a second; the stream continues where it stopped"
                );
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
        // If the session is gone, it has stopped the source.
        let _ = self.events.blocking_send(Event::Ended(how));
    }

    fn spawn(
        &self,
        name: &str,
        role: ThreadRole,
        run: impl FnOnce(&Self) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let context = self.clone();
        let role = match self.is_layer() {
            true => ThreadRole::Auxiliary,
            false => role,
        };
        let thread = thread::Builder::new().name(name.to_owned());
        let started = thread.spawn(move || {
            let how = run(&context);
            match (role, how) {
                _ if context.control.is_stopped() => {}
                (ThreadRole::Primary, how) => context.end(how),
                (ThreadRole::Auxiliary, Ok(())) => {}
                (ThreadRole::Auxiliary, Err(error)) => {
                    tracing::warn!(
                        "an input beside the main one ended, the stream continues without it: {error}"
                    );
                }
            }
        });
        started.map(drop).map_err(Error::Thread)
    }
}

/// Opens the source that `spec` describes. Waits until the tracks are known, for a pipe until
/// its first frame has come. Must be called within tokio.
///
/// # Errors
/// [`Error`] names the input and what to do.
pub async fn open(spec: &Spec) -> Result<Source, Error> {
    let (events, receiver) = mpsc::channel(AHEAD);
    let zero = Instant::now();
    let context = SourceContext {
        timeline: Timeline::new(zero),
        events,
        control: Arc::new(SourceControl::new(spec.start)),
        counters: Arc::new(SourceCounters::default()),
        video: TrackIndex(0),
        began: Arc::default(),
    };
    let (counters, began) = (Arc::clone(&context.counters), Arc::clone(&context.began));
    let camera = match &spec.input {
        Input::Camera(camera) => Some(camera::play(camera, &context, spec.carries).await?),
        _ => None,
    };
    let (spec, start) = (spec.clone(), spec.start);
    let opening = tokio::task::spawn_blocking(move || begin(&spec, &context, camera));
    let opened = opening.await.expect("opening an input does not panic");
    // Threads of inputs that were opened before another one failed wait, too: they end, as nobody takes
    // their units.
    began.get_or_init(Instant::now);
    let Opened { tracks, controls } = opened?;
    let adapts = controls.adapt();
    controls.set_target(start);
    Ok(Source {
        tracks,
        events: receiver,
        controls,
        counters,
        adapts,
        zero,
    })
}

/// The inputs of a source, whose threads have started.
struct Opened {
    tracks: Vec<Track>,
    controls: SourceControls,
}

/// Starts the threads. A camera's tracks are known already.
fn begin(
    spec: &Spec,
    context: &SourceContext,
    camera: Option<Vec<Track>>,
) -> Result<Opened, Error> {
    let audio = match &spec.audio {
        Some(path) => Some(files::open_audio(path, spec.once)?),
        None => None,
    };
    let (mut tracks, adapts) = match camera {
        Some(_) if !spec.rungs.is_empty() => return Err(Error::RungsWithoutFile),
        Some(tracks) => (tracks, false),
        None => play(spec, context)?,
    };
    if let Some(audio) = audio {
        let has_audio = tracks.iter().any(|track| track.kind() == Kind::Audio);
        if has_audio {
            return Err(Error::SecondAudio);
        }
        tracks.extend(files::play(audio, context, tracks.len(), spec.carries)?);
    }
    let mut controls = SourceControls::new(Arc::clone(&context.control), adapts, &tracks);
    layers::play(spec, context, &mut tracks, &mut controls)?;
    Ok(Opened { tracks, controls })
}

/// Starts the threads of the input; returns its tracks, and whether it adapts.
fn play(spec: &Spec, context: &SourceContext) -> Result<(Vec<Track>, bool), Error> {
    let carries = spec.carries;
    let first = context.video.get();
    let piped = named_pipe(spec);
    let spec = piped.as_ref().unwrap_or(spec);
    Ok(match &spec.input {
        Input::Files { paths, fps } if spec.rungs.is_empty() => {
            let source = files::open(paths, spec, *fps)?;
            (files::play(source, context, first, carries)?, false)
        }
        Input::Files { paths, fps } => (ladder::play(paths, spec, *fps, context)?, true),
        _ if !spec.rungs.is_empty() => return Err(Error::RungsWithoutFile),
        Input::Clip => {
            let source = files::clip(spec)?;
            (files::play(source, context, first, carries)?, false)
        }
        // Cameras are connected before, by the asynchronous part.
        Input::Camera(_) => return Err(Error::CameraAsLayer),
        Input::Pattern { width, height, fps } => {
            let track = raw::play_pattern(*width, *height, *fps, spec, context)?;
            (vec![track], true)
        }
        Input::Pipe { path } => {
            let (track, adapts) = pipe::open(path.as_deref(), spec, context)?;
            (vec![track], adapts)
        }
    })
}

/// Returns the specification of an input that is a named pipe, whatever its name ends with: it is
/// read as it comes. `None` for other inputs.
fn named_pipe(spec: &Spec) -> Option<Spec> {
    let Input::Files { paths, fps } = &spec.input else {
        return None;
    };
    let [path] = &paths[..] else {
        return None;
    };
    is_named_pipe(path).then(|| Spec {
        input: Input::Pipe {
            path: Some(path.clone()),
        },
        fps: fps.or(spec.fps),
        ..spec.clone()
    })
}

#[cfg(unix)]
fn is_named_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo())
}

#[cfg(not(unix))]
const fn is_named_pipe(_: &Path) -> bool {
    false
}

/// The reason why a source cannot be opened, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] Box<glassline_demux::Error>),
    /// The pipe carries neither H.264, H.265 nor y4m.
    #[error("the piped input: {0}")]
    Pipe(#[from] glassline_demux::live::Error),
    /// The raw frames have an unsupported form.
    #[error("the piped input: {0}")]
    Raw(#[from] glassline_demux::y4m::Error),
    /// The pipe cannot be opened or read.
    #[error("the piped input: {0}")]
    Read(std::io::Error),
    /// The camera cannot be used.
    #[error("{url}: {why}")]
    Camera {
        /// URL of the source, without user name and password.
        url: String,
        /// The reason why the source cannot be opened.
        why: String,
        /// Whether calling again does not help.
        lasting: bool,
    },
    /// The pipe ended before its first frame.
    #[error("the piped input ended before its first frame: check the command before the |")]
    NothingPiped,
    /// The encoder of the source failed.
    #[error(transparent)]
    Encoder(#[from] encoder::Error),
    /// No track has a codec that the destination carries.
    #[error(
        "{codec} cannot be sent to this destination: convert it first, video to H.264 and audio \
         to Opus (ffmpeg -c:v libx264 -bf 0 -c:a libopus)"
    )]
    Codec {
        /// Codec of the first track.
        codec: glassline_media::Codec,
    },
    /// Renditions were given for an input that is not a file.
    #[error("--rendition needs a file as input; a pattern, pipe or camera has no renditions")]
    RungsWithoutFile,
    /// A rendition does not fit the input.
    #[error("rendition {name}: {why}")]
    Rung {
        /// File of the rendition.
        name: String,
        /// The part that does not fit.
        why: String,
    },
    /// A layer comes from a camera.
    #[error(
        "--layer takes a file, a pipe or test; let the server pull several streams of a camera"
    )]
    CameraAsLayer,
    /// A layer does not fit the input.
    #[error("--layer {name}: {why}")]
    Layer {
        /// The layer as it was given.
        name: String,
        /// The part that does not fit.
        why: &'static str,
    },
    /// `--audio` was given for an input that has audio.
    #[error("--audio: the input has audio already; leave one of them out")]
    SecondAudio,
    /// The file of `--audio` has no audio, or other tracks as well.
    #[error("--audio {name}: give a file with one track, which is audio")]
    NoAudio {
        /// Path of the file.
        name: String,
    },
    /// The system refused a thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

impl From<glassline_demux::Error> for Error {
    fn from(error: glassline_demux::Error) -> Self {
        Self::File(Box::new(error))
    }
}
