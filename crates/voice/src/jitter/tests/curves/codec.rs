use crate::{Decoder, Format, L16};

/// Stub of a codec: a byte of flags and linear samples. What it conceals is louder than what
/// it decoded, as a codec's guess may be.
#[derive(Debug)]
pub(super) struct Codec {
    pub(super) linear: L16,
    pub(super) features: Features,
    pub(super) last: Vec<f32>,
}

/// The features that a codec has itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Features {
    /// Nothing: each payload stands alone.
    None,
    /// It conceals, makes comfort noise, and recovers the packet before one with [`REPEATS`].
    All,
}

/// Flag of a payload that begins silence.
pub(super) const SILENCE: u8 = 1;
/// Flag of a payload that repeats the one before it.
pub(super) const REPEATS: u8 = 2;
/// Flag of a payload that cannot be decoded.
pub(super) const BROKEN: u8 = 4;

impl Decoder for Codec {
    fn format(&self) -> Format {
        self.linear.format()
    }

    fn frames(&self, payload: &[u8]) -> Option<usize> {
        self.linear.frames(payload.get(1..)?)
    }

    fn decode(&mut self, payload: &[u8], out: &mut Vec<f32>) -> Result<(), crate::Undecodable> {
        if payload[0] & BROKEN != 0 {
            return Err(crate::Undecodable);
        }
        self.last.clear();
        self.linear.decode(&payload[1..], &mut self.last)?;
        out.extend(&self.last);
        Ok(())
    }

    fn recover(&mut self, following: &[u8], frames: usize, out: &mut Vec<f32>) -> bool {
        let is_redundant = following[0] & REPEATS != 0 && self.features == Features::All;
        if is_redundant {
            self.continue_audio(frames, 0.8, out);
        }
        is_redundant
    }

    fn conceal(&mut self, frames: usize, out: &mut Vec<f32>) -> bool {
        if self.features == Features::All {
            self.continue_audio(frames, 1.5, out);
        }
        self.features == Features::All
    }

    fn comfort(&mut self, frames: usize, out: &mut Vec<f32>) -> bool {
        if self.features == Features::All {
            self.continue_audio(frames, 0.25, out);
        }
        self.features == Features::All
    }

    fn begins_silence(&self, payload: &[u8]) -> bool {
        payload[0] & SILENCE != 0
    }

    fn is_stateless(&self) -> bool {
        self.features == Features::None
    }
}

impl Codec {
    fn continue_audio(&self, frames: usize, gain: f32, out: &mut Vec<f32>) {
        let last = self.last.iter().cycle().map(|it| it * gain);
        out.extend(last.take(frames * self.format().channels()));
    }
}
