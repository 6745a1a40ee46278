//! Several channels mixed down to left and right.
//!
//! The shares are those of RFC 7845 §5.1.1.5 for Opus. They are used for AAC, too: one place in the
//! room, one share, whatever the codec.

use std::f32::consts::FRAC_1_SQRT_2;

use glassline_media::aac::{Placement, ProgramElement};

/// Share of a loudspeaker beside or behind the listener in the channel of its own side: the cosine
/// of 30°. The other channel has half of it, the sine.
const NEAR: f32 = 0.866_025_4;
const FAR: f32 = 0.5;

/// Share of each channel in left and right.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mixdown {
    shares: Vec<[f32; 2]>,
}

impl Mixdown {
    /// Returns the mixdown of the elements of AAC frames, their channels one behind the other.
    pub(super) fn of_elements(elements: &[ProgramElement]) -> Self {
        let shares = elements.iter().flat_map(|element| {
            let shares: &[[f32; 2]] = match (element.placement, element.is_pair) {
                (Placement::Front, false) | (Placement::LowFrequency, _) => &[CENTRE],
                (Placement::Front, true) => &[LEFT, RIGHT],
                (Placement::Side | Placement::Back, true) => &[BEHIND_LEFT, BEHIND_RIGHT],
                (Placement::Side | Placement::Back, false) => &[BEHIND],
            };
            shares.iter().copied()
        });
        Self::of(shares.collect())
    }

    /// Returns the mixdown of Opus channels in the order of Vorbis (RFC 7845 §5.1.1.2), 1 to 8 of
    /// them; `None` for other numbers.
    pub(super) fn of_vorbis_order(channels: usize) -> Option<Self> {
        let shares: &[[f32; 2]] = match channels {
            1 => &[CENTRE],
            2 => &[LEFT, RIGHT],
            3 => &[LEFT, CENTRE, RIGHT],
            4 => &[LEFT, RIGHT, BEHIND_LEFT, BEHIND_RIGHT],
            5 => &[LEFT, CENTRE, RIGHT, BEHIND_LEFT, BEHIND_RIGHT],
            6 => &[LEFT, CENTRE, RIGHT, BEHIND_LEFT, BEHIND_RIGHT, CENTRE],
            7 => &[
                LEFT,
                CENTRE,
                RIGHT,
                BEHIND_LEFT,
                BEHIND_RIGHT,
                BEHIND,
                CENTRE,
            ],
            8 => &[
                LEFT,
                CENTRE,
                RIGHT,
                BEHIND_LEFT,
                BEHIND_RIGHT,
                BEHIND_LEFT,
                BEHIND_RIGHT,
                CENTRE,
            ],
            _ => return None,
        };
        Some(Self::of(shares.to_vec()))
    }

    /// Scales shares so that loud audio fits: those of left sum up to one, and from five channels
    /// on, which are hardly loud all at once, to two.
    fn of(mut shares: Vec<[f32; 2]>) -> Self {
        let wanted = if shares.len() < 5 { 1.0 } else { 2.0 };
        let sum = |side: usize| shares.iter().map(|it| it[side]).sum::<f32>();
        let scale = wanted / sum(0).max(sum(1)).max(f32::MIN_POSITIVE);
        for share in shares.iter_mut().flatten() {
            *share *= scale;
        }
        Self { shares }
    }

    /// Returns the number of channels that go in.
    pub(super) const fn channels(&self) -> usize {
        self.shares.len()
    }

    /// Adds samples of channels to interleaved samples of left and right. `channels` are
    /// interleaved, the first of them the mixdown's channel number `first`, each `width` wide.
    pub(super) fn add(&self, first: usize, width: usize, channels: &[f32], mixed: &mut [f32]) {
        let Some(shares) = self.shares.get(first..first + width) else {
            return;
        };
        for (sample, mixed) in channels.chunks_exact(width).zip(mixed.as_chunks_mut().0) {
            let [left, right] = mixed;
            for (value, [to_left, to_right]) in sample.iter().zip(shares) {
                *left += value * to_left;
                *right += value * to_right;
            }
        }
    }
}

const LEFT: [f32; 2] = [1.0, 0.0];
const RIGHT: [f32; 2] = [0.0, 1.0];
const CENTRE: [f32; 2] = [FRAC_1_SQRT_2, FRAC_1_SQRT_2];
const BEHIND_LEFT: [f32; 2] = [NEAR, FAR];
const BEHIND_RIGHT: [f32; 2] = [FAR, NEAR];
const BEHIND: [f32; 2] = [NEAR * FRAC_1_SQRT_2, NEAR * FRAC_1_SQRT_2];

#[cfg(test)]
mod tests {
    use glassline_media::aac::Program;

    use super::*;

    /// The first rows of the matrices in RFC 7845, figures 3 to 9.
    #[test]
    fn shares_are_those_of_rfc_7845() {
        let rows: [&[f32]; 6] = [
            &[0.585_786, 0.414_214, 0.0],
            &[0.422_650, 0.0, 0.366_025, 0.211_325],
            &[0.650_802, 0.460_186, 0.0, 0.563_611, 0.325_401],
            &[0.529_067, 0.374_107, 0.0, 0.458_186, 0.264_534, 0.374_107],
            &[
                0.455_310, 0.321_953, 0.0, 0.394_310, 0.227_655, 0.278_819, 0.321_953,
            ],
            &[
                0.388_631, 0.274_804, 0.0, 0.336_565, 0.194_316, 0.336_565, 0.194_316, 0.274_804,
            ],
        ];
        for row in rows {
            let mixdown = Mixdown::of_vorbis_order(row.len()).expect("1 to 8");
            for (share, expected) in mixdown.shares.iter().zip(row) {
                assert!((share[0] - expected).abs() < 1e-5, "{share:?} {expected}");
            }
        }
        assert_eq!(Mixdown::of_vorbis_order(9), None);
    }

    #[test]
    fn elements_have_the_same_shares_in_their_own_order() {
        let program = Program::of_configuration(6).expect("5.1");
        let mixdown = Mixdown::of_elements(program.elements());
        assert_eq!(mixdown.channels(), 6);
        let mut mixed = [0.0; 4];
        // The pair behind is the fourth and fifth channel; the second sample has it on the right.
        mixdown.add(3, 2, &[1.0, 0.0, 0.0, 1.0], &mut mixed);
        let near_and_far = [0.458_186, 0.264_534, 0.264_534, 0.458_186];
        for (value, expected) in mixed.iter().zip(near_and_far) {
            assert!((value - expected).abs() < 1e-5, "{mixed:?}");
        }
        mixdown.add(5, 2, &[1.0; 4], &mut mixed);
        assert!(mixed[0] < 0.5, "channels that there are not add nothing");
    }

    #[test]
    fn each_element_has_the_place_of_its_loudspeakers() {
        let element = |placement, is_pair| ProgramElement {
            placement,
            is_pair,
            tag: None,
        };
        // Each beside a front pair, so that the shares of left sum up to one.
        for (placement, is_pair, shares) in [
            (Placement::Front, false, vec![CENTRE]),
            (Placement::LowFrequency, false, vec![CENTRE]),
            (Placement::Front, true, vec![LEFT, RIGHT]),
            (Placement::Side, true, vec![BEHIND_LEFT, BEHIND_RIGHT]),
            (Placement::Back, true, vec![BEHIND_LEFT, BEHIND_RIGHT]),
            (Placement::Side, false, vec![BEHIND]),
            (Placement::Back, false, vec![BEHIND]),
        ] {
            let elements = [element(Placement::Front, true), element(placement, is_pair)];
            let mixdown = Mixdown::of_elements(&elements);
            let sum = 1.0 + shares.iter().map(|it| it[0]).sum::<f32>();
            let expected = [LEFT, RIGHT].into_iter().chain(shares);
            for (share, expected) in mixdown.shares.iter().flatten().zip(expected.flatten()) {
                assert!(
                    (share - expected / sum).abs() < 1e-6,
                    "{placement:?} {is_pair}"
                );
            }
        }
    }

    #[test]
    fn one_and_two_channels_stay() {
        let one = Mixdown::of_vorbis_order(1).expect("mono");
        assert_eq!(one.channels(), 1);
        assert!(
            one.shares
                .iter()
                .flatten()
                .all(|it| (it - 1.0).abs() < 1e-6)
        );
        let two = Mixdown::of_vorbis_order(2).expect("stereo");
        assert_eq!(two.shares, [LEFT, RIGHT]);
        assert_eq!(Mixdown::of_vorbis_order(0), None);
    }

    #[test]
    fn samples_are_added_with_the_shares_of_their_channels() {
        let mixdown = Mixdown {
            shares: vec![[1.0, 0.0], [0.5, 0.25], [0.0, 2.0]],
        };
        let mut mixed = [1.0, 2.0, 3.0, 4.0];
        mixdown.add(1, 2, &[0.5, 0.25, -1.0, 0.125], &mut mixed);
        assert_eq!(mixed, [1.25, 2.625, 2.5, 4.0]);
        mixdown.add(0, 1, &[0.5, 0.5, 9.0], &mut mixed);
        assert_eq!(mixed, [1.75, 2.625, 3.0, 4.0]);
        mixdown.add(2, 2, &[1.0; 4], &mut mixed);
        assert_eq!(mixed, [1.75, 2.625, 3.0, 4.0], "there is no fourth channel");
    }
}
