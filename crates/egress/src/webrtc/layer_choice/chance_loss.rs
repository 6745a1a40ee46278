//! The losses of a path that stay on a lower layer, as those of a radio do: they speak against no layer.

use glassline_congestion::PathSigns;

/// Parts in which shares are counted.
const WHOLE: u64 = 1 << 16;
/// Share of the latest losses in the mean, one in so many: some three seconds of feedback.
const SMOOTHED_ONE_IN: u64 = 32;
/// Largest share that counts as chance: radios that lose more are rare, and policers lose more at times.
const SHARE_MAX: u64 = WHOLE / 6;
/// Fewest packets whose losses tell anything.
const PACKETS_MIN: u64 = 10;

/// Share of packets that a viewer's path loses by chance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChanceLoss(u64);

impl ChanceLoss {
    /// Takes the signs of the latest feedback on a layer below the one that the viewer could have.
    pub(super) fn note(&mut self, signs: &PathSigns) {
        if signs.packets >= PACKETS_MIN {
            let share = signs.lost.min(signs.packets) * WHOLE / signs.packets;
            let share = share.min(SHARE_MAX);
            self.0 = self.0 - self.0 / SMOOTHED_ONE_IN + share / SMOOTHED_ONE_IN;
        }
    }

    /// Returns the packets whose loss is no chance: those beyond one and a half times the usual share.
    pub(super) const fn beyond(self, signs: &PathSigns) -> u64 {
        let usual = signs.packets * self.0 / WHOLE;
        signs.lost.saturating_sub(usual + usual / 2)
    }
}
