//! Publishes what others write to a named pipe.
//!
//! ```text
//! writer ─► named pipe ─► PipeInput ─► PipeDemuxer ─► Pace ─► LivePublisher
//!              ▲            waits at most NAP at a time, then looks for the signal to stop
//!              └─ opened without waiting; again for the next writer when one is gone
//! ```
//!
//! A writer that is ahead of its times waits: the pipe fills up. One that is late delays nothing but
//! its own frames.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use glassline_demux::{Frame, PipeDemuxer};
use glassline_hub::{SourceNote, State, Stream};
use glassline_media::{LayerIndex, Temporal};
use glassline_rtp::units::TimedUnit;
use glassline_runtime::{Part, Supervisor};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::FileSource;
use super::backoff::Backoff;
use super::file::{Failure, NAP, Stop};
use super::live_publisher::{Destination, LivePublisher};
use super::pace::Pace;

const PIPE: Token = Token(0);

/// A named pipe as the configuration names it.
#[derive(Clone, Debug)]
pub(super) struct PipeSource {
    path: PathBuf,
    fps: Option<f64>,
    /// Whether the source ends with its first writer.
    once: bool,
}

impl PipeSource {
    /// Returns the pipe if `files` is one; several files are never taken for pipes.
    pub(super) fn of(files: &FileSource) -> Option<Self> {
        let [path] = &files.paths[..] else {
            return None;
        };
        glassline_net::is_named_pipe(path).then(|| Self {
            path: path.clone(),
            fps: files.fps,
            once: files.once,
        })
    }
}

/// Publishes what one writer after the other writes into `stream`, until `stop` says so.
pub(super) fn run(source: &PipeSource, stream: &Arc<Stream>, supervisor: &Supervisor, stop: Stop) {
    let stop = Arc::new(stop);
    let mut backoff = Backoff::new();
    // Opened while a writer is there, so that the next one never finds a pipe without a reader.
    let mut next = None;
    loop {
        let played = serve_writer(source, &mut next, stream, supervisor, &stop);
        if stop.is_given() {
            return;
        }
        match played {
            Ok(()) if source.once => {
                let detail = "the pipe was read once, as configured (once)".to_owned();
                stream.set_state(State::Ended { detail });
                return;
            }
            Ok(()) => {
                tracing::info!(stream = %stream.name(), path = %source.path.display(), "the writer of the named pipe is gone; waiting for the next");
                backoff = Backoff::new();
            }
            Err(failure) => {
                tracing::warn!(stream = %stream.name(), %failure, "source down");
                let detail = failure.to_string();
                stream.set_state(State::Down { detail });
                // A writer that is still there learns that nobody reads.
                next = None;
                if !stop.sleep_until(Instant::now() + backoff.pause()) {
                    return;
                }
            }
        }
    }
}

/// Waits for a writer, and publishes what it writes until it closes the pipe. `next`: the pipe, if it
/// is open already; afterwards, the pipe for the next writer.
fn serve_writer(
    source: &PipeSource,
    next: &mut Option<PipeInput>,
    stream: &Arc<Stream>,
    supervisor: &Supervisor,
    stop: &Arc<Stop>,
) -> Result<(), Failure> {
    let media = PipeMedia {
        name: &source.path,
        protocol: "pipe",
        fps: source.fps,
    };
    let failed = |error| media.failed(error);
    let opened = next
        .take()
        .map_or_else(|| PipeInput::open(source, stop), Ok);
    let mut input = opened.map_err(failed)?;
    if !input.wait_for_writer().map_err(failed)? {
        return Ok(());
    }
    *next = PipeInput::open(source, stop).ok();
    let mut rest: Option<Box<dyn Read + Send>> = Some(Box::new(input));
    while let Some(input) = rest {
        // Bytes that make the server panic end this writer, like bytes that are damaged.
        let played = supervisor.catch(Part::Source, || media.play(input, stream, stop, &mut None));
        rest = played.map_err(Failure::from).flatten()?;
    }
    Ok(())
}

/// Media that a pipe brings.
#[derive(Clone, Copy, Debug)]
pub(super) struct PipeMedia<'a> {
    /// Name of the pipe, or of who writes to the pipe, in errors.
    pub(super) name: &'a Path,
    /// How the media comes, as the stream's note says.
    pub(super) protocol: &'static str,
    /// Frames per second of elementary video that states none.
    pub(super) fps: Option<f64>,
}

impl PipeMedia<'_> {
    /// Returns the failure of a pipe that cannot be read.
    pub(super) fn failed(&self, error: io::Error) -> Failure {
        Failure::Pipe {
            path: self.name.to_owned(),
            error,
        }
    }

    /// Publishes one recording. Returns the bytes behind the recording, if another one follows in the
    /// pipe. `live_since` is set to the time of the first unit, unless it has one.
    pub(super) fn play(
        &self,
        input: Box<dyn Read + Send>,
        stream: &Arc<Stream>,
        stop: &Stop,
        live_since: &mut Option<Instant>,
    ) -> Result<Option<Box<dyn Read + Send>>, Failure> {
        let mut demuxer = PipeDemuxer::open(self.name, input, self.fps)?;
        let now = Instant::now();
        let left_out = warn(&mut demuxer, stream);
        let protocol = self.protocol;
        let note = SourceNote { protocol, left_out };
        let destination = Destination::Stream(Arc::clone(stream));
        let mut live = LivePublisher::new(destination, note, demuxer.tracks().to_vec());
        live.begin(now)?;
        live_since.get_or_insert(now);
        let mut pace = Pace::new(now);
        let played = loop {
            let frame = match demuxer.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break Ok(()),
                Err(error) => break Err(Failure::from(error)),
            };
            if !stop.sleep_until(pace.due(frame.decode_time)) {
                break Ok(());
            }
            // A pause of the writer is a pause of the stream.
            pace.catch_up(frame.decode_time, Instant::now());
            live.publish(unit(frame, &pace), LayerIndex::BASE, Instant::now());
            live.refused()?;
        };
        warn(&mut demuxer, stream);
        live.finish(match &played {
            Ok(()) => State::Connecting,
            Err(failure) => State::Down {
                detail: failure.to_string(),
            },
        });
        played.map(|()| demuxer.into_rest())
    }
}

/// Returns a frame as an access unit on the timeline of `pace`, which has just arrived.
fn unit(frame: Frame, pace: &Pace) -> TimedUnit {
    TimedUnit {
        track: frame.track,
        time: pace.media_time(frame.time),
        decode_time: Some(pace.media_time(frame.decode_time)),
        keyframe: frame.keyframe,
        after_loss: frame.after_loss,
        temporal: Temporal::default(),
        data: frame.data.into(),
        received: Instant::now(),
    }
}

/// Logs what was found about the pipe since the last call, and returns it.
fn warn(demuxer: &mut PipeDemuxer, stream: &Stream) -> Vec<String> {
    let warnings = demuxer.take_warnings();
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    for warning in &warnings {
        tracing::warn!(stream = %stream.name(), "{warning}");
    }
    warnings
}

/// The bytes of one writer. A read waits for them, and fails when the sources are to stop.
struct PipeInput {
    pipe: File,
    poll: Poll,
    events: Events,
    stop: Arc<Stop>,
    /// The byte that told that there is a writer.
    first: Option<u8>,
}

impl PipeInput {
    fn open(source: &PipeSource, stop: &Arc<Stop>) -> io::Result<Self> {
        let pipe = glassline_net::open_named_pipe(&source.path)?;
        let poll = Poll::new()?;
        let registry = poll.registry();
        registry.register(&mut SourceFd(&pipe.as_raw_fd()), PIPE, Interest::READABLE)?;
        Ok(Self {
            pipe,
            poll,
            events: Events::with_capacity(1),
            stop: Arc::clone(stop),
            first: None,
        })
    }

    /// Waits until somebody has written something. Returns false if the sources are to stop.
    fn wait_for_writer(&mut self) -> io::Result<bool> {
        let mut first = [0];
        while !self.stop.is_given() {
            match self.pipe.read(&mut first) {
                Ok(1..) => {
                    self.first = Some(first[0]);
                    return Ok(true);
                }
                // Nobody has the pipe open for writing.
                Ok(0) => self.sleep()?,
                Err(error) if is_transient(&error) => self.sleep()?,
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Sleeps until the pipe changes, at most [`NAP`].
    fn sleep(&mut self) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(NAP)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

impl Read for PipeInput {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let (Some(first), Some(place)) = (self.first, out.first_mut()) {
            *place = first;
            self.first = None;
            return Ok(1);
        }
        while !self.stop.is_given() {
            match self.pipe.read(out) {
                Err(error) if is_transient(&error) => self.sleep()?,
                read => return read,
            }
        }
        Err(io::Error::other("the server stops"))
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
