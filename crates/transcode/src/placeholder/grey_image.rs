//! A grey picture that text is drawn into.

use openh264::formats::YUVSource;

use super::font;
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

/// A picture without color, 4:2:0 of 8 bits. Width and height are even.
pub(super) struct GreyImage {
    luminance: Vec<u8>,
    /// Both planes of chrominance.
    chrominance: Vec<u8>,
    width: usize,
    height: usize,
}

impl GreyImage {
    /// Copies a decoded picture in grey, and darker.
    pub(super) fn of(decoded: &Decoded<'_>) -> Self {
        let (width, height) = (decoded.size.0 & !1, decoded.size.1 & !1);
        let (stride, ..) = decoded.strides();
        let mut luminance = Vec::with_capacity(width * height);
        for row in decoded.y().chunks(stride).take(height) {
            luminance.extend(row.iter().take(width).map(|sample| dimmed(*sample)));
        }
        luminance.resize(width * height, BLACK);
        Self {
            luminance,
            chrominance: vec![GREY; width * height / 4],
            width,
            height,
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

fn dimmed(sample: u8) -> u8 {
    let above = u32::from(sample.saturating_sub(BLACK)) * DIMMED / 256;
    u8::try_from(above).unwrap_or(u8::MAX).saturating_add(BLACK)
}

impl YUVSource for GreyImage {
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
        &self.chrominance
    }

    fn v(&self) -> &[u8] {
        &self.chrominance
    }
}
