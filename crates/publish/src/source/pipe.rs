//! Standard input: y4m, or H.264 and H.265 in Annex-B form, told by its first bytes.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use glassline_demux::FrameRate;
use glassline_demux::live::{Notes, Splitter};
use glassline_demux::y4m::Parser;
use glassline_media::Track;

use super::raw::{self, Shutter};
use super::{Error, Feed, Part};
use crate::clock::Grid;
use crate::input::Spec;
use crate::unit::Unit;

/// As much as a pipe of Linux holds.
const READ_BYTES: usize = 64 << 10;

const Y4M: &[u8] = b"YUV4MPEG2";

/// Reads until it is known what comes; returns the track, and whether it is encoded
/// here.
pub(super) fn play(spec: &Spec, feed: &Feed) -> Result<(Track, bool), Error> {
    let mut input = Input::new(Box::new(io::stdin()));
    while input.unread().len() < Y4M.len() && input.read()? {}
    if input.unread().is_empty() {
        return Err(Error::NothingPiped);
    }
    if input.unread().starts_with(Y4M) {
        play_raw(input, spec, feed).map(|track| (track, true))
    } else {
        play_units(input, spec, feed).map(|track| (track, false))
    }
}

/// Bytes from a pipe, as they come.
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

    const fn pass(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// Waits for more; false at the end.
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

/// What the user says goes before what the stream says: of a pipe he knows more.
fn rate(spec: &Spec, told: Option<FrameRate>) -> FrameRate {
    let given = spec.fps.and_then(FrameRate::from_decimal);
    given.or(told).unwrap_or(FrameRate::DEFAULT)
}

/// When pictures of a pipe are shown.
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

    /// For a picture that is there now and lasts `part` of an interval.
    fn place(&mut self, part: f64) -> Instant {
        let now = Instant::now();
        if self.live {
            now
        } else {
            self.grid.place(now, part)
        }
    }
}

fn play_raw(mut input: Input, spec: &Spec, feed: &Feed) -> Result<Track, Error> {
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
    let (track, shutter) = raw::start(header, rate.fps(), spec, feed)?;
    let mut clock = Clock::new(rate, spec);
    feed.spawn("capture", Part::Beside, move |feed| {
        let how = capture(&mut input, &mut parser, &mut clock, &shutter, feed);
        shutter.end(how);
        Ok(())
    })?;
    Ok(track)
}

fn capture(
    input: &mut Input,
    parser: &mut Parser,
    clock: &mut Clock,
    shutter: &Shutter,
    feed: &Feed,
) -> Result<(), Error> {
    loop {
        while !input.unread().is_empty() {
            let taken = parser.push(input.unread())?;
            input.pass(taken);
            let Some(picture) = parser.picture() else {
                continue;
            };
            let due = clock.place(1.0);
            if !feed.steer.sleep_until(due) || !shutter.show(picture, due) {
                return Ok(());
            }
        }
        if !input.read()? {
            if !parser.is_between_pictures() {
                tracing::warn!("standard input ended within a picture, which is left out");
            }
            return Ok(());
        }
    }
}

fn play_units(mut input: Input, spec: &Spec, feed: &Feed) -> Result<Track, Error> {
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
    if !(spec.carries)(track.codec) {
        return Err(Error::Codec { codec: track.codec });
    }
    let mut clock = Clock::new(rate(spec, splitter.frame_rate()), spec);
    feed.spawn("pipe", Part::Lead, move |feed| {
        let mut noted = Notes::default();
        loop {
            while let Some(unit) = splitter.next_unit() {
                let due = clock.place(if unit.field { 0.5 } else { 1.0 });
                let unit = Unit {
                    track: 0,
                    time: feed.timeline.place(due),
                    keyframe: unit.keyframe,
                    data: unit.data,
                    made: due,
                };
                if !feed.steer.sleep_until(due) || !feed.deliver(unit) {
                    return Ok(());
                }
            }
            tell(&mut noted, splitter.notes());
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

/// Tells of each kind of oddity once.
fn tell(told: &mut Notes, notes: Notes) {
    if told.reordered == 0 && notes.reordered > 0 {
        tracing::warn!(
            "pictures come in another order than they are shown in (B-frames), and without \
             times they cannot be put right: encode without them (ffmpeg: -bf 0)"
        );
    }
    if told.damaged_slices + told.damaged_sets == 0 && notes.damaged_slices + notes.damaged_sets > 0
    {
        tracing::warn!("standard input has damaged pictures or parameter sets");
    }
    *told = notes;
}
