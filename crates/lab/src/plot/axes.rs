//! A chart area with two axes, and the marks in it.

use std::fmt::Write as _;
use std::ops::Range;

use super::scale::Scale;
use super::{GRID, SOFT, text};

/// Inside of the axes, in units of the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// A pair of values, one on each axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

impl Point {
    pub(crate) const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }
}

/// A chart area that is being drawn.
pub(crate) struct Plot {
    frame: Frame,
    x: Scale,
    y: Scale,
    out: String,
}

/// Range and scale of an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) is_logarithmic: bool,
}

impl Axis {
    pub(crate) const fn linear(min: f64, max: f64) -> Self {
        Self {
            min,
            max,
            is_logarithmic: false,
        }
    }

    pub(crate) const fn logarithmic(min: f64, max: f64) -> Self {
        Self {
            min,
            max,
            is_logarithmic: true,
        }
    }

    fn scale(self, from: f64, to: f64) -> Scale {
        if self.is_logarithmic {
            Scale::logarithmic(self.min, self.max, from, to)
        } else {
            Scale::linear(self.min, self.max, from, to)
        }
    }
}

impl Plot {
    /// Draws axes, ticks and title.
    pub(crate) fn new(frame: Frame, title: &str, x: Axis, y: Axis) -> Self {
        let Frame {
            left,
            top,
            width,
            height,
        } = frame;
        let (right, bottom) = (left + width, top + height);
        let mut plot = Self {
            frame,
            x: x.scale(left, right),
            y: y.scale(bottom, top),
            out: text(left, top - 10.0, title, r#"font-weight="600""#),
        };
        let ends = format!(r#"text-anchor="end" font-size="11" fill="{SOFT}""#);
        for (value, label) in thinned(plot.y.ticks(), height / 16.0) {
            let at = plot.y.place(value);
            plot.put(&format!(
                r#"<line x1="{left:.1}" x2="{right:.1}" y1="{at:.1}" y2="{at:.1}" stroke="{GRID}"/>"#
            ));
            plot.put(&text(left - 6.0, at + 4.0, &label, &ends));
        }
        let middle = format!(r#"text-anchor="middle" font-size="11" fill="{SOFT}""#);
        for (value, label) in thinned(plot.x.ticks(), width / 34.0) {
            let at = plot.x.place(value);
            plot.put(&format!(
                r#"<line x1="{at:.1}" x2="{at:.1}" y1="{bottom:.1}" y2="{:.1}" stroke="{SOFT}"/>"#,
                bottom + 4.0
            ));
            plot.put(&text(at, bottom + 17.0, &label, &middle));
        }
        plot.put(&format!(
            r#"<path d="M{left:.1} {top:.1}V{bottom:.1}H{right:.1}" fill="none" stroke="{SOFT}"/>"#
        ));
        plot
    }

    fn put(&mut self, mark: &str) {
        self.out += mark;
        self.out.push('\n');
    }

    /// Draws the name of the x axis below it.
    pub(crate) fn below(&mut self, words: &str) {
        let style = format!(r#"text-anchor="middle" font-size="11" fill="{SOFT}""#);
        let at = self.frame.left + self.frame.width / 2.0;
        let mark = text(at, self.frame.top + self.frame.height + 33.0, words, &style);
        self.put(&mark);
    }

    /// Draws a line through points, with gaps where a value is not finite.
    pub(crate) fn line(&mut self, points: &[(f64, f64)], color: &str, width: f64) {
        let mut path = String::new();
        let mut is_begun = false;
        for (x, y) in points {
            if !x.is_finite() || !y.is_finite() {
                is_begun = false;
                continue;
            }
            let command = if is_begun { 'L' } else { 'M' };
            is_begun = true;
            let (x, y) = (self.x.place(*x), self.y.place(*y));
            write!(path, "{command}{x:.1} {y:.1}").expect("a string takes everything");
        }
        if !path.is_empty() {
            self.put(&format!(
                r#"<path d="{path}" fill="none" stroke="{color}" stroke-width="{width}" stroke-linejoin="round"/>"#
            ));
        }
    }

    /// Draws a dot of `radius`; `words` appear below the pointer.
    pub(crate) fn dot(&mut self, at: Point, radius: f64, style: &str, words: &str) {
        let (x, y) = (self.x.place(at.x), self.y.place(at.y));
        let mark = if words.is_empty() {
            format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" {style}/>"#)
        } else {
            let words = super::escape(words);
            format!(
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" {style}><title>{words}</title></circle>"#
            )
        };
        self.put(&mark);
    }

    /// Draws a rectangle between two values of each axis.
    pub(crate) fn block(&mut self, x: Range<f64>, y: Range<f64>, style: &str) {
        let (left, right) = (self.x.place(x.start), self.x.place(x.end));
        let (bottom, top) = (self.y.place(y.start), self.y.place(y.end));
        let (width, height) = (right - left, bottom - top);
        if height > 0.04 {
            self.put(&format!(
                r#"<rect x="{left:.1}" y="{top:.1}" width="{:.1}" height="{height:.1}" {style}/>"#,
                width.max(0.8)
            ));
        }
    }

    /// Draws words beside a point.
    pub(crate) fn label(&mut self, at: Point, words: &str, color: &str) {
        let (x, y) = (self.x.place(at.x), self.y.place(at.y));
        let style = format!(r#"font-size="11" fill="{color}""#);
        let mark = text(x + 8.0, y - 5.0, words, &style);
        self.put(&mark);
    }

    /// Draws a horizontal interval at `y`, moved down by `shift` units of the page.
    pub(crate) fn whisker(&mut self, from: f64, to: f64, y: f64, shift: f64, color: &str) {
        let y = self.y.place(y) + shift;
        let (from, to) = (self.x.place(from), self.x.place(to));
        self.put(&format!(
            r#"<line x1="{from:.1}" x2="{to:.1}" y1="{y:.1}" y2="{y:.1}" stroke="{color}" stroke-width="2" stroke-linecap="round" opacity="0.55"/>"#
        ));
    }

    /// Draws a dot that is moved down like its [`Self::whisker`].
    pub(crate) fn dot_shifted(&mut self, at: Point, shift: f64, style: &str, words: &str) {
        let (x, y) = (self.x.place(at.x), self.y.place(at.y) + shift);
        let words = super::escape(words);
        self.put(&format!(
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" {style}><title>{words}</title></circle>"#
        ));
    }

    /// Draws a diamond, which marks a result of another study.
    pub(crate) fn diamond(&mut self, at: Point, shift: f64, color: &str, words: &str) {
        let (x, y) = (self.x.place(at.x), self.y.place(at.y) + shift);
        let words = super::escape(words);
        self.put(&format!(
            r##"<path d="M{x:.1} {:.1}l5 5l-5 5l-5 -5z" fill="#ffffff" stroke="{color}" stroke-width="1.6"><title>{words}</title></path>"##,
            y - 5.0
        ));
    }

    /// Draws a vertical line over the whole height.
    pub(crate) fn upright(&mut self, x: f64, style: &str) {
        let at = self.x.place(x);
        let (top, bottom) = (self.frame.top, self.frame.top + self.frame.height);
        self.put(&format!(
            r#"<line x1="{at:.1}" x2="{at:.1}" y1="{top:.1}" y2="{bottom:.1}" {style}/>"#
        ));
    }

    /// Returns the SVG text of everything that was drawn.
    pub(crate) fn finish(self) -> String {
        self.out
    }
}

/// Removes ticks evenly until the rest fits into `room`.
fn thinned(ticks: Vec<(f64, String)>, room: f64) -> Vec<(f64, String)> {
    let every = (ticks.len() as f64 / room.max(2.0)).ceil().max(1.0) as usize;
    ticks.into_iter().step_by(every).collect()
}
