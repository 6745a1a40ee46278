//! The legs of a viewer's way through the layers of a track: what it got of one layer, from one switch
//! to the next, and how times and numbers of that layer are shown to it.
//!
//! ```text
//! layer 3 ──●──●──●──●            leg 0: times and numbers as they are
//! layer 1      ○  ○  ○  K──●──●   leg 1: times at most 75 ms later, picture IDs behind those of leg 0
//! viewer  ──●──●──●──●──K──●──●
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use glassline_media::{LayerIndex, MediaTime};
use glassline_rtp::payload::NumberShift;

/// Factor by which the timestamps of frames before the viewer's live point are compressed, so that
/// the viewer decodes them as fast as it can and shows the newest: a second of them passes in 31 ms
/// instead of leaving the viewer a second behind for good.
const CATCH_UP_SQUEEZE: i64 = 32;

/// Longest time that the frames before the live point take by their timestamps, in ns: those of 20 s.
/// Where keyframes are further apart, the frames are compressed more.
const CATCH_UP_SPAN_NS: i64 = 625_000_000;

/// Largest factor of compression behind frames of another layer: frames of 30 fps are still 30 µs
/// apart, which are two steps of a video clock.
const SQUEEZE_MAX: i64 = 1024;

/// Least distance in media time from the last frame of one layer to the first one of the next.
const STEP: Duration = Duration::from_millis(1);

/// Longest distance by which the times of a layer are moved forward. Layers whose clocks differ by more
/// are not joined: the viewer would see a pause.
const SHIFT_MAX: Duration = Duration::from_millis(75);

/// Number of earlier legs of which packets may be sent again.
const LEGS_MAX: usize = 16;

/// Number of a leg, counted from 0, and of the numbered frames of the leg that were left out so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LegNumber {
    leg: u32,
    left_out: u32,
}

impl LegNumber {
    /// Returns whether both are of one leg.
    pub(super) const fn is_of(self, other: Self) -> bool {
        self.leg == other.leg
    }

    /// Returns the number behind so many more frames that are left out.
    pub(super) const fn behind(self, left_out: u32) -> Self {
        Self {
            left_out: self.left_out.wrapping_add(left_out),
            ..self
        }
    }
}

/// The units that a viewer got of one layer, from one switch to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    number: u32,
    layer: LayerIndex,
    /// Media time of the viewer's live point: timestamps of frames before are compressed.
    live_from: MediaTime,
    /// Factor by which these timestamps are compressed.
    squeeze: i64,
    /// Distance by which all timestamps are moved forward.
    shift: Duration,
    number_shift: NumberShift,
}

/// Times of the frames with which a leg begins: those from a keyframe on that were published already,
/// or the keyframe alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) oldest: MediaTime,
    pub(super) newest: MediaTime,
}

impl Entry {
    fn span_ns(self) -> i64 {
        self.newest.nanos().saturating_sub(self.oldest.nanos())
    }

    /// Returns the factor by which the frames before the newest are compressed at least.
    fn squeeze(self) -> i64 {
        CATCH_UP_SQUEEZE.max(self.span_ns() / CATCH_UP_SPAN_NS + 1)
    }

    /// Returns the time at which the oldest frame is shown where nothing was before.
    pub(super) fn first_shown(self) -> MediaTime {
        MediaTime::from_nanos(self.newest.nanos() - self.span_ns() / self.squeeze())
    }
}

impl Leg {
    /// Creates the leg of a viewer that has got nothing yet.
    const fn first(layer: LayerIndex) -> Self {
        Self {
            number: 0,
            layer,
            live_from: MediaTime::from_nanos(i64::MIN),
            squeeze: CATCH_UP_SQUEEZE,
            shift: Duration::ZERO,
            number_shift: NumberShift::NONE,
        }
    }

    /// Creates the leg that follows this one on `layer` and begins with the frames of `entry`, behind
    /// the time `latest` that was shown last. Returns `None` if their times would have to move too far.
    fn follow(&self, layer: LayerIndex, entry: Entry, latest: MediaTime) -> Option<Self> {
        let floor_ns = latest.nanos().saturating_add(nanos(STEP));
        let span_ns = entry.span_ns();
        let live_ns = floor_ns.saturating_add(span_ns / entry.squeeze());
        let shift_ns = live_ns.saturating_sub(entry.newest.nanos()).max(0);
        let shift_ns = match span_ns {
            0 => shift_ns,
            // Frames before the newest may be compressed more instead.
            _ => shift_ns.min(nanos(SHIFT_MAX)),
        };
        let room_ns = (entry.newest.nanos() + shift_ns).saturating_sub(floor_ns);
        if shift_ns > nanos(SHIFT_MAX) || room_ns < 0 || span_ns > 0 && room_ns == 0 {
            return None;
        }
        let squeeze = match span_ns {
            0 => CATCH_UP_SQUEEZE,
            _ => entry.squeeze().max(span_ns / room_ns + 1),
        };
        (squeeze <= SQUEEZE_MAX).then(|| Self {
            number: self.number.wrapping_add(1),
            layer,
            live_from: entry.newest,
            squeeze,
            shift: Duration::from_nanos(shift_ns.unsigned_abs()),
            number_shift: NumberShift::NONE,
        })
    }

    /// Returns the layer that the viewer gets.
    pub(crate) const fn layer(&self) -> LayerIndex {
        self.layer
    }

    /// Returns the distance by which frame numbers in payloads are moved.
    pub(crate) const fn number_shift(&self) -> &NumberShift {
        &self.number_shift
    }

    /// Returns whether a frame at `time` belongs to the compressed past, so that its delay has no
    /// meaning.
    pub(crate) fn is_past(&self, time: MediaTime) -> bool {
        time < self.live_from
    }

    /// Returns whether a frame at `time` comes behind the viewer's live point.
    pub(super) fn is_behind(&self, time: MediaTime) -> bool {
        self.live_from < time
    }

    /// Returns the media time at which the viewer is shown a frame; it is the same for every
    /// transmission.
    pub(super) fn shown(&self, time: MediaTime) -> MediaTime {
        let shown = if self.is_past(time) {
            let behind = self.live_from.nanos() - time.nanos();
            MediaTime::from_nanos(self.live_from.nanos() - behind / self.squeeze)
        } else {
            time
        };
        shown + self.shift
    }
}

/// The present leg, and earlier ones of which packets may be sent again.
#[derive(Debug)]
pub(super) struct Legs {
    present: Leg,
    /// Frames of the present leg that were left out.
    left_out: u32,
    /// Legs before the present one, the oldest first.
    earlier: VecDeque<Leg>,
}

impl Legs {
    pub(super) fn new(layer: LayerIndex) -> Self {
        Self {
            present: Leg::first(layer),
            left_out: 0,
            earlier: VecDeque::new(),
        }
    }

    pub(super) const fn present(&self) -> &Leg {
        &self.present
    }

    pub(super) const fn number(&self) -> LegNumber {
        LegNumber {
            leg: self.present.number,
            left_out: self.left_out,
        }
    }

    /// Notes that a frame of the present leg is left out, behind which the numbers of frames go on.
    pub(super) const fn leave_out(&mut self) {
        self.left_out = self.left_out.wrapping_add(1);
    }

    /// Returns a leg as it is behind the frames that were left out; `None` if it was too many switches ago.
    pub(super) fn get(&self, number: LegNumber) -> Option<Leg> {
        let is_present = number.leg == self.present.number;
        let leg = match is_present {
            true => self.present,
            false => *self.earlier.iter().find(|it| it.number == number.leg)?,
        };
        Some(Leg {
            number_shift: leg.number_shift.without(number.left_out),
            ..leg
        })
    }

    /// Makes the first leg that of another layer, of which nothing was sent yet.
    pub(super) fn begin_on(&mut self, layer: LayerIndex) {
        self.present.layer = layer;
    }

    /// Moves the frame numbers of the first leg, of which nothing was sent yet.
    pub(super) const fn shift_numbers(&mut self, shift: NumberShift) {
        self.present.number_shift = shift;
    }

    /// Compresses the times of the frames with which a viewer begins.
    pub(super) fn catch_up(&mut self, entry: Entry) {
        self.present.live_from = entry.newest;
        self.present.squeeze = entry.squeeze();
    }

    /// Returns the leg that would follow on `layer`, to be given to [`Self::push`]. `oldest` is the leg
    /// of the oldest unit that waits; it must not be forgotten.
    pub(super) fn next(
        &self,
        layer: LayerIndex,
        entry: Entry,
        latest: MediaTime,
        oldest: Option<LegNumber>,
    ) -> Option<Leg> {
        let forgets_oldest = self.earlier.len() == LEGS_MAX
            && oldest
                .is_some_and(|it| self.earlier.front().is_some_and(|leg| leg.number == it.leg));
        if forgets_oldest {
            return None;
        }
        self.present.follow(layer, entry, latest)
    }

    /// Begins a leg, in which picture numbers are moved by `number_shift`.
    pub(super) fn push(&mut self, leg: Leg, number_shift: NumberShift) {
        if self.earlier.len() == LEGS_MAX {
            self.earlier.pop_front();
        }
        self.earlier.push_back(self.present);
        self.left_out = 0;
        self.present = Leg {
            number_shift,
            ..leg
        };
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use glassline_rtp::payload::FrameNumbers;

    use super::*;

    fn ms(ms: i64) -> MediaTime {
        MediaTime::from_nanos(ms * 1_000_000)
    }

    fn live(at: i64) -> Entry {
        Entry {
            oldest: ms(at),
            newest: ms(at),
        }
    }

    fn follow(entry: Entry, latest: i64) -> Option<Leg> {
        Leg::first(LayerIndex(3)).follow(LayerIndex(1), entry, ms(latest))
    }

    #[test]
    fn a_keyframe_that_is_later_is_shown_at_its_time() {
        let leg = follow(live(1_033), 1_000).expect("later");
        assert_eq!(
            [1_033, 1_066].map(|at| leg.shown(ms(at))),
            [ms(1_033), ms(1_066)]
        );
        assert!(!leg.is_past(ms(1_033)));
    }

    #[test]
    fn the_times_of_a_layer_move_75_ms_forward_at_most_and_never_back() {
        let leg = follow(live(926), 1_000).expect("75 ms");
        assert_eq!(leg.shown(ms(926)), ms(1_001));
        assert_eq!(leg.shown(ms(959)), ms(1_034), "for the whole leg");
        assert!(follow(live(925), 1_000).is_none());
        // The times of the leg after count from the source's times again.
        let next = leg.follow(LayerIndex(3), live(1_100), ms(1_034));
        assert_eq!(next.expect("later").shown(ms(1_100)), ms(1_100));
    }

    #[test]
    fn frames_since_a_keyframe_are_shown_between_the_last_one_and_now() {
        let (oldest, newest) = (ms(0), ms(2_000));
        for latest in [-500, 0, 1_500, 1_990, 1_999, 2_000, 2_070] {
            let leg = follow(Entry { oldest, newest }, latest).expect("room");
            let shown: Vec<_> = (0..=60).map(|it| leg.shown(ms(it * 2_000 / 60))).collect();
            assert!(shown[0] > ms(latest), "{latest}: {shown:?}");
            assert!(
                shown.is_sorted_by(|one, other| one < other),
                "{latest}: {shown:?}"
            );
            let moved = shown[60].nanos() - newest.nanos();
            assert!((0..=75_000_000).contains(&moved), "{latest}: {moved}");
            assert!(leg.shown(ms(2_033)) > shown[60]);
        }
        assert!(
            follow(Entry { oldest, newest }, 2_074).is_none(),
            "too little room"
        );
        assert!(follow(Entry { oldest, newest }, 2_075).is_none(), "no room");
    }

    #[test]
    fn numbers_go_on_behind_frames_that_were_left_out() {
        let mut legs = Legs::new(LayerIndex(0));
        let before = legs.number();
        legs.leave_out();
        legs.leave_out();
        let after = legs.number();
        assert!(before < after);
        let first = FrameNumbers {
            frame_id: Some(1),
            ..FrameNumbers::default()
        };
        let shown = |number| legs.get(number).map(|it| it.number_shift().apply(first));
        let ids = [before, after].map(|it| shown(it).and_then(|it| it.frame_id));
        assert_eq!(ids, [Some(1), Some(0x7fff)]);
    }

    #[test]
    fn earlier_legs_are_kept_for_a_while() {
        let mut legs = Legs::new(LayerIndex(3));
        let first = legs.number();
        for switch in 1..=16 {
            let leg = legs.next(LayerIndex(1), live(switch * 100), ms(0), Some(first));
            legs.push(leg.expect("later"), NumberShift::NONE);
        }
        assert_eq!(legs.get(first).map(|it| it.layer()), Some(LayerIndex(3)));
        let next = |oldest| legs.next(LayerIndex(2), live(5_000), ms(0), oldest);
        assert!(next(Some(first)).is_none(), "its units still wait");
        let leg = next(None).expect("nothing waits");
        legs.push(leg, NumberShift::NONE);
        assert!(legs.get(first).is_none() && legs.earlier.len() == 16);
        assert_eq!(legs.present().layer(), LayerIndex(2));
    }
}
