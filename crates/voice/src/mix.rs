//! Mixing: the loudest voices are mixed, and a voice fades in or out when it joins or leaves
//! them.

/// A voice's current gain in the mix.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    gain: f32,
}

/// Factor by which a voice must be louder to replace a mixed one: 6 dB, so that two voices of
/// similar level do not alternate.
const STAY: f32 = 2.0;

impl Share {
    /// Level with which the voice competes for a place in the mix; a mixed voice counts
    /// [`STAY`] times its level.
    pub(crate) fn weight(self, level: f32) -> f32 {
        match self.gain > 0.0 {
            true => level * STAY,
            false => level,
        }
    }

    /// Adds `voice` to `mix`, both interleaved with `channels` channels. A voice that joins
    /// or leaves the mix (`is_mixed`) fades over the length of this block.
    pub(crate) fn add(&mut self, voice: &[f32], mix: &mut [f32], channels: usize, is_mixed: bool) {
        let from = self.gain;
        let to = if is_mixed { 1.0 } else { 0.0 };
        self.gain = to;
        if from == 0.0 && to == 0.0 {
            return;
        }
        if from == to {
            for (mixed, sample) in mix.iter_mut().zip(voice) {
                *mixed += sample;
            }
            return;
        }
        let frames = (mix.len() / channels).max(1) as f32;
        for (index, (mixed, sample)) in mix.iter_mut().zip(voice).enumerate() {
            let share = ((index / channels) as f32 + 0.5) / frames;
            *mixed += sample * (from + (to - from) * share);
        }
    }
}

/// Marks which of `weights` are among the `most` greatest; ties go to the earlier one.
pub(crate) fn loudest(weights: &[f32], most: usize) -> Vec<bool> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
    let mut is_mixed = vec![false; weights.len()];
    for place in order.into_iter().take(most) {
        is_mixed[place] = true;
    }
    is_mixed
}

/// Converts interleaved samples from `from` to `to` channels, 1 or 2 each: stereo to mono by
/// the mean, mono to stereo by duplication.
pub(crate) fn remix(samples: &[f32], from: usize, to: usize, out: &mut Vec<f32>) {
    match (from, to) {
        (2, 1) => {
            let frames = samples.as_chunks::<2>().0.iter();
            out.extend(frames.map(|[left, right]| 0.5 * (left + right)));
        }
        (1, 2) => out.extend(samples.iter().flat_map(|sample| [*sample; 2])),
        _ => out.extend_from_slice(samples),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loudest_are_heard_and_change_without_a_step() {
        assert_eq!(
            loudest(&[0.1, 0.4, 0.2, 0.4], 2),
            [false, true, false, true]
        );
        assert_eq!(loudest(&[], 3), []);
        let mut share = Share::default();
        let mut mix = vec![0.0; 120];
        share.add(&[0.5; 120], &mut mix, 1, true);
        assert!(mix[0] < 0.01 && mix[119] > 0.49);
        assert!(mix.windows(2).all(|it| it[1] - it[0] < 0.01));
        assert_eq!(share.weight(0.3), 0.6);
        mix.fill(0.0);
        share.add(&[0.5; 120], &mut mix, 1, false);
        assert!(mix[0] > 0.49 && mix[119] < 0.01);
    }

    #[test]
    fn channels_are_told_apart() {
        let mut out = Vec::new();
        remix(&[0.2, 0.4, 1.0, 0.0], 2, 1, &mut out);
        assert!((out[0] - 0.3).abs() < 1e-6 && out[1] == 0.5 && out.len() == 2);
        out.clear();
        remix(&[0.2, 0.4], 1, 2, &mut out);
        assert_eq!(out, [0.2, 0.2, 0.4, 0.4]);
    }

    #[test]
    fn a_voice_fades_over_a_block_of_all_channels_and_is_added_whole_after_it() {
        let mut share = Share::default();
        assert_eq!(share.weight(0.3), 0.3, "not mixed yet");
        let mut mix = vec![0.25; 8];
        share.add(&[0.5; 8], &mut mix, 2, false);
        assert_eq!(mix, [0.25; 8], "neither before nor now");
        share.add(&[0.5; 8], &mut mix, 2, true);
        // The middle of each of four frames: an eighth, three eighths, and so on.
        for (frame, pair) in mix.as_chunks::<2>().0.iter().enumerate() {
            let wanted = 0.25 + 0.5 * (frame as f32 + 0.5) / 4.0;
            assert_eq!(*pair, [wanted; 2]);
        }
        mix.fill(0.25);
        share.add(&[0.5; 8], &mut mix, 2, true);
        assert_eq!(mix, [0.75; 8]);
        mix.fill(0.25);
        share.add(&[0.5; 8], &mut mix, 2, false);
        for (frame, pair) in mix.as_chunks::<2>().0.iter().enumerate() {
            let wanted = 0.25 + 0.5 * (1.0 - (frame as f32 + 0.5) / 4.0);
            assert_eq!(*pair, [wanted; 2]);
        }
        share.add(&[], &mut [], 2, true);
        let mut out = Vec::new();
        remix(&[0.2, 0.4], 2, 2, &mut out);
        assert_eq!(out, [0.2, 0.4], "as many channels as before");
        assert_eq!(loudest(&[0.3, 0.3, 0.3], 2), [true, true, false]);
    }
}
