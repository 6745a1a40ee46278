//! Test pattern of any size, with movement for the encoder and a frame number for a viewer.
//!
//! A gradient drifts, a bar crosses the frame once in four seconds, and a field of noise
//! costs bits. Along the bottom edge is the frame code of the built-in clip
//! (`assets/README.md`): white, black, 16 bits of the frame's number, two of parity.

use crate::publish::encoder::Frame;

const CELLS: usize = 20;

/// Black level of the planes in limited range (BT.601 §2.5).
const BLACK: u8 = 16;
/// White level of the planes in limited range (BT.601 §2.5).
const WHITE: u8 = 235;
/// Level of the chroma planes without color.
const GREY: u8 = 128;

/// Generator of test pattern frames.
#[derive(Clone, Debug)]
pub struct Pattern {
    width: usize,
    height: usize,
    fps: u32,
    y: Vec<u8>,
    u: Vec<u8>,
    v: Vec<u8>,
}

impl Pattern {
    /// Makes a generator for frames of `width` × `height` pixels, both even, at `fps` frames
    /// per second.
    pub fn new(width: u32, height: u32, fps: u32) -> Self {
        let (width, height) = (width as usize & !1, height as usize & !1);
        Self {
            width,
            height,
            fps: fps.max(1),
            y: vec![GREY; width * height],
            u: vec![GREY; width * height / 4],
            v: vec![GREY; width * height / 4],
        }
    }

    /// Draws frame `number`; its code has the lowest 16 bits.
    pub fn draw(&mut self, number: u32) -> Frame<'_> {
        self.draw_gradient(number as usize);
        self.draw_bar(number);
        self.draw_noise(number);
        self.draw_code(number);
        Frame {
            y: &self.y,
            u: &self.u,
            v: &self.v,
            stride: self.width,
            chroma_stride: self.width / 2,
        }
    }

    fn draw_gradient(&mut self, shift: usize) {
        let span = usize::from(WHITE - BLACK);
        // A row is the one above it, a step on.
        let ramp: Vec<u8> = (0..self.width + self.height)
            .map(|at| {
                let phase = (at + 2 * shift) % (2 * span);
                let level = if phase < span {
                    phase
                } else {
                    2 * span - phase
                };
                BLACK + u8::try_from(level / 2).unwrap_or(u8::MAX)
            })
            .collect();
        for (row, line) in self.y.chunks_exact_mut(self.width).enumerate() {
            line.copy_from_slice(&ramp[row..row + self.width]);
        }
        let tint = |at: usize| u8::try_from(96 + (at + shift) / 4 % 64).unwrap_or(GREY);
        for (row, line) in self.u.chunks_exact_mut(self.width / 2).enumerate() {
            line.fill(tint(row));
        }
        for (row, line) in self.v.chunks_exact_mut(self.width / 2).enumerate() {
            line.fill(tint(row + 128));
        }
    }

    fn draw_bar(&mut self, number: u32) {
        let period = 4 * self.fps;
        let turn = (number % period) as usize;
        let wide = (self.width / 32).max(2);
        let left = (self.width - wide) * turn / period as usize;
        for line in self.y.chunks_exact_mut(self.width) {
            line[left..left + wide].fill(WHITE);
        }
    }

    /// Draws noise over a sixteenth of the frame, in the middle.
    fn draw_noise(&mut self, number: u32) {
        let (wide, high) = (self.width / 4, self.height / 4);
        let (left, top) = (self.width * 3 / 8, self.height * 3 / 8);
        let mut state = number.wrapping_mul(0x9e37_79b9) | 1;
        for line in self.y.chunks_exact_mut(self.width).skip(top).take(high) {
            for blocks in line[left..left + wide].chunks_mut(4) {
                // Marsaglia's xorshift.
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                blocks.fill(BLACK + (state >> 26) as u8 * 2);
            }
        }
    }

    fn draw_code(&mut self, number: u32) {
        let cells = code(number);
        let top = self.height - (self.height / 22).max(2);
        for line in self.y.chunks_exact_mut(self.width).skip(top) {
            for (cell, white) in cells.into_iter().enumerate() {
                let (from, to) = (cell * self.width / CELLS, (cell + 1) * self.width / CELLS);
                line[from..to].fill(if white { WHITE } else { BLACK });
            }
        }
        let chroma = (self.height - top) / 2 * self.width / 2;
        let from = self.u.len() - chroma;
        self.u[from..].fill(GREY);
        self.v[from..].fill(GREY);
    }
}

/// Cells of the frame code; `true` is white.
fn code(number: u32) -> [bool; CELLS] {
    let mut cells = [false; CELLS];
    cells[0] = true;
    for index in 0..16 {
        let bit = number >> (15 - index) & 1 == 1;
        cells[2 + index] = bit;
        cells[18 + index % 2] ^= bit;
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the frame code back.
    fn read(frame: Frame<'_>, width: usize) -> u32 {
        let last = &frame.y[frame.y.len() - frame.stride..];
        let white = |cell: usize| last[cell * width / CELLS + width / CELLS / 2] > GREY;
        assert!(white(0) && !white(1));
        let bits = (0..16).map(|index| white(2 + index));
        let number = bits.fold(0, |number, bit| number << 1 | u32::from(bit));
        let parity = |of: usize| (0..16).filter(|at| at % 2 == of && white(2 + at)).count() % 2;
        assert_eq!(
            [white(18), white(19)].map(usize::from),
            [parity(0), parity(1)]
        );
        number
    }

    #[test]
    fn every_frame_says_which_it_is() {
        for (width, height) in [(320, 180), (1280, 720), (64, 64), (20, 16)] {
            let mut pattern = Pattern::new(width, height, 30);
            for number in [0, 1, 299, 65_535, 65_537] {
                let seen = read(pattern.draw(number), width as usize);
                assert_eq!(seen, number & 0xffff, "{width} x {height}");
            }
        }
    }

    #[test]
    fn it_moves() {
        let mut pattern = Pattern::new(320, 180, 30);
        let first = pattern.draw(0).y.to_vec();
        assert_ne!(first, pattern.draw(1).y);
    }
}
