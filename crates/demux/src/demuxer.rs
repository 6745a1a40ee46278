use std::path::PathBuf;
use std::time::Duration;

use glassline_media::{Kind, MediaTime, Track, TrackIndex};

use crate::error::{Fault, Reason, Warnings};
use crate::length::Length;
use crate::reader::{Reader, Unit};
use crate::{Error, Frame, FrameRate, Input, Options, Warning, WarningReason};

/// The frames of one or more files in decoding order, in a loop.
///
/// The length of the video determines the loop: longer audio is cut, shorter audio is followed
/// by silence, and all tracks begin each loop together. Audio alone loops with its own length.
/// Times continue over loops without a jump. With [`Options::once`], each track is played once,
/// to its end.
///
/// # Example
///
/// ```
/// use std::io::Cursor;
///
/// use glassline_demux::{Format, Input, Options, Demuxer};
/// use glassline_media::Codec;
///
/// // A WAV file of 20 ms: 8 kHz, one channel, 16 bits.
/// let mut wav = b"RIFF\x64\x01\0\0WAVEfmt \x10\0\0\0".to_vec();
/// wav.extend([1, 0, 1, 0, 0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16, 0]);
/// wav.extend(b"data\x40\x01\0\0");
/// wav.extend([0; 320]);
///
/// let input = Input {
///     name: "silence.wav".into(),
///     format: Format::Wav,
///     data: Box::new(Cursor::new(wav)),
/// };
/// let options = Options { once: true, ..Options::default() };
/// let mut demuxer = Demuxer::new(vec![input], &options)?;
/// assert_eq!(demuxer.tracks()[0].codec, Codec::L16);
/// while let Some(frame) = demuxer.next_frame()? {
///     assert_eq!(frame.data.len(), 320);
///     assert_eq!(frame.duration.as_millis(), 20);
/// }
/// # Ok::<(), glassline_demux::Error>(())
/// ```
pub struct Demuxer {
    tracks: Vec<Track>,
    /// For each track of the files, its index here, unless it is left out.
    indices: Vec<Option<TrackIndex>>,
    files: Vec<FileState>,
    warnings: Vec<Warning>,
    once: bool,
    /// Length of one loop.
    length: Length,
}

impl Demuxer {
    /// Reads and indexes each input, and begins at the start.
    pub fn new(inputs: Vec<Input>, options: &Options) -> Result<Self, Error> {
        if inputs.is_empty() {
            return Err(Error::new(&PathBuf::new(), None, Reason::NoInput));
        }
        let mut demuxer = Self {
            tracks: Vec::new(),
            indices: Vec::new(),
            files: Vec::new(),
            warnings: Vec::new(),
            once: options.once,
            length: Length::from_nanos(0),
        };
        for Input { name, format, data } in inputs {
            let mut warnings = Warnings::default();
            let opened = format.open(data, options, &mut warnings);
            let reader = opened.map_err(|fault| fault.of(&name))?;
            for track in reader.tracks() {
                let kind = track.kind();
                if demuxer.tracks.iter().any(|track| track.kind() == kind) {
                    return Err(Error::new(&name, None, Reason::SecondOfKind(kind)));
                }
            }
            let first = demuxer.tracks.len();
            demuxer.tracks.extend_from_slice(reader.tracks());
            demuxer.warnings.extend(warnings.of(&name));
            demuxer.files.push(FileState::new(name, reader, first));
        }
        demuxer.indices = TrackIndex::enumerate(&demuxer.tracks)
            .map(|(index, _)| Some(index))
            .collect();
        demuxer.length = demuxer.ruling_length();
        Ok(demuxer)
    }

    /// Leaves out the tracks that cannot be used, and warns of them. `refusal`: says why not, given
    /// a track and its first frame; `None` for a track that can be used.
    ///
    /// # Errors
    /// No track is left, or a file cannot be read.
    pub fn leave_out(
        &mut self,
        mut refusal: impl FnMut(&Track, &Frame) -> Option<String>,
    ) -> Result<(), Error> {
        let mut first = self.fork(true);
        let mut refused: Vec<Option<String>> = vec![None; self.tracks.len()];
        let mut unseen: Vec<bool> = vec![true; self.tracks.len()];
        for _ in 0..FIRST_FRAMES_MAX {
            let Some(frame) = first.next_frame()? else {
                break;
            };
            let place = frame.track.get();
            if std::mem::take(&mut unseen[place]) {
                refused[place] = refusal(&self.tracks[frame.track], &frame);
            }
            if !unseen.contains(&true) {
                break;
            }
        }
        let Some(why) = refused.iter().flatten().next().cloned() else {
            return Ok(());
        };
        let path = self.files.first().map(|file| file.name.clone());
        let path = path.unwrap_or_default();
        if refused.iter().all(Option::is_some) {
            return Err(Error::new(&path, None, Reason::NothingToPlay(why)));
        }
        let kept: Vec<bool> = refused.iter().map(Option::is_none).collect();
        for index in &mut self.indices {
            *index = index.filter(|index| kept[index.get()]).map(|index| {
                let before = kept[..index.get()].iter().filter(|kept| **kept);
                TrackIndex(before.count())
            });
        }
        let mut keep = kept.into_iter();
        self.tracks.retain(|_| keep.next().unwrap_or(true));
        let warnings = refused.into_iter().flatten().map(|reason| Warning {
            path: path.clone(),
            offset: None,
            reason: WarningReason::OtherTrack(reason),
        });
        self.warnings.extend(warnings);
        Ok(())
    }

    /// Returns another demuxer of the same files, at their start, which ends after one pass if
    /// `once`. Both share the index of the files.
    pub fn fork(&self, once: bool) -> Self {
        let mut fork = Self {
            tracks: self.tracks.clone(),
            indices: self.indices.clone(),
            files: self.files.iter().map(FileState::fork).collect(),
            warnings: Vec::new(),
            once,
            length: Length::from_nanos(0),
        };
        fork.length = fork.ruling_length();
        fork
    }

    /// Returns the tracks: those of the first input, then those of the next.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Returns the length of one loop; with [`Options::once`], of the whole demuxer.
    pub fn duration(&self) -> Duration {
        duration(self.length.nanos_of(1))
    }

    /// Returns the frames per second; `None` without video, or if the rate is not constant.
    pub fn frame_rate(&self) -> Option<FrameRate> {
        self.files.iter().find_map(|file| file.reader.frame_rate())
    }

    /// Returns the warnings of opening the files, which are meant for the user.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Continues at the last keyframe at or before `time`, and at the audio of that time. Times
    /// are again those of the first loop. A time beyond the end means the end; one before the
    /// start means the start.
    ///
    /// # Errors
    /// A file cannot be read; the demuxer has then ended.
    pub fn seek(&mut self, time: MediaTime) -> Result<(), Error> {
        let wanted = time.nanos().clamp(0, self.length.nanos_of(1).max(0));
        let start = self.keyframe_at_or_before(MediaTime::from_nanos(wanted));
        let start = start.map_or(wanted, MediaTime::nanos);
        self.files.iter_mut().try_for_each(|file| file.seek(start))
    }

    /// Returns when the last keyframe at or before `time` is presented; `None` without video,
    /// or if there is none.
    pub fn keyframe_at_or_before(&self, time: MediaTime) -> Option<MediaTime> {
        let found = |file: &FileState| file.reader.keyframe_at_or_before(time.nanos());
        self.files.iter().find_map(found).map(MediaTime::from_nanos)
    }

    /// Returns when the first keyframe after `time` is presented.
    pub fn keyframe_after(&self, time: MediaTime) -> Option<MediaTime> {
        let found = |file: &FileState| file.reader.keyframe_after(time.nanos());
        self.files.iter().find_map(found).map(MediaTime::from_nanos)
    }

    /// Returns the next frame of any track in decoding order; of two frames with the same time,
    /// that of the earlier input. `None` only after the end with [`Options::once`].
    ///
    /// This reads from the file, so it may block. After an error the demuxer has ended.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Error> {
        let limit = (!self.once).then_some(self.length);
        let is_audio_alone = self.tracks.iter().all(|it| it.kind() == Kind::Audio);
        loop {
            for file in &mut self.files {
                file.fill(limit, is_audio_alone)?;
            }
            let waiting = self.files.iter_mut().filter(|file| file.next.is_some());
            let earliest = waiting.min_by_key(|file| file.next.as_ref().map(|it| it.decode_time));
            let Some(frame) = earliest.and_then(|file| file.next.take()) else {
                return Ok(None);
            };
            if let Some(track) = self.indices.get(frame.track.get()).copied().flatten() {
                return Ok(Some(Frame { track, ..frame }));
            }
        }
    }

    fn ruling_length(&self) -> Length {
        let longest = |video: bool| {
            let readers = self.files.iter().map(|file| &file.reader);
            readers
                .filter(|reader| has_video(reader.as_ref()) == video)
                .map(|reader| reader.length())
                .max_by_key(|length| length.nanos_of(1))
        };
        let (video, audio) = (longest(true), longest(false));
        let ruling = match (video, audio) {
            (Some(video), Some(audio)) if self.once && audio.nanos_of(1) > video.nanos_of(1) => {
                Some(audio)
            }
            _ => video.or(audio),
        };
        ruling.unwrap_or(Length::from_nanos(0))
    }
}

fn has_video(reader: &dyn Reader) -> bool {
    let mut kinds = reader.tracks().iter().map(Track::kind);
    kinds.any(|kind| kind == Kind::Video)
}

/// The state of reading one file in a loop.
struct FileState {
    name: PathBuf,
    reader: Box<dyn Reader>,
    /// Index of the file's first track in the demuxer.
    first_track: usize,
    next: Option<Frame>,
    /// Number of passes before the current one, and its start time in ns.
    passes: i64,
    base_ns: i64,
    states: Vec<TrackState>,
    /// Whether the current pass has handed out no frame yet.
    fresh: bool,
    ended: bool,
}

/// The state of one track of a file.
#[derive(Clone, Copy, Debug, Default)]
struct TrackState {
    /// End of the decoded units so far, in ns.
    busy_ns: i64,
    /// End of the decoded units of the passes before the current one, in ns.
    floor_ns: i64,
    /// Decoding time of the last unit in ns; `None` before the first.
    decode_ns: Option<i64>,
    /// Whether the rest of the current pass lies behind the loop's end.
    over: bool,
}

impl FileState {
    fn new(name: PathBuf, reader: Box<dyn Reader>, first_track: usize) -> Self {
        let states = vec![TrackState::default(); reader.tracks().len()];
        Self {
            name,
            reader,
            first_track,
            next: None,
            passes: 0,
            base_ns: 0,
            states,
            fresh: true,
            ended: false,
        }
    }

    fn fork(&self) -> Self {
        Self::new(self.name.clone(), self.reader.fork(), self.first_track)
    }

    fn seek(&mut self, to_ns: i64) -> Result<(), Error> {
        self.next = None;
        (self.passes, self.base_ns) = (0, 0);
        self.states.fill(TrackState::default());
        self.fresh = true;
        let sought = self.reader.seek(to_ns);
        self.ended = sought.is_err();
        sought.map_err(|fault| fault.of(&self.name))
    }

    /// Reads until a frame is ready. `limit`: length of a loop. `is_audio_alone`: whether there is no
    /// video, which this audio might outlast.
    fn fill(&mut self, limit: Option<Length>, is_audio_alone: bool) -> Result<(), Error> {
        while self.next.is_none() && !self.ended {
            let read = self.reader.next_unit();
            let read = read.inspect_err(|_| self.ended = true);
            match (read.map_err(|fault: Fault| fault.of(&self.name))?, limit) {
                // Of a file that is shorter than a packet of its audio, one packet is played.
                (Some(unit), Some(limit))
                    if unit.busy_ns > limit.nanos_of(1) + ROUNDING_NS
                        && !(is_audio_alone && self.fresh) =>
                {
                    self.states[unit.track].over = true;
                    if self.states.iter().all(|state| state.over) {
                        self.restart(limit)?;
                    }
                }
                (Some(unit), _) => self.accept(unit),
                (None, Some(limit)) => self.restart(limit)?,
                (None, None) => self.ended = true,
            }
        }
        Ok(())
    }

    /// Adds a unit to the timeline, unless it overlaps the units before it: audio may begin
    /// before the loop does (pre-skip). If the audio of the last loop stops earlier by as much,
    /// both fit without a gap. Video frames may be presented before those that are decoded
    /// ahead of them, but not in the pass before.
    fn accept(&mut self, unit: Unit) {
        let is_audio = self.reader.tracks()[unit.track].kind() == Kind::Audio;
        let state = &mut self.states[unit.track];
        let shifted = |ns: i64| self.base_ns.saturating_add(ns);
        let start = shifted(unit.start_ns);
        let floor = if is_audio {
            state.busy_ns
        } else {
            state.floor_ns
        };
        if start.saturating_add(ROUNDING_NS) < floor {
            return;
        }
        state.busy_ns = state.busy_ns.max(shifted(unit.busy_ns));
        // Reordered frames are decoded early: at the start of a pass before its time zero.
        // Where passes join, the decoding time must not fall.
        let decode_ns = state.decode_ns.max(Some(shifted(unit.decode_ns)));
        state.decode_ns = decode_ns;
        let decode_ns = decode_ns.unwrap_or(start);
        self.fresh = false;
        self.next = Some(Frame {
            track: TrackIndex(self.first_track + unit.track.get()),
            after_loss: false,
            // Rounding may have made the time slightly negative, and damaged stamps may put it before
            // the frame is decoded.
            time: MediaTime::from_nanos(start.max(decode_ns).max(0)),
            decode_time: MediaTime::from_nanos(decode_ns),
            duration: duration(unit.end_ns.saturating_sub(unit.start_ns)),
            keyframe: unit.keyframe,
            data: unit.data,
        });
    }

    fn restart(&mut self, limit: Length) -> Result<(), Error> {
        // A pass without any frame would be repeated forever.
        self.ended = self.fresh;
        self.fresh = true;
        self.passes += 1;
        self.base_ns = limit.nanos_of(self.passes);
        for state in &mut self.states {
            state.floor_ns = state.busy_ns;
            state.over = false;
        }
        let rewound = self.reader.seek(0);
        let rewound = rewound.inspect_err(|_| self.ended = true);
        rewound.map_err(|fault| fault.of(&self.name))
    }
}

/// Frames among which the first of each track is looked for.
const FIRST_FRAMES_MAX: usize = 1_000;

/// Tolerance for rounding in ns: less than a tick of any clock, and more than the sum of
/// roundings.
const ROUNDING_NS: i64 = 1_000;

fn duration(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}
