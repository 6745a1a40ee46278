//! Audio under external control: another jitter buffer's model decides, and this decoder,
//! stretching and concealment carry its decisions out. So a listening comparison measures
//! decisions, not codecs.

use crate::codec::Decoder;
use crate::expand::Expansion;
use crate::pitch::{self, LAG_MS};
use crate::playout_buffer::PlayoutBuffer;
use crate::stretch::{self, Limits};

/// Root mean square below which a signal is background and may be cut anywhere.
const SILENCE_LEVEL: f32 = 0.002;

/// Decodes, stretches and expands as its caller decides.
#[derive(Debug)]
pub struct Player<D> {
    decoder: D,
    playout_buffer: PlayoutBuffer,
    expansion: Option<Expansion>,
    decoded: Vec<f32>,
}

impl<D: Decoder> Player<D> {
    /// Makes a player that has decoded nothing yet.
    pub fn new(decoder: D) -> Self {
        Self {
            playout_buffer: PlayoutBuffer::new(decoder.format()),
            decoder,
            expansion: None,
            decoded: Vec::new(),
        }
    }

    /// Length of the decoded audio that waits, in ms.
    pub fn waiting_ms(&self) -> f64 {
        self.playout_buffer
            .format()
            .ms(self.playout_buffer.waiting())
    }

    /// Decodes a payload behind the waiting audio. Returns false if the codec refuses the
    /// payload.
    pub fn decode(&mut self, payload: &[u8]) -> bool {
        self.decoded.clear();
        let is_audio = self.decoder.decode(payload, &mut self.decoded).is_ok();
        match self.expansion.take() {
            Some(expansion) if is_audio => {
                self.playout_buffer
                    .append(&expansion.join(&self.decoded, false).0);
            }
            kept => {
                self.expansion = kept;
                self.playout_buffer.append(&self.decoded);
            }
        }
        is_audio
    }

    /// Removes a pitch period (accelerate) if its correlation is at least `fit_min` (0 to 1)
    /// or the audio is background. Returns the ms removed.
    pub fn shorten(&mut self, fit_min: f32) -> f64 {
        let limits = self.limits(fit_min);
        let frames = stretch::shorten(&mut self.playout_buffer, limits);
        self.playout_buffer.format().ms(frames)
    }

    /// Repeats a pitch period (preemptive expand) under the conditions of [`Self::shorten`].
    /// Returns the ms inserted.
    pub fn lengthen(&mut self, fit_min: f32) -> f64 {
        let limits = self.limits(fit_min);
        let frames = stretch::lengthen(&mut self.playout_buffer, limits);
        self.playout_buffer.format().ms(frames)
    }

    /// Plays interleaved samples into `out`, expanding where too little audio waits. Returns
    /// the ms that were expanded.
    pub fn play(&mut self, out: &mut [f32]) -> f64 {
        let format = self.playout_buffer.format();
        let missing = (out.len() / format.channels()).saturating_sub(self.playout_buffer.waiting());
        if missing > 0 {
            let expansion = self
                .expansion
                .get_or_insert_with(|| Expansion::after(&self.playout_buffer));
            let mut more = Vec::new();
            expansion.generate(missing, &mut more);
            self.playout_buffer.append(&more);
        }
        self.playout_buffer.play(out, |_| ());
        format.ms(missing)
    }

    fn limits(&self, fit_min: f32) -> Limits {
        let waiting = self
            .playout_buffer
            .span(0, self.playout_buffer.waiting() as isize);
        Limits {
            frames_max: self.playout_buffer.format().frames(LAG_MS.1),
            fit_min,
            is_silence: pitch::level(waiting) < SILENCE_LEVEL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, L16};

    #[test]
    fn it_does_as_it_is_told() {
        let format = Format::new(16_000, 1).expect("voice");
        let mut player = Player::new(L16::new(format));
        let tone: Vec<f32> = (0..640)
            .map(|it| 0.5 * (it as f32 * 0.0785).sin())
            .collect();
        assert!(player.decode(&L16::encode(&tone)));
        assert_eq!(player.waiting_ms(), 40.0);
        let gone = player.shorten(0.9);
        assert!((2.5..15.0).contains(&gone), "{gone}");
        let mut out = vec![0.0; 640];
        assert_eq!(
            player.lengthen(0.9),
            0.0,
            "nothing was played to play again"
        );
        assert_eq!(player.play(&mut out[..240]), 0.0);
        assert!(player.lengthen(0.9) > 0.0);
        let waiting = player.waiting_ms();
        assert!((player.play(&mut out) - (40.0 - waiting)).abs() < 0.1);
        assert_eq!(player.play(&mut out[..160]), 10.0);
        assert!(out[..160].iter().any(|it| it.abs() > 0.1), "it goes on");
        assert!(!player.decode(&[1]));
    }

    #[test]
    fn background_is_cut_anywhere_and_by_as_much_as_a_period_may_be_long() {
        let format = Format::new(8_000, 1).expect("mono");
        // 66 of 32,768 are 0.002 014: the least level that is no background.
        for (level, shortened) in [(0.0, 15.0), (65.0 / 32_767.0, 15.0), (66.0 / 32_767.0, 2.5)] {
            let mut player = Player::new(L16::new(format));
            let even = L16::encode(&[level; 320]);
            assert!(player.decode(&even) && player.decode(&even));
            player.play(&mut [0.0; 320]);
            let fit_min = if level > 0.0 { 0.9 } else { 0.0 };
            assert_eq!(player.shorten(fit_min), shortened, "{level}");
            assert_eq!(player.waiting_ms(), 40.0 - shortened, "{level}");
            assert_eq!(player.lengthen(fit_min), shortened, "{level}");
            assert_eq!(player.waiting_ms(), 40.0, "{level}");
        }
    }

    #[test]
    fn what_is_missing_is_expanded_until_something_is_decoded() {
        let format = Format::new(8_000, 2).expect("stereo");
        let mut player = Player::new(L16::new(format));
        let audio = L16::encode(&[0.5; 160]);
        assert!(player.decode(&audio));
        let mut out = [0.0; 80];
        assert_eq!(player.play(&mut out), 0.0, "five of ten ms");
        assert_eq!((player.play(&mut out), player.waiting_ms()), (0.0, 0.0));
        assert_eq!(player.play(&mut out), 5.0, "nothing waits");
        assert!(player.expansion.is_some());
        // What the codec refuses changes nothing.
        assert!(!player.decode(&[1]) && player.expansion.is_some());
        assert!(player.decode(&audio) && player.expansion.is_none());
        // A tone without pitch is joined at once.
        assert_eq!(player.waiting_ms(), 10.0);
    }
}
