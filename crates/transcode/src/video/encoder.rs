//! OpenH264's encoder: Constrained Baseline, no frame waits in it.

use glassline_media::{Bitrate, MediaTime};
use openh264::encoder::{
    BitRate, Complexity, Encoder as Cisco, EncoderConfig, FrameRate, FrameType, IntraFramePeriod,
    Profile, QpRange, RateControlMode, UsageType,
};
use openh264::formats::YUVSource;
use openh264::{OpenH264API, Timestamp};

use super::decoder::Decoded;

/// Seconds between keyframes without a request. A viewer that joins begins with the latest one.
const KEYFRAME_S: f64 = 2.0;

/// Quantizer of a picture that is repeated: the picture is known, and grey.
const STILL_QP: u8 = 28;

/// An encoder of pictures of one size.
pub(crate) struct Encoder {
    cisco: Cisco,
    size: (usize, usize),
    is_begun: bool,
}

impl Encoder {
    /// Starts an encoder; the error is OpenH264's text.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "1 to 240 frames, and bitrates of some Mbit/s"
    )]
    pub(super) fn new(size: (usize, usize), fps: f64, bitrate: Bitrate) -> Result<Self, String> {
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
    pub(crate) fn of_still(size: (usize, usize), group: usize) -> Result<Self, String> {
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

    fn with(settings: EncoderConfig, size: (usize, usize)) -> Result<Self, String> {
        let cisco = Cisco::with_api_config(OpenH264API::from_source(), settings);
        Ok(Self {
            cisco: cisco.map_err(|error| error.to_string())?,
            size,
            is_begun: false,
        })
    }

    pub(super) fn fits(&self, decoded: &Decoded<'_>) -> bool {
        self.size == decoded.size
    }

    pub(super) const fn size(&self) -> (usize, usize) {
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
        let millis = u64::try_from(time.nanos() / 1_000_000).unwrap_or(0);
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
