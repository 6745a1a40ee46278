//! What a stream shows while its source is away: its last keyframe in grey with a line of text, or a
//! given image, in H.264.
//!
//! ```text
//! keyframe ─ OpenH264 ─► Canvas: grey, darker ─► text ─┬─ OpenH264 ─► a cycle of frames to repeat
//! JPEG ─ zune-jpeg ─► Canvas: as large as fits ───────┘
//! ```
//!
//! The cycle is encoded once and then repeated for as long as the source is away. It has two keyframes,
//! because two keyframes in a row must differ in `idr_pic_id` (ITU-T H.264, 7.4.3), and between them
//! frames of some bytes which say that nothing has changed.

mod canvas;
mod font;

use std::fmt;

use glassline_media::MediaTime;

use crate::FrameSize;
use crate::still::{NoStill, decode_keyframe, fits};
use crate::video::encoder::Encoder;
use canvas::Canvas;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

/// Frames a second of the cycle.
pub const PLACEHOLDER_FPS: u32 = 1;

/// Frames from one keyframe of the cycle to the next: a receiver that lost one waits no longer.
const GROUP: usize = 5;

/// Least pixels of a side of what is encoded: a macroblock.
const SIDE_MIN: usize = 16;

/// Frames that show one still picture, to be repeated.
#[derive(Clone, PartialEq, Eq)]
pub struct Placeholder {
    frames: Vec<PlaceholderFrame>,
    size: FrameSize,
}

/// One frame of a placeholder.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("PlaceholderFrame {{ bytes: {:?}, keyframe: {keyframe:?} }}", self.data.len())]
pub struct PlaceholderFrame {
    /// Access unit of H.264 in Annex B form, with parameter sets if it is a keyframe.
    pub data: Vec<u8>,
    /// Whether a decoder can start here.
    pub keyframe: bool,
}

impl Placeholder {
    /// Makes a placeholder of `keyframe`, an access unit of H.264 in Annex-B form with its parameter
    /// sets: its picture in grey, with `text` in it. Text may have digits, capitals, `:`, `-` and
    /// spaces; other characters are drawn as spaces. Takes some 50 ms for each million of pixels.
    ///
    /// # Errors
    /// Returns [`NoStill`] if the keyframe cannot be decoded or is too large.
    pub fn of_h264(keyframe: &[u8], text: &str) -> Result<Self, NoStill> {
        let mut image = decode_keyframe(keyframe, |decoded| Canvas::grey_of(decoded))?;
        image.draw(text);
        Self::encode(&image)
    }

    /// Makes a placeholder of an image in JPEG's format, in the middle of a frame of `size` pixels, as large
    /// as fits; without a size, in the image's own.
    ///
    /// # Errors
    /// Returns [`NoStill`] if the image cannot be read or is too large.
    pub fn of_jpeg(jpeg: &[u8], size: Option<FrameSize>) -> Result<Self, NoStill> {
        let refused = |reason: String| NoStill::Jpeg { reason };
        let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(jpeg), options);
        let read = |error: zune_jpeg::errors::DecodeErrors| refused(error.to_string());
        decoder.decode_headers().map_err(read)?;
        let dimensions = decoder.dimensions();
        let (width, height) = dimensions.ok_or_else(|| refused("it has no size".to_owned()))?;
        let own = FrameSize::new(width, height);
        fits(own)?;
        let points = decoder.decode().map_err(read)?;
        let size = size.unwrap_or(own);
        fits(size)?;
        let sides = [own.width, own.height, size.width, size.height];
        if sides.into_iter().any(|side| side < SIDE_MIN) || points.len() != own.pixels() * 3 {
            return Err(refused(format!("it is smaller than {SIDE_MIN} pixels")));
        }
        let mut image = Canvas::black(size);
        image.draw_image(&points, own);
        Self::encode(&image)
    }

    fn encode(image: &Canvas) -> Result<Self, NoStill> {
        let refused = |reason: String| NoStill::Encoder { reason };
        let mut encoder = Encoder::of_still(image.size(), GROUP).map_err(refused)?;
        let mut frames = Vec::new();
        for number in 0..2 * GROUP {
            let number = i64::try_from(number).unwrap_or_default();
            let time = MediaTime::from_ticks(number, PLACEHOLDER_FPS);
            let coded = encoder.encode(image, time).map_err(refused)?;
            frames.extend(coded.map(|(data, keyframe)| PlaceholderFrame { data, keyframe }));
        }
        Ok(Self {
            frames,
            size: image.size(),
        })
    }

    /// Returns the frames in the order in which they are repeated. The first is a keyframe.
    pub fn frames(&self) -> &[PlaceholderFrame] {
        &self.frames
    }

    /// Returns the size of the frames.
    pub fn size(&self) -> FrameSize {
        self.size
    }
}

impl fmt::Debug for Placeholder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: usize = self.frames.iter().map(|frame| frame.data.len()).sum();
        formatter
            .debug_struct("Placeholder")
            .field("frames", &self.frames.len())
            .field("bytes", &bytes)
            .field("width", &self.size.width)
            .field("height", &self.size.height)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use glassline_demux as demux;

    use super::*;
    use crate::still::{SizeLimit, Still};

    /// A keyframe of x264's High profile in a stream with B-frames.
    fn keyframe() -> Vec<u8> {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../demux/samples/b-frames.h264"
        );
        let options = demux::Options {
            once: true,
            ..demux::Options::default()
        };
        let mut film = demux::open(&[path.into()], &options).expect("a sample");
        let first = film.next_frame().expect("good").expect("a frame");
        assert!(first.keyframe);
        first.data.to_vec()
    }

    #[test]
    fn the_last_frame_is_repeated_in_grey_with_two_different_keyframes() {
        let keyframe = keyframe();
        let still = Still::of_h264(&keyframe, SizeLimit::default()).expect("decoded");
        let made = Placeholder::of_h264(&keyframe, "OFFLINE SINCE 14:05 UTC");
        let made = made.expect("decoded and encoded");
        let size = FrameSize::new(usize::from(still.width), usize::from(still.height));
        assert_eq!(made.size(), size);
        let kinds: Vec<_> = made.frames().iter().map(|frame| frame.keyframe).collect();
        let group = [true, false, false, false, false];
        assert_eq!(kinds, [group, group].concat());
        let keyframes: Vec<_> = made.frames().iter().filter(|it| it.keyframe).collect();
        assert_ne!(keyframes[0].data, keyframes[1].data, "idr_pic_id");
        for frame in made.frames().iter().filter(|it| !it.keyframe) {
            assert!(frame.data.len() < 2000, "nothing changes: {frame:?}");
        }
        for keyframe in keyframes {
            let made = decode_keyframe(&keyframe.data, |decoded| {
                use openh264::formats::YUVSource as _;
                let chrominance = decoded.u().iter().chain(decoded.v());
                let grey = chrominance
                    .filter(|sample| sample.abs_diff(128) <= 2)
                    .count();
                let all = decoded.u().len() + decoded.v().len();
                let white = decoded.y().iter().filter(|sample| **sample > 200).count();
                (decoded.size, grey * 100 / all, white)
            });
            let (decoded, grey, white) = made.expect("decodable");
            assert_eq!(decoded, size);
            // The padding of rows is grey or not.
            assert!(grey > 80, "{grey} % are grey");
            assert!(white > 200, "{white} pixels of text");
        }
    }

    /// A red image is red in the middle and black beside, of the size that was asked for.
    #[test]
    fn an_image_is_shown_in_its_proportions_and_colors() {
        let mut jpeg = Vec::new();
        let red = [200, 20, 20].repeat(64 * 64);
        jpeg_encoder::Encoder::new(&mut jpeg, 90)
            .encode(&red, 64, 64, jpeg_encoder::ColorType::Rgb)
            .expect("an image");
        assert_eq!(
            Placeholder::of_jpeg(&jpeg, None).expect("read").size(),
            FrameSize::new(64, 64)
        );
        let wanted = FrameSize::new(320, 180);
        let made = Placeholder::of_jpeg(&jpeg, Some(wanted)).expect("read");
        assert_eq!(made.size(), wanted);
        let shown = decode_keyframe(&made.frames()[0].data, |decoded| {
            use openh264::formats::YUVSource as _;
            let (strides, size) = (decoded.strides(), decoded.size);
            let at = |x: usize, y: usize| {
                let half = y / 2 * strides.1 + x / 2;
                [
                    decoded.y()[y * strides.0 + x],
                    decoded.u()[half],
                    decoded.v()[half],
                ]
            };
            (size, at(160, 90), at(20, 90))
        });
        let (size, middle, beside) = shown.expect("decodable");
        assert_eq!(size, wanted);
        // Red in the colors of BT.601: 16 + 65 % of 219 × (0.299 × 200 + 0.701 × 20) ÷ 255 and so on.
        for (sample, wanted) in middle.into_iter().zip([79, 101, 206]) {
            assert!(sample.abs_diff(wanted) <= 4, "{middle:?}");
        }
        assert!(beside[0] < 20, "{beside:?}");
        assert!(Placeholder::of_jpeg(b"no image", None).is_err());
        assert!(Placeholder::of_jpeg(&jpeg[..jpeg.len() / 8], None).is_err());
    }

    #[test]
    fn images_and_frames_have_sixteen_pixels_at_least() {
        let grey = |width: u16, height: u16| {
            let mut jpeg = Vec::new();
            let points = [90].repeat(usize::from(width) * usize::from(height));
            jpeg_encoder::Encoder::new(&mut jpeg, 90)
                .encode(&points, width, height, jpeg_encoder::ColorType::Luma)
                .expect("an image");
            jpeg
        };
        for (image, size, is_made) in [
            ((16, 16), Some((16, 16)), true),
            ((17, 16), None, true),
            ((15, 16), Some((16, 16)), false),
            ((16, 15), Some((16, 16)), false),
            ((16, 16), Some((15, 16)), false),
            ((16, 16), Some((16, 15)), false),
            ((15, 15), None, false),
        ] {
            let size = size.map(|(width, height)| FrameSize::new(width, height));
            let made = Placeholder::of_jpeg(&grey(image.0, image.1), size);
            assert_eq!(made.is_ok(), is_made, "{image:?} {size:?}");
            if let Ok(made) = made {
                assert_eq!(made.size(), FrameSize::new(16, 16));
            }
        }
        let huge = Placeholder::of_jpeg(&grey(16, 16), Some(FrameSize::new(4097, 2304)));
        assert!(matches!(huge, Err(NoStill::Size { width: 4097, .. })));
    }

    #[test]
    fn what_is_no_keyframe_becomes_no_placeholder() {
        assert!(Placeholder::of_h264(b"no H.264", "OFFLINE").is_err());
    }
}
