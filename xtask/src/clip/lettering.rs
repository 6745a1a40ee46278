//! Capitals drawn by strokes, and seven-segment digits.
//!
//! A letter is a few polylines in a box one unit high; y points down.

use std::f32::consts::TAU;

use super::canvas::{Canvas, Color, Point};

/// How a line of capitals is set.
#[derive(Clone, Copy)]
pub(super) struct Type {
    /// Height of a capital in pixels.
    pub(super) height: f32,
    /// Thickness of a stroke in pixels.
    pub(super) stroke: f32,
    /// Space between letters in pixels.
    pub(super) spacing: f32,
}

/// Writes `text` with its upper left corner at `at`.
///
/// A letter that is not drawn here is left as a space.
pub(super) fn write(canvas: &mut Canvas, text: &str, at: Point, kind: Type, color: Color) {
    let mut x = at.0;
    for letter in text.chars() {
        let (width, strokes) = capital(letter);
        for stroke in &strokes {
            for pair in stroke.windows(2) {
                let place = |p: Point| (x + p.0 * kind.height, at.1 + p.1 * kind.height);
                canvas.line(place(pair[0]), place(pair[1]), kind.stroke, color, 1.0);
            }
        }
        x += width * kind.height + kind.spacing;
    }
}

/// The letter spacing that makes `text` exactly `width` pixels wide.
pub(super) fn spacing_to_fill(text: &str, height: f32, width: f32) -> f32 {
    let letters: f32 = text.chars().map(|c| capital(c).0 * height).sum();
    (width - letters) / (text.chars().count() - 1) as f32
}

/// Width of a letter in units of its height, and its strokes.
fn capital(letter: char) -> (f32, Vec<Vec<Point>>) {
    let lines = |width: f32, strokes: &[&[Point]]| {
        let strokes = strokes.iter().map(|stroke| stroke.to_vec()).collect();
        (width, strokes)
    };
    let bar = &[(0.0, 0.49), (0.49, 0.49)];
    match letter {
        'A' => {
            let roof = [(0.0, 1.0), (0.4, 0.0), (0.8, 1.0)];
            lines(0.8, &[&roof, &[(0.14, 0.66), (0.66, 0.66)]])
        }
        'C' => (0.86, vec![arc((0.5, 0.5), (0.5, 0.5), 0.12, 0.88)]),
        'D' => {
            let mut bow = vec![(0.0, 1.0), (0.0, 0.0)];
            bow.extend(arc((0.28, 0.5), (0.48, 0.5), 0.25, -0.25));
            bow.push((0.0, 1.0));
            (0.76, vec![bow])
        }
        'E' => {
            let frame = [(0.58, 0.0), (0.0, 0.0), (0.0, 1.0), (0.58, 1.0)];
            lines(0.58, &[&frame, bar])
        }
        'F' => lines(0.56, &[&[(0.56, 0.0), (0.0, 0.0), (0.0, 1.0)], bar]),
        'G' => {
            let mut bow = arc((0.5, 0.5), (0.5, 0.5), 0.12, 1.0);
            bow.push((0.58, 0.5));
            (1.0, vec![bow])
        }
        'I' => lines(0.0, &[&[(0.0, 0.0), (0.0, 1.0)]]),
        'L' => lines(0.54, &[&[(0.0, 0.0), (0.0, 1.0), (0.54, 1.0)]]),
        'M' => {
            let zigzag = [
                (0.0, 1.0),
                (0.0, 0.0),
                (0.42, 0.7),
                (0.84, 0.0),
                (0.84, 1.0),
            ];
            lines(0.84, &[&zigzag])
        }
        'N' => lines(0.74, &[&[(0.0, 1.0), (0.0, 0.0), (0.74, 1.0), (0.74, 0.0)]]),
        'O' => (1.0, vec![arc((0.5, 0.5), (0.5, 0.5), 0.0, 1.0)]),
        'R' => {
            let mut bow = vec![(0.0, 1.0), (0.0, 0.0)];
            bow.extend(arc((0.37, 0.27), (0.27, 0.27), 0.25, -0.25));
            bow.push((0.0, 0.54));
            (0.66, vec![bow, vec![(0.36, 0.54), (0.66, 1.0)]])
        }
        'S' => {
            let mut bow = arc((0.32, 0.25), (0.29, 0.25), 0.07, 0.75);
            bow.extend(arc((0.32, 0.75), (0.32, 0.25), 0.25, -0.43));
            (0.64, vec![bow])
        }
        'T' => lines(
            0.7,
            &[&[(0.0, 0.0), (0.7, 0.0)], &[(0.35, 0.0), (0.35, 1.0)]],
        ),
        'U' => {
            let mut bow = vec![(0.0, 0.0)];
            bow.extend(arc((0.36, 0.64), (0.36, 0.36), 0.5, 1.0));
            bow.push((0.72, 0.0));
            (0.72, vec![bow])
        }
        'V' => lines(0.78, &[&[(0.0, 0.0), (0.39, 1.0), (0.78, 0.0)]]),
        'Y' => {
            let fork = [(0.0, 0.0), (0.38, 0.5), (0.76, 0.0)];
            lines(0.76, &[&fork, &[(0.38, 0.5), (0.38, 1.0)]])
        }
        _ => (0.42, Vec::new()),
    }
}

/// An arc of an ellipse in chords; turns count anticlockwise from the right.
fn arc(centre: Point, radii: Point, from: f32, to: f32) -> Vec<Point> {
    const CHORDS: usize = 28;
    (0..=CHORDS)
        .map(|i| {
            let turn = from + (to - from) * i as f32 / CHORDS as f32;
            let (sin, cos) = (turn * TAU).sin_cos();
            (centre.0 + radii.0 * cos, centre.1 - radii.1 * sin)
        })
        .collect()
}

/// How seven-segment digits are set.
#[derive(Clone, Copy)]
pub(super) struct Digits {
    /// Height of a digit in pixels; it is half as wide.
    pub(super) height: f32,
    /// Thickness of a segment in pixels.
    pub(super) stroke: f32,
    /// From the left edge of one digit to the next in pixels.
    pub(super) pitch: f32,
    /// Color of a lit segment.
    pub(super) lit: Color,
    /// Color of a dark segment.
    pub(super) dark: Color,
}

/// Segments a..g of a digit as bits 0..6: a top, then clockwise, g the middle.
const SEGMENTS: [u8; 10] = [0x3f, 0x06, 0x5b, 0x4f, 0x66, 0x6d, 0x7d, 0x07, 0x7f, 0x6f];

/// Writes `digits` in seven segments with the upper left corner at `at`.
///
/// `None` writes the dark segments only, for a background drawn once.
pub(super) fn seven_segment(
    canvas: &mut Canvas,
    digits: Option<&[u8]>,
    count: usize,
    at: Point,
    kind: Digits,
) {
    let (h, w, gap) = (kind.height, kind.height * 0.5, kind.stroke * 0.62);
    let ends: [(Point, Point); 7] = [
        ((gap, 0.0), (w - gap, 0.0)),
        ((w, gap), (w, h / 2.0 - gap)),
        ((w, h / 2.0 + gap), (w, h - gap)),
        ((gap, h), (w - gap, h)),
        ((0.0, h / 2.0 + gap), (0.0, h - gap)),
        ((0.0, gap), (0.0, h / 2.0 - gap)),
        ((gap, h / 2.0), (w - gap, h / 2.0)),
    ];
    for index in 0..count {
        let lit = digits.map_or(0, |digits| SEGMENTS[usize::from(digits[index])]);
        // Upright digits look as if they fell over to the left; a slant of 1 in 12 helps.
        let place = |p: Point| {
            (
                at.0 + index as f32 * kind.pitch + p.0 + (h - p.1) / 12.0,
                at.1 + p.1,
            )
        };
        for (segment, (a, b)) in ends.iter().enumerate() {
            let (a, b) = (place(*a), place(*b));
            if digits.is_none() {
                canvas.line(a, b, kind.stroke, kind.dark, 1.0);
            } else if lit >> segment & 1 == 1 {
                canvas.glow(a, b, kind.stroke * 2.2, kind.lit, 0.35);
                canvas.line(a, b, kind.stroke, kind.lit, 1.0);
            }
        }
    }
}
