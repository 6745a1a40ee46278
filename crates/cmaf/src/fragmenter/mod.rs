//! Units in, fragments out: the cut of a stream into pieces that players take.
//!
//! ```text
//! unit ─► place on the timeline ─► pending ─── the next unit tells its duration ──► open fragment
//!                                                                                      │ cut by rule
//!                    Output::Header, Output::Fragment, Output::Discontinuity ◄─────────┘
//! ```
//!
//! The times of all tracks are counted from one origin, so that `tfdt` goes on from fragment to
//! fragment and from file to file. At most one unit of each track and one fragment are held.

mod open_track;
mod output;
mod rule;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use glassline_media::{Kind, MediaTime, MediaUnit, Track, TrackIndex, WallClock};

use crate::fragment::{Fragment, Preamble, head};
use crate::header::Header;
use crate::track::{CmafTrack, Described, TrackError, describe, describe_audio};
use open_track::{OpenTrack, Pending, Placement, TakenRun, ticks_of, ticks_since};
pub use output::{Discontinuity, HeaderCause, NewHeader, Output};
pub use rule::CutRule;

/// Cuts the tracks of one header into fragments.
///
/// Playlists have one fragmenter for each track, recordings one for all tracks.
#[derive(Debug)]
pub struct Fragmenter {
    rule: CutRule,
    tracks: Vec<OpenTrack>,
    /// Time on the timeline of the stream that decode times are counted from.
    origin: Option<MediaTime>,
    /// Decode time of the first unit of all, from which the patience counts.
    first_unit: Option<MediaTime>,
    header: Option<Header>,
    outputs: VecDeque<Output>,
    sequence: u32,
    segments: Segments,
    left_out: u64,
}

/// Where segments begin.
#[derive(Debug, Default)]
struct Segments {
    /// Decode time at which the current segment began.
    begun: Option<MediaTime>,
    /// Decode time from which on a sync sample begins a segment that was asked for.
    wanted: Option<MediaTime>,
    /// Whether the next fragment begins a segment.
    is_next: bool,
}

impl Fragmenter {
    /// Creates a fragmenter of `tracks`, each with its position in the stream. Decode times are counted
    /// from `origin` on the timeline of the stream; `None` stands for that of the first unit. All
    /// fragmenters of one playlist need the same origin. Units that are decoded before the origin are
    /// left out.
    ///
    /// # Errors
    /// [`TrackError`] names the first track that MP4 has no place for, and a track of audio whose
    /// parameters are damaged.
    pub fn new(
        tracks: impl IntoIterator<Item = (TrackIndex, Track)>,
        rule: CutRule,
        origin: Option<MediaTime>,
    ) -> Result<Self, TrackError> {
        let open = |(source, track): (TrackIndex, Track)| {
            if !CmafTrack::is_carried(&track) {
                return Err(TrackError::Codec {
                    track: source,
                    codec: track.codec,
                });
            }
            let described = match track.kind() {
                Kind::Audio => Some(describe_audio(source, &track)?),
                _ => None,
            };
            Ok(OpenTrack::new(source, track, described))
        };
        Ok(Self {
            rule,
            tracks: tracks.into_iter().map(open).collect::<Result<_, _>>()?,
            origin,
            first_unit: None,
            header: None,
            outputs: VecDeque::new(),
            sequence: 0,
            segments: Segments::default(),
            left_out: 0,
        })
    }

    /// Takes the next unit of any track, in the order of the hub. `clock` tells the calendar time at
    /// which the unit was due by the stream's own clock. Units of other tracks are ignored.
    ///
    /// # Errors
    /// [`TrackError`] if this is a keyframe without readable parameters, and none came before. The unit
    /// is then left out.
    pub fn push(&mut self, unit: &Arc<MediaUnit>, clock: &WallClock) -> Result<(), TrackError> {
        let Some(place) = self.tracks.iter().position(|it| it.source == unit.track) else {
            return Ok(());
        };
        self.first_unit.get_or_insert(unit.decode_time());
        let changed = self.learn(place, unit)?;
        if self.tracks[place].awaits_keyframe {
            if !unit.keyframe || self.tracks[place].described.is_none() {
                self.left_out += 1;
                return Ok(());
            }
            self.tracks[place].awaits_keyframe = false;
        }
        if self.header.is_none() && !self.begin(place, unit) {
            self.left_out += 1;
            self.tracks[place].awaits_keyframe = self.tracks[place].is_video();
            return Ok(());
        }
        let Some(ticks) = self.ticks(place, unit) else {
            self.left_out += 1;
            self.tracks[place].awaits_keyframe = self.tracks[place].is_video();
            return Ok(());
        };
        let Some(ticks) = self.placed(place, ticks, unit) else {
            return Ok(());
        };
        if changed.is_some() || self.tracks[place].position.is_none() {
            self.change_header(place, ticks, changed);
        }
        self.accept(place, ticks, unit, clock.unix(unit.stamps.reference));
        Ok(())
    }

    /// Returns the next header, fragment or discontinuity; `None` if more units are needed.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Ends the open fragment. The durations of the last units are guessed. Units may follow.
    pub fn flush(&mut self) {
        for place in 0..self.tracks.len() {
            self.end_pending_by_guess(place);
        }
        self.cut();
    }

    /// Begins a segment at the first sync sample of the ruling track that is decoded at `time` on the
    /// timeline of the stream or later, in place of the rule. Audio follows the segments of video so.
    pub fn begin_segment_at(&mut self, time: MediaTime) {
        self.segments.wanted = Some(time);
    }

    /// Begins a segment at the next sync sample of the ruling track.
    pub fn begin_segment(&mut self) {
        self.begin_segment_at(MediaTime::from_nanos(i64::MIN));
    }

    /// Returns the newest header; `None` until the parameters of the tracks are known.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Returns the time on the timeline of the stream that decode times are counted from.
    pub fn origin(&self) -> Option<MediaTime> {
        self.origin
    }

    /// Returns the number of units that are in no fragment: those before the first keyframe, before the
    /// origin, and from a discontinuity to the next keyframe.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the number of coded bytes in the open fragment.
    pub fn open_bytes(&self) -> usize {
        self.tracks.iter().map(|track| track.run.media.len()).sum()
    }

    /// Learns the parameters in a keyframe. Returns the description if it is another one than before.
    fn learn(&mut self, place: usize, unit: &MediaUnit) -> Result<Option<Described>, TrackError> {
        let track = &mut self.tracks[place];
        if !track.is_video() || !unit.keyframe {
            return Ok(None);
        }
        match (describe(&track.track, unit), &track.described) {
            (Ok(described), None) => {
                track.described = Some(described);
                Ok(None)
            }
            (Ok(described), Some(known)) if known.includes(&described) => Ok(None),
            (Ok(described), Some(_)) if track.position.is_some() => Ok(Some(described)),
            (Ok(described), Some(_)) => {
                track.described = Some(described);
                Ok(None)
            }
            // Some keyframes repeat no parameters.
            (Err(_), Some(_)) => Ok(None),
            (Err(error), None) => {
                self.left_out += 1;
                Err(error)
            }
        }
    }

    /// Begins the run with `unit`, unless another track is still to come.
    fn begin(&mut self, place: usize, unit: &MediaUnit) -> bool {
        let is_known = |track: &OpenTrack| track.described.is_some();
        let waits = unit
            .decode_time()
            .saturating_since(self.first_unit.unwrap_or_default());
        let is_ruling =
            self.tracks[place].is_video() || !self.tracks.iter().any(OpenTrack::is_video);
        let is_patient = waits < self.rule.patience;
        if is_patient && !(is_ruling && self.tracks.iter().all(is_known)) {
            return false;
        }
        self.origin.get_or_insert(unit.decode_time());
        self.set_header(HeaderCause::Start);
        true
    }

    /// Makes the header of all tracks that are described.
    fn set_header(&mut self, cause: HeaderCause) {
        let mut sources = Vec::new();
        let mut described = Vec::new();
        for track in &mut self.tracks {
            if let Some(known) = &track.described {
                track.position = Some(described.len());
                sources.push(track.source);
                described.push(known.track.clone());
            }
        }
        let header = Header::new(described);
        self.header = Some(header.clone());
        self.segments.restart();
        self.outputs.push_back(Output::Header(NewHeader {
            header,
            sources,
            origin: self.origin.unwrap_or_default(),
            cause,
        }));
    }

    /// Ends the fragments of the old header before `ticks` of the track at `place`, whose description
    /// is now `changed`, or which is in no header yet.
    fn change_header(&mut self, place: usize, ticks: u64, changed: Option<Described>) {
        let source = self.tracks[place].source;
        let was_absent = self.tracks[place].position.is_none();
        self.end_pending(place, ticks);
        self.cut();
        if let Some(described) = changed {
            self.tracks[place].described = Some(described);
        }
        self.set_header(match was_absent {
            true => HeaderCause::Joined(source),
            false => HeaderCause::Parameters(source),
        });
    }

    /// Returns the decode time of a unit in ticks of its track since the origin; `None` for a unit
    /// before the origin.
    fn ticks(&mut self, place: usize, unit: &MediaUnit) -> Option<u64> {
        let track = &self.tracks[place];
        let origin = self.origin?;
        let ticks = ticks_since(unit.decode_time(), origin, track.timescale());
        if let Ok(ticks) = u64::try_from(ticks) {
            return Some(ticks);
        }
        // Units that were under way when the run began are late; a track that goes on far before its
        // own times has another timeline.
        let from = track.last_time?;
        let is_late = from.saturating_since(unit.decode_time()) < self.rule.gap_max;
        if is_late || track.is_video() && !unit.keyframe {
            return None;
        }
        let source = track.source;
        self.flush();
        self.tell_jump(source, from, unit.decode_time());
        self.origin = Some(unit.decode_time());
        self.tracks.iter_mut().for_each(OpenTrack::forget_times);
        self.set_header(HeaderCause::Origin(source));
        Some(0)
    }

    /// Places a unit behind the ones before it. Returns its tick; `None` for a unit behind a jump that
    /// no decoder can start with.
    fn placed(&mut self, place: usize, ticks: u64, unit: &MediaUnit) -> Option<u64> {
        match self.tracks[place].place(ticks, self.rule.gap_max) {
            Placement::At(ticks) => Some(ticks),
            Placement::Jump => {
                self.jump(place, unit);
                let track = &mut self.tracks[place];
                if track.is_sync(unit) {
                    return Some(ticks);
                }
                track.awaits_keyframe = true;
                self.left_out += 1;
                None
            }
        }
    }

    /// Takes a unit that is decoded at `ticks`, and cuts where the rule says so.
    fn accept(&mut self, place: usize, ticks: u64, unit: &Arc<MediaUnit>, wall_clock: Duration) {
        self.end_pending(place, ticks);
        if self.is_ruling(place) {
            self.cut_before(place, ticks, unit);
        }
        self.tracks[place].hold(Pending {
            unit: Arc::clone(unit),
            ticks,
            wall_clock,
        });
    }

    /// Ends what was before a jump of the timestamps. With the ruling track, a segment ends.
    fn jump(&mut self, place: usize, unit: &MediaUnit) {
        let is_ruling = self.is_ruling(place);
        match is_ruling {
            true => self.flush(),
            false => {
                self.end_pending_by_guess(place);
                self.cut();
            }
        }
        let track = &mut self.tracks[place];
        track.forget_times();
        let (source, from) = (track.source, track.last_time);
        if is_ruling {
            self.segments.restart();
        }
        self.tell_jump(
            source,
            from.unwrap_or(unit.decode_time()),
            unit.decode_time(),
        );
    }

    fn tell_jump(&mut self, track: TrackIndex, from: MediaTime, to: MediaTime) {
        let jump = Discontinuity { track, from, to };
        self.outputs.push_back(Output::Discontinuity(jump));
    }

    /// Moves the pending unit of a track to the open fragment with a duration that is guessed.
    fn end_pending_by_guess(&mut self, place: usize) {
        let track = &self.tracks[place];
        if let Some(pending) = &track.pending {
            let end = pending.ticks + u64::from(track.guessed_duration_of(&pending.unit));
            self.end_pending(place, end);
        }
    }

    /// Moves the pending unit of a track to the open fragment, now that the next unit is decoded at
    /// `ticks`. The fragment is cut before it if both together are too long.
    fn end_pending(&mut self, place: usize, ticks: u64) {
        let Some(origin) = self.origin else {
            return;
        };
        let is_ruling = self.is_ruling(place);
        let track = &self.tracks[place];
        let Some(pending) = &track.pending else {
            return;
        };
        let duration = ticks.saturating_sub(pending.ticks);
        let bytes = pending.unit.memory_bytes();
        let most = ticks_of(self.rule.fragment, track.timescale());
        // Other tracks wait for the ruling one, but not for ever.
        let most = if is_ruling {
            most
        } else {
            most.saturating_mul(2)
        };
        let is_long = track.run.ticks > 0 && track.run.ticks + duration > most;
        let open = self.open_bytes();
        if is_long || open > 0 && open + bytes > self.rule.bytes_max {
            self.cut();
        }
        let duration = u32::try_from(duration).unwrap_or(u32::MAX);
        self.tracks[place].commit(origin, duration);
    }

    /// Cuts before `unit` of the ruling track, which is decoded at `ticks`, if the rule says so.
    fn cut_before(&mut self, place: usize, ticks: u64, unit: &MediaUnit) {
        let track = &self.tracks[place];
        let rate = track.timescale();
        let most = ticks_of(self.rule.fragment, rate);
        let time = unit.decode_time();
        let begins_segment = track.is_sync(unit) && self.segments.are_due(time, self.rule.segment);
        let is_aligned = self.rule.aligns_to_keyframes
            && track.is_video()
            && unit.keyframe
            && track.run.ticks * 2 >= most;
        let next = u64::from(track.guessed_duration_of(unit));
        let is_enough = track.run.ticks >= ticks_of(self.rule.shortest, rate);
        let is_full = is_enough && ticks + next > track.run.first_ticks + most;
        if begins_segment || track.run.ticks > 0 && (is_aligned || is_full) {
            self.cut();
        }
        if begins_segment {
            self.segments.begin(time);
        }
    }

    /// Returns whether the track at `place` rules where fragments and segments begin.
    fn is_ruling(&self, place: usize) -> bool {
        let present = |track: &&OpenTrack| track.position.is_some();
        let video = |track: &OpenTrack| track.is_video() && track.position.is_some();
        let ruling = match self.tracks.iter().find(|track| video(track)) {
            Some(track) => Some(track),
            None => self.tracks.iter().find(present),
        };
        ruling.is_some_and(|track| track.source == self.tracks[place].source)
    }

    /// Ends the open fragment, if it has samples.
    fn cut(&mut self) {
        let Some(header) = self.header.clone() else {
            return;
        };
        let ruling = (0..self.tracks.len()).find(|place| self.is_ruling(*place));
        let ruling = ruling.and_then(|place| self.tracks[place].position);
        let mut taken: Vec<_> = self
            .tracks
            .iter_mut()
            .filter_map(OpenTrack::take_run)
            .collect();
        taken.sort_by_key(|it| it.track.position);
        let is_ruling = |it: &&TakenRun| Some(it.track.position) == ruling;
        let Some(first) = taken.iter().find(is_ruling).or(taken.first()) else {
            return;
        };
        let rate = header.tracks()[first.track.position].timescale;
        let time =
            |ticks: u64| MediaTime::from_ticks(i64::try_from(ticks).unwrap_or(i64::MAX), rate);
        self.sequence = self.sequence.wrapping_add(1);
        let begins_segment = std::mem::take(&mut self.segments.is_next);
        let preamble = Preamble {
            segment_type: self.rule.states_segment_type && begins_segment,
            reference: self.rule.states_wall_clock.then_some(first.track.position),
        };
        let mut fragment = Fragment {
            sequence: self.sequence,
            begins_segment,
            starts_with_sync: first.track.samples.first().is_some_and(|it| it.sync),
            decode_time: time(first.track.decode_ticks),
            duration: time(first.track.duration_ticks()).saturating_since(MediaTime::ZERO),
            wall_clock: first.wall_clock,
            head: Bytes::new(),
            tracks: Vec::with_capacity(taken.len()),
            media: Vec::with_capacity(taken.len()),
        };
        for run in taken {
            fragment.tracks.push(run.track);
            fragment.media.push(run.media);
        }
        fragment.head = head(&fragment, &header, preamble);
        self.outputs.push_back(Output::Fragment(fragment));
    }
}

impl Segments {
    /// Returns whether a sync sample that is decoded at `time` begins a segment.
    fn are_due(&self, time: MediaTime, shortest: Duration) -> bool {
        let is_wanted = self.wanted.is_some_and(|wanted| time >= wanted);
        let is_over = |begun: MediaTime| time.saturating_since(begun) >= shortest;
        is_wanted || self.begun.is_none_or(is_over)
    }

    /// Begins a segment with the next fragment, and another one with the next sync sample unless both
    /// are the same.
    fn restart(&mut self) {
        self.is_next = true;
        self.begun = None;
    }

    fn begin(&mut self, time: MediaTime) {
        self.begun = Some(time);
        self.is_next = true;
        if self.wanted.is_some_and(|wanted| time >= wanted) {
            self.wanted = None;
        }
    }
}
