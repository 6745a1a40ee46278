//! Publishes files and the built-in demo clip in real time.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use glassline_demux::{self as demux, Demuxer, Frame};
use glassline_hub::{PublishError, Publisher, SourceNote, State, Stream};
use glassline_latency::{FrameCode, FrameCodes};
use glassline_runtime::{Heartbeat, Panicked, Part, Supervisor};
use tokio::sync::watch;

use super::FileSource;
use super::backoff::Backoff;
use super::pace::Pace;
use super::publishing::HubRefusal;
use super::sendable::leave_out_unsendable;
use super::unit_packetizer::{UnitPacketizer, UnitTiming};

/// Time from opening a source to its first frame.
const LEAD: Duration = Duration::from_millis(5);

/// Longest sleep before the stop signal is checked.
pub(super) const NAP: Duration = Duration::from_millis(100);

static DEMO_VIDEO: &[u8] = include_bytes!("../../../assets/demo.h264");
static DEMO_AUDIO: &[u8] = include_bytes!("../../../assets/demo.ogg");
const DEMO_FPS: u32 = 30;
const DEMO_FRAMES: u32 = 300;

/// The clip to play.
#[derive(Clone, Debug)]
pub(super) enum Clip {
    Demo,
    Files(FileSource),
}

impl Clip {
    pub(super) fn open(&self) -> Result<Demuxer, demux::Error> {
        match self {
            Self::Demo => demux::from_bytes(DEMO_VIDEO, DEMO_AUDIO),
            Self::Files(files) => {
                let inputs = files.paths.iter().map(|path| demux::Input::file(path));
                let mut inputs = inputs.collect::<Result<Vec<_>, _>>()?;
                // Viewers and pages expect the video track first.
                inputs.sort_by_key(|input| !input.format.has_video());
                let options = demux::Options {
                    fps: files.fps,
                    once: files.once,
                };
                let mut source = Demuxer::new(inputs, &options)?;
                leave_out_unsendable(&mut source)?;
                Ok(source)
            }
        }
    }

    fn frame_code(&self, epoch: Instant) -> Option<FrameCode> {
        matches!(self, Self::Demo).then_some(FrameCode {
            fps: DEMO_FPS,
            frames: DEMO_FRAMES,
            epoch,
        })
    }
}

/// Publishes `clip` into `stream` until it ends or `stop` says so. `opened` is the clip,
/// already open.
///
/// The function blocks: frames are due to a fraction of a millisecond, which a sleeping thread
/// keeps and a timer wheel does not.
pub(super) fn run(
    clip: &Clip,
    opened: Demuxer,
    stream: &Arc<Stream>,
    codes: &FrameCodes,
    supervisor: &Supervisor,
    stop: &Stop,
) {
    let mut backoff = Backoff::new();
    let mut opened = Some(opened);
    loop {
        // A file whose content makes the server panic is down, like a file that is broken.
        let played = supervisor.catch(Part::Source, || {
            let opened = opened.take().map_or_else(|| clip.open(), Ok);
            play(clip, opened?, stream, codes, stop)
        });
        let played = played.unwrap_or_else(|panicked| Err(panicked.into()));
        codes.remove(stream.name().as_str());
        let failure = match played {
            Ok(()) => return,
            Err(failure) => failure,
        };
        tracing::warn!(stream = %stream.name(), %failure, "source down");
        stream.set_state(State::Down {
            detail: failure.to_string(),
        });
        if !stop.sleep_until(Instant::now() + backoff.pause()) {
            return;
        }
    }
}

fn play(
    clip: &Clip,
    mut source: Demuxer,
    stream: &Arc<Stream>,
    codes: &FrameCodes,
    stop: &Stop,
) -> Result<(), Failure> {
    let mut packetizers: Vec<UnitPacketizer> =
        source.tracks().iter().map(UnitPacketizer::new).collect();
    for warning in source.warnings() {
        tracing::warn!(stream = %stream.name(), "{warning}");
    }
    let now = Instant::now();
    let mut pace = Pace::new(now + LEAD);
    let announce = |pace: &Pace| {
        if let Some(code) = clip.frame_code(pace.start()) {
            codes.set(stream.name().as_str(), code);
        }
    };
    // Who sees that the stream is live may ask for its code at once.
    announce(&pace);
    let note = SourceNote {
        protocol: "file",
        left_out: source.warnings().iter().map(ToString::to_string).collect(),
    };
    let mut publisher = stream.publish_as(note, source.tracks().to_vec(), now)?;
    loop {
        let frame = match source.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(error) => {
                let failure = Failure::from(error);
                publisher.finish(State::Down {
                    detail: failure.to_string(),
                });
                return Err(failure);
            }
        };
        if !stop.sleep_until(pace.due(frame.decode_time)) {
            return Ok(());
        }
        if pace.catch_up(frame.decode_time, Instant::now()) {
            tracing::warn!(stream = %stream.name(), "source is late, because the machine paused: it continues from here without catching up");
            announce(&pace);
        }
        push(&mut publisher, &mut packetizers, &frame, &pace)?;
    }
    tracing::info!(stream = %stream.name(), "source ended");
    publisher.finish(State::Ended {
        detail: "the file was played once, as configured (once)".to_owned(),
    });
    Ok(())
}

fn push(
    publisher: &mut Publisher,
    packetizers: &mut [UnitPacketizer],
    frame: &Frame,
    pace: &Pace,
) -> Result<(), PublishError> {
    let timing = UnitTiming {
        track: frame.track,
        time: pace.media_time(frame.time),
        decode_time: pace.media_time(frame.decode_time),
        origin: pace.due(frame.decode_time),
    };
    let mut media_units = Vec::new();
    packetizers[frame.track].packetize(&frame.data, frame.keyframe, timing, &mut media_units);
    for media_unit in media_units {
        publisher.push(media_unit, Instant::now())?;
    }
    Ok(())
}

/// The signal that ends a source, and the sign of life that its thread gives meanwhile.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) stopped: watch::Receiver<bool>,
    pub(super) heartbeat: Heartbeat,
}

impl Stop {
    /// Gives a sign of life. Returns true if the sources are to stop.
    pub(super) fn is_given(&self) -> bool {
        self.heartbeat.beat();
        *self.stopped.borrow() || self.stopped.has_changed().is_err()
    }

    /// Sleeps until `due`. Returns false if the sources are to stop.
    pub(super) fn sleep_until(&self, due: Instant) -> bool {
        loop {
            if self.is_given() {
                return false;
            }
            match due.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => thread::sleep(left.min(NAP)),
                _ => return true,
            }
        }
    }
}

/// The reason why a source stopped for now.
#[derive(Debug, derive_more::Display)]
pub(super) enum Failure {
    File(demux::Error),
    /// The system does not open a named pipe, or does not tell when it can be read.
    #[display("{}: {error}", path.display())]
    Pipe {
        path: PathBuf,
        error: io::Error,
    },
    Hub(HubRefusal),
    #[display("playing the file: {_0}")]
    Panicked(Panicked),
}

impl Failure {
    /// Returns whether there was not a byte to play.
    pub(super) const fn is_of_nothing(&self) -> bool {
        matches!(self, Self::File(error) if matches!(error.reason, demux::Reason::Empty))
    }
}

impl From<Panicked> for Failure {
    fn from(panicked: Panicked) -> Self {
        Self::Panicked(panicked)
    }
}

impl From<demux::Error> for Failure {
    fn from(error: demux::Error) -> Self {
        Self::File(error)
    }
}

impl From<HubRefusal> for Failure {
    fn from(refusal: HubRefusal) -> Self {
        Self::Hub(refusal)
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        Self::Hub(error.into())
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use glassline_hub::{Limits, StreamName, Wake};
    use glassline_media::{Codec, TrackIndex};

    /// Notes at each wake whether the stream has a frame code.
    struct Witness {
        codes: FrameCodes,
        seen: Mutex<Vec<bool>>,
    }

    impl Wake for Witness {
        fn wake(&self) {
            let has_code = self.codes.get("demo").is_some();
            self.seen.lock().push(has_code);
        }
    }

    #[test]
    fn a_stream_that_begins_has_its_frame_code() {
        let name = StreamName::parse("demo").expect("a name");
        let stream = Stream::unlisted(name, Limits::default());
        let codes = FrameCodes::default();
        let witness = Arc::new(Witness {
            codes: codes.clone(),
            seen: Mutex::default(),
        });
        let watcher = Arc::clone(&witness) as Arc<dyn Wake>;
        stream.watch(&watcher);
        let supervisor = Supervisor::start().expect("a thread");
        let (_sender, stopped) = watch::channel(true);
        let stop = Stop {
            stopped,
            heartbeat: supervisor.register(Part::Source, "file demo"),
        };
        let opened = Clip::Demo.open().expect("the clip is whole");
        play(&Clip::Demo, opened, &stream, &codes, &stop).expect("stopped at once");
        let seen = witness.seen.lock();
        assert_eq!(seen.first(), Some(&true), "{seen:?}");
    }

    #[test]
    fn the_built_in_clip_is_ten_seconds_of_video_and_audio() {
        let mut source = Clip::Demo.open().expect("the clip is whole");
        let codecs: Vec<_> = source.tracks().iter().map(|track| track.codec).collect();
        assert_eq!(codecs, [Codec::H264, Codec::Opus]);
        let video = &source.tracks()[0].video;
        assert_eq!((video.width, video.height), (1280, 720));
        let mut video_frames = Vec::new();
        let mut packets = 0;
        loop {
            let frame = source.next_frame().expect("readable").expect("endless");
            if frame.time.nanos() >= 20_000_000_000 {
                break;
            }
            if frame.track == TrackIndex(0) {
                video_frames.push(frame);
            } else {
                packets += 1;
            }
        }
        // Two rounds, and frame 0 of the second is exactly ten seconds on: the
        // frame code relies on it.
        assert_eq!(video_frames.len(), 2 * DEMO_FRAMES as usize);
        assert_eq!(packets, 1000);
        let second = &video_frames[DEMO_FRAMES as usize];
        assert_eq!(second.time.nanos(), 10_000_000_000);
        assert!(second.keyframe);
        assert_eq!(second.data, video_frames[0].data);
    }
}
