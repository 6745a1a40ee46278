//! Temporal layers that a viewer does not get, because its path carries too little for them.
//!
//! ```text
//! layer 2   ○     ○     ○     ●        ● sent, ○ left out, S a switching point
//! layer 1      ○     ○     S     ●
//! layer 0 ●     ●     ●     ●     ●
//!                    └ the limit rises from 0 to 2
//! ```

use glassline_media::Temporal;

/// The temporal layers that a viewer gets of one encoding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thinning {
    /// Highest layer that the viewer is to get.
    limit: u8,
    /// Highest layer of which the viewer can decode the frames to come, with those below.
    whole: u8,
    /// Whether a frame above the lowest layer came.
    has_layers: bool,
}

impl Thinning {
    /// The state of a viewer that gets every layer.
    pub(super) const NONE: Self = Self {
        limit: Temporal::LAYER_MAX,
        whole: Temporal::LAYER_MAX,
        has_layers: false,
    };

    /// Sets the highest layer that the viewer is to get.
    pub(super) const fn limit(&mut self, layer: u8) {
        self.limit = layer;
    }

    /// Returns whether a frame is of a layer that the viewer is not to get.
    pub(super) const fn is_above(&self, frame: Temporal) -> bool {
        frame.layer > self.limit
    }

    /// Returns whether a frame above the lowest layer came.
    pub(super) const fn has_layers(&self) -> bool {
        self.has_layers
    }

    /// Returns whether the viewer gets the next frame, and can decode it. `starts`: a decoder can start with
    /// the frame.
    pub(super) fn admits(&mut self, frame: Temporal, starts: bool) -> bool {
        self.has_layers |= frame.layer > 0;
        if starts {
            self.whole = Temporal::LAYER_MAX;
            return true;
        }
        // Above the whole layers, a frame may refer to others from before a switching point.
        let opens_its_own = frame.needs <= self.whole && frame.opens >= frame.layer;
        let is_known = frame.layer <= self.whole || frame.needs == 0 || opens_its_own;
        if self.is_above(frame) || !is_known {
            self.leave_out(frame);
            return false;
        }
        // A frame above a layer that is not whole opens its own layer only.
        if frame.layer <= self.whole.saturating_add(1) {
            self.whole = self.whole.max(frame.opens);
        }
        true
    }

    /// Notes that the viewer does not get a frame.
    pub(super) fn leave_out(&mut self, frame: Temporal) {
        if !frame.discardable {
            self.whole = self.whole.min(frame.layer.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(layer: u8, needs: u8, opens: u8) -> Temporal {
        Temporal {
            layer,
            needs,
            opens,
            discardable: false,
        }
    }

    #[test]
    fn a_viewer_comes_back_to_a_layer_at_a_switching_point() {
        let mut thinning = Thinning::NONE;
        assert!(thinning.admits(frame(0, 0, 0), true));
        thinning.limit(0);
        assert!(!thinning.admits(frame(2, 0, 2), false));
        assert!(!thinning.admits(frame(1, 1, 0), false));
        thinning.limit(2);
        assert!(thinning.admits(frame(0, 0, 0), false));
        assert!(!thinning.admits(frame(1, 1, 0), false), "no such point");
        assert!(
            thinning.admits(frame(2, 0, 2), false),
            "it needs layer 0 alone"
        );
        assert!(
            !thinning.admits(frame(1, 1, 0), false),
            "which says nothing of layer 1"
        );
        assert!(thinning.admits(frame(1, 0, 1), false));
        assert!(!thinning.admits(frame(2, 2, 0), false));
        assert!(thinning.admits(frame(2, 1, 2), false));
        assert!(thinning.admits(frame(2, 2, 0), false));
        thinning.limit(0);
        assert!(!thinning.admits(frame(1, 0, 1), false));
        assert!(!thinning.admits(frame(2, 1, 2), false));
        assert!(thinning.admits(frame(0, 0, 0), true), "a keyframe");
        thinning.limit(2);
        assert!(thinning.admits(frame(2, 2, 0), false));
    }

    #[test]
    fn a_frame_to_which_no_other_refers_is_not_missed() {
        let mut thinning = Thinning::NONE;
        thinning.leave_out(Temporal {
            discardable: true,
            ..frame(1, 0, 0)
        });
        assert!(thinning.admits(frame(1, 1, 0), false));
    }

    /// One frame of a stream, with the frames to which it refers by their distance.
    #[derive(Clone, Debug)]
    struct Coded {
        layer: u8,
        references: Vec<usize>,
    }

    /// Returns the highest layer to which a frame refers, and the highest one that it opens: no frame from
    /// it on refers to one before of another layer than the lowest.
    fn described(stream: &[Coded], at: usize) -> Temporal {
        let layer_of =
            |distance: &usize| at.checked_sub(*distance).map_or(0, |it| stream[it].layer);
        let needs = stream[at].references.iter().map(layer_of).max();
        let (own, needs) = (stream[at].layer, needs.unwrap_or(0));
        let is_open = |layer: u8| {
            (at + 1..stream.len()).all(|later| {
                let coded = &stream[later];
                let before = coded.references.iter().filter(|it| later - **it < at);
                let mut layers = before.map(|it| stream[later - it].layer);
                coded.layer > layer || layers.all(|it| it == 0)
            })
        };
        let opens = (1..=2).rev().find(|it| *it >= own && is_open(*it));
        frame(own, needs, opens.filter(|_| needs == 0).unwrap_or(0))
    }

    proptest! {
        /// Frames refer to any frames of their own layer and of lower ones, however the limit moves.
        #[test]
        fn every_frame_that_is_sent_can_be_decoded(
            stream in prop::collection::vec((0_u8..3, prop::collection::vec(1_usize..8, 1..3)), 1..60),
            limits in prop::collection::vec(0_u8..3, 60),
        ) {
            let mut coded: Vec<Coded> = Vec::new();
            for (at, (layer, references)) in stream.into_iter().enumerate() {
                let layer = if at == 0 { 0 } else { layer };
                let fits = |it: &usize| at.checked_sub(*it).is_some_and(|it| coded[it].layer <= layer);
                let references = references.into_iter().filter(fits).collect();
                coded.push(Coded { layer, references });
            }
            let (mut thinning, mut sent) = (Thinning::NONE, Vec::new());
            for at in 0..coded.len() {
                thinning.limit(limits[at]);
                let is_sent = thinning.admits(described(&coded, at), at == 0);
                let mut references = coded[at].references.iter();
                prop_assert!(!is_sent || references.all(|it| sent[at - it]), "{at}: {coded:?}");
                prop_assert!(is_sent || coded[at].layer > 0, "the lowest layer is always sent");
                sent.push(is_sent);
            }
        }
    }
}
