use std::path::PathBuf;
use std::time::Duration;

use glassline_media::{Codec, Kind, MediaTime, Track};

use crate::error::{Fault, Reason, Warnings};
use crate::sound::Sound;
use crate::video::Video;
use crate::{Error, Frame, FrameRate, Input, Options, Warning, opus};

/// The frames of one or two files in time order, over and over.
///
/// The length of the video rules the loop: longer sound is cut, shorter sound is
/// followed by silence, and both begin each loop together. Sound alone loops on
/// its own length. Times go on over loops without a jump. With
/// [`Options::once`] each track is played once, to its end.
pub struct Source {
    tracks: Vec<Track>,
    lanes: Vec<Lane>,
    warnings: Vec<Warning>,
    once: bool,
    /// Nanoseconds of one loop.
    length_ns: i64,
}

impl Source {
    /// Reads each input through once and begins at the start.
    pub fn new(inputs: Vec<Input>, options: &Options) -> Result<Self, Error> {
        if inputs.is_empty() {
            return Err(Error::new(&PathBuf::new(), None, Reason::NoInput));
        }
        let mut source = Self {
            tracks: Vec::new(),
            lanes: Vec::new(),
            warnings: Vec::new(),
            once: options.once,
            length_ns: 0,
        };
        for Input { name, kind, data } in inputs {
            if source.tracks.iter().any(|track| track.kind() == kind) {
                return Err(Error::new(&name, None, Reason::SecondOfKind(kind)));
            }
            let mut warnings = Warnings::default();
            let opened = match kind {
                Kind::Video => Video::open(data, options.fps, &mut warnings).map(Reader::Video),
                Kind::Audio => Sound::open(data, &mut warnings).map(Reader::Sound),
            };
            let reader = opened.map_err(|fault| fault.of(&name))?;
            source.tracks.push(reader.track());
            source.warnings.extend(warnings.of(&name));
            source.lanes.push(Lane::new(name, reader));
        }
        source.length_ns = source.ruling_length();
        Ok(source)
    }

    /// What the tracks are, in the order of the inputs.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Length of one loop; with [`Options::once`], of all.
    pub fn duration(&self) -> Duration {
        duration(self.length_ns)
    }

    /// Pictures per second, `None` without video.
    pub fn frame_rate(&self) -> Option<FrameRate> {
        self.lanes.iter().find_map(|lane| match &lane.reader {
            Reader::Video(video) => Some(video.rate()),
            Reader::Sound(_) => None,
        })
    }

    /// What was seen while the files were read through, to be told to the user.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The next frame of any track, in the order of time; of two at the same time
    /// that of the track given first. `None` only after the end with
    /// [`Options::once`].
    ///
    /// Reads from the file, so it may block. After an error the source has ended.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Error> {
        let limit = (!self.once).then_some(self.length_ns);
        for (track, lane) in self.lanes.iter_mut().enumerate() {
            lane.fill(track, limit)?;
        }
        let waiting = self.lanes.iter_mut().filter(|lane| lane.next.is_some());
        let earliest = waiting.min_by_key(|lane| lane.next.as_ref().map(|frame| frame.time));
        Ok(earliest.and_then(|lane| lane.next.take()))
    }

    fn ruling_length(&self) -> i64 {
        let of_kind = |kind| {
            let lanes = self.lanes.iter().map(|lane| &lane.reader);
            lanes
                .filter(|reader| reader.track().kind() == kind)
                .map(Reader::length_ns)
                .max()
        };
        let (video, sound) = (of_kind(Kind::Video), of_kind(Kind::Audio));
        if self.once {
            video.max(sound).unwrap_or(0)
        } else {
            video.or(sound).unwrap_or(0)
        }
    }
}

enum Reader {
    Video(Video),
    Sound(Sound),
}

impl Reader {
    fn track(&self) -> Track {
        match self {
            Self::Video(video) => Track::h264(video.parameters().clone()),
            Self::Sound(sound) => Track::audio(Codec::Opus, sound.channels()),
        }
    }

    fn length_ns(&self) -> i64 {
        match self {
            Self::Video(video) => video.length_ns(),
            Self::Sound(sound) => samples_ns(sound.length()),
        }
    }

    fn rewind(&mut self) -> Result<(), Fault> {
        match self {
            Self::Video(video) => {
                video.rewind();
                Ok(())
            }
            Self::Sound(sound) => sound.rewind(),
        }
    }

    /// The next frame, its time counted from the start of this pass, and where
    /// what a decoder makes of it ends.
    fn next(&mut self, track: usize) -> Result<Option<(Frame, MediaTime)>, Fault> {
        let (start, end, busy, keyframe, data) = match self {
            Self::Video(video) => match video.next_unit()? {
                Some(unit) => (
                    unit.start_ns,
                    unit.end_ns,
                    unit.end_ns,
                    unit.keyframe,
                    unit.data,
                ),
                None => return Ok(None),
            },
            Self::Sound(sound) => match sound.next_packet()? {
                Some(packet) => {
                    let after = |samples| samples_ns(packet.start.saturating_add(samples));
                    (
                        after(0),
                        after(packet.heard),
                        after(packet.decoded),
                        true,
                        packet.data,
                    )
                }
                None => return Ok(None),
            },
        };
        let frame = Frame {
            track,
            time: MediaTime::from_nanos(start),
            duration: duration(end.saturating_sub(start)),
            keyframe,
            data,
        };
        Ok(Some((frame, MediaTime::from_nanos(busy))))
    }
}

/// One track on its way around.
struct Lane {
    name: PathBuf,
    reader: Reader,
    next: Option<Frame>,
    /// When the current pass began.
    base_ns: i64,
    /// Until when a decoder is busy with the last frame handed out.
    end: MediaTime,
    /// Nothing of this pass was handed out yet.
    fresh: bool,
    ended: bool,
}

impl Lane {
    fn new(name: PathBuf, reader: Reader) -> Self {
        Self {
            name,
            reader,
            next: None,
            base_ns: 0,
            end: MediaTime::ZERO,
            fresh: true,
            ended: false,
        }
    }

    /// Reads on until a frame waits. `limit` is the length of a loop.
    fn fill(&mut self, track: usize, limit: Option<i64>) -> Result<(), Error> {
        while self.next.is_none() && !self.ended {
            let read = self.reader.next(track);
            let read = read.inspect_err(|_| self.ended = true);
            match (read.map_err(|fault| fault.of(&self.name))?, limit) {
                (Some((_, busy)), Some(limit)) if is_after(busy, limit) => self.restart(limit)?,
                (Some((frame, busy)), _) => self.accept(frame, busy),
                (None, Some(limit)) => self.restart(limit)?,
                (None, None) => self.ended = true,
            }
        }
        Ok(())
    }

    /// Puts a frame on the timeline, unless the one before still lasts: the sound
    /// of a first packet may begin before the loop does (pre-skip). When the last
    /// loop's sound stops as much earlier, both fit without a gap.
    fn accept(&mut self, mut frame: Frame, busy: MediaTime) {
        let shifted = |time: MediaTime| self.base_ns.saturating_add(time.nanos());
        let end = MediaTime::from_nanos(shifted(busy));
        frame.time = MediaTime::from_nanos(shifted(frame.time));
        if frame.time + ROUNDING < self.end {
            return;
        }
        self.end = end;
        self.fresh = false;
        self.next = Some(frame);
    }

    fn restart(&mut self, limit: i64) -> Result<(), Error> {
        // A pass that gives nothing would be repeated for ever.
        self.ended = self.fresh;
        self.fresh = true;
        self.base_ns = self.base_ns.saturating_add(limit);
        let rewound = self.reader.rewind();
        let rewound = rewound.inspect_err(|_| self.ended = true);
        rewound.map_err(|fault| fault.of(&self.name))
    }
}

/// Less than a tick of any clock, more than what rounding to nanoseconds adds up to.
const ROUNDING: Duration = Duration::from_micros(1);

fn is_after(time: MediaTime, limit: i64) -> bool {
    time > MediaTime::from_nanos(limit) + ROUNDING
}

fn samples_ns(samples: i64) -> i64 {
    MediaTime::from_ticks(samples, opus::RATE).nanos()
}

fn duration(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}
