//! H.264 and H.265 in a transport stream: access units with the stamps of the PES packets that
//! they begin in.

use super::places::Places;
use super::stamps::{STAMP_RATE, Stamps};
use super::units::FoundUnit;
use crate::container::coding::{Coding, Described, Timing};
use crate::container::nals::Nals;
use crate::live::Splitter;

/// Duration that is assumed for a frame until two stamps tell it.
const FRAME: i64 = STAMP_RATE / 25;

/// Longest time between two frames that counts as the duration of one.
const FRAME_MAX: i64 = STAMP_RATE;

/// Finds the access units of one stream.
pub(super) struct VideoStream {
    h265: bool,
    splitter: Splitter,
    places: Places,
    /// Stamps of the unit before.
    last: Option<Stamps>,
    /// Time from one unit to the next.
    step: i64,
    /// Whether bytes were lost since the unit before.
    lost: bool,
    /// The reason why the stream ended before the file.
    failure: Option<String>,
}

impl VideoStream {
    pub(super) fn new(h265: bool) -> Self {
        Self {
            h265,
            splitter: Splitter::of(h265),
            places: Places::default(),
            last: None,
            step: FRAME,
            lost: false,
            failure: None,
        }
    }

    /// Returns the places of the bytes, to which those of the next part are added first.
    pub(super) fn places(&mut self) -> &mut Places {
        &mut self.places
    }

    /// Adds the next bytes, or ends the stream if there are none.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.failure.is_some() {
            return;
        }
        let pushed = match bytes {
            [] => self.splitter.finish(),
            bytes => self.splitter.push(bytes),
        };
        self.failure = pushed.err().map(|error| error.to_string());
    }

    /// Notes that bytes were lost here.
    pub(super) fn lose(&mut self) {
        self.splitter.lose();
        self.places.release(self.places.end);
        self.lost = true;
    }

    /// Returns why the stream has no more units, if that is not the end of the file.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the number of frames before the first keyframe.
    pub(super) fn before_keyframe(&self) -> u64 {
        self.splitter.notes().before_keyframe
    }

    /// Returns the next complete unit.
    pub(super) fn next_unit(&mut self) -> Option<FoundUnit> {
        loop {
            let unit = self.splitter.next_unit()?;
            // A zero byte before a start code may be the last one of the packet before.
            let stamps = self.places.take_stamps(unit.span.start + 1);
            let place = self.places.of(unit.span.start);
            self.places.release(unit.span.end);
            let Some(place) = place else {
                continue;
            };
            let (stamps, step) = self.stamps_of(stamps, unit.field);
            self.step = step;
            self.last = Some(stamps);
            return Some(FoundUnit {
                place: place.code(),
                length: unit.span.end - unit.span.start,
                presented: stamps.presented,
                decoded: stamps.decoded,
                samples: None,
                keyframe: unit.keyframe,
                after_loss: std::mem::take(&mut self.lost),
                bare: unit.has_inserted_sets,
                data: unit.data,
            });
        }
    }

    /// Returns the stamps of a unit, which are counted on where the stream states none, and the
    /// time from one unit to the next.
    fn stamps_of(&self, stated: Option<Stamps>, field: bool) -> (Stamps, i64) {
        let Some(last) = self.last else {
            let start = stated.unwrap_or(Stamps {
                presented: 0,
                decoded: 0,
            });
            return (start, self.step);
        };
        match stated {
            Some(stamps) => {
                let step = stamps.decoded - last.decoded;
                let is_step = (1..=FRAME_MAX).contains(&step) && !field;
                (stamps, if is_step { step } else { self.step })
            }
            None => {
                // The second field of a frame comes half a frame after the first.
                let step = if field { self.step / 2 } else { self.step };
                let decoded = last.decoded + step;
                let stamps = Stamps {
                    presented: decoded.max(last.presented + step),
                    decoded,
                };
                (stamps, self.step)
            }
        }
    }

    /// Describes the track; `None` before its first unit.
    pub(super) fn describe(&self) -> Option<Described> {
        let track = self.splitter.track()?.clone();
        Some(Described {
            track,
            coding: Coding::AnnexB(Nals {
                h265: self.h265,
                length_bytes: 0,
                sets: self.splitter.opening_sets().to_vec(),
            }),
            sample_rate: 0,
            timing: Timing::Container,
        })
    }
}
