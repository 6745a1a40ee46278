//! Video of the demo clip: a clock that turns once in ten seconds, the same time in digits, a
//! moving bar, and the frame code along the bottom edge.

use std::f32::consts::TAU;

use super::canvas::{Canvas, Color, HEIGHT, Point, around_clock, length, turn_of};
use super::lettering::{self, Digits, Type};
use super::{FPS, FRAMES};

/// Top row of the frame code.
pub(super) const CODE_TOP: usize = 688;
/// Width of one cell of the frame code in pixels.
pub(super) const CELL_WIDTH: usize = 64;
/// Cells of the frame code.
pub(super) const CELLS: usize = 20;

const NIGHT: Color = Color::hex(0x000a_0e14);
const DEEP: Color = Color::hex(0x0012_2230);
const EDGE: Color = Color::hex(0x0022_3342);
const FAINT: Color = Color::hex(0x0013_1c26);
const STEEL: Color = Color::hex(0x0059_7387);
const WHITE: Color = Color::hex(0x00ee_f5f7);
const AQUA: Color = Color::hex(0x004f_e3d1);
const AMBER: Color = Color::hex(0x00ff_b454);

const CLOCK: Point = (332.0, 340.0);
const RADIUS: f32 = 244.0;
const LEFT: f32 = 668.0;
const RIGHT: f32 = 1200.0;
const BAR_Y: f32 = 560.0;
const TIME_AT: Point = (LEFT + 6.0, 278.0);
const TIME: Digits = Digits {
    height: 176.0,
    stroke: 17.0,
    pitch: 128.0,
    lit: AQUA,
    dark: FAINT,
};
/// Space that the decimal point takes between seconds and milliseconds.
const POINT_GAP: f32 = 34.0;
const FRAME_NUMBER: Digits = Digits {
    height: 22.0,
    stroke: 3.0,
    pitch: 19.0,
    lit: WHITE,
    dark: FAINT,
};

/// The cells of frame `number`: white, black, 16 bits from the highest, and the
/// parity of the even-indexed and of the odd-indexed bits.
pub(super) fn code_cells(number: u16) -> [bool; CELLS] {
    let mut cells = [false; CELLS];
    cells[0] = true;
    for index in 0..16 {
        let bit = number >> (15 - index) & 1 == 1;
        cells[2 + index] = bit;
        cells[18 + index % 2] ^= bit;
    }
    cells
}

/// Draws one frame after another over a background drawn once.
pub(super) struct Painter {
    background: Canvas,
}

impl Painter {
    pub(super) fn new() -> Self {
        let mut background = Canvas::from_fn(backdrop);
        draw_dial(&mut background);
        draw_wordmark(&mut background);
        lettering::seven_segment(&mut background, None, 1, TIME_AT, TIME);
        lettering::seven_segment(&mut background, None, 3, milliseconds_at(), TIME);
        background.line((LEFT, BAR_Y), (RIGHT, BAR_Y), 10.0, FAINT, 1.0);
        for step in 0..=10 {
            let x = LEFT + (RIGHT - LEFT) * step as f32 / 10.0;
            background.line((x, BAR_Y + 20.0), (x, BAR_Y + 27.0), 2.0, EDGE, 1.0);
        }
        Self { background }
    }

    /// Frame `number`, shown at `number` / 30 s.
    pub(super) fn frame(&self, number: u16) -> Canvas {
        let mut canvas = self.background.clone();
        let seconds = f32::from(number) / FPS as f32;
        let turn = f32::from(number) / f32::from(FRAMES);
        draw_second(&mut canvas, seconds.fract());
        draw_hand(&mut canvas, turn);
        draw_time(&mut canvas, number);
        draw_bar(&mut canvas, turn);
        for (index, white) in code_cells(number).into_iter().enumerate() {
            let gray = if white { 1.0 } else { 0.0 };
            canvas.block(
                index * CELL_WIDTH,
                CODE_TOP,
                CELL_WIDTH,
                HEIGHT - CODE_TOP,
                gray,
            );
        }
        canvas
    }
}

/// Dark background with a little light behind the clock and above the digits.
fn backdrop(x: f32, y: f32) -> Color {
    let light = |at: Point, reach: f32| {
        let near = (1.0 - length(x - at.0, y - at.1) / reach).max(0.0);
        near * near * (3.0 - 2.0 * near)
    };
    let amount = (light(CLOCK, 620.0) + 0.55 * light((1060.0, 60.0), 640.0)).min(1.0);
    let mix = |a: f32, b: f32| a + (b - a) * amount;
    Color(
        mix(NIGHT.0, DEEP.0),
        mix(NIGHT.1, DEEP.1),
        mix(NIGHT.2, DEEP.2),
    )
}

fn draw_dial(canvas: &mut Canvas) {
    canvas.disc(CLOCK, RADIUS + 22.0, NIGHT, 0.55);
    canvas.ring(CLOCK, RADIUS + 22.0, 2.0, EDGE, 1.0);
    for tick in 0..100u16 {
        let turn = f32::from(tick) / 100.0;
        let (inner, thickness, color) = match tick {
            _ if tick % 10 == 0 => (RADIUS - 26.0, 4.0, WHITE),
            _ if tick % 5 == 0 => (RADIUS - 14.0, 2.5, STEEL),
            _ => (RADIUS - 8.0, 1.5, EDGE),
        };
        let ends = (
            around_clock(CLOCK, inner, turn),
            around_clock(CLOCK, RADIUS, turn),
        );
        canvas.line(ends.0, ends.1, thickness, color, 1.0);
    }
    for second in 0..10u8 {
        let centre = around_clock(CLOCK, RADIUS - 56.0, f32::from(second) / 10.0);
        let kind = Digits {
            height: 24.0,
            stroke: 3.2,
            pitch: 0.0,
            lit: STEEL,
            dark: NIGHT,
        };
        let at = (centre.0 - 7.0, centre.1 - 12.0);
        lettering::seven_segment(canvas, Some(&[second]), 1, at, kind);
    }
}

fn draw_wordmark(canvas: &mut Canvas) {
    let set = |canvas: &mut Canvas, text: &str, y: f32, height: f32, stroke: f32, color| {
        let width = RIGHT - LEFT;
        let spacing = lettering::spacing_to_fill(text, height, width);
        let kind = Type {
            height,
            stroke,
            spacing,
        };
        lettering::write(canvas, text, (LEFT, y), kind, color);
    };
    set(canvas, "GLASSLINE", 104.0, 62.0, 7.0, WHITE);
    set(
        canvas,
        "EVERY MILLISECOND ACCOUNTED FOR",
        198.0,
        13.0,
        1.8,
        STEEL,
    );
    let kind = Type {
        height: 13.0,
        stroke: 1.8,
        spacing: 6.0,
    };
    lettering::write(canvas, "FRAME", (LEFT, 622.0), kind, STEEL);
}

/// Draws rings once a second, together with the audio's tick.
fn draw_second(canvas: &mut Canvas, since: f32) {
    let strength = (1.0 - since / 0.45).max(0.0).powi(2);
    if strength > 0.0 {
        let radius = RADIUS + 22.0;
        canvas.ring(CLOCK, radius, 2.0 + 5.0 * strength, AMBER, strength);
    }
}

fn draw_hand(canvas: &mut Canvas, turn: f32) {
    const TRAIL: f32 = 0.16;
    let bounds = [
        CLOCK.0 - RADIUS,
        CLOCK.1 - RADIUS,
        CLOCK.0 + RADIUS,
        CLOCK.1 + RADIUS,
    ];
    canvas.blend(bounds, AQUA, |p| {
        let from_centre = length(p.0 - CLOCK.0, p.1 - CLOCK.1);
        let behind = (turn - turn_of(p, CLOCK)).rem_euclid(1.0);
        if from_centre > RADIUS - 84.0 || behind > TRAIL {
            return 0.0;
        }
        let fade = 1.0 - behind / TRAIL;
        0.34 * fade * fade * (from_centre / (RADIUS - 84.0))
    });
    let tip = around_clock(CLOCK, RADIUS - 34.0, turn);
    let tail = around_clock(CLOCK, -44.0, turn);
    canvas.glow(CLOCK, tip, 22.0, AMBER, 0.35);
    canvas.line(tail, tip, 5.0, AMBER, 1.0);
    canvas.disc(CLOCK, 13.0, AMBER, 1.0);
    canvas.disc(CLOCK, 5.0, NIGHT, 1.0);
}

fn draw_time(canvas: &mut Canvas, number: u16) {
    let milliseconds = u32::from(number) * 1000 / FPS;
    let digit = |power: u32| (milliseconds / power % 10) as u8;
    let point = (milliseconds_at().0 - 27.0, TIME_AT.1 + TIME.height);
    lettering::seven_segment(canvas, Some(&[digit(1000)]), 1, TIME_AT, TIME);
    canvas.disc(point, TIME.stroke * 0.62, AQUA, 1.0);
    let fraction = [digit(100), digit(10), digit(1)];
    lettering::seven_segment(canvas, Some(&fraction), 3, milliseconds_at(), TIME);
    let frame = [number / 100, number / 10 % 10, number % 10].map(|v| v as u8);
    lettering::seven_segment(canvas, Some(&frame), 3, (LEFT + 92.0, 617.0), FRAME_NUMBER);
}

fn milliseconds_at() -> Point {
    (TIME_AT.0 + TIME.pitch + POINT_GAP, TIME_AT.1)
}

/// Draws a bar that moves to and fro twice in a loop, slower at the ends.
fn draw_bar(canvas: &mut Canvas, turn: f32) {
    let place = 0.5 - 0.5 * (turn * 2.0 * TAU).cos();
    let x = LEFT + 30.0 + (RIGHT - LEFT - 60.0) * place;
    let ends = ((x - 30.0, BAR_Y), (x + 30.0, BAR_Y));
    canvas.glow(ends.0, ends.1, 34.0, AQUA, 0.4);
    canvas.line(ends.0, ends.1, 14.0, AQUA, 1.0);
}
