//! Audio in AAC of a track in Opus or G.711, for players that take no other: made once for each stream, from
//! the first request for its playlist on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{
    Bitrate, Codec, LayerIndex, MediaTime, MediaUnit, Stamps, Track, TrackIndex, UnitBuilder,
};
use glassline_transcode::{
    AAC_FRAME_SAMPLES, AacSettings, VoiceError, VoiceFrame, VoiceTarget, VoiceTranscoder,
};

/// Sample rate of the AAC in Hz.
const RATE: u32 = 48_000;

/// AudioSpecificConfig (ISO/IEC 14496-3 §1.6.2.1) of AAC-LC, 48 kHz, one channel.
const CONFIG: &str = "config=1188";

/// Bitrate of the AAC.
pub(super) const BITRATE: u64 = 96_000;

/// Name of the codec in playlists (RFC 6381).
pub(super) const CODEC: &str = "mp4a.40.2";

/// Layer of the frames.
pub(super) const LAYER: LayerIndex = LayerIndex::TRANSCODED;

/// Makes AAC of one track.
pub(super) struct AacMaker {
    track: TrackIndex,
    voice: VoiceTranscoder,
    clock_rate: u32,
    /// Length to whose multiples the times of packets are rounded, in samples.
    grid: i64,
    /// Time of the first packet.
    anchor: Option<MediaTime>,
    /// Samples from the anchor to the latest frame, and its timestamp.
    elapsed: i64,
    timestamp: u32,
    frames: Vec<VoiceFrame>,
}

impl AacMaker {
    /// Duration of a frame.
    pub(super) const FRAME: Duration =
        Duration::from_nanos(AAC_FRAME_SAMPLES as u64 * 1_000_000_000 / RATE as u64);

    /// Returns whether AAC is made of `track`.
    pub(super) fn takes(track: &Track) -> bool {
        matches!(track.codec, Codec::Opus | Codec::Pcmu | Codec::Pcma)
    }

    /// # Errors
    /// Returns why no decoder or encoder can be made.
    pub(super) fn new(index: TrackIndex, track: &Track) -> Result<Self, VoiceError> {
        let settings = AacSettings {
            rate: RATE,
            channels: 1,
            bitrate: Bitrate::from_bps(BITRATE),
        };
        Ok(Self {
            track: index,
            voice: VoiceTranscoder::new(track.codec, VoiceTarget::Aac(settings))?,
            clock_rate: track.clock_rate,
            // Packets of Opus last multiples of 2.5 ms (RFC 6716 §2), those of G.711 whole ms.
            grid: match track.codec {
                Codec::Opus => 120,
                _ => 8,
            },
            anchor: None,
            elapsed: 0,
            timestamp: 0,
            frames: Vec::new(),
        })
    }

    /// Returns the track that the frames are of.
    pub(super) fn track() -> Track {
        Track::audio(Codec::Aac, 1)
            .with_clock_rate(RATE)
            .with_format_parameters(CONFIG)
    }

    /// Takes a unit, and returns the frames that are full.
    pub(super) fn push(&mut self, unit: &MediaUnit) -> Vec<Arc<MediaUnit>> {
        let anchor = *self.anchor.get_or_insert(unit.time);
        let since = unit.time.saturating_since(anchor);
        let since = MediaTime::ZERO + since;
        let samples = since.ticks(self.clock_rate);
        // Times are rounded on their way; a packet that seems late by a sample would be left out.
        let samples = (samples + self.grid / 2) / self.grid * self.grid;
        let payload: Vec<u8> = unit.payloads().flatten().copied().collect();
        let mut frames = std::mem::take(&mut self.frames);
        // Of damaged Opus, silence is made.
        let _ = self.voice.push(samples as u32, &payload, &mut frames);
        let made = frames
            .drain(..)
            .filter_map(|frame| self.unit(&frame, anchor, unit));
        let made = made.collect();
        self.frames = frames;
        made
    }

    /// Returns a frame as a unit on the stream's timeline.
    fn unit(
        &mut self,
        frame: &VoiceFrame,
        anchor: MediaTime,
        source: &MediaUnit,
    ) -> Option<Arc<MediaUnit>> {
        let step = frame.timestamp.wrapping_sub(self.timestamp);
        (self.elapsed, self.timestamp) = (self.elapsed + i64::from(step), frame.timestamp);
        // A decoder returns a frame's samples one frame later.
        let samples = self.elapsed - AAC_FRAME_SAMPLES as i64;
        let from_anchor = MediaTime::from_ticks(samples, RATE);
        let time = MediaTime::from_nanos(anchor.nanos() + from_anchor.nanos());
        let mut builder = UnitBuilder::default();
        builder.push(&frame.data);
        let mut unit = builder.build(self.track, time, true, moved(source, time))?;
        unit.layer = LAYER;
        Some(Arc::new(unit))
    }
}

/// Returns the stamps of `source` for a frame of the time `time`.
fn moved(source: &MediaUnit, time: MediaTime) -> Stamps {
    let earlier = source.time.saturating_since(time);
    let back = |instant: Instant| instant.checked_sub(earlier).unwrap_or(instant);
    Stamps {
        reference: back(source.stamps.reference),
        ..source.stamps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 ms of silence in G.711 µ-law.
    fn packet(number: i64) -> MediaUnit {
        let mut builder = UnitBuilder::default();
        builder.push(&[0xff; 160]);
        // The time of a packet is off by less than a sample now and then.
        let jitter = (number % 3) * 20_000;
        let time = MediaTime::from_nanos(7_000_000_000 + number * 20_000_000 + jitter);
        let unit = builder.build(TrackIndex(1), time, true, Stamps::arrived(Instant::now()));
        unit.expect("a packet")
    }

    #[test]
    fn a_voice_becomes_frames_on_the_same_timeline_without_holes() {
        let track = Track::audio(Codec::Pcmu, 1);
        let mut maker = AacMaker::new(TrackIndex(1), &track).expect("a voice");
        let frames: Vec<_> = (0..100).flat_map(|it| maker.push(&packet(it))).collect();
        assert!((92..=94).contains(&frames.len()), "{}", frames.len());
        let frame = Duration::from_nanos(21_333_333);
        for pair in frames.windows(2) {
            let step = pair[1].time.saturating_since(pair[0].time);
            assert!(step.abs_diff(frame) < Duration::from_micros(1), "{step:?}");
        }
        let begin = MediaTime::from_nanos(7_000_000_000).saturating_since(frames[0].time);
        assert!(
            begin.abs_diff(frame) < Duration::from_micros(1),
            "{begin:?}"
        );
        assert_eq!(frames[0].layer, LAYER);
    }
}
