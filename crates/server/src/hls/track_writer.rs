//! One layer of a track, from units to the parts of its rendition.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_cmaf::{
    CmafTrack, CutRule, Fragment, Fragmenter, Header, HeaderCause, NewHeader, Output,
};
use glassline_hls::{NewPart, Numbers, Terms};
use glassline_media::{Kind, MediaTime, MediaUnit, Track, TrackLayer, WallClock};

use super::aac::{self, AacMaker};
use super::broadcast::{Broadcast, rendition_name};
use super::cadence::Cadence;
use super::dates::Dates;
use super::rendition::{Description, NewRendition, Rendition};

/// Parts by which players stay behind the end (§4.4.3.8).
pub(super) const PARTS_BEHIND: u32 = 3;

/// Hole in a rendition that is not worth a segment of its own.
const SMALL: Duration = Duration::from_millis(100);

/// The parts that all renditions of a stream share.
#[derive(Debug)]
pub(super) struct Common {
    /// Promises of each playlist, but for the longest part.
    pub(super) terms: Terms,
    /// Time on the stream's timeline from which all renditions count.
    pub(super) origin: Option<MediaTime>,
    pub(super) dates: Dates,
    /// Numbers with which playlists begin.
    pub(super) first: Numbers,
    /// Discontinuities so far.
    pub(super) changes: u64,
    /// Window of passes, and the pass of files that come to be in it.
    pub(super) window: u64,
    pub(super) pass: String,
}

impl Common {
    /// Returns the folder of the files of a rendition, relative to its playlist.
    pub(super) fn folder(&self, rendition: &str) -> Arc<str> {
        format!("../{}/{rendition}", self.pass).into()
    }
}

/// The effect of a unit beside its own rendition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Nothing,
    /// There is a first part, or a rendition.
    Grown,
    /// Another sequence of timestamps or other parameters began.
    Header,
}

/// The writer of one layer of a track.
pub(super) struct TrackWriter {
    pub(super) layer: TrackLayer,
    pub(super) kind: Kind,
    /// Whether the present source has the layer.
    pub(super) is_present: bool,
    track: Track,
    /// Makes the frames of a layer that the hub does not have.
    maker: Option<AacMaker>,
    /// Longest duration of a part.
    part_target: Duration,
    frame_rate: Option<f64>,
    /// Absent until the origin is known, and for a track that cannot be described.
    fragmenter: Option<Fragmenter>,
    rendition: Option<Arc<Rendition>>,
    /// Number of the next unit.
    next: u64,
    /// Time up to which the rendition is written, on the stream's timeline.
    end: Option<MediaTime>,
    /// Decode time of the newest unit, and when it came.
    latest: Option<(MediaTime, Instant)>,
    keyframe: Option<MediaTime>,
    /// Time from the decoding of the source's first keyframe until it is shown. Dates are of frames as they
    /// are shown, and as far apart as frames are decoded.
    lead: Option<Duration>,
    /// Latest distance of keyframes.
    group: Duration,
    /// Whether a keyframe that begins a segment is in the part that is made.
    is_ending: bool,
    /// Whether the next part begins a segment wherever it is.
    cut: bool,
    /// Whether the source fell silent, so that the next part may come after a hole.
    silent: bool,
    /// Whether frames were left out that later ones depend on.
    lacks_frames: bool,
}

impl TrackWriter {
    pub(super) fn new(
        layer: TrackLayer,
        track: &Track,
        now: Instant,
        broadcast: &Broadcast,
        common: &Common,
    ) -> Self {
        let cadence = Cadence::of_layer(&broadcast.stream, layer);
        let figures = broadcast.stream.figures(layer, now);
        // All playlists of a stream have one distance from the end, which the first of them know.
        let part_target_max = common.terms.part_hold_back / PARTS_BEHIND;
        let mut writer = Self {
            layer,
            kind: track.kind(),
            is_present: true,
            track: track.clone(),
            maker: None,
            part_target: cadence
                .part_target(broadcast.settings.part())
                .min(part_target_max),
            frame_rate: cadence.frame_rate().filter(|_| track.kind() == Kind::Video),
            fragmenter: None,
            rendition: None,
            next: 0,
            end: None,
            latest: None,
            keyframe: None,
            lead: None,
            group: figures.keyframe_interval.unwrap_or_default(),
            is_ending: false,
            cut: false,
            silent: false,
            lacks_frames: false,
        };
        writer.set_track(track);
        if let Some(origin) = common.origin {
            writer.begin(origin);
        }
        writer
    }

    /// Takes the description of the track, and begins to make it if the hub does not have it.
    fn set_track(&mut self, track: &Track) {
        if self.layer.layer != aac::LAYER {
            self.track = track.clone();
            return;
        }
        self.track = AacMaker::track();
        match AacMaker::new(self.layer.track, track) {
            Ok(maker) => self.maker = Some(maker),
            Err(error) => tracing::warn!(%error, "no AAC is made for HLS"),
        }
    }

    /// Returns the layer of the hub that the frames are of, or are made of.
    pub(super) fn source(&self) -> TrackLayer {
        match self.layer.layer {
            aac::LAYER => self.layer.track.into(),
            _ => self.layer,
        }
    }

    /// Counts times from `origin` on the stream's timeline.
    pub(super) fn begin(&mut self, origin: MediaTime) {
        // Segments begin where the playlist says.
        let rule = CutRule::parts(self.part_target, Duration::MAX);
        self.is_ending = false;
        let track = (self.layer.track, self.track.clone());
        match Fragmenter::new([track], rule, Some(origin)) {
            Ok(fragmenter) => self.fragmenter = Some(fragmenter),
            Err(error) => tracing::warn!(%error, "the track does not go by HLS"),
        }
    }

    /// Goes on with the track of another source.
    pub(super) fn follow(&mut self, track: &Track, common: &Common) {
        self.set_track(track);
        self.keyframe = None;
        self.lead = None;
        if let Some(origin) = common.origin {
            self.begin(origin);
        }
    }

    /// Ends the part that is made of what the hub had already. What comes then begins a segment, so that
    /// players can begin with what there is.
    pub(super) fn end_known(&mut self) {
        self.cut = true;
    }

    /// Takes the next unit.
    pub(super) fn push(
        &mut self,
        unit: &Arc<MediaUnit>,
        now: Instant,
        wall: &WallClock,
        common: &Common,
        broadcast: &Broadcast,
    ) -> Change {
        if unit.index < self.next {
            return Change::Nothing;
        }
        self.next = unit.index + 1;
        let Some(maker) = &mut self.maker else {
            return self.take(unit, now, wall, common, broadcast);
        };
        let mut change = Change::Nothing;
        for frame in maker.push(unit) {
            let of_frame = self.take(&frame, now, wall, common, broadcast);
            change = change.max(of_frame);
        }
        change
    }

    /// Takes the next frame of the layer.
    fn take(
        &mut self,
        unit: &Arc<MediaUnit>,
        now: Instant,
        wall: &WallClock,
        common: &Common,
        broadcast: &Broadcast,
    ) -> Change {
        let time = unit.decode_time();
        let before = self.latest.replace((time, now));
        let jump = before.map_or(Duration::ZERO, |(before, _)| time.saturating_since(before));
        if jump > common.terms.longest() && !self.silent && self.rendition.is_some() {
            // No frame stands for longer than a segment may last.
            self.flush(common, broadcast);
            self.silent = true;
        }
        if self.is_left_out(unit) {
            if self.kind == Kind::Video {
                broadcast.stream.request_keyframe_of(self.layer);
            }
            return Change::Nothing;
        }
        if unit.keyframe {
            let lead = unit.time.saturating_since(time);
            self.lead.get_or_insert(lead);
            self.note_keyframe(time);
        } else if self.silent && self.kind == Kind::Video {
            // Decoders of browsers do not go on behind a hole without one.
            broadcast.stream.request_keyframe_of(self.layer);
        }
        let Some(fragmenter) = &mut self.fragmenter else {
            return Change::Nothing;
        };
        if let Err(error) = fragmenter.push(unit, wall) {
            let stream = broadcast.stream.name();
            tracing::debug!(%stream, %error, "a frame is left out of HLS");
        }
        self.drain(common, broadcast)
    }

    /// Returns whether a frame stands where the playlist has a gap already, or depends on such a frame. A
    /// source that was held up sends all at once, or late from then on.
    fn is_left_out(&mut self, unit: &MediaUnit) -> bool {
        let is_late = self.silent && self.end.is_some_and(|end| unit.decode_time() < end);
        let depends = self.lacks_frames && self.kind == Kind::Video && !unit.keyframe;
        self.lacks_frames = is_late || depends;
        self.lacks_frames
    }

    /// Begins a segment with the keyframe at `time`, if the segment before is long enough.
    fn note_keyframe(&mut self, time: MediaTime) {
        if self.kind == Kind::Video
            && let Some(before) = self.keyframe.replace(time)
        {
            self.group = time.saturating_since(before);
        }
        let pending = self
            .end
            .map_or(Duration::ZERO, |end| time.saturating_since(end));
        let ends = |it: &Arc<Rendition>| it.ends_at_keyframe(pending, self.group);
        if let Some(fragmenter) = &mut self.fragmenter
            && !self.is_ending
            && self.rendition.as_ref().is_some_and(ends)
        {
            fragmenter.begin_segment_at(time);
            self.is_ending = true;
        }
    }

    /// Ends the open part, and the timestamps so far.
    pub(super) fn discontinue(&mut self, common: &Common, broadcast: &Broadcast) {
        self.flush(common, broadcast);
        if let Some(rendition) = &self.rendition {
            rendition.discontinue();
        }
    }

    /// Adds gaps for a source that has sent nothing for a Target Duration.
    pub(super) fn fill(&mut self, now: Instant, common: &Common, broadcast: &Broadcast) {
        let target = common.terms.target();
        let (Some((time, came)), true) = (self.latest, self.rendition.is_some()) else {
            return;
        };
        let silence = now.saturating_duration_since(came);
        if silence < common.terms.longest() {
            return;
        }
        if !self.silent {
            self.flush(common, broadcast);
            self.silent = true;
        }
        let present = time + silence;
        while let (Some(end), Some(rendition)) = (self.end, &self.rendition)
            && present.saturating_since(end) >= target
        {
            rendition.push_gap(target, self.date(end, common));
            self.end = Some(end + target);
        }
    }

    /// Returns the date of what is decoded at `time` on the stream's timeline.
    fn date(&self, time: MediaTime, common: &Common) -> Duration {
        common.dates.of(time + self.lead.unwrap_or_default())
    }

    fn flush(&mut self, common: &Common, broadcast: &Broadcast) {
        if let Some(fragmenter) = &mut self.fragmenter {
            fragmenter.flush();
        }
        self.drain(common, broadcast);
    }

    /// Writes what the fragmenter has.
    fn drain(&mut self, common: &Common, broadcast: &Broadcast) -> Change {
        let mut change = Change::Nothing;
        while let Some(output) = self.fragmenter.as_mut().and_then(Fragmenter::poll) {
            match output {
                Output::Header(header) => {
                    if self.set_header(&header, common, broadcast) {
                        change = Change::Header;
                    }
                }
                Output::Fragment(fragment) => {
                    if self.write(&fragment, common) && change == Change::Nothing {
                        change = Change::Grown;
                    }
                }
                Output::Discontinuity(_) => {
                    if let Some(rendition) = &self.rendition {
                        rendition.discontinue();
                    }
                    change = Change::Header;
                }
            }
        }
        change
    }

    /// Takes a header. Returns whether the other renditions need a discontinuity for it.
    fn set_header(&mut self, new: &NewHeader, common: &Common, broadcast: &Broadcast) -> bool {
        let (bytes, description) = (new.header.segment(), self.describe(&new.header));
        let Some(rendition) = &self.rendition else {
            let rendition = self.new_rendition(bytes, description, common);
            let rendition = Arc::new(rendition);
            broadcast.add(Arc::clone(&rendition));
            self.rendition = Some(rendition);
            return false;
        };
        rendition.set_header(bytes, description);
        // Behind a new source, all renditions have their discontinuity already.
        let is_within = new.cause != HeaderCause::Start;
        if is_within {
            rendition.discontinue();
        }
        is_within
    }

    fn describe(&self, header: &Header) -> Description {
        let track = header.tracks().first();
        Description {
            codec: header.codec_strings(),
            size: track.and_then(CmafTrack::size),
            channels: track.and_then(CmafTrack::channels),
            frame_rate: self.frame_rate,
        }
    }

    fn new_rendition(&self, header: Bytes, description: Description, common: &Common) -> Rendition {
        let name = rendition_name(self.kind, self.layer.track, self.layer.layer);
        let terms = Terms {
            part_target: self.part_target,
            independent: self.kind == Kind::Audio,
            ..common.terms
        };
        let first = Numbers {
            discontinuity: common.first.discontinuity + common.changes,
            ..common.first
        };
        Rendition::new(NewRendition {
            folder: common.folder(&name),
            name,
            layer: self.layer,
            kind: self.kind,
            terms,
            first,
            header,
            description,
        })
    }

    /// Adds a part. Returns whether somebody may have waited for it as the first.
    fn write(&mut self, fragment: &Fragment, common: &Common) -> bool {
        let Some(rendition) = &self.rendition else {
            return false;
        };
        let origin = common.origin.unwrap_or_default();
        let begin = origin + fragment.decode_time.saturating_since(MediaTime::ZERO);
        if let Some(mut end) = self.end.filter(|_| self.silent) {
            while begin.saturating_since(end) > SMALL {
                let gap = begin.saturating_since(end).min(common.terms.target());
                rendition.push_gap(gap, self.date(end, common));
                end = end + gap;
            }
        }
        self.silent = false;
        let samples = fragment.tracks.iter().flat_map(|it| &it.samples);
        let is_first = self.end.is_none();
        let part = NewPart {
            duration: fragment.duration,
            bytes: fragment.byte_count(),
            independent: samples.clone().any(|it| it.sync),
            begins_segment: fragment.begins_segment
                || self.cut && !is_first
                || rendition.is_full_for(fragment.duration),
            date: self.date(begin, common),
        };
        self.cut &= is_first;
        self.is_ending &= !fragment.begins_segment;
        self.end = Some(begin + fragment.duration);
        rendition.push(part, fragment.pieces().cloned().collect());
        is_first
    }
}
