use std::time::Duration;

use glassline_media::MediaTime;

/// Most units that a decoder may hold back: it stores 16 frames (H.264 A.3.1, H.265 A.4.2), and each
/// may be two fields.
const DEPTH_MAX: usize = 32;

/// Distance of units that is assumed before the first one, for as many units as are held back.
const STEP: Duration = Duration::from_millis(40);

/// Distance of a unit before the decode time of the last one from which on the clock of the source has
/// jumped.
const LEAP: Duration = Duration::from_secs(2);

/// Derives the decode times of a live track, whose packets carry presentation times alone.
///
/// A decoder that holds back `depth` units outputs one with each further unit. So the time at which a
/// unit is decoded is the smallest of the latest `depth + 1` presentation times, as FFmpeg derives it
/// (`compute_pkt_fields` in libavformat/demux.c). Decode times never fall, and are at most the
/// presentation time if the source keeps to its depth. One that does not is noticed by the first unit
/// that is presented before the decode time of the unit before: its depth is one more from then on.
#[derive(Clone, Debug)]
pub struct DecodeTimes {
    /// The latest presentation times, the earliest first: as many as `held` says.
    latest: [MediaTime; DEPTH_MAX + 1],
    held: usize,
    /// Depth that the units have shown.
    shown: usize,
    /// Decode time of the unit before.
    decoded: Option<MediaTime>,
}

impl Default for DecodeTimes {
    fn default() -> Self {
        Self {
            latest: [MediaTime::ZERO; DEPTH_MAX + 1],
            held: 0,
            shown: 0,
            decoded: None,
        }
    }
}

impl DecodeTimes {
    /// Returns the decode time of the next unit in decoding order, which is presented at `presented`.
    /// `depth` is [`Reordering::depth`](super::Reordering::depth) behind that unit.
    pub fn next(&mut self, presented: MediaTime, depth: u32) -> MediaTime {
        let announced = usize::try_from(depth).unwrap_or(DEPTH_MAX);
        let depth = announced.max(self.shown).min(DEPTH_MAX);
        let jumps = |decoded: &MediaTime| decoded.saturating_since(presented) > LEAP;
        let decoded = match self.decoded.filter(|decoded| !jumps(decoded)) {
            None => self.begin(presented, depth),
            Some(before) => self.go_on(presented, depth).max(before),
        };
        self.decoded = Some(decoded);
        decoded
    }

    /// Begins with a unit that follows no other.
    fn begin(&mut self, presented: MediaTime, depth: usize) -> MediaTime {
        self.held = depth + 1;
        for (time, ahead) in self.latest[..self.held].iter_mut().rev().zip(0..) {
            *time = presented - STEP * ahead;
        }
        self.latest[0]
    }

    fn go_on(&mut self, presented: MediaTime, depth: usize) -> MediaTime {
        if presented < self.latest[0] {
            self.shown = self.held.min(DEPTH_MAX);
        }
        // The earliest time is that of the unit before. It stays where more units are held back now.
        let wanted = depth.max(self.shown) + 1;
        let over = (self.held + 1).saturating_sub(wanted).min(self.held);
        self.latest.copy_within(over..self.held, 0);
        self.held -= over;
        let place = self.latest[..self.held].partition_point(|time| *time <= presented);
        self.latest.copy_within(place..self.held, place + 1);
        self.latest[place] = presented;
        self.held += 1;
        self.latest[0]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: i64) -> MediaTime {
        MediaTime::from_nanos(ms * 1_000_000)
    }

    fn derive(presented_ms: &[i64], depth: u32) -> Vec<i64> {
        let mut times = DecodeTimes::default();
        let presented = presented_ms.iter();
        let decoded = presented.map(|at| times.next(ms(*at), depth).nanos() / 1_000_000);
        decoded.collect()
    }

    /// Appends the presentation order of the units between two reference units, numbers `from` to `to`,
    /// as an encoder with a pyramid of `levels` decodes them.
    fn pyramid(from: i64, to: i64, levels: u32, out: &mut Vec<i64>) {
        if to - from < 2 {
            return;
        }
        if levels == 1 {
            out.extend(from + 1..to);
            return;
        }
        let middle = i64::midpoint(from, to);
        out.push(middle);
        pyramid(from, middle, levels - 1, out);
        pyramid(middle, to, levels - 1, out);
    }

    /// Numbers in presentation order of a stream whose pyramids hold back `depth` units, in the order of
    /// decoding.
    fn stream(depth: u32, pyramids: i64) -> Vec<i64> {
        let size = 1 << depth;
        let mut out = vec![0];
        for last in (0..pyramids).map(|number| number * size) {
            out.push(last + size);
            pyramid(last, last + size, depth, &mut out);
        }
        out
    }

    #[test]
    fn without_reordering_units_are_decoded_when_they_are_presented() {
        let presented = [0, 40, 80, 81, 500, 40_000, 40_040, 7, 47];
        assert_eq!(derive(&presented, 0), presented);
    }

    #[test]
    fn a_pyramid_is_decoded_as_many_units_ahead_as_it_holds_back() {
        let numbers = stream(2, 2);
        assert_eq!(numbers, [0, 4, 2, 1, 3, 8, 6, 5, 7]);
        let presented: Vec<_> = numbers.iter().map(|number| number * 40).collect();
        let decoded = [-80, -40, 0, 40, 80, 120, 160, 200, 240];
        assert_eq!(derive(&presented, 2), decoded);
    }

    #[test]
    fn a_stream_that_announces_nothing_is_found_out_by_its_first_b_frames() {
        let presented: Vec<_> = stream(2, 3).iter().map(|number| number * 40).collect();
        let decoded = derive(&presented, 0);
        assert_eq!(
            decoded[..5],
            [0, 160, 160, 160, 160],
            "they were said to come in order"
        );
        assert!(decoded.is_sorted());
        let learnt = presented.iter().zip(&decoded).skip(5);
        assert!(
            learnt
                .clone()
                .all(|(presented, decoded)| decoded <= presented),
            "{decoded:?}"
        );
    }

    #[test]
    fn other_parameters_hold_back_more_units_or_fewer() {
        let mut times = DecodeTimes::default();
        let mut derived = Vec::new();
        for (at, depth) in (0..12).zip([0, 0, 0, 2, 2, 2, 2, 1, 1, 0, 0, 0]) {
            derived.push(times.next(ms(at * 40), depth).nanos() / 40_000_000);
        }
        assert_eq!(derived, [0, 1, 2, 2, 2, 3, 4, 6, 7, 9, 10, 11]);
    }

    proptest! {
        #[test]
        fn decode_times_never_fall_and_are_never_behind_presentation(
            depth in 1u32..=4,
            lost in prop::collection::vec(prop::bool::weighted(0.2), 1..200),
            step_ms in 1i64..100,
            announced_more in 0u32..3,
        ) {
            let numbers = stream(depth, 12);
            let is_lost = |place: usize| place > 0 && lost.get(place).copied().unwrap_or(false);
            let kept = numbers.iter().enumerate().filter(|(place, _)| !is_lost(*place));
            let (mut times, mut before) = (DecodeTimes::default(), None::<MediaTime>);
            for (_, number) in kept {
                let presented = ms(number * step_ms);
                let decoded = times.next(presented, depth + announced_more);
                prop_assert!(decoded <= presented);
                prop_assert!(before.is_none_or(|before| before <= decoded));
                before = Some(decoded);
            }
        }

        #[test]
        fn decode_times_of_any_units_never_fall_but_where_the_clock_jumps(
            units in prop::collection::vec((-3_000i64..3_000, 0u32..40), 1..200),
        ) {
            let (mut times, mut before) = (DecodeTimes::default(), None::<MediaTime>);
            let mut presented = MediaTime::ZERO;
            for (step_ms, depth) in units {
                presented = MediaTime::from_nanos(presented.nanos() + step_ms * 1_000_000);
                let decoded = times.next(presented, depth);
                let jumps = before.is_some_and(|it| it.saturating_since(presented) > LEAP);
                prop_assert!(jumps || before.is_none_or(|before| before <= decoded));
                before = Some(decoded);
            }
        }
    }
}
