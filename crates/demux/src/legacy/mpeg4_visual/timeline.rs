//! Presentation times of MPEG-4 pictures.
//!
//! A picture states the tick within a second, and the seconds since the reference picture
//! before it (ISO/IEC 14496-2 §6.3.5, `modulo_time_base`). Groups may set the seconds anew.
//! Streams that were cut or joined set them wrongly, so a jump is replaced by the usual
//! distance of pictures.

use super::headers::{Kind, Layer, Picture};

/// Longest distance of two pictures in seconds; a longer one is a jump.
const GAP_SECONDS_MAX: i64 = 10;

/// Pictures per second, where a stream states no rate.
const RATE_ASSUMED: i64 = 25;

/// Converts the times of pictures to a timeline that begins at zero.
pub(super) struct Timeline {
    resolution: i64,
    /// Seconds of the last reference picture, and of the one before.
    seconds: (i64, i64),
    /// Ticks that are added to the stated times.
    shift: i64,
    /// Time of the last reference picture.
    anchor: Option<i64>,
    /// Distance of the last two reference pictures.
    anchor_gap: i64,
    /// Time of the last picture whose presentation is certain.
    shown: Option<i64>,
    gap: Gap,
}

/// Duration of pictures in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    Unknown,
    /// All pictures last equally long.
    Steady(i64),
    /// Pictures have different durations; this is the latest.
    Varying(i64),
}

/// Time of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PictureTime {
    /// The picture's time in ticks, which no other picture has.
    Stated(i64),
    /// A time that replaces the stated one, in ticks.
    Corrected(i64),
    /// The picture has no time, and no other picture refers to it.
    Missing,
}

impl Timeline {
    pub(super) fn new(layer: &Layer) -> Self {
        let resolution = i64::from(layer.resolution);
        let usual = layer.fixed.map(i64::from);
        Self {
            resolution,
            seconds: (0, 0),
            shift: 0,
            anchor: None,
            anchor_gap: usual.unwrap_or((resolution / RATE_ASSUMED).max(1)),
            shown: None,
            gap: usual.map_or(Gap::Unknown, Gap::Steady),
        }
    }

    /// Notes the time code of a group, in seconds.
    pub(super) fn group(&mut self, seconds: u32) {
        self.seconds.0 = seconds.into();
    }

    /// Returns the time of the next picture in decoding order.
    pub(super) fn time_of(&mut self, picture: &Picture) -> PictureTime {
        let ticks = |seconds: i64| {
            (seconds + i64::from(picture.seconds)) * self.resolution + i64::from(picture.ticks)
        };
        if picture.kind == Kind::Bidirectional {
            return self.time_between(ticks(self.seconds.1) + self.shift);
        }
        let said = ticks(self.seconds.0);
        self.seconds = (self.seconds.0 + i64::from(picture.seconds), self.seconds.0);
        let Some(before) = self.anchor else {
            self.shift = -said;
            self.anchor = Some(0);
            return PictureTime::Stated(0);
        };
        let time = said + self.shift;
        let place = if time > before && time - before <= GAP_SECONDS_MAX * self.resolution {
            self.anchor_gap = time - before;
            PictureTime::Stated(time)
        } else if !picture.coded {
            return PictureTime::Missing;
        } else {
            self.shift += before + self.anchor_gap - time;
            PictureTime::Corrected(before + self.anchor_gap)
        };
        // The reference picture before can now be presented.
        self.show(before);
        self.anchor = Some(before + self.anchor_gap);
        place
    }

    fn time_between(&mut self, time: i64) -> PictureTime {
        match (self.shown, self.anchor) {
            (Some(shown), Some(anchor)) if shown < time && time < anchor => {
                self.show(time);
                PictureTime::Stated(time)
            }
            _ => PictureTime::Missing,
        }
    }

    fn show(&mut self, time: i64) {
        if let Some(shown) = self.shown {
            let gap = time - shown;
            self.gap = match self.gap {
                Gap::Unknown => Gap::Steady(gap),
                Gap::Steady(steady) if steady == gap => self.gap,
                Gap::Steady(_) | Gap::Varying(_) => Gap::Varying(gap),
            };
        }
        self.shown = Some(time);
    }

    /// Returns the ticks of all pictures including the last, and the ticks of each picture if
    /// all last equally long.
    pub(super) fn end(mut self) -> (i64, Option<i64>) {
        let last = self.anchor.unwrap_or(0);
        self.show(last);
        match self.gap {
            Gap::Unknown => (last + self.anchor_gap, None),
            Gap::Steady(gap) => (last + gap, Some(gap)),
            Gap::Varying(gap) => (last + gap, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LAYER: Layer = Layer {
        resolution: 25,
        fixed: None,
        width: 16,
        height: 16,
    };

    fn picture(kind: Kind, seconds: u16, ticks: u16) -> Picture {
        Picture {
            kind,
            seconds,
            ticks,
            coded: true,
        }
    }

    #[test]
    fn pictures_between_two_count_from_the_first_of_them() {
        use Kind::{Bidirectional as B, Intra as I, Predicted as P};
        let mut line = Timeline::new(&LAYER);
        line.group(7);
        let mut place = |kind, seconds, ticks| line.time_of(&picture(kind, seconds, ticks));
        assert_eq!(place(I, 0, 22), PictureTime::Stated(0));
        assert_eq!(place(P, 1, 0), PictureTime::Stated(3), "the next second");
        assert_eq!(place(B, 0, 23), PictureTime::Stated(1));
        assert_eq!(place(B, 0, 24), PictureTime::Stated(2));
        assert_eq!(place(P, 0, 3), PictureTime::Stated(6));
        assert_eq!(place(B, 0, 1), PictureTime::Stated(4));
        assert_eq!(place(B, 0, 1), PictureTime::Missing, "the time of another");
        assert_eq!(place(B, 0, 3), PictureTime::Missing, "not between them");
        assert_eq!(place(B, 0, 2), PictureTime::Stated(5));
        assert_eq!(line.end(), (7, Some(1)));
    }

    proptest! {
        /// Pictures with some between each two, that say their times as an encoder
        /// does; a group's time code is that of what is shown first in it.
        #[test]
        fn times_that_are_written_are_read(
            between in prop::collection::vec(0i64..4, 1..80),
            resolution in prop::sample::select(vec![1u16, 15, 24, 25, 1000, 30_000]),
            step in 1i64..100,
            first in 0i64..100_000,
            grouped in any::<bool>(),
        ) {
            let second = i64::from(resolution);
            let step = step.min(second * 2);
            let tick = |place: i64| first + place * step;
            let code = |place: i64| u32::try_from(tick(place) / second).expect("few");
            let written = |kind, from: u32, place: i64| Picture {
                kind,
                seconds: u16::try_from(code(place) - from).expect("few"),
                ticks: u16::try_from(tick(place) % second).expect("below a second"),
                coded: true,
            };
            let mut line = Timeline::new(&Layer { resolution, ..LAYER });
            let (mut seconds, mut shown) = (code(0), 0);
            line.group(seconds);
            prop_assert_eq!(line.time_of(&written(Kind::Intra, seconds, 0)), PictureTime::Stated(0));
            for count in between {
                if grouped {
                    seconds = code(shown + 1);
                    line.group(seconds);
                }
                let next = shown + 1 + count;
                let order = std::iter::once((Kind::Predicted, next));
                let order = order.chain((shown + 1..next).map(|it| (Kind::Bidirectional, it)));
                for (kind, place) in order {
                    let picture = written(kind, seconds, place);
                    prop_assert_eq!(line.time_of(&picture), PictureTime::Stated(place * step));
                }
                (seconds, shown) = (code(next), next);
            }
            prop_assert_eq!(line.end(), ((shown + 1) * step, Some(step)));
        }
    }

    #[test]
    fn jumps_are_corrected() {
        let mut line = Timeline::new(&LAYER);
        let mut place = |seconds, ticks| line.time_of(&picture(Kind::Predicted, seconds, ticks));
        assert_eq!(place(0, 0), PictureTime::Stated(0));
        assert_eq!(place(0, 2), PictureTime::Stated(2));
        assert_eq!(place(0, 1), PictureTime::Corrected(4), "back");
        assert_eq!(place(0, 3), PictureTime::Stated(6));
        assert_eq!(place(60, 3), PictureTime::Corrected(8), "far ahead");
        assert_eq!(place(0, 5), PictureTime::Stated(10));
        let empty = Picture {
            coded: false,
            ..picture(Kind::Predicted, 0, 5)
        };
        assert_eq!(line.time_of(&empty), PictureTime::Missing);
        assert_eq!(line.end(), (12, Some(2)));
    }
}
