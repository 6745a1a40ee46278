//! A frame in memory that text and images are drawn into.

use openh264::formats::YUVSource;

use super::font;
use crate::still::Plane;
use crate::video::decoder::Decoded;

/// Luminance of black and of white in video (ITU-R BT.709, 8 bits).
const BLACK: u8 = 16;
const WHITE: u8 = 235;
/// Chrominance of grey.
const GREY: u8 = 128;

/// Luminance that stays of a picture, of 256, so that text stands out.
const DIMMED: u32 = 150;

/// Points of the font from one character to the next.
const ADVANCE: usize = font::WIDTH + 1;
/// Points around the text.
const MARGIN: usize = 2;

/// A frame of 4:2:0 and 8 bits, of video range. Width and height are even.
pub(super) struct Canvas {
    luminance: Vec<u8>,
    chrominance: [Vec<u8>; 2],
    width: usize,
    height: usize,
}

impl Canvas {
    /// Creates a black frame. Odd sizes lose a row or a column.
    pub(super) fn black((width, height): (usize, usize)) -> Self {
        let (width, height) = (width & !1, height & !1);
        Self {
            luminance: vec![BLACK; width * height],
            chrominance: [(); 2].map(|()| vec![GREY; width * height / 4]),
            width,
            height,
        }
    }

    /// Copies a decoded picture in grey, and darker.
    pub(super) fn grey_of(decoded: &Decoded<'_>) -> Self {
        let mut canvas = Self::black(decoded.size);
        let (stride, ..) = decoded.strides();
        let rows = canvas.luminance.chunks_mut(canvas.width);
        for (row, from) in rows.zip(decoded.y().chunks(stride)) {
            for (sample, from) in row.iter_mut().zip(from) {
                *sample = dimmed(*from);
            }
        }
        canvas
    }

    /// Draws the red, green and blue points of an image of `width` and `height` in the middle, as large
    /// as fits, in its proportions.
    pub(super) fn draw_image(&mut self, points: &[u8], (width, height): (usize, usize)) {
        let size = if width * self.height <= height * self.width {
            (width * self.height / height, self.height)
        } else {
            (self.width, height * self.width / width)
        };
        let size = (size.0.max(2) & !1, size.1.max(2) & !1);
        let (left, top) = (
            (self.width - size.0) / 4 * 2,
            (self.height - size.1) / 4 * 2,
        );
        let colors = Colors::of_height(self.height);
        let plane = |color: usize| {
            let samples = points.chunks_exact(3).map(|point| colors.of(point)[color]);
            Plane::new(samples.collect(), (width, height))
        };
        let luminance = plane(0).averaged(size);
        for row in 0..size.1 {
            let at = (top + row) * self.width + left;
            self.luminance[at..at + size.0].copy_from_slice(luminance.row(row));
        }
        let half = (size.0 / 2, size.1 / 2);
        for (index, chrominance) in self.chrominance.iter_mut().enumerate() {
            let samples = plane(1 + index).averaged(half);
            for row in 0..half.1 {
                let at = (top / 2 + row) * self.width / 2 + left / 2;
                chrominance[at..at + half.0].copy_from_slice(samples.row(row));
            }
        }
    }

    pub(super) const fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    /// Draws one line of text on black, in the lower part of the picture.
    pub(super) fn draw(&mut self, text: &str) {
        let columns = text.chars().count() * ADVANCE - 1 + 2 * MARGIN;
        let rows = font::HEIGHT + 2 * MARGIN;
        // Three fifths of the width, a twelfth of the height.
        let point = (self.width * 3 / 5 / columns)
            .min(self.height / 12 / rows)
            .max(1);
        let (left, top) = (
            self.width.saturating_sub(columns * point) / 2,
            (self.height * 4 / 5).min(self.height.saturating_sub(rows * point)),
        );
        self.fill((left, top), (columns * point, rows * point), BLACK);
        for (number, character) in text.chars().enumerate() {
            let column = MARGIN + number * ADVANCE;
            for (row, points) in font::rows(character).into_iter().enumerate() {
                for bit in (0..font::WIDTH).filter(|bit| points & (0x10 >> bit) != 0) {
                    let at = (left + (column + bit) * point, top + (MARGIN + row) * point);
                    self.fill(at, (point, point), WHITE);
                }
            }
        }
    }

    /// Fills a rectangle as far as it is in the picture.
    fn fill(&mut self, (left, top): (usize, usize), (width, height): (usize, usize), sample: u8) {
        let right = (left + width).min(self.width);
        for row in self.luminance.chunks_mut(self.width).skip(top).take(height) {
            if let Some(row) = row.get_mut(left..right) {
                row.fill(sample);
            }
        }
    }
}

/// Luminance and chrominance of video range from red, green and blue of 0 to 255: 16 bits behind the
/// point.
struct Colors([[i32; 3]; 3]);

impl Colors {
    /// Returns the colors of BT.709 for video of high definition, and those of BT.601 else.
    const fn of_height(height: usize) -> Self {
        Self(if height >= 720 {
            [
                [11_966, 40_254, 4_064],
                [-6_596, -22_189, 28_784],
                [28_784, -26_145, -2_639],
            ]
        } else {
            [
                [16_829, 33_039, 6_416],
                [-9_714, -19_071, 28_784],
                [28_784, -24_103, -4_681],
            ]
        })
    }

    fn of(&self, point: &[u8]) -> [u8; 3] {
        let mut color = [0; 3];
        for (index, (color, row)) in color.iter_mut().zip(&self.0).enumerate() {
            let sum: i32 = row
                .iter()
                .zip(point)
                .map(|(factor, it)| factor * i32::from(*it))
                .sum();
            let zero = if index == 0 { BLACK } else { GREY };
            let level = ((sum + (1 << 15)) >> 16) + i32::from(zero);
            *color = u8::try_from(level.clamp(0, 255)).unwrap_or(zero);
        }
        color
    }
}

fn dimmed(sample: u8) -> u8 {
    let above = u32::from(sample.saturating_sub(BLACK)) * DIMMED / 256;
    u8::try_from(above).unwrap_or(u8::MAX).saturating_add(BLACK)
}

impl YUVSource for Canvas {
    fn dimensions(&self) -> (usize, usize) {
        self.size()
    }

    fn strides(&self) -> (usize, usize, usize) {
        (self.width, self.width / 2, self.width / 2)
    }

    fn y(&self) -> &[u8] {
        &self.luminance
    }

    fn u(&self) -> &[u8] {
        &self.chrominance[0]
    }

    fn v(&self) -> &[u8] {
        &self.chrominance[1]
    }
}
