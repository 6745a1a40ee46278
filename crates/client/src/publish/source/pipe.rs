//! Standard input: y4m, or H.264 and H.265 in Annex-B form, recognized by the first bytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use glassline_demux::FrameRate;
use glassline_demux::live::{Notes, Splitter};
use glassline_demux::y4m::Parser;
use glassline_media::Track;

use super::raw::{self, RawFrameSender};
use super::{Error, SourceContext, ThreadRole};
use crate::publish::clock::Grid;
use crate::publish::input::Spec;
use crate::publish::unit::Unit;

/// Bytes of one read: the capacity of a pipe on Linux.
const READ_BYTES: usize = 64 << 10;

/// Magic bytes of y4m.
const Y4M: &[u8] = b"YUV4MPEG2";

/// Reads standard input or `path` until its format is known; returns the track, and whether
/// it is encoded here.
pub(super) fn open(
    path: Option<&Path>,
    spec: &Spec,
    context: &SourceContext,
) -> Result<(Track, bool), Error> {
    let from: Box<dyn Read + Send> = match path {
        None => Box::new(io::stdin()),
        Some(path) => Box::new(File::open(path).map_err(|error| {
            let named = format!("{}: {error}", path.display());
            Error::Read(io::Error::new(error.kind(), named))
        })?),
    };
    play(from, spec, context)
}

fn play(
    from: Box<dyn Read + Send>,
    spec: &Spec,
    context: &SourceContext,
) -> Result<(Track, bool), Error> {
    let mut input = Input::new(from);
    while input.unread().len() < Y4M.len() && input.read()? {}
    if input.unread().is_empty() {
        return Err(Error::NothingPiped);
    }
    if input.unread().starts_with(Y4M) {
        play_raw(input, spec, context).map(|track| (track, true))
    } else {
        play_units(input, spec, context).map(|track| (track, false))
    }
}

/// Read buffer of a pipe.
struct Input {
    from: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    fn new(from: Box<dyn Read + Send>) -> Self {
        Self {
            from,
            buffer: vec![0; READ_BYTES],
            start: 0,
            end: 0,
        }
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Marks bytes as read.
    const fn pass(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// Waits for more bytes; returns false at the end.
    fn read(&mut self) -> Result<bool, Error> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        loop {
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(bytes) => {
                    self.end += bytes;
                    return Ok(bytes > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Read(error)),
            }
        }
    }
}

/// Frame rate: the user's choice overrides what the stream contains, because the user knows
/// more about a pipe.
fn rate(spec: &Spec, contained: Option<FrameRate>) -> FrameRate {
    let given = spec.fps.and_then(FrameRate::from_decimal);
    given.or(contained).unwrap_or(FrameRate::DEFAULT)
}

/// Decides when frames of a pipe are shown.
struct Clock {
    grid: Grid,
    live: bool,
}

impl Clock {
    fn new(rate: FrameRate, spec: &Spec) -> Self {
        Self {
            grid: Grid::new(Duration::from_secs_f64(1.0 / rate.fps())),
            live: spec.live,
        }
    }

    /// When to show a frame that is available now and lasts `part` of an interval.
    fn place(&mut self, part: f64) -> Instant {
        let now = Instant::now();
        if self.live {
            now
        } else {
            self.grid.place(now, part)
        }
    }
}

fn play_raw(mut input: Input, spec: &Spec, context: &SourceContext) -> Result<Track, Error> {
    let mut parser = Parser::new();
    while parser.header().is_none() {
        let taken = parser.push(input.unread())?;
        input.pass(taken);
        if parser.header().is_none() && !input.read()? {
            return Err(Error::NothingPiped);
        }
    }
    let header = parser.header().ok_or(Error::NothingPiped)?;
    let rate = rate(spec, header.rate);
    let (track, raw_frames) = raw::start(header, rate.fps(), spec, context)?;
    let mut clock = Clock::new(rate, spec);
    context.spawn("capture", ThreadRole::Auxiliary, move |context| {
        let how = capture(&mut input, &mut parser, &mut clock, &raw_frames, context);
        raw_frames.end(how);
        Ok(())
    })?;
    Ok(track)
}

fn capture(
    input: &mut Input,
    parser: &mut Parser,
    clock: &mut Clock,
    raw_frames: &RawFrameSender,
    context: &SourceContext,
) -> Result<(), Error> {
    loop {
        while !input.unread().is_empty() {
            let taken = parser.push(input.unread())?;
            input.pass(taken);
            let Some(frame) = parser.frame() else {
                continue;
            };
            let due = clock.place(1.0);
            if !context.control.sleep_until(due) || !raw_frames.send(frame, due) {
                return Ok(());
            }
        }
        if !input.read()? {
            if !parser.is_between_frames() {
                tracing::warn!(
                    "the piped input ended within a frame; leaving out the incomplete frame"
                );
            }
            return Ok(());
        }
    }
}

fn play_units(mut input: Input, spec: &Spec, context: &SourceContext) -> Result<Track, Error> {
    let mut splitter = Splitter::new();
    let mut ended = false;
    while splitter.track().is_none() && !ended {
        splitter.push(input.unread())?;
        input.pass(input.unread().len());
        ended = splitter.track().is_none() && !input.read()?;
    }
    if ended {
        splitter.finish()?;
    }
    let track = splitter.track().cloned().ok_or(Error::NothingPiped)?;
    if !(spec.carries)(&track) {
        return Err(Error::Codec { codec: track.codec });
    }
    let mut clock = Clock::new(rate(spec, splitter.frame_rate()), spec);
    context.spawn("pipe", ThreadRole::Primary, move |context| {
        let mut noted = Notes::default();
        loop {
            while let Some(unit) = splitter.next_unit() {
                let due = clock.place(if unit.field { 0.5 } else { 1.0 });
                let unit = Unit {
                    track: context.video,
                    time: context.timeline.place(due),
                    keyframe: unit.keyframe,
                    data: unit.data,
                    made: due,
                };
                if !context.control.sleep_until(due) || !context.deliver(unit) {
                    return Ok(());
                }
            }
            warn_once(&mut noted, splitter.notes());
            if ended {
                return Ok(());
            }
            if input.read()? {
                splitter.push(input.unread())?;
                input.pass(input.unread().len());
            } else {
                splitter.finish()?;
                ended = true;
            }
        }
    })?;
    Ok(track)
}

/// Warns about each kind of irregularity once.
fn warn_once(warned: &mut Notes, notes: Notes) {
    if warned.reordered == 0 && notes.reordered > 0 {
        tracing::warn!(
            "the piped input has B-frames, whose order cannot be restored without timestamps: \
             encode without them (ffmpeg: -bf 0)"
        );
    }
    if warned.damaged_slices + warned.damaged_sets == 0
        && notes.damaged_slices + notes.damaged_sets > 0
    {
        tracing::warn!(
            "the piped input has damaged frames or parameter sets; viewers may see artifacts"
        );
    }
    *warned = notes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::clock::Timeline;
    use crate::publish::source::{Event, SourceControl, SourceCounters};
    use glassline_media::{Bitrate, Codec, TrackIndex};
    use std::io::Cursor;
    use std::sync::Arc;
    use tokio::sync::mpsc;

    static CLIP: &[u8] = include_bytes!("../../../../../assets/demo.h264");

    fn spec(live: bool) -> Spec {
        Spec {
            input: crate::publish::input::Input::Pipe { path: None },
            fps: None,
            once: true,
            live,
            audio: None,
            rungs: Vec::new(),
            layers: Vec::new(),
            start: Bitrate::from_bps(500_000),
            carries: |track| track.codec == Codec::H264,
        }
    }

    fn context() -> (SourceContext, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(1000);
        let context = SourceContext {
            timeline: Timeline::new(Instant::now()),
            events,
            control: Arc::new(SourceControl::new(Bitrate::from_bps(500_000))),
            counters: Arc::new(SourceCounters::default()),
            video: TrackIndex(0),
            began: Arc::new(Instant::now().into()),
        };
        (context, receiver)
    }

    /// Everything that comes until the end.
    fn units(mut events: mpsc::Receiver<Event>) -> (Vec<Unit>, Result<(), Error>) {
        let mut units = Vec::new();
        loop {
            match events.blocking_recv() {
                Some(Event::Unit(unit)) => units.push(unit),
                Some(Event::Ended(how)) => return (units, how),
                None => panic!("a source says how it ends"),
            }
        }
    }

    fn y4m(frames: u32) -> Vec<u8> {
        let mut pattern = crate::publish::pattern::Pattern::new(128, 64, 100);
        let mut bytes = b"YUV4MPEG2 W128 H64 F100:1 Ip C420jpeg\n".to_vec();
        for number in 0..frames {
            let frame = pattern.draw(number);
            bytes.extend(b"FRAME\n");
            bytes.extend([frame.y, frame.u, frame.v].concat());
        }
        bytes
    }

    /// A pipe called `live.h264` was taken for a file, and refused.
    #[cfg(unix)]
    #[test]
    fn a_named_pipe_is_read_as_it_comes_whatever_its_name() {
        let folder = format!("glassline-named-pipe-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("live.h264");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo").success());
        let writer = std::thread::spawn({
            let path = path.clone();
            move || std::fs::write(path, &CLIP[..110_000])
        });
        let text = path.to_str().expect("UTF-8");
        let spec = Spec {
            input: text.parse().expect("a path"),
            ..spec(true)
        };
        let (context, events) = context();
        let begun = crate::publish::source::begin(&spec, &context, None);
        let begun = begun.expect("H.264");
        let (tracks, adapts) = (begun.tracks, begun.controls.adapt());
        assert_eq!(
            (tracks.len(), tracks[0].codec, adapts),
            (1, Codec::H264, false)
        );
        let (units, how) = units(events);
        assert!(how.is_ok() && units.len() > 3 && units[0].keyframe);
        writer.join().expect("no panic").expect("all was read");
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn units_of_a_pipe_come_at_their_rate_and_end_with_it() {
        let (context, events) = context();
        let piece = Cursor::new(&CLIP[..110_000]);
        let began = Instant::now();
        let (track, adapts) = play(Box::new(piece), &spec(false), &context).expect("H.264");
        assert_eq!(
            (track.codec, track.video.width, adapts),
            (Codec::H264, 1280, false)
        );
        let (units, how) = units(events);
        assert!(how.is_ok() && units.len() > 3 && units[0].keyframe);
        let steps = units
            .windows(2)
            .map(|it| it[1].time.saturating_since(it[0].time));
        for step in steps {
            assert!(step >= Duration::from_millis(33), "{step:?}");
        }
        let frames = u32::try_from(units.len()).expect("few");
        assert!(began.elapsed() >= Duration::from_millis(33) * (frames - 1));
    }

    #[test]
    fn a_live_pipe_is_not_held_back() {
        let (context, events) = context();
        play(Box::new(Cursor::new(CLIP)), &spec(true), &context).expect("H.264");
        let (units, how) = units(events);
        // Ten seconds of frames at the speed of reading; a loaded machine may take a
        // while, but not that long.
        let last = units.last().expect("frames").time;
        assert!(how.is_ok() && units.len() == 300);
        assert!(last.nanos() < 9_000_000_000, "{last:?}");
    }

    #[test]
    fn raw_frames_are_encoded_and_none_is_lost_unseen() {
        let (context, events) = context();
        let counters = Arc::clone(&context.counters);
        let (track, adapts) =
            play(Box::new(Cursor::new(y4m(50))), &spec(false), &context).expect("y4m");
        assert_eq!(
            (track.codec, track.video.width, adapts),
            (Codec::H264, 128, true)
        );
        let (units, how) = units(events);
        assert!(how.is_ok() && units[0].keyframe);
        let count = |counter: &std::sync::atomic::AtomicU64| {
            counter.load(std::sync::atomic::Ordering::Relaxed)
        };
        let left_out = count(&counters.raw_dropped) + count(&counters.skipped);
        assert_eq!(units.len() as u64 + left_out, 50);
    }

    #[test]
    fn what_is_no_video_is_refused_by_name() {
        let refused = |bytes: &'static [u8]| {
            let (context, _events) = context();
            let played = play(Box::new(Cursor::new(bytes)), &spec(false), &context);
            played.expect_err("refused").to_string()
        };
        assert!(refused(b"").contains("before the |"));
        assert!(refused(b"\x1aE\xdf\xa3 matroska").contains("-f h264 -"));
        assert!(refused(b"YUV4MPEG2 W64 H64 C444\n").contains("-pix_fmt yuv420p"));
        assert!(refused(b"YUV4MPEG2 W64 H64").contains("before its first frame"));
        let hevc = b"\0\0\x01\x40\x01\x0c\0\0\x01\x42\x01";
        assert!(refused(hevc).contains("no keyframe"));
    }
}
