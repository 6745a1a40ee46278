//! Planes of video as a baseline JPEG image of 4:2:0.
//!
//! Video has levels from 16 to 235 and, from 720 rows on, the colors of BT.709; JPEG has all levels and
//! the colors of BT.601 (JFIF 1.02). Streams that say otherwise are rare, and shown a little paler.

use jpeg_encoder::{ChromaSubsamplingMethod, Encoder, ImageBuffer, JpegColorType, SamplingFactor};

use super::planes::Planes;
use super::{NoStill, Still};
use crate::FrameSize;

/// Quality of libjpeg's scale, 1 to 100.
const QUALITY: u8 = 80;

/// Rows from which video is of high definition, and its colors of BT.709.
const HIGH_DEFINITION: usize = 720;

/// The factors from levels of video to colors: 16 bits behind the point. Rows are luminance and both
/// kinds of chrominance, columns what each takes from luminance above 16 and from chrominance around
/// 128; no chrominance takes of luminance.
type Matrix = [[i32; 3]; 3];

/// Expands the levels: 255 ÷ 219 and 255 ÷ 224.
const OF_BT601: Matrix = [[76_309, 0, 0], [0, 74_606, 0], [0, 0, 74_606]];

/// Expands the levels, and goes from BT.709 to RGB and from there to BT.601.
const OF_BT709: Matrix = [
    [76_309, 7_578, 14_628],
    [0, 73_849, -8_255],
    [0, -5_405, 73_367],
];

struct Image<'a> {
    planes: &'a Planes<'a>,
    matrix: Matrix,
    size: [u16; 2],
}

/// Encodes the picture of `planes` as a JPEG file.
pub(super) fn encode(planes: &Planes<'_>) -> Result<Still, NoStill> {
    let FrameSize {
        width: columns,
        height: rows,
    } = planes.size();
    let too_large = NoStill::Size {
        width: columns,
        height: rows,
    };
    let (Ok(width), Ok(height)) = (u16::try_from(columns), u16::try_from(rows)) else {
        return Err(too_large);
    };
    let mut jpeg = Vec::new();
    let mut encoder = Encoder::new(&mut jpeg, QUALITY);
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    // The four samples of a block are one sample here.
    encoder.set_chroma_subsampling_method(ChromaSubsamplingMethod::Nearest);
    let image = Image {
        planes,
        matrix: match rows >= HIGH_DEFINITION {
            true => OF_BT709,
            false => OF_BT601,
        },
        size: [width, height],
    };
    encoder
        .encode_image(image)
        .map_err(|error| NoStill::Decoder {
            reason: error.to_string(),
        })?;
    Ok(Still {
        jpeg,
        width,
        height,
    })
}

impl ImageBuffer for Image<'_> {
    fn get_jpeg_color_type(&self) -> JpegColorType {
        JpegColorType::Ycbcr
    }

    fn width(&self) -> u16 {
        self.size[0]
    }

    fn height(&self) -> u16 {
        self.size[1]
    }

    fn fill_buffers(&self, y: u16, buffers: &mut [Vec<u8>; 4]) {
        let y = usize::from(y);
        let [u, v] = self.planes.chrominance.each_ref().map(|it| it.row(y / 2));
        let [to_y, to_u, to_v, _] = buffers;
        let pairs = self.planes.luminance.row(y).chunks(2);
        // An odd last column has the chrominance of the one before it.
        let last = u.len() - 1;
        for (x, pair) in pairs.enumerate() {
            let half = x.min(last);
            let chrominance = [i32::from(u[half]) - 128, i32::from(v[half]) - 128];
            // What each row of the matrix takes from chrominance, and half of a unit for rounding.
            let [more, u, v] = self
                .matrix
                .map(|row| row[1] * chrominance[0] + row[2] * chrominance[1] + (1 << 15));
            let of_luminance = self.matrix[0][0];
            to_y.extend(pair.iter().map(|luminance| {
                level(((i32::from(*luminance) - 16) * of_luminance + more) >> 16)
            }));
            to_u.extend([level((u >> 16) + 128); 2].iter().take(pair.len()));
            to_v.extend([level((v >> 16) + 128); 2].iter().take(pair.len()));
        }
    }
}

fn level(value: i32) -> u8 {
    u8::try_from(value.clamp(0, 255)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::planes::Plane;
    use super::*;

    fn planes(size: FrameSize, [y, u, v]: [&[u8]; 3]) -> Planes<'static> {
        Planes {
            luminance: Plane::new(y.to_vec(), size),
            chrominance: [u, v].map(|plane| Plane::new(plane.to_vec(), size.half())),
        }
    }

    /// The input of the encoder from a row.
    fn row(planes: &Planes<'_>, matrix: Matrix, y: u16) -> [Vec<u8>; 3] {
        let image = Image {
            planes,
            matrix,
            size: [1, 1],
        };
        let mut buffers = [const { Vec::new() }; 4];
        image.fill_buffers(y, &mut buffers);
        let [y, u, v, _] = buffers;
        [y, u, v]
    }

    #[test]
    fn levels_of_video_become_all_levels() {
        let y = [0, 16, 17, 126, 235, 255, 18, 100, 50, 30];
        let planes = planes(FrameSize::new(5, 2), [&y, &[16, 240], &[128, 100]]);
        // (level − 16) × 255 ÷ 219, and 128 + (level − 128) × 255 ÷ 224.
        let [first, u, v] = row(&planes, OF_BT601, 0);
        assert_eq!(first, [0, 0, 1, 128, 255]);
        assert_eq!(u, [0, 0, 255, 255, 255]);
        assert_eq!(v, [128, 128, 96, 96, 96]);
        let [second, u, _] = row(&planes, OF_BT601, 1);
        assert_eq!(second, [255, 2, 98, 40, 16]);
        assert_eq!(u, [0, 0, 255, 255, 255]);
    }

    #[test]
    fn each_row_of_chrominance_belongs_to_two_rows() {
        let planes = planes(FrameSize::new(2, 5), [&[16; 10], &[100, 150], &[128, 140]]);
        let u: Vec<_> = (0..5).map(|y| row(&planes, OF_BT601, y)[1][0]).collect();
        assert_eq!(u, [96, 96, 153, 153, 153]);
        let v: Vec<_> = (0..5).map(|y| row(&planes, OF_BT601, y)[2][1]).collect();
        assert_eq!(v, [128, 128, 142, 142, 142]);
    }

    /// Red, green and blue of BT.709 become those of JPEG, within a level.
    #[test]
    fn colors_of_high_definition_are_those_of_jpeg() {
        for (video, jpeg) in [
            ([63, 102, 240], [76, 85, 255]),
            ([173, 42, 26], [150, 44, 21]),
            ([32, 240, 118], [29, 255, 107]),
            ([235, 128, 128], [255, 128, 128]),
            ([16, 128, 128], [0, 128, 128]),
        ] {
            let [y, u, v] = video;
            let planes = planes(FrameSize::new(2, 2), [&[y; 4], &[u], &[v]]);
            let shown = row(&planes, OF_BT709, 1).map(|plane| plane[1]);
            for (shown, expected) in shown.into_iter().zip::<[u8; 3]>(jpeg) {
                assert!(shown.abs_diff(expected) <= 1, "{shown} for {jpeg:?}");
            }
        }
        let image = |y: u8, u: u8, v: u8| {
            let planes = planes(FrameSize::new(2, 2), [&[y; 4], &[u], &[v]]);
            row(&planes, OF_BT709, 0).map(|plane| plane[0])
        };
        // Sums of the products, 16 bits behind the point, by hand.
        assert_eq!(image(116, 138, 98), [111, 143, 94]);
        assert_eq!(image(116, 108, 148), [119, 103, 152]);
    }

    /// Red in the levels of BT.709, and how it is shown.
    fn shown(height: usize) -> [u8; 3] {
        let (y, half) = (vec![63; 2 * height], height / 2);
        let planes = planes(
            FrameSize::new(2, height),
            [&y, &vec![102; half], &vec![240; half]],
        );
        let still = encode(&planes).expect("an image");
        assert_eq!(usize::from(still.height), height);
        let cursor = zune_core::bytestream::ZCursor::new(&still.jpeg);
        let mut decoder = zune_jpeg::JpegDecoder::new(cursor);
        let points = decoder.decode().expect("JPEG");
        [points[0], points[1], points[2]]
    }

    #[test]
    fn frames_from_720_rows_on_are_of_high_definition() {
        for (sample, expected) in shown(720).into_iter().zip([255_u8, 0, 0]) {
            assert!(sample.abs_diff(expected) <= 3, "{:?}", shown(720));
        }
        assert!(shown(718)[0].abs_diff(233) <= 4, "{:?}", shown(718));
    }

    #[test]
    fn an_image_is_at_most_65535_wide() {
        let wide = planes(FrameSize::new(65_536, 1), [&vec![16; 65_536], &[], &[]]);
        let refused = NoStill::Size {
            width: 65_536,
            height: 1,
        };
        assert_eq!(encode(&wide).err(), Some(refused));
    }
}
