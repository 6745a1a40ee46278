//! Presentation and decoding times of pictures: from their stamps, and counted between them.

use super::pictures::{Kind, Picture, Stamps};

/// Number of values of `temporal_reference`, which counts pictures in display order (ISO/IEC
/// 13818-2 §6.3.9).
const TEMPORAL_MODULUS: i64 = 1024;

/// Distance of stamps from the counted time that indicates a different recording, in ticks of
/// 27 MHz.
const SPLICE_MAX: i64 = crate::system_clock::stamp::CLOCK_RATE;

/// Times of one video stream, in ticks of 27 MHz.
#[derive(Clone, Debug, Default)]
pub(super) struct Timing {
    /// Presentation time of the picture with temporal reference 0.
    base: Option<i64>,
    /// Temporal reference of the picture before, unwrapped.
    temporal: i64,
    /// Duration of the group's pictures so far.
    group: i64,
    /// Decoding time of the last picture, and its duration.
    decoded: Option<(i64, i64)>,
    /// Temporal reference of a first field whose second field has not come yet.
    first_field: Option<i64>,
}

/// Times of a picture, in ticks of 27 MHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PictureTimes {
    pub(super) presented: i64,
    pub(super) decoded: i64,
    pub(super) duration: i64,
}

impl Timing {
    /// Continues with a picture that is presented at `presented`.
    pub(super) fn begin(picture: &Picture, presented: i64, frame: i64) -> Self {
        Self {
            base: Some(presented - picture.temporal * frame),
            temporal: picture.temporal,
            ..Self::default()
        }
    }

    /// Returns the times of the next picture; `frame` is the duration of a frame. If the stamps
    /// begin a new recording, also returns their distance from the counted time.
    pub(super) fn times_of(
        &mut self,
        picture: &Picture,
        frame: i64,
    ) -> (PictureTimes, Option<i64>) {
        let second = self.first_field == Some(picture.temporal) && picture.field;
        self.first_field = (picture.field && !second).then_some(picture.temporal);
        if picture.group.is_some() {
            self.base = self.base.map(|base| base + self.group);
            (self.temporal, self.group) = (0, 0);
        }
        let step = (picture.temporal - self.temporal).rem_euclid(TEMPORAL_MODULUS);
        let step = match step {
            ..512 => step,
            _ => step - TEMPORAL_MODULUS,
        };
        self.temporal += step;
        let lag = self.temporal * frame + if second { frame / 2 } else { 0 };
        let duration = match (picture.field, picture.repeats) {
            (true, _) => frame / 2,
            (false, true) => frame + frame / 2,
            (false, false) => frame,
        };
        self.group += duration;
        let counted = self.base.map(|base| base + lag);
        let (mut stamps, mut drift) = (picture.stamps, None);
        if let (Some(given), Some(counted)) = (stamps.filter(|given| given.joins), counted) {
            let by = counted - given.presented;
            if by.abs() < SPLICE_MAX {
                drift = Some(by);
                stamps = Some(Stamps {
                    presented: counted,
                    decoded: given.decoded.map(|decoded| decoded + by),
                    joins: false,
                });
            }
        }
        let presented = stamps.map_or(counted.unwrap_or(lag), |given| given.presented);
        self.base = Some(presented - lag);
        let decoded = self.decode_time(picture.kind, stamps, presented, frame);
        self.decoded = Some((decoded, duration));
        let times = PictureTimes {
            presented,
            decoded,
            duration,
        };
        (times, drift)
    }

    /// Returns the decoding time, which never falls. A reference picture is decoded right after
    /// the picture before it.
    fn decode_time(&self, kind: Kind, stamps: Option<Stamps>, presented: i64, frame: i64) -> i64 {
        let next = self.decoded.map(|(decoded, duration)| decoded + duration);
        let wanted = match (stamps, kind) {
            (Some(stamps), _) => stamps.decoded.unwrap_or(stamps.presented),
            (None, Kind::Bidirectional) => presented,
            (None, _) => next.unwrap_or(presented - frame),
        };
        let floor = self.decoded.map_or(i64::MIN, |(decoded, _)| decoded);
        wanted.min(presented).max(floor)
    }
}
