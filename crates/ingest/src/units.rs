//! Turns whole access units of a source into media units.
//!
//! ```text
//! TimedUnit ─► ParameterSets ─► UnitPacketizer ─► MediaUnit
//!          └─► Reordering ─► DecodeTimes, where the source states none
//! ```

use glassline_demux::reordering::{DecodeTimes, Reordering};
use glassline_media::{Codec, Kind, MediaTime, MediaUnit, Track, TrackIndex, annexb};
use glassline_rtp::payload::{ParameterSets, h265};
use glassline_rtp::units::TimedUnit;

use super::lack::Lack;
use super::time_order::TimeOrder;
use super::tracks;
use super::unit_packetizer::{UnitPacketizer, UnitTiming};

/// Most NAL units of a keyframe that are searched for its size: parameter sets come first.
const SETS_MAX: usize = 8;

/// Packetizes a source's access units. A keyframe that comes without parameter sets gets the latest
/// ones, or those of the description.
#[derive(Debug)]
pub struct Units {
    tracks: Vec<Track>,
    states: Vec<TrackState>,
    redescribed: bool,
    /// The lack of the video to begin with, before its first keyframe.
    lack: Lack,
}

#[derive(Debug)]
struct TrackState {
    sets: Option<ParameterSets>,
    reordering: Option<Reordering>,
    packetizer: UnitPacketizer,
    video: bool,
    order: TimeOrder,
    decode_times: DecodeTimes,
}

impl TrackState {
    /// Returns the decode time of the next unit, which is presented at `time`.
    fn decode_time(
        &mut self,
        codec: Codec,
        time: MediaTime,
        stated: Option<MediaTime>,
    ) -> MediaTime {
        let depth = match (&self.reordering, codec) {
            _ if !self.video => return time,
            (Some(reordering), _) => reordering.depth(),
            // B-pictures lie between the picture before and the one that is sent ahead of them.
            (None, Codec::Mpeg4Visual | Codec::MpegVideo) => 1,
            (None, _) => 0,
        };
        stated.unwrap_or_else(|| self.decode_times.next(time, depth))
    }

    /// Returns the time of the next unit, given the one that the source states. Only with B-frames do
    /// times go back; some cameras step back without.
    fn time(&mut self, codec: Codec, stated: MediaTime) -> MediaTime {
        let goes_back = match &self.reordering {
            Some(reordering) => reordering.is_reordered(),
            None => matches!(codec, Codec::Mpeg4Visual | Codec::MpegVideo),
        };
        match goes_back {
            true => stated,
            false => self.order.time(stated),
        }
    }
}

impl Units {
    /// Creates the state of tracks as their description has them.
    pub fn new(tracks: Vec<Track>) -> Self {
        let state = |track: &Track| TrackState {
            sets: ParameterSets::of(track),
            reordering: reordering(track),
            packetizer: UnitPacketizer::new(track),
            video: track.kind() == Kind::Video,
            order: TimeOrder::default(),
            decode_times: DecodeTimes::default(),
        };
        Self {
            states: tracks.iter().map(state).collect(),
            tracks: tracks.into_iter().map(tracks::as_sent).collect(),
            redescribed: false,
            lack: Lack::default(),
        }
    }

    /// Returns the tracks as they are to be published, with the parameter sets seen so far.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Returns whether a stream can be published from this unit on: a keyframe of the video, or any
    /// unit if there is only audio.
    pub fn starts(&self, media_unit: &MediaUnit) -> bool {
        let video = self.states.iter().position(|state| state.video);
        video.is_none_or(|video| media_unit.track == TrackIndex(video) && media_unit.keyframe)
    }

    /// Returns whether a track is video.
    pub fn has_video(&self) -> bool {
        self.states.iter().any(|state| state.video)
    }

    /// Returns what the source lacks, if it has sent no unit to begin with.
    pub const fn lack(&self) -> Lack {
        self.lack
    }

    /// Appends the media units of an access unit to `out`. Ignores a unit of an unknown track.
    pub fn push(&mut self, unit: TimedUnit, out: &mut Vec<MediaUnit>) {
        let Some(state) = self.states.get_mut(unit.track.get()) else {
            return;
        };
        let track = &mut self.tracks[unit.track];
        if let Some(reordering) = &mut state.reordering {
            reordering.push(&unit.data, unit.after_loss);
            let is_reordered = reordering.is_reordered();
            self.redescribed |= track.video.reordered != is_reordered;
            track.video.reordered = is_reordered;
        }
        let time = state.time(track.codec, unit.time);
        let timing = UnitTiming {
            track: unit.track,
            time,
            decode_time: state.decode_time(track.codec, time, unit.decode_time),
            origin: unit.received,
        };
        if state.video {
            self.lack = match unit.keyframe || self.lack == Lack::Sets(track.codec) {
                true => Lack::Sets(track.codec),
                false => Lack::Keyframes(track.codec),
            };
        }
        let (temporal, begins) = (unit.temporal, out.len());
        let (keyframe, data) = match &mut state.sets {
            Some(sets) => sets.complete(unit.keyframe, unit.data),
            None => (unit.keyframe || !state.video, unit.data),
        };
        state.packetizer.packetize(&data, keyframe, timing, out);
        let made = out.iter_mut().skip(begins);
        made.for_each(|it| it.temporal = temporal);
        if let Some(sets) = &mut state.sets {
            sets.describe(track);
        }
        if keyframe
            && state.video
            && let Some(size) = frame_size(track, &data)
            && size != (track.video.width, track.video.height)
        {
            (track.video.width, track.video.height) = size;
            self.redescribed = true;
        }
    }

    /// Returns the tracks if it turned out since the last call that a track has B-frames, or no
    /// longer has them, or that its frames have another size.
    pub fn take_redescribed(&mut self) -> Option<&[Track]> {
        std::mem::take(&mut self.redescribed).then_some(&self.tracks)
    }
}

/// Returns width and height of a keyframe in pixels, where its coding tells them at a fixed place.
fn frame_size(track: &Track, keyframe: &[u8]) -> Option<(u32, u32)> {
    match track.codec {
        // The parameter sets in the description are those of the first keyframe.
        Codec::H264 | Codec::H265 => annexb::nals(keyframe)
            .take(SETS_MAX)
            .find_map(|nal| glassline_demux::frame_size(track.codec, nal)),
        // RFC 6386 §9.1: a frame tag, a start code, and 14 bits for each side.
        Codec::Vp8 => {
            let header: &[u8; 10] = keyframe.first_chunk()?;
            let [width, height] = [6, 8].map(|at| {
                let bytes = [header[at], header[at + 1] & 0x3f];
                u32::from(u16::from_le_bytes(bytes))
            });
            (header[3..6] == [0x9d, 0x01, 0x2a]).then_some((width, height))
        }
        _ => None,
    }
}

/// Creates the detector of B-frames for a track, starting from its description; `None` for a codec
/// without them.
fn reordering(track: &Track) -> Option<Reordering> {
    let mut reordering = Reordering::of(track.codec)?;
    let sets = match track.codec {
        Codec::H264 => vec![track.video.sps.clone(), track.video.pps.clone()],
        _ => h265::sets_of(track),
    };
    for set in sets {
        let unit = [&[0], &annexb::START_CODE[..], &set].concat();
        reordering.push(&unit, false);
    }
    Some(reordering)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use glassline_media::{MediaTime, Temporal};

    use super::*;

    fn keyframe(data: Vec<u8>) -> TimedUnit {
        TimedUnit {
            track: TrackIndex(0),
            time: MediaTime::ZERO,
            decode_time: None,
            keyframe: true,
            after_loss: false,
            temporal: Temporal::default(),
            data,
            received: Instant::now(),
        }
    }

    /// The first frames of a film with B-frames, and its parameter sets.
    fn film() -> (Vec<TimedUnit>, [Vec<u8>; 2]) {
        let film = include_bytes!("../../demux/samples/b-frames.h264");
        let mut splitter = glassline_demux::live::Splitter::new();
        splitter.push(film).expect("a good file");
        let units = std::iter::from_fn(|| splitter.next_unit()).take(6);
        let units: Vec<_> = units
            .map(|it| TimedUnit {
                keyframe: it.keyframe,
                ..keyframe(it.data.to_vec())
            })
            .collect();
        let set = |kind| {
            let nal = annexb::nals(&units[0].data).find(|nal| nal[0] & 0x1f == kind);
            nal.expect("the film begins with its sets").to_vec()
        };
        let sets = [set(7), set(8)];
        (units, sets)
    }

    #[test]
    fn b_frames_are_known_by_the_sets_of_the_description() {
        let (film, [sps, pps]) = film();
        let is_reordered = |track: Track| {
            let (mut units, mut out) = (Units::new(vec![track]), Vec::new());
            for unit in &film {
                let nals = annexb::nals(&unit.data).filter(|nal| !matches!(nal[0] & 0x1f, 7 | 8));
                let frames = nals.flat_map(|nal| [&[0, 0, 0, 1], nal].concat());
                let data = frames.collect();
                let unit = TimedUnit {
                    data,
                    ..unit.clone()
                };
                units.push(unit, &mut out);
            }
            let told = units.take_redescribed().is_some();
            assert_eq!(out.len(), film.len());
            (told, units.tracks()[0].video.reordered)
        };
        let mut described = Track::new(Codec::H264);
        (described.video.sps, described.video.pps) = (sps, pps);
        assert_eq!(is_reordered(described), (true, true));
        let plain = Track::new(Codec::H264);
        assert_eq!(is_reordered(plain), (false, false), "nobody can know");
    }

    /// RTP carries presentation times alone. The demuxer decodes frames as late as it can, which is a frame
    /// later than `h264-aac.mp4` states.
    #[test]
    fn decode_times_of_b_frames_are_those_that_their_container_states() {
        for (sample, ahead_ns) in [("h264-aac.mp4", 40_000_000), ("h265-opus.mp4", 0)] {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../demux/samples");
            let path = std::path::Path::new(folder).join(sample);
            let options = glassline_demux::Options {
                once: true,
                ..Default::default()
            };
            let mut file = glassline_demux::open(&[path], &options).expect("a sample");
            let (mut units, mut out) = (Units::new(file.tracks().to_vec()), Vec::new());
            let mut reordered = 0;
            while let Some(frame) = file.next_frame().expect("a good file") {
                let unit = TimedUnit {
                    track: frame.track,
                    time: frame.time,
                    keyframe: frame.keyframe,
                    ..keyframe(frame.data.to_vec())
                };
                units.push(unit, &mut out);
                let unit = out.pop().expect("a unit");
                let stated = match frame.track {
                    TrackIndex(0) => frame.decode_time.nanos() - ahead_ns,
                    _ => frame.time.nanos(),
                };
                let apart = unit.decode_time().nanos() - stated;
                assert!(
                    apart.abs() < 1000,
                    "{sample}: {apart} ns at {:?}",
                    frame.time
                );
                reordered += u32::from(unit.decode_time() < unit.time);
            }
            assert!(reordered > 20, "{sample}: {reordered}");
        }
    }

    #[test]
    fn times_go_back_with_b_frames_only() {
        let steps = [0, 40, 80, -220, 160, 200, 200, 240];
        let times = |codec, sets: Option<[Vec<u8>; 2]>| {
            let mut track = Track::new(codec);
            if let Some([sps, pps]) = sets {
                (track.video.sps, track.video.pps) = (sps, pps);
            }
            let (mut units, mut out) = (Units::new(vec![track]), Vec::new());
            let (film, _) = film();
            for ms in steps {
                let unit = TimedUnit {
                    time: MediaTime::from_nanos(ms * 1_000_000),
                    ..film[0].clone()
                };
                units.push(unit, &mut out);
            }
            let ms = out.iter().map(|it| it.time.nanos() / 1_000_000);
            ms.collect::<Vec<_>>()
        };
        let forwards = [0, 40, 80, 120, 160, 200, 201, 240];
        assert_eq!(times(Codec::Vp8, None), forwards, "scottlamb/retina#64");
        assert_eq!(times(Codec::Mpeg4Visual, None), steps, "nobody knows");
        let (_, sets) = film();
        assert_eq!(
            times(Codec::H264, Some(sets)),
            steps,
            "a film with B-frames"
        );
    }

    #[test]
    fn the_size_of_h264_is_that_of_the_sets_before_its_keyframe() {
        let (film, [sps, _]) = film();
        let mut units = Units::new(vec![Track::new(Codec::H264)]);
        let mut out = Vec::new();
        let stranger = TimedUnit {
            track: TrackIndex(1),
            ..film[0].clone()
        };
        units.push(stranger, &mut out);
        assert!(out.is_empty() && units.take_redescribed().is_none());
        units.push(film[0].clone(), &mut out);
        let video = &units.tracks()[0].video;
        let size = glassline_demux::frame_size(Codec::H264, &sps);
        assert!(video.width > 0);
        assert_eq!(Some((video.width, video.height)), size);
        assert!(units.take_redescribed().is_some());
        assert!(units.starts(&out[0]), "a keyframe");
        units.push(film[1].clone(), &mut out);
        assert!(!units.starts(&out[1]));
    }

    #[test]
    fn the_size_of_vp8_is_that_of_its_latest_keyframe() {
        let mut units = Units::new(vec![Track::new(Codec::Vp8)]);
        let frame = |width: u8| vec![0x10, 0, 0, 0x9d, 0x01, 0x2a, width, 0x05, 0xd0, 0x42, 7];
        let mut out = Vec::new();
        for (width, size) in [(0, 1280), (0, 1280), (8, 1288)] {
            units.push(keyframe(frame(width)), &mut out);
            let video = &units.tracks()[0].video;
            assert_eq!((video.width, video.height), (size, 720));
        }
        assert!(units.take_redescribed().is_some());
        units.push(keyframe(frame(8)), &mut out);
        assert!(units.take_redescribed().is_none(), "nothing new");
        units.push(keyframe(vec![1, 2, 3]), &mut out);
        assert_eq!(units.tracks()[0].video.width, 1288, "damaged");
    }
}
