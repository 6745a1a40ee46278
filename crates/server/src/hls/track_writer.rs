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
use super::broadcast::Broadcast;
use super::cadence::Cadence;
use super::rendition::{Description, NewRendition, Rendition};
use super::rendition_key::{FrameSource, RenditionKey};
use super::shared::{Change, PARTS_BEHIND, Shared};
use super::stand_in::StandIn;

/// Hole in a rendition that is not worth a segment of its own.
const SMALL: Duration = Duration::from_millis(100);

/// The writer of one layer of a track.
pub(super) struct TrackWriter {
    pub(super) key: RenditionKey,
    pub(super) frames: FrameSource,
    /// The layer whose units were written last, or are.
    pub(super) source: TrackLayer,
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
    /// The newest unit with which a decoder can begin.
    keyframe: Option<Arc<MediaUnit>>,
    /// The units that are written while the source does not send the track.
    stand_in: Option<StandIn>,
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
        key: RenditionKey,
        source: TrackLayer,
        track: &Track,
        now: Instant,
        broadcast: &Broadcast,
        shared: &Shared,
    ) -> Self {
        let layer = TrackLayer {
            layer: key.layer,
            ..source
        };
        let cadence = Cadence::of_layer(&broadcast.stream, layer);
        let figures = broadcast.stream.figures(layer, now);
        // All playlists of a stream have one distance from the end, which the first of them know.
        let part_target_max = shared.terms.part_hold_back / PARTS_BEHIND;
        let mut writer = Self {
            key,
            frames: FrameSource::Source(source),
            source,
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
            stand_in: None,
            lead: None,
            group: figures.keyframe_interval.unwrap_or_default(),
            is_ending: false,
            cut: false,
            silent: false,
            lacks_frames: false,
        };
        writer.set_track(track);
        if let Some(origin) = shared.origin {
            writer.begin(origin);
        }
        writer
    }

    /// Takes the description of the track, and begins to make it if the hub does not have it.
    fn set_track(&mut self, track: &Track) {
        self.maker = None;
        if self.key.layer != aac::LAYER || !AacMaker::takes(track) {
            self.track = track.clone();
            return;
        }
        self.track = AacMaker::track();
        match AacMaker::new(self.source.track, track) {
            Ok(maker) => self.maker = Some(maker),
            Err(error) => tracing::warn!(%error, "no AAC is made for HLS"),
        }
    }

    /// Returns the time of the newest unit of the source, and when it came; `None` if the source does not
    /// have the track.
    pub(super) fn newest(&self) -> Option<(MediaTime, Instant)> {
        let is_sent = matches!(self.frames, FrameSource::Source(_));
        self.latest.filter(|_| is_sent)
    }

    /// Counts times from `origin` on the stream's timeline.
    pub(super) fn begin(&mut self, origin: MediaTime) {
        // Segments begin where the playlist says.
        let rule = CutRule::parts(self.part_target, Duration::MAX);
        self.is_ending = false;
        let track = (self.source.track, self.track.clone());
        match Fragmenter::new([track], rule, Some(origin)) {
            Ok(fragmenter) => self.fragmenter = Some(fragmenter),
            Err(error) => tracing::warn!(%error, "the track does not go by HLS"),
        }
    }

    /// Goes on with the track of another source.
    pub(super) fn follow(&mut self, source: TrackLayer, track: &Track, shared: &Shared) {
        // Units are numbered by layer.
        if source != self.source {
            self.next = 0;
        }
        self.source = source;
        self.set_track(track);
        self.keyframe = None;
        self.stand_in = None;
        self.lead = None;
        if let Some(origin) = shared.origin {
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
        shared: &Shared,
        broadcast: &Broadcast,
    ) -> Change {
        if unit.index < self.next {
            return Change::Nothing;
        }
        self.next = unit.index + 1;
        let Some(maker) = &mut self.maker else {
            return self.take(unit, now, wall, shared, broadcast);
        };
        let mut change = Change::Nothing;
        for frame in maker.push(unit) {
            let of_frame = self.take(&frame, now, wall, shared, broadcast);
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
        shared: &Shared,
        broadcast: &Broadcast,
    ) -> Change {
        let time = unit.decode_time();
        let before = self.latest.replace((time, now));
        if self.stand_in.is_some() {
            if !self.is_late(time) {
                self.stand_in(time, now, wall, shared, broadcast);
            }
            // It ends with a late frame, too: those of a track that is always behind the others would never
            // be in time, because what stands in goes as far as these are.
            self.flush(shared, broadcast);
            (self.stand_in, self.silent) = (None, true);
        }
        let jump = before.map_or(Duration::ZERO, |(before, _)| time.saturating_since(before));
        if jump > shared.terms.longest() && !self.silent && self.rendition.is_some() {
            // No frame stands for longer than a segment may last.
            self.flush(shared, broadcast);
            self.silent = true;
        }
        if self.is_left_out(unit) {
            if self.key.kind == Kind::Video {
                broadcast.stream.request_keyframe_of(self.source);
            }
            return Change::Nothing;
        }
        if unit.keyframe {
            let lead = unit.time.saturating_since(time);
            self.lead.get_or_insert(lead);
            self.note_keyframe(unit);
        } else if self.silent && self.key.kind == Kind::Video {
            // Decoders of browsers do not go on behind a hole without one.
            broadcast.stream.request_keyframe_of(self.source);
        }
        self.put(unit, wall, broadcast);
        self.drain(shared, broadcast)
    }

    fn put(&mut self, unit: &Arc<MediaUnit>, wall: &WallClock, broadcast: &Broadcast) {
        let Some(fragmenter) = &mut self.fragmenter else {
            return;
        };
        if let Err(error) = fragmenter.push(unit, wall) {
            let stream = broadcast.stream.name();
            tracing::debug!(%stream, %error, "a frame is left out of HLS");
        }
    }

    /// Writes what stands in for the track up to `reached`, the newest time of the other tracks.
    pub(super) fn stand_in(
        &mut self,
        reached: MediaTime,
        now: Instant,
        wall: &WallClock,
        shared: &Shared,
        broadcast: &Broadcast,
    ) {
        if self.frames == FrameSource::StandIn && self.stand_in.is_none() {
            self.begin_to_stand_in(reached, shared, broadcast);
        }
        while let Some(stand_in) = &mut self.stand_in
            && let Some(unit) = stand_in.next_unit(reached, now)
        {
            self.note_keyframe(&unit);
            self.put(&unit, wall, broadcast);
            if self.drain(shared, broadcast) == Change::Grown {
                broadcast.grow();
            }
        }
    }

    /// Begins to write something in the place of the track, from its end or, without one, from `reached` on.
    /// Returns whether there is anything.
    fn begin_to_stand_in(
        &mut self,
        reached: MediaTime,
        shared: &Shared,
        broadcast: &Broadcast,
    ) -> bool {
        self.flush(shared, broadcast);
        let from = self.end.unwrap_or(reached);
        self.stand_in = match (self.key.kind, &self.keyframe) {
            (Kind::Video, Some(keyframe)) => {
                let lead = self.lead.unwrap_or_default();
                Some(StandIn::frozen(keyframe, self.part_target, from, lead))
            }
            (Kind::Audio, _) => StandIn::silence(self.source.track, &self.track, from),
            _ => None,
        };
        self.stand_in.is_some()
    }

    /// Returns whether the playlist has a gap, or what stands in, at `time` already.
    fn is_late(&self, time: MediaTime) -> bool {
        let filled = match &self.stand_in {
            Some(stand_in) => Some(stand_in.end()),
            None => self.end.filter(|_| self.silent),
        };
        filled.is_some_and(|end| time < end)
    }

    /// Returns whether a frame stands where the playlist has a gap already, or depends on such a frame. A
    /// source that was held up sends all at once, or late from then on.
    fn is_left_out(&mut self, unit: &MediaUnit) -> bool {
        let is_late = self.is_late(unit.decode_time());
        let depends = self.lacks_frames && self.key.kind == Kind::Video && !unit.keyframe;
        self.lacks_frames = is_late || depends;
        self.lacks_frames
    }

    /// Begins a segment with a keyframe, if the segment before is long enough.
    fn note_keyframe(&mut self, unit: &Arc<MediaUnit>) {
        let time = unit.decode_time();
        if self.key.kind == Kind::Video
            && let Some(before) = self.keyframe.replace(Arc::clone(unit))
        {
            self.group = time.saturating_since(before.decode_time());
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
    pub(super) fn discontinue(&mut self, shared: &Shared, broadcast: &Broadcast) {
        self.flush(shared, broadcast);
        if let Some(rendition) = &self.rendition {
            rendition.discontinue();
        }
    }

    /// Adds gaps for a source that has sent nothing for a Target Duration, or lets silence stand in for audio
    /// while other tracks go on. `newest`: the newest time of all tracks, and when it came.
    pub(super) fn fill(
        &mut self,
        newest: Option<(MediaTime, Instant)>,
        now: Instant,
        shared: &Shared,
        broadcast: &Broadcast,
    ) {
        let (target, longest) = (shared.terms.target(), shared.terms.longest());
        let stands_in = self.stand_in.is_some();
        let latest = newest.filter(|_| stands_in).or(self.latest);
        let (Some((time, came)), true) = (latest, self.rendition.is_some()) else {
            return;
        };
        let since = |came| now.saturating_duration_since(came);
        let silence = since(came);
        if silence < longest {
            return;
        }
        let is_alone =
            self.key.kind == Kind::Audio && newest.is_some_and(|(_, came)| since(came) < longest);
        if is_alone && self.begin_to_stand_in(time, shared, broadcast) {
            return;
        }
        if !self.silent {
            self.flush(shared, broadcast);
            self.silent = true;
        }
        let present = time + silence;
        while let (Some(end), Some(rendition)) = (self.end, &self.rendition)
            && present.saturating_since(end) >= target
        {
            rendition.push_gap(target, self.date(end, shared));
            self.end = Some(end + target);
        }
        // What stands in begins anew behind the gap.
        self.stand_in = None;
    }

    /// Returns the date of what is decoded at `time` on the stream's timeline.
    fn date(&self, time: MediaTime, shared: &Shared) -> Duration {
        shared.dates.of(time + self.lead.unwrap_or_default())
    }

    fn flush(&mut self, shared: &Shared, broadcast: &Broadcast) {
        if let Some(fragmenter) = &mut self.fragmenter {
            fragmenter.flush();
        }
        self.drain(shared, broadcast);
    }

    /// Writes what the fragmenter has.
    fn drain(&mut self, shared: &Shared, broadcast: &Broadcast) -> Change {
        let mut change = Change::Nothing;
        while let Some(output) = self.fragmenter.as_mut().and_then(Fragmenter::poll) {
            match output {
                Output::Header(header) => {
                    if self.set_header(&header, shared, broadcast) {
                        change = Change::Header;
                    }
                }
                Output::Fragment(fragment) => {
                    if self.write(&fragment, shared) && change == Change::Nothing {
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
    fn set_header(&mut self, new: &NewHeader, shared: &Shared, broadcast: &Broadcast) -> bool {
        let (bytes, description) = (new.header.segment(), self.describe(&new.header));
        let Some(rendition) = &self.rendition else {
            let rendition = self.new_rendition(bytes, description, shared);
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

    fn new_rendition(&self, header: Bytes, description: Description, shared: &Shared) -> Rendition {
        let terms = Terms {
            part_target: self.part_target,
            independent: self.key.kind == Kind::Audio,
            ..shared.terms
        };
        let first = Numbers {
            discontinuity: shared.first.discontinuity + shared.changes,
            ..shared.first
        };
        Rendition::new(NewRendition {
            folder: shared.folder(&self.key.name()),
            key: self.key,
            terms,
            first,
            header,
            description,
        })
    }

    /// Adds a part. Returns whether somebody may have waited for it as the first.
    fn write(&mut self, fragment: &Fragment, shared: &Shared) -> bool {
        let Some(rendition) = &self.rendition else {
            return false;
        };
        let origin = shared.origin.unwrap_or_default();
        let begin = origin + fragment.decode_time.saturating_since(MediaTime::ZERO);
        if let Some(mut end) = self.end.filter(|_| self.silent) {
            while begin.saturating_since(end) > SMALL {
                let gap = begin.saturating_since(end).min(shared.terms.target());
                rendition.push_gap(gap, self.date(end, shared));
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
            date: self.date(begin, shared),
        };
        self.cut &= is_first;
        self.is_ending &= !fragment.begins_segment;
        self.end = Some(begin + fragment.duration);
        // One copy for all viewers, each of which then takes one write.
        rendition.push(part, fragment.to_vec().into());
        is_first
    }
}
