//! Units in the place of those of a track that the source does not have any more.
//!
//! Players have been told of all playlists when they began, and play on only while each that they play goes
//! on: a browser stops where it has video and no audio. A gap (§4.4.4.7) says the truth, and leaves them
//! standing. So silence takes the place of audio, and the newest keyframe that of video, in the codec that
//! players were told of.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::aac::{AudioSpecificConfig, from_hex};
use glassline_media::{
    Codec, DecodeLead, MediaTime, MediaUnit, Stamps, Track, TrackIndex, UnitBuilder,
};

/// Packet of Opus with 20 ms of silence: one frame of CELT, full band (RFC 6716 §3.1, §4.3).
const OPUS: &[u8] = &[0xf8, 0xff, 0xfe];

/// Raw data blocks of AAC-LC (ISO/IEC 14496-3 §4.4.2.1) without a spectrum: of one channel element, and of
/// a pair.
const AAC_MONO: &[u8] = &[0, 0, 0, 0x07];
const AAC_STEREO: &[u8] = &[0x20, 0, 0, 0, 0, 0, 0x0e];

/// Duration of a packet of what is no AAC.
const PACKET: Duration = Duration::from_millis(20);

/// A unit that is repeated.
#[derive(Clone, Debug)]
pub(super) struct StandIn {
    unit: MediaUnit,
    /// Time from one unit to the next, and from decoding one until it is presented.
    step: Duration,
    lead: Duration,
    /// Time at which the next unit is decoded.
    next: MediaTime,
}

impl StandIn {
    /// Returns silence in the place of `track` from `next` on; `None` for AAC of more than two channels.
    pub(super) fn silence(index: TrackIndex, track: &Track, next: MediaTime) -> Option<Self> {
        let samples = track.clock_rate as usize / 50;
        let (packet, step) = match track.codec {
            Codec::Opus => (OPUS.to_vec(), PACKET),
            Codec::Pcmu => (vec![0xff; samples], PACKET),
            Codec::Pcma => (vec![0xd5; samples], PACKET),
            Codec::L16 => (vec![0; samples * usize::from(track.channels) * 2], PACKET),
            Codec::Aac => aac(track)?,
            _ => return None,
        };
        let mut builder = UnitBuilder::default();
        builder.push(&packet);
        let stamps = Stamps::arrived(Instant::now());
        let unit = builder.build(index, MediaTime::ZERO, true, stamps)?;
        Some(Self {
            unit,
            step,
            lead: Duration::ZERO,
            next,
        })
    }

    /// Returns a frame in the place of video from `next` on: the frame of `keyframe`, once in each part of
    /// at most `part`, and presented `lead` after it is decoded.
    pub(super) fn frozen(
        keyframe: &MediaUnit,
        part: Duration,
        next: MediaTime,
        lead: Duration,
    ) -> Self {
        Self {
            unit: keyframe.clone(),
            step: part * 9 / 10,
            lead,
            next,
        }
    }

    /// Returns the time up to which there are units.
    pub(super) const fn end(&self) -> MediaTime {
        self.next
    }

    /// Returns the next unit, once the other tracks have `reached` its end.
    pub(super) fn next_unit(&mut self, reached: MediaTime, now: Instant) -> Option<Arc<MediaUnit>> {
        let decoded = self.next;
        if decoded + self.step > reached {
            return None;
        }
        self.next = decoded + self.step;
        let presented = decoded + self.lead;
        let mut unit = self.unit.clone();
        (unit.time, unit.stamps) = (presented, Stamps::arrived(now));
        unit.decode_lead = DecodeLead::between(decoded, presented);
        Some(Arc::new(unit))
    }
}

/// Returns a silent frame of the configuration in a track's format parameters (RFC 3640 §4.1), and its
/// duration.
fn aac(track: &Track) -> Option<(Vec<u8>, Duration)> {
    let mut parameters = track.format_parameters.split(';').map(str::trim);
    let config = parameters.find_map(|it| it.strip_prefix("config="))?;
    let config = AudioSpecificConfig::parse(&from_hex(config)?)?;
    let frame = match config.channels.unwrap_or(track.channels) {
        1 => AAC_MONO,
        2 => AAC_STEREO,
        _ => return None,
    };
    let seconds = f64::from(config.samples) / f64::from(config.coded_rate.max(1));
    Some((frame.to_vec(), Duration::from_secs_f64(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: MediaTime = MediaTime::from_nanos(7_000_000);

    #[test]
    fn there_is_silence_in_each_codec_that_is_carried() {
        let aac = |config: &str| {
            Track::audio(Codec::Aac, 2).with_format_parameters(format!("config={config}"))
        };
        let l16 = Track::audio(Codec::L16, 2).with_clock_rate(48_000);
        for (track, bytes, micros) in [
            (Track::audio(Codec::Opus, 2), 3, 20_000),
            (Track::audio(Codec::Pcmu, 1), 160, 20_000),
            (l16, 3840, 20_000),
            (aac("1188"), 4, 21_333),
            (aac("1210"), 7, 23_219),
        ] {
            let silence = StandIn::silence(TrackIndex(1), &track, FROM).expect("silence");
            assert_eq!(silence.unit.payload_bytes(), bytes, "{track:?}");
            assert_eq!(silence.step.as_micros(), micros, "{track:?}");
        }
        let surround = StandIn::silence(TrackIndex(1), &aac("11b0"), FROM);
        assert!(surround.is_none(), "5.1");
    }

    #[test]
    fn units_follow_each_other_up_to_what_the_other_tracks_have() {
        let track = Track::audio(Codec::Opus, 2);
        let silence = StandIn::silence(TrackIndex(1), &track, FROM).expect("silence");
        let lead = Duration::from_millis(80);
        let frozen = StandIn::frozen(&silence.unit, Duration::from_millis(200), FROM, lead);
        for (mut stand_in, count, lead) in [(silence, 50, Duration::ZERO), (frozen, 5, lead)] {
            let reached = FROM + Duration::from_secs(1);
            let next = || stand_in.next_unit(reached, Instant::now());
            let units: Vec<_> = std::iter::from_fn(next).collect();
            assert_eq!(units.len(), count);
            assert_eq!(units[0].decode_time(), FROM);
            assert_eq!(units[0].time, FROM + lead);
            assert!(stand_in.end() <= reached);
        }
    }
}
