//! When pictures are shown and decoded: as their stamps say, and counted between.

use super::pictures::{Kind, Picture, Stamps};

/// `temporal_reference` wraps here.
const TEMPORAL_MODULUS: i64 = 1024;

/// Stamps further than this from where counting leads are of another recording.
const SPLICE_MAX: i64 = crate::system_clock::stamp::CLOCK_RATE;

/// Times of one video stream; 27 MHz.
#[derive(Clone, Debug, Default)]
pub(super) struct Timing {
    /// When the picture of temporal reference 0 is shown.
    base: Option<i64>,
    /// The temporal reference before, unwrapped.
    temporal: i64,
    /// How long the pictures of the group have lasted.
    group: i64,
    /// When the last picture is decoded, and how long it is shown.
    decoded: Option<(i64, i64)>,
    /// The temporal reference of a first field whose second is awaited.
    first_field: Option<i64>,
}

/// When a picture is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) presented: i64,
    pub(super) decoded: i64,
    pub(super) duration: i64,
}

impl Timing {
    /// To go on with a picture that is presented at `presented`.
    pub(super) fn begin(picture: &Picture, presented: i64, frame: i64) -> Self {
        Self {
            base: Some(presented - picture.temporal * frame),
            temporal: picture.temporal,
            ..Self::default()
        }
    }

    /// Places the next picture; `frame` is how long one lasts. Returns as well how
    /// far its stamps were from where counting leads, if they begin a new recording.
    pub(super) fn place(&mut self, picture: &Picture, frame: i64) -> (Due, Option<i64>) {
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
        let (mut stamps, mut adrift) = (picture.stamps, None);
        if let (Some(given), Some(counted)) = (stamps.filter(|given| given.joins), counted) {
            let by = counted - given.presented;
            if by.abs() < SPLICE_MAX {
                adrift = Some(by);
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
        let due = Due {
            presented,
            decoded,
            duration,
        };
        (due, adrift)
    }

    /// Decoding never falls back; a picture that others are shown before is
    /// decoded right after the one before it.
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
