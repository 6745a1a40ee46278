//! Model of a live encoder: frames at a fixed rate in groups that begin with a keyframe, at the
//! bitrate that it is set to, and audio at a bitrate of its own.

use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::congestion::session::Source;

/// Duration of a piece of audio: Opus's usual frame.
const AUDIO_PERIOD: Duration = Duration::from_millis(20);

/// A frame or a piece of audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Media {
    /// A frame of this size in bytes; `opens_group` is true for a keyframe.
    Frame { bytes: u64, opens_group: bool },
    /// A piece of audio of this size in bytes.
    Audio { bytes: u64 },
}

/// A camera with its encoder and its microphone.
#[derive(Clone, Debug)]
pub(super) struct Camera {
    source: Source,
    start: Instant,
    /// Number of frames made so far.
    video_frames: u64,
    audio_packets: u64,
}

impl Camera {
    /// A camera whose first frame is due at `start`.
    pub(super) fn new(source: Source, start: Instant) -> Self {
        Self {
            source,
            start,
            video_frames: 0,
            audio_packets: 0,
        }
    }

    /// Time at which the next frame or piece of audio is due.
    pub(super) fn due(&self) -> Instant {
        self.audio_due()
            .map_or(self.frame_due(), |audio| audio.min(self.frame_due()))
    }

    /// Returns the media due at `now`, encoded at `target`. Call until `None`.
    pub(super) fn poll(&mut self, now: Instant, target: Bitrate) -> Option<Media> {
        if self.frame_due() <= now {
            let opens_group = self.video_frames.is_multiple_of(self.group_frames());
            self.video_frames += 1;
            let bytes = self.frame_bytes(target, opens_group);
            return Some(Media::Frame { bytes, opens_group });
        }
        if self.audio_due().is_some_and(|due| due <= now) {
            self.audio_packets += 1;
            let bits = u128::from(self.source.audio.bps()) * AUDIO_PERIOD.as_millis() / 1000;
            let bytes = u64::try_from(bits / 8).unwrap_or(u64::MAX);
            return Some(Media::Audio { bytes });
        }
        None
    }

    fn group_frames(&self) -> u64 {
        let frames = self.source.group.as_secs_f64() * self.frames_per_second();
        // A positive number of frames; a cast saturates.
        let frames = frames.round() as u64;
        frames.max(1)
    }

    /// Size of a frame: a keyframe has the size of several mean frames, the other frames of its
    /// group share the rest.
    fn frame_bytes(&self, target: Bitrate, opens_group: bool) -> u64 {
        let frames = self.group_frames() as f64;
        let mean = target.bps() as f64 / 8.0 / self.frames_per_second();
        let key = self.source.keyframe_weight.clamp(0.0, frames);
        let weight = if opens_group {
            key
        } else {
            (frames - key) / (frames - 1.0).max(1.0)
        };
        (mean * weight) as u64
    }

    /// Frame rate, at least one frame in three hours, so that an interval exists.
    fn frames_per_second(&self) -> f64 {
        self.source.frames_per_second.max(1e-4)
    }

    fn frame_due(&self) -> Instant {
        self.start + Duration::from_secs_f64(self.video_frames as f64 / self.frames_per_second())
    }

    fn audio_due(&self) -> Option<Instant> {
        let periods = u32::try_from(self.audio_packets).ok()?;
        (self.source.audio.bps() > 0).then(|| self.start + AUDIO_PERIOD * periods)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_the_bitrate_and_begins_with_a_frame_five_times_as_large() {
        let start = Instant::now();
        let source = Source {
            audio: Bitrate::from_bps(64_000),
            ..Source::default()
        };
        let mut camera = Camera::new(source, start);
        let (mut video_frames, mut audio, mut keys) = (Vec::new(), 0, Vec::new());
        while camera.due() < start + Duration::from_secs(4) {
            match camera.poll(camera.due(), Bitrate::from_bps(3_000_000)) {
                Some(Media::Frame { bytes, opens_group }) => {
                    if opens_group {
                        keys.push(video_frames.len());
                    }
                    video_frames.push(bytes);
                }
                Some(Media::Audio { bytes }) => audio += bytes,
                None => panic!("nothing was due"),
            }
        }
        assert_eq!((video_frames.len(), keys), (120, vec![0, 60]));
        assert_eq!(video_frames[0], 62_500);
        assert_eq!(audio, 4 * 8_000);
        let total: u64 = video_frames.iter().sum();
        assert!((1_499_000..=1_500_000).contains(&total), "{total}");
    }
}
