//! Planes of video as a baseline JPEG image of 4:2:0.
//!
//! Video has levels from 16 to 235 and, from 720 rows on, the colors of BT.709; JPEG has all levels and
//! the colors of BT.601 (JFIF 1.02). Streams that say otherwise are rare, and shown a little paler.

use jpeg_encoder::{ChromaSubsamplingMethod, Encoder, ImageBuffer, JpegColorType, SamplingFactor};

use super::planes::Planes;
use super::{NoStill, Still};

/// Quality of libjpeg's scale, 1 to 100.
const QUALITY: u8 = 80;

/// Rows from which video is of high definition, and its colors of BT.709.
const HIGH_DEFINITION: usize = 720;

/// What a level of video becomes: 16 bits behind the point. Rows are luminance and both kinds of
/// chrominance, columns what each takes from luminance above 16 and from chrominance around 128; no
/// chrominance takes of luminance.
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
    let (columns, rows) = (planes.luminance.width, planes.luminance.height);
    let too_large = NoStill::Size {
        width: columns,
        height: rows,
    };
    let (Ok(width), Ok(height)) = (u16::try_from(columns), u16::try_from(rows)) else {
        return Err(too_large);
    };
    let mut jpeg = Vec::with_capacity(columns * rows / 8);
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
