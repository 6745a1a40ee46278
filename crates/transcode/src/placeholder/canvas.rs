//! A frame in memory that text and images are drawn into.

use openh264::formats::YUVSource;

use super::font;
use crate::FrameSize;
use crate::still::Plane;

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
    size: FrameSize,
}

/// A place in a frame, in samples from the upper left corner.
#[derive(Clone, Copy, Debug)]
struct Corner {
    left: usize,
    top: usize,
}

impl Canvas {
    /// Creates a black frame. Odd sizes lose a row or a column.
    pub(super) fn black(size: FrameSize) -> Self {
        let size = size.even();
        Self {
            luminance: vec![BLACK; size.pixels()],
            chrominance: [(); 2].map(|()| vec![GREY; size.pixels() / 4]),
            size,
        }
    }

    /// Copies a picture in grey, and darker.
    pub(super) fn grey_of(decoded: &impl YUVSource) -> Self {
        let (width, height) = decoded.dimensions();
        let mut canvas = Self::black(FrameSize::new(width, height));
        let (stride, ..) = decoded.strides();
        let rows = canvas.luminance.chunks_mut(canvas.size.width);
        for (row, from) in rows.zip(decoded.y().chunks(stride)) {
            for (sample, from) in row.iter_mut().zip(from) {
                *sample = dimmed(*from);
            }
        }
        canvas
    }

    /// Draws the red, green and blue points of an image of the size `own` in the middle, as large as
    /// fits, in its proportions.
    pub(super) fn draw_image(&mut self, points: &[u8], own: FrameSize) {
        let FrameSize { width, height } = own;
        let (columns, rows) = if width * self.size.height <= height * self.size.width {
            (width * self.size.height / height, self.size.height)
        } else {
            (self.size.width, height * self.size.width / width)
        };
        let size = FrameSize::new(columns.max(2), rows.max(2)).even();
        let (left, top) = (
            (self.size.width - size.width) / 4 * 2,
            (self.size.height - size.height) / 4 * 2,
        );
        let colors = Colors::of_height(self.size.height);
        let plane = |color: usize| {
            let samples = points.chunks_exact(3).map(|point| colors.of(point)[color]);
            Plane::new(samples.collect(), own)
        };
        let luminance = plane(0).averaged(size);
        for row in 0..size.height {
            let at = (top + row) * self.size.width + left;
            self.luminance[at..at + size.width].copy_from_slice(luminance.row(row));
        }
        let half = size.half();
        for (index, chrominance) in self.chrominance.iter_mut().enumerate() {
            let samples = plane(1 + index).averaged(half);
            for row in 0..half.height {
                let at = (top / 2 + row) * self.size.width / 2 + left / 2;
                chrominance[at..at + half.width].copy_from_slice(samples.row(row));
            }
        }
    }

    pub(super) const fn size(&self) -> FrameSize {
        self.size
    }

    /// Draws one line of text on black, in the lower part of the picture.
    pub(super) fn draw(&mut self, text: &str) {
        let columns = MARGIN + text.chars().count() * ADVANCE - 1 + MARGIN;
        let rows = MARGIN + font::HEIGHT + MARGIN;
        // Three fifths of the width, a twelfth of the height.
        let point = (self.size.width * 3 / 5 / columns)
            .min(self.size.height / 12 / rows)
            .max(1);
        let (left, top) = (
            self.size.width.saturating_sub(columns * point) / 2,
            (self.size.height * 4 / 5).min(self.size.height.saturating_sub(rows * point)),
        );
        let size = FrameSize::new(columns * point, rows * point);
        self.fill(Corner { left, top }, size, BLACK);
        for (number, character) in text.chars().enumerate() {
            let column = MARGIN + number * ADVANCE;
            for (row, points) in font::rows(character).into_iter().enumerate() {
                for bit in (0..font::WIDTH).filter(|bit| points & (0x10 >> bit) != 0) {
                    let at = Corner {
                        left: left + (column + bit) * point,
                        top: top + (MARGIN + row) * point,
                    };
                    self.fill(at, FrameSize::new(point, point), WHITE);
                }
            }
        }
    }

    /// Fills a rectangle as far as it is in the picture.
    fn fill(&mut self, at: Corner, size: FrameSize, sample: u8) {
        let Corner { left, top } = at;
        let right = (left + size.width).min(self.size.width);
        let rows = self.luminance.chunks_mut(self.size.width);
        for row in rows.skip(top).take(size.height) {
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
        (self.size.width, self.size.height)
    }

    fn strides(&self) -> (usize, usize, usize) {
        (self.size.width, self.size.width / 2, self.size.width / 2)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture of five columns and three rows with padding behind each row but the last.
    struct Padded;

    impl YUVSource for Padded {
        fn dimensions(&self) -> (usize, usize) {
            (5, 3)
        }
        fn strides(&self) -> (usize, usize, usize) {
            (7, 3, 3)
        }
        fn y(&self) -> &[u8] {
            &[
                0, 16, 17, 18, 235, 1, 2, // The first row ends with the fifth.
                255, 100, 50, 20, 90, 3, 4, //
                9, 9, 9, 9, 9,
            ]
        }
        fn u(&self) -> &[u8] {
            &[1; 5]
        }
        fn v(&self) -> &[u8] {
            &[2; 5]
        }
    }

    /// A canvas whose samples of luminance are all 99.
    fn plain(size: FrameSize) -> Canvas {
        let mut canvas = Canvas::black(size);
        canvas.luminance.fill(99);
        canvas
    }

    #[test]
    fn a_black_canvas_has_even_sides() {
        let canvas = Canvas::black(FrameSize::new(7, 5));
        assert_eq!(canvas.size(), FrameSize::new(6, 4));
        assert_eq!(canvas.dimensions(), (6, 4));
        assert_eq!(canvas.strides(), (6, 3, 3));
        assert_eq!(canvas.y(), [16; 24]);
        assert_eq!(canvas.u(), [128; 6]);
        assert_eq!(canvas.v(), [128; 6]);
    }

    #[test]
    fn a_frame_becomes_grey_and_darker_row_by_row() {
        let canvas = Canvas::grey_of(&Padded);
        assert_eq!(canvas.size(), FrameSize::new(4, 2));
        // 16 + (sample − 16) × 150 ÷ 256.
        assert_eq!(canvas.y(), [16, 16, 16, 17, 156, 65, 35, 18]);
        assert_eq!((canvas.u(), canvas.v()), (&[128; 2][..], &[128; 2][..]));
        let levels = [0, 15, 16, 18, 126, 235, 255].map(dimmed);
        assert_eq!(levels, [16, 16, 16, 17, 80, 144, 156]);
    }

    /// The levels of full bars in ITU-R BT.601 and BT.709.
    #[test]
    fn colors_are_those_of_the_bars_of_television() {
        let points: [[u8; 3]; 7] = [
            [0, 0, 0],
            [255, 255, 255],
            [255, 0, 0],
            [0, 255, 0],
            [0, 0, 255],
            [128, 128, 128],
            [255, 255, 0],
        ];
        let standard = Colors::of_height(719);
        let expected = [
            [16, 128, 128],
            [235, 128, 128],
            [81, 90, 240],
            [145, 54, 34],
            [41, 240, 110],
            [126, 128, 128],
            [210, 16, 146],
        ];
        assert_eq!(points.map(|point| standard.of(&point)), expected);
        let high = Colors::of_height(720);
        let expected = [
            [16, 128, 128],
            [235, 128, 128],
            [63, 102, 240],
            [173, 42, 26],
            [32, 240, 118],
            [126, 128, 128],
            [219, 16, 138],
        ];
        assert_eq!(points.map(|point| high.of(&point)), expected);
    }

    /// The rows of a plane, each as a slice.
    fn rows(plane: &[u8], width: usize) -> Vec<&[u8]> {
        plane.chunks(width).collect()
    }

    #[test]
    fn an_image_is_drawn_in_the_middle_in_both_directions() {
        // Red and green above blue and white.
        let points = [255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255];
        let mut wide = Canvas::black(FrameSize::new(8, 4));
        wide.draw_image(&points, FrameSize::new(2, 2));
        let above = [16, 16, 81, 81, 145, 145, 16, 16];
        let below = [16, 16, 41, 41, 235, 235, 16, 16];
        assert_eq!(rows(wide.y(), 8), [above, above, below, below]);
        assert_eq!(
            rows(wide.u(), 4),
            [[128, 90, 54, 128], [128, 240, 128, 128]]
        );
        assert_eq!(
            rows(wide.v(), 4),
            [[128, 240, 34, 128], [128, 110, 128, 128]]
        );

        let mut tall = Canvas::black(FrameSize::new(4, 10));
        tall.draw_image(&points, FrameSize::new(2, 2));
        let (above, below, none) = ([81, 81, 145, 145], [41, 41, 235, 235], [16; 4]);
        let expected = [
            none, none, above, above, below, below, none, none, none, none,
        ];
        assert_eq!(rows(tall.y(), 4), expected);
        let expected = [[128, 128], [90, 54], [240, 128], [128, 128], [128, 128]];
        assert_eq!(rows(tall.u(), 2), expected);
        let expected = [[128, 128], [240, 34], [110, 128], [128, 128], [128, 128]];
        assert_eq!(rows(tall.v(), 2), expected);
    }

    #[test]
    fn an_image_keeps_its_proportions() {
        // Where a grey image of some size begins and ends in a canvas of some size.
        for (image, size, columns, rows) in [
            ((3, 2), (8, 8), 0..8, 2..6),
            ((2, 3), (8, 8), 2..6, 0..8),
            ((64, 1), (16, 16), 0..16, 6..8),
            ((1, 64), (16, 16), 6..8, 0..16),
            ((4, 2), (8, 4), 0..8, 0..4),
            ((16, 8), (8, 12), 0..8, 4..8),
            ((8, 16), (12, 8), 4..8, 0..8),
            ((5, 7), (20, 14), 4..14, 0..14),
        ] {
            let [image, size] = [image, size].map(|(width, height)| FrameSize::new(width, height));
            let mut canvas = Canvas::black(size);
            canvas.draw_image(&[128; 3].repeat(image.pixels()), image);
            for (at, sample) in canvas.y().iter().enumerate() {
                let (x, y) = (at % size.width, at / size.width);
                let expected = match columns.contains(&x) && rows.contains(&y) {
                    true => 126,
                    false => 16,
                };
                assert_eq!(*sample, expected, "{image:?} in {size:?} at {x}, {y}");
            }
        }
    }

    #[test]
    fn a_large_image_has_the_colors_of_high_definition() {
        let mut canvas = Canvas::black(FrameSize::new(16, 720));
        canvas.draw_image(&[255, 0, 0].repeat(16 * 16), FrameSize::new(16, 16));
        let at = 352 * 16;
        assert_eq!(canvas.y()[at - 1..=at], [16, 63]);
        assert_eq!(canvas.y()[at + 255..=at + 256], [63, 16]);
        assert_eq!(canvas.u()[at / 4 - 1..=at / 4], [128, 102]);
        assert_eq!(canvas.v()[at / 4 + 63..=at / 4 + 64], [240, 128]);
    }

    #[test]
    fn rectangles_are_clipped_at_the_edges() {
        let filled = |(left, top), (width, height)| {
            let mut canvas = plain(FrameSize::new(6, 4));
            canvas.fill(Corner { left, top }, FrameSize::new(width, height), 1);
            canvas.luminance
        };
        let row = |columns: std::ops::Range<usize>| {
            let mut row = [99; 6];
            row[columns].fill(1);
            row
        };
        let none = row(0..0);
        for (at, size, expected) in [
            ((1, 1), (3, 2), [none, row(1..4), row(1..4), none]),
            ((0, 0), (6, 4), [row(0..6); 4]),
            ((4, 2), (9, 9), [none, none, row(4..6), row(4..6)]),
            ((6, 0), (2, 2), [none; 4]),
            ((7, 0), (2, 2), [none; 4]),
            ((0, 4), (2, 2), [none; 4]),
            ((5, 3), (1, 1), [none, none, none, row(5..6)]),
        ] {
            assert_eq!(filled(at, size), expected.concat(), "{at:?} {size:?}");
        }
    }

    /// A point of the font in a box with a margin of two points, both `point` samples large.
    fn drawn(text: &str, (x, y): (usize, usize), point: usize) -> u8 {
        let (column, row) = (x / point, y / point);
        let (Some(column), Some(row)) = (column.checked_sub(2), row.checked_sub(2)) else {
            return 16;
        };
        let rows = text.chars().nth(column / 6).map_or([0; 7], font::rows);
        let line = rows.get(row).copied().unwrap_or(0);
        match column % 6 < 5 && line >> (4 - column % 6) & 1 == 1 {
            true => 235,
            false => 16,
        }
    }

    #[test]
    fn text_is_as_large_as_fits_and_in_the_middle_of_the_lower_part() {
        // Text, canvas, size of a point, and where the box begins.
        for (text, size, point, (left, top)) in [
            ("R", (30, 264), 2, (6, 211)),
            ("R", (30, 262), 1, (10, 209)),
            ("4A", (50, 396), 2, (10, 316)),
            ("4A", (48, 396), 1, (16, 316)),
            ("7", (40, 12), 1, (15, 1)),
            ("F-", (8, 8), 1, (0, 0)),
            ("L", (46, 528), 3, (9, 422)),
        ] {
            let columns = (6 * text.len() - 1 + 4) * point;
            let rows = 11 * point;
            let size = FrameSize::new(size.0, size.1);
            let mut canvas = plain(size);
            canvas.draw(text);
            for (at, sample) in canvas.y().iter().enumerate() {
                let (x, y) = (at % size.width, at / size.width);
                let is_in_box =
                    (left..left + columns).contains(&x) && (top..top + rows).contains(&y);
                let expected = match is_in_box {
                    true => drawn(text, (x - left, y - top), point),
                    false => 99,
                };
                assert_eq!(*sample, expected, "{text} in {size:?} at {x}, {y}");
            }
            assert!(canvas.u().iter().chain(canvas.v()).all(|it| *it == 128));
        }
    }
}
