//! OpenH264's encoder: Constrained Baseline, no frame waits in it.

use glassline_media::{Bitrate, MediaTime};
use openh264::encoder::{
    BitRate, Complexity, Encoder as Cisco, EncoderConfig, FrameRate, FrameType, IntraFramePeriod,
    Profile, QpRange, RateControlMode, UsageType,
};
use openh264::formats::YUVSource;
use openh264::{OpenH264API, Timestamp};

use crate::FrameSize;

/// Seconds between keyframes without a request. A viewer that joins begins with the latest one.
const KEYFRAME_S: f64 = 2.0;

/// Quantizer of a picture that is repeated: the picture is known, and grey.
const STILL_QP: u8 = 28;

/// An encoder of pictures of one size.
pub(crate) struct Encoder {
    cisco: Cisco,
    size: FrameSize,
    is_begun: bool,
}

impl Encoder {
    /// Starts an encoder; the error is OpenH264's text.
    pub(super) fn new(size: FrameSize, fps: f64, bitrate: Bitrate) -> Result<Self, String> {
        let period = (fps * KEYFRAME_S).round() as u32;
        let settings = EncoderConfig::new()
            .usage_type(UsageType::CameraVideoRealTime)
            .profile(Profile::Baseline)
            .complexity(Complexity::Low)
            .rate_control_mode(RateControlMode::Bitrate)
            .bitrate(BitRate::from_bps(bitrate.bps() as u32))
            .max_frame_rate(FrameRate::from_hz(fps as f32))
            .skip_frames(true)
            .scene_change_detect(false)
            .intra_frame_period(IntraFramePeriod::from_num_frames(period.max(1)))
            .num_threads(1);
        Self::with(settings, size)
    }

    /// Starts an encoder of one picture that is repeated, with a keyframe in each `group` of frames;
    /// the error is OpenH264's text.
    pub(crate) fn of_still(size: FrameSize, group: usize) -> Result<Self, String> {
        let period = u32::try_from(group).unwrap_or(1);
        let settings = EncoderConfig::new()
            .usage_type(UsageType::CameraVideoRealTime)
            .profile(Profile::Baseline)
            .complexity(Complexity::Low)
            .rate_control_mode(RateControlMode::Off)
            .qp(QpRange::new(STILL_QP, STILL_QP))
            .max_frame_rate(FrameRate::from_hz(1.0))
            .skip_frames(false)
            .scene_change_detect(false)
            .intra_frame_period(IntraFramePeriod::from_num_frames(period))
            .num_threads(1);
        Self::with(settings, size)
    }

    fn with(settings: EncoderConfig, size: FrameSize) -> Result<Self, String> {
        let cisco = Cisco::with_api_config(OpenH264API::from_source(), settings);
        Ok(Self {
            cisco: cisco.map_err(|error| error.to_string())?,
            size,
            is_begun: false,
        })
    }

    pub(super) const fn size(&self) -> FrameSize {
        self.size
    }

    /// Makes the next frame a keyframe.
    pub(super) fn request_keyframe(&mut self) {
        // The first one is, and before it the encoder takes no requests.
        if self.is_begun {
            self.cisco.force_intra_frame();
        }
    }

    /// Encodes a picture that is shown at `time`. Returns the access unit, and whether it is a
    /// keyframe; `None` if the encoder left the picture out.
    pub(crate) fn encode(
        &mut self,
        image: &impl YUVSource,
        time: MediaTime,
    ) -> Result<Option<(Vec<u8>, bool)>, String> {
        self.is_begun = true;
        let millis = time.saturating_since(MediaTime::ZERO).as_millis();
        let millis = u64::try_from(millis).unwrap_or(0);
        let coded = self
            .cisco
            .encode_at(image, Timestamp::from_millis(millis))
            .map_err(|error| error.to_string())?;
        let keyframe = match coded.frame_type() {
            FrameType::IDR => true,
            FrameType::I | FrameType::P | FrameType::IPMixed => false,
            FrameType::Skip => return Ok(None),
            FrameType::Invalid => return Err("it returned an invalid frame".to_owned()),
        };
        let data = coded.to_vec();
        Ok((!data.is_empty()).then_some((data, keyframe)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grey picture of 32 by 16 pixels, of one level.
    struct Grey([u8; 512]);

    impl YUVSource for Grey {
        fn dimensions(&self) -> (usize, usize) {
            (32, 16)
        }
        fn strides(&self) -> (usize, usize, usize) {
            (32, 16, 16)
        }
        fn y(&self) -> &[u8] {
            &self.0
        }
        fn u(&self) -> &[u8] {
            &[128; 128]
        }
        fn v(&self) -> &[u8] {
            &[128; 128]
        }
    }

    /// Encodes frames, before some of which a keyframe is requested. Returns whether they are
    /// keyframes.
    fn keyframes(encoder: &mut Encoder, frames: i64, requested: &[i64]) -> Vec<bool> {
        let coded = (0..frames).map(|number| {
            if requested.contains(&number) {
                encoder.request_keyframe();
            }
            let image = Grey([100 + number as u8; 512]);
            let time = MediaTime::from_nanos(number * 500_000_000);
            let coded = encoder.encode(&image, time).expect("encoded");
            let (data, keyframe) = coded.expect("a frame");
            assert!(data.starts_with(&[0, 0, 0, 1]), "Annex B");
            let parameters = data[4] & 0x1f == 7;
            assert_eq!(keyframe, parameters, "parameter sets come with keyframes");
            keyframe
        });
        coded.collect()
    }

    #[test]
    fn a_still_frame_has_a_keyframe_in_each_group() {
        let mut encoder = Encoder::of_still(FrameSize::new(32, 16), 3).expect("an encoder");
        assert_eq!(encoder.size(), FrameSize::new(32, 16));
        let group = [true, false, false];
        assert_eq!(keyframes(&mut encoder, 6, &[]), [group, group].concat());
    }

    #[test]
    fn keyframes_come_every_two_seconds_and_on_request() {
        let bitrate = Bitrate::from_bps(1_000_000);
        let size = FrameSize::new(32, 16);
        let mut encoder = Encoder::new(size, 2.0, bitrate).expect("an encoder");
        let made = keyframes(&mut encoder, 9, &[]);
        let expected: Vec<_> = (0..9).map(|number| number % 4 == 0).collect();
        assert_eq!(made, expected);
        let mut encoder = Encoder::new(size, 30.0, bitrate).expect("an encoder");
        let made = keyframes(&mut encoder, 6, &[0, 3]);
        assert_eq!(made, [true, false, false, true, false, false]);
    }
}
