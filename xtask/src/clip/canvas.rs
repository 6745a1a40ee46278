//! An RGB frame, and the few shapes that the clip consists of.
//!
//! Shapes are signed distances in pixels, so that edges are smooth at any subpixel position and
//! slow motion looks even.

use std::f32::consts::TAU;

/// Width of the frame in pixels.
pub(super) const WIDTH: usize = 1280;
/// Height of the frame in pixels.
pub(super) const HEIGHT: usize = 720;

/// A position in pixels; the center of the first pixel is (0.5, 0.5).
pub(super) type Point = (f32, f32);

/// Red, green, blue in 0..=1, sRGB-coded.
#[derive(Clone, Copy)]
pub(super) struct Color(pub(super) f32, pub(super) f32, pub(super) f32);

impl Color {
    /// From the usual six hexadecimal digits.
    pub(super) const fn hex(rgb: u32) -> Self {
        Self(
            (rgb >> 16 & 0xff) as f32 / 255.0,
            (rgb >> 8 & 0xff) as f32 / 255.0,
            (rgb & 0xff) as f32 / 255.0,
        )
    }
}

/// A frame that is being drawn.
#[derive(Clone)]
pub(super) struct Canvas {
    rgb: Vec<[f32; 3]>,
}

impl Canvas {
    /// A frame whose pixels come from a function.
    pub(super) fn from_fn(color_at: impl Fn(f32, f32) -> Color) -> Self {
        let mut rgb = Vec::with_capacity(WIDTH * HEIGHT);
        for y in 0..HEIGHT {
            for x in 0..WIDTH {
                let Color(r, g, b) = color_at(x as f32 + 0.5, y as f32 + 0.5);
                rgb.push([r, g, b]);
            }
        }
        Self { rgb }
    }

    /// Eight bits a channel, rows top-down, as ffmpeg's `rgb24`.
    ///
    /// Ordered dither of ± half a step keeps dark gradients free of bands.
    pub(super) fn write_rgb24(&self, out: &mut Vec<u8>) {
        const BAYER: [[f32; 4]; 4] = [
            [0.0, 8.0, 2.0, 10.0],
            [12.0, 4.0, 14.0, 6.0],
            [3.0, 11.0, 1.0, 9.0],
            [15.0, 7.0, 13.0, 5.0],
        ];
        out.clear();
        for (index, pixel) in self.rgb.iter().enumerate() {
            let (x, y) = (index % WIDTH, index / WIDTH);
            let threshold = (BAYER[y % 4][x % 4] + 0.5) / 16.0;
            out.extend(pixel.map(|v| (v * 255.0 + threshold).clamp(0.0, 255.0) as u8));
        }
    }

    /// Paints where `distance` is negative, with an edge one pixel soft.
    ///
    /// `bounds`: left, top, right, bottom of what the shape can touch.
    pub(super) fn fill(
        &mut self,
        bounds: [f32; 4],
        color: Color,
        alpha: f32,
        distance: impl Fn(Point) -> f32,
    ) {
        self.blend(bounds, color, |at| {
            alpha * (0.5 - distance(at)).clamp(0.0, 1.0)
        });
    }

    /// Paints with a coverage that depends on the position.
    pub(super) fn blend(
        &mut self,
        bounds: [f32; 4],
        color: Color,
        coverage: impl Fn(Point) -> f32,
    ) {
        let [left, top, right, bottom] = bounds;
        let clip = |v: f32, end: usize| (v.max(0.0) as usize).min(end);
        let (left, right) = (clip(left, WIDTH), clip(right + 1.0, WIDTH));
        for y in clip(top, HEIGHT)..clip(bottom + 1.0, HEIGHT) {
            for x in left..right {
                let a = coverage((x as f32 + 0.5, y as f32 + 0.5));
                if a > 0.0 {
                    let pixel = &mut self.rgb[y * WIDTH + x];
                    for (have, want) in pixel.iter_mut().zip([color.0, color.1, color.2]) {
                        *have += (want - *have) * a.min(1.0);
                    }
                }
            }
        }
    }

    /// A line with round ends.
    pub(super) fn line(&mut self, a: Point, b: Point, thickness: f32, color: Color, alpha: f32) {
        let r = thickness / 2.0;
        self.fill(around(a, b, r + 1.0), color, alpha, |p| {
            to_segment(p, a, b) - r
        });
    }

    /// A soft light around a line, which ends at `reach` pixels.
    pub(super) fn glow(&mut self, a: Point, b: Point, reach: f32, color: Color, alpha: f32) {
        self.blend(around(a, b, reach), color, |p| {
            let near = (1.0 - to_segment(p, a, b) / reach).max(0.0);
            alpha * near * near
        });
    }

    /// Draws a filled disc around `centre`.
    pub(super) fn disc(&mut self, centre: Point, radius: f32, color: Color, alpha: f32) {
        self.line(centre, centre, radius * 2.0, color, alpha);
    }

    /// Draws a circle line around `centre`.
    pub(super) fn ring(
        &mut self,
        centre: Point,
        radius: f32,
        thickness: f32,
        color: Color,
        alpha: f32,
    ) {
        let bounds = around(centre, centre, radius + thickness);
        self.fill(bounds, color, alpha, |p| {
            (length(p.0 - centre.0, p.1 - centre.1) - radius).abs() - thickness / 2.0
        });
    }

    /// An upright rectangle without soft edges.
    pub(super) fn block(&mut self, x: usize, y: usize, width: usize, height: usize, gray: f32) {
        for row in y..y + height {
            self.rgb[row * WIDTH + x..][..width].fill([gray; 3]);
        }
    }
}

/// The position at `turn` (0 is up, a quarter is right) around `centre`.
pub(super) fn around_clock(centre: Point, radius: f32, turn: f32) -> Point {
    let (sin, cos) = (turn * TAU).sin_cos();
    (centre.0 + radius * sin, centre.1 - radius * cos)
}

/// The turn (0..1, clockwise from up) of `p` around `centre`.
pub(super) fn turn_of(p: Point, centre: Point) -> f32 {
    ((p.0 - centre.0).atan2(centre.1 - p.1) / TAU).rem_euclid(1.0)
}

/// Returns the Euclidean length of a vector.
pub(super) fn length(x: f32, y: f32) -> f32 {
    (x * x + y * y).sqrt()
}

fn to_segment(p: Point, a: Point, b: Point) -> f32 {
    let (px, py, bx, by) = (p.0 - a.0, p.1 - a.1, b.0 - a.0, b.1 - a.1);
    let span = (bx * bx + by * by).max(1e-6);
    let t = ((px * bx + py * by) / span).clamp(0.0, 1.0);
    length(px - bx * t, py - by * t)
}

fn around(a: Point, b: Point, reach: f32) -> [f32; 4] {
    [
        a.0.min(b.0) - reach,
        a.1.min(b.1) - reach,
        a.0.max(b.0) + reach,
        a.1.max(b.1) + reach,
    ]
}
