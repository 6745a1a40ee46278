//! Cisco's OpenH264, compiled from source.
//!
//! It makes constrained baseline, which every browser decodes, with one slice per frame. Its
//! rate control leaves frames out where the content does not fit: on a live path that is
//! better than a queue. Measured with FFmpeg's `testsrc2`, 640 × 360 at 30 frames per second:
//! a change between 0.3 and 2 Mbit/s is followed within a second, to within 5 %.

use std::time::Duration;

use bytes::Bytes;
use glassline_media::Bitrate;
use openh264::encoder::{
    BitRate, ColorPrimaries, Complexity, Encoder as Cisco, EncoderConfig, FrameRate, FrameType,
    IntraFramePeriod, MatrixCoefficients, Profile, RateControlMode, TransferCharacteristics,
    VuiConfig,
};
use openh264::formats::YUVSlices;
use openh264::{OpenH264API, Timestamp};

use super::{Config, Encoded, Encoder, Error, Frame};

/// The encoder's own bound of a layer's bitrate; below it the target alone counts.
const BITRATE_MAX: i32 = 100_000_000;

/// OpenH264 encoder of one stream.
pub struct OpenH264 {
    cisco: Cisco,
    config: Config,
    /// Bitrate that was requested last.
    bitrate: Bitrate,
    /// Whether the encoder has this bitrate.
    is_bitrate_set: bool,
    /// Frames passed in so far.
    number: u64,
}

impl OpenH264 {
    /// Starts an encoder.
    ///
    /// # Errors
    /// [`Error::Start`] if OpenH264 refuses the configuration.
    pub fn new(config: Config) -> Result<Self, Error> {
        let failed = |detail: String| Error::Start {
            width: config.width,
            height: config.height,
            detail,
        };
        let frames = config.fps * config.keyframe_interval.as_secs_f64();
        let period = frames.round().clamp(1.0, 10_000.0) as u32;
        let fps = config.fps as f32;
        let color = VuiConfig::new()
            .color_primaries(ColorPrimaries::Unspecified)
            .transfer_characteristics(TransferCharacteristics::Unspecified)
            .matrix_coefficients(MatrixCoefficients::Unspecified)
            .full_range(config.full_range);
        let settings = EncoderConfig::new()
            .profile(Profile::Baseline)
            .complexity(Complexity::Low)
            .rate_control_mode(RateControlMode::Bitrate)
            .bitrate(BitRate::from_bps(bps(config.bitrate).unsigned_abs()))
            .max_frame_rate(FrameRate::from_hz(fps))
            .skip_frames(true)
            .scene_change_detect(false)
            .intra_frame_period(IntraFramePeriod::from_num_frames(period))
            .num_threads(1)
            .vui(color);
        let api = OpenH264API::from_source();
        let cisco = Cisco::with_api_config(api, settings);
        Ok(Self {
            cisco: cisco.map_err(|error| failed(error.to_string()))?,
            bitrate: config.bitrate,
            is_bitrate_set: true,
            config,
            number: 0,
        })
    }

    /// Passes the bitrate to the encoder, which accepts it only after its first frame.
    fn apply_bitrate(&mut self) {
        if !self.is_bitrate_set && self.number > 0 {
            self.is_bitrate_set = set_bitrate(&mut self.cisco, bps(self.bitrate));
        }
    }
}

impl Encoder for OpenH264 {
    fn encode(&mut self, frame: Frame<'_>, at: Duration) -> Result<Option<Encoded>, Error> {
        self.apply_bitrate();
        let number = self.number;
        self.number += 1;
        let (width, height) = (self.config.width as usize, self.config.height as usize);
        let planes = (frame.y, frame.u, frame.v);
        let strides = (frame.stride, frame.chroma_stride, frame.chroma_stride);
        let failed = |detail: String| Error::Encode { number, detail };
        let fits = |plane: &[u8], rows: usize, stride: usize, width: usize| {
            stride >= width && plane.len() == rows * stride
        };
        // The wrapper would panic on these.
        if !fits(frame.y, height, frame.stride, width)
            || !fits(frame.u, height / 2, frame.chroma_stride, width / 2)
            || !fits(frame.v, height / 2, frame.chroma_stride, width / 2)
        {
            return Err(failed(format!("the frame is not {width} x {height}")));
        }
        let slices = YUVSlices::new(planes, (width, height), strides);
        let millis = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        let coded = self
            .cisco
            .encode_at(&slices, Timestamp::from_millis(millis));
        let coded = coded.map_err(|error| failed(error.to_string()))?;
        let keyframe = match coded.frame_type() {
            FrameType::IDR => true,
            FrameType::I | FrameType::P | FrameType::IPMixed => false,
            FrameType::Skip => return Ok(None),
            FrameType::Invalid => return Err(failed("it returned an invalid frame".to_owned())),
        };
        let data = coded.to_vec();
        Ok((!data.is_empty()).then(|| Encoded {
            data: Bytes::from(data),
            keyframe,
        }))
    }

    fn set_bitrate(&mut self, rate: Bitrate) {
        if rate != self.bitrate {
            self.bitrate = rate;
            self.is_bitrate_set = false;
        }
    }

    fn request_keyframe(&mut self) {
        // The first frame is a keyframe anyway, and before it the encoder takes no requests.
        if self.number > 0 {
            self.cisco.force_intra_frame();
        }
    }
}

/// Bitrate as the encoder takes it: within its own bounds.
fn bps(rate: Bitrate) -> i32 {
    i32::try_from(rate.bps())
        .unwrap_or(BITRATE_MAX)
        .clamp(10_000, BITRATE_MAX)
}

/// Sets the bitrate through the raw API, because the wrapper hides this setting, which must
/// change between frames. Returns false if the encoder refuses.
#[expect(
    unsafe_code,
    reason = "OpenH264's options go through one untyped pointer"
)]
fn set_bitrate(cisco: &mut Cisco, bps: i32) -> bool {
    use openh264_sys2::{
        ENCODER_OPTION_BITRATE, ENCODER_OPTION_MAX_BITRATE, SBitrateInfo, SPATIAL_LAYER_0,
        SPATIAL_LAYER_ALL,
    };
    let info = |layer, bitrate| SBitrateInfo {
        iLayer: layer,
        iBitrate: bitrate,
    };
    // The layer's bound first: it stands at the first bitrate, and more is refused.
    let mut bound = info(SPATIAL_LAYER_0, BITRATE_MAX);
    let mut target = info(SPATIAL_LAYER_ALL, bps);
    // SAFETY: both options read one `SBitrateInfo` during the call and keep no pointer
    // (`CWelsH264SVCEncoder::SetOption`); the encoder is borrowed mutably, so no other
    // call runs, and it has been initialized, as a frame was encoded before.
    unsafe {
        let api = cisco.raw_api();
        api.set_option(ENCODER_OPTION_MAX_BITRATE, (&raw mut bound).cast()) == 0
            && api.set_option(ENCODER_OPTION_BITRATE, (&raw mut target).cast()) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::pattern::Pattern;
    use glassline_demux::live::Splitter;

    const FPS: u32 = 30;

    fn encoder(kbps: u64) -> OpenH264 {
        let config = Config {
            width: 320,
            height: 180,
            fps: f64::from(FPS),
            full_range: false,
            bitrate: Bitrate::from_bps(kbps * 1000),
            keyframe_interval: Duration::from_secs(2),
        };
        OpenH264::new(config).expect("an encoder")
    }

    /// Encodes frames `from` to `to` and returns them with their sizes.
    fn encode(encoder: &mut OpenH264, from: u32, to: u32) -> Vec<Option<Encoded>> {
        let mut pattern = Pattern::new(320, 180, FPS);
        let shown = |number: u32| Duration::from_secs(1) * number / FPS;
        (from..to)
            .map(|number| {
                let frame = pattern.draw(number);
                encoder.encode(frame, shown(number)).expect("encoded")
            })
            .collect()
    }

    fn kbps(units: &[Option<Encoded>]) -> u64 {
        let bytes: usize = units.iter().flatten().map(|unit| unit.data.len()).sum();
        bytes as u64 * 8 * u64::from(FPS) / units.len() as u64 / 1000
    }

    #[test]
    fn the_bitrate_is_followed_up_and_down() {
        let mut encoder = encoder(400);
        encode(&mut encoder, 0, 60);
        assert!((320..=480).contains(&kbps(&encode(&mut encoder, 60, 120))));
        encoder.set_bitrate(Bitrate::from_bps(800_000));
        encode(&mut encoder, 120, 150);
        let up = kbps(&encode(&mut encoder, 150, 270));
        assert!((640..=960).contains(&up), "{up}");
        encoder.set_bitrate(Bitrate::from_bps(200_000));
        encode(&mut encoder, 270, 300);
        let down = kbps(&encode(&mut encoder, 300, 420));
        assert!((150..=250).contains(&down), "{down}");
    }

    #[test]
    fn keyframes_come_at_the_start_when_asked_for_and_every_two_seconds() {
        let mut encoder = encoder(600);
        let mut units = encode(&mut encoder, 0, 20);
        encoder.request_keyframe();
        units.extend(encode(&mut encoder, 20, 90));
        let keyframes = units.iter().enumerate().filter_map(|(number, unit)| {
            let unit = unit.as_ref()?;
            unit.keyframe.then_some(number)
        });
        let keyframes: Vec<usize> = keyframes.collect();
        assert_eq!(keyframes[..2], [0, 20]);
        assert!(keyframes[2..].iter().all(|at| *at <= 80) && keyframes.len() > 2);
    }

    #[test]
    fn what_comes_out_is_in_order_and_tells_its_size() {
        let mut splitter = Splitter::new();
        for unit in encode(&mut encoder(500), 0, 70).into_iter().flatten() {
            splitter.push(&unit.data).expect("Annex B");
        }
        splitter.finish().expect("a keyframe");
        let track = splitter.track().expect("a track");
        assert_eq!((track.video.width, track.video.height), (320, 180));
        // Constrained baseline.
        assert_eq!(track.video.profile_level_id().map(|it| it[0]), Some(66));
        let notes = splitter.notes();
        assert_eq!((notes.reordered, notes.damaged_slices), (0, 0));
    }

    #[test]
    fn a_frame_of_another_size_is_refused() {
        let mut pattern = Pattern::new(64, 64, FPS);
        let refused = encoder(500).encode(pattern.draw(0), Duration::ZERO);
        let text = refused.expect_err("too small").to_string();
        assert!(text.contains("not 320 x 180"), "{text}");
    }
}
