use std::collections::VecDeque;
use std::time::Instant;

use glassline_media::{Codec, Kind, MediaTime, Track, TrackIndex, VideoParameters};
use glassline_rtp::payload::{ParameterSets, UnsupportedFormat, h265, parameter};
use glassline_rtp::units::{TimedUnit, UnitReceiver};
use glassline_rtsp::sdp::{ChosenTracks, Description};

use crate::publish::clock::Timeline;
use crate::publish::unit::Unit;

/// The tracks of a camera that are sent: makes units of their packets.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Index of each track in the camera's description.
    described: Vec<TrackIndex>,
    /// The tracks as the camera describes them.
    chosen: Vec<Track>,
    /// The tracks as they are announced to the destination.
    pub(super) tracks: Vec<Track>,
    source: UnitReceiver,
    /// Parameter sets of each track, which every keyframe gets.
    sets: Vec<Option<ParameterSets>>,
    /// Units that the publisher's session has not taken yet: those of one read.
    units: VecDeque<TimedUnit>,
    /// Time on the stream's timeline of the camera's time zero.
    zero: Option<MediaTime>,
}

impl Receiver {
    /// Prepares to receive the `chosen` tracks of `description` within the connection.
    pub(super) fn new(
        chosen: ChosenTracks,
        description: &Description,
    ) -> Result<Self, UnsupportedFormat> {
        let (described, tracks): (Vec<_>, Vec<_>) = chosen.tracks.into_iter().unzip();
        let mut source = UnitReceiver::new(&tracks)?;
        for (track, described) in TrackIndex::enumerate(&described) {
            let media = &description.tracks[*described];
            source
                .packets()
                .expect_payload_types(track, media.payload_types());
        }
        Ok(Self {
            described,
            source,
            sets: tracks.iter().map(ParameterSets::of).collect(),
            tracks: tracks.iter().cloned().map(announced).collect(),
            chosen: tracks,
            units: VecDeque::new(),
            zero: None,
        })
    }

    /// Leaves out a track that the camera refuses, before anything was received.
    pub(super) fn leave_out(&mut self, described: TrackIndex) -> Result<(), UnsupportedFormat> {
        let mut used = self.described.iter();
        let Some(at) = used.position(|it| *it == described) else {
            return Ok(());
        };
        self.described.remove(at);
        self.chosen.remove(at);
        self.tracks.remove(at);
        self.sets.remove(at);
        self.source.leave_out(TrackIndex(at), &self.chosen)
    }

    /// Returns the index in the camera's description of each track.
    pub(super) fn described(&self) -> &[TrackIndex] {
        &self.described
    }

    /// Takes an RTP packet of the camera's track `described`, or an RTCP packet if `control` is
    /// set. Returns whether it is media of a track that is sent.
    pub(super) fn take(
        &mut self,
        described: TrackIndex,
        control: bool,
        bytes: &[u8],
        now: Instant,
    ) -> bool {
        let mut used = self.described.iter();
        let Some(track) = used.position(|it| *it == described).map(TrackIndex) else {
            return false;
        };
        let units = &mut self.units;
        let sink = |unit| units.push_back(unit);
        self.source.take(track, control, bytes, now, sink)
    }

    /// Returns the next unit, at its time on `timeline`.
    pub(super) fn poll_unit(&mut self, timeline: &Timeline) -> Option<Unit> {
        let unit = self.units.pop_front()?;
        let zero = *self.zero.get_or_insert_with(|| {
            timeline.place(unit.received) - unit.time.saturating_since(MediaTime::ZERO)
        });
        let (keyframe, data) = match &mut self.sets[unit.track] {
            Some(sets) => sets.complete(unit.keyframe, unit.data),
            None => (unit.keyframe, unit.data),
        };
        Some(Unit {
            track: unit.track,
            time: MediaTime::from_nanos(zero.nanos().saturating_add(unit.time.nanos())),
            keyframe,
            data: data.into(),
            made: unit.received,
        })
    }
}

/// Chooses the first video track and the first audio track that the destination `carries`.
pub(super) fn choose(description: &Description, carries: fn(&Track) -> bool) -> ChosenTracks {
    let mut chosen = description.choose(carries);
    let is_described = |track: &Track| {
        let config = parameter(&track.format_parameters, "config");
        // Without its configuration nobody can decode AAC.
        track.codec != Codec::Aac || config.is_some_and(|config| !config.is_empty())
    };
    let lacking = chosen.tracks.extract_if(.., |(_, it)| !is_described(it));
    let lacking = lacking.map(|(_, track)| format!("{} without configuration", track.codec));
    chosen.left_out.extend(lacking);
    chosen
}

/// Returns the track as it is announced: parameter sets of video are in front of each keyframe, so
/// only the size of its frames is known beforehand.
fn announced(track: Track) -> Track {
    if track.kind() != Kind::Video {
        return track;
    }
    let mut sets = h265::sets_of(&track);
    sets.push(track.video.sps.clone());
    let mut sizes = sets.iter();
    let size = sizes.find_map(|set| glassline_demux::frame_size(track.codec, set));
    let (width, height) = size.unwrap_or_default();
    let mut announced = Track::new(track.codec);
    announced.video = VideoParameters {
        width,
        height,
        ..VideoParameters::default()
    };
    announced
}
