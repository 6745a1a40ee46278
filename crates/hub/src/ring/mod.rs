mod temporal_rates;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Bitrate, DecodeLead, MediaTime, MediaUnit};

use crate::Limits;
use crate::keyframe_size::{KeyframeMeter, KeyframeSize};

use temporal_rates::TemporalBytes;
pub use temporal_rates::TemporalRates;

/// Time over which the frame rate and the bitrate of a layer are measured.
const FIGURES_SPAN: Duration = Duration::from_secs(2);

/// Rates of a layer of a track, measured on the units that the ring keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerFigures {
    /// Frames a second over the last two seconds; 0 if fewer than two came.
    pub frame_rate: f64,
    /// Payload bitrate over the same time.
    pub bitrate: Bitrate,
    /// Payload bitrates with fewer temporal layers over the same time.
    pub temporal_rates: TemporalRates,
    /// Time between the latest two keyframes of the present source by its own clock, however they
    /// arrive; `None` before its second one.
    pub keyframe_interval: Option<Duration>,
    /// Time since the latest keyframe of the present source was published; `None` before its first
    /// one.
    pub since_keyframe: Option<Duration>,
}

/// The recent units of one layer of a track, oldest first, numbered without gaps.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    units: VecDeque<Arc<MediaUnit>>,
    bytes: usize,
    next_index: u64,
    next_packet: u64,
    /// Number of the first unit of the present source.
    source_index: u64,
    /// Number of the latest unit at which a decoder can start.
    keyframe: Option<u64>,
    /// When the latest keyframe of the present source was published, and its time.
    keyframe_published: Option<Instant>,
    keyframe_time: Option<MediaTime>,
    keyframe_interval: Option<Duration>,
    keyframe_meter: KeyframeMeter,
    /// Decode time of the latest coded frame.
    decoded: Option<MediaTime>,
}

impl Ring {
    /// Numbers `unit`, keeps it and drops units beyond the limits.
    pub(crate) fn push(&mut self, mut unit: MediaUnit, limits: &Limits) -> Arc<MediaUnit> {
        unit.index = self.next_index;
        unit.first_packet = self.next_packet;
        self.next_index += 1;
        self.next_packet += unit.packet_count() as u64;
        if unit.keyframe && unit.first {
            self.keyframe = Some(unit.index);
            self.keyframe_published = Some(unit.stamps.published);
            let before = self.keyframe_time.replace(unit.time);
            self.keyframe_interval = before.map(|it| unit.time.saturating_since(it));
        }
        self.keep_decode_order(&mut unit);
        self.keyframe_meter.note(&unit);
        self.bytes += unit.memory_bytes();
        let unit = Arc::new(unit);
        self.units.push_back(Arc::clone(&unit));
        self.evict(unit.stamps.published, limits);
        unit
    }

    /// Makes the decode time of a coded frame at least that of the frame before. Where a source begins
    /// anew, its first frames may be decoded before the last ones of the source before.
    fn keep_decode_order(&mut self, unit: &mut MediaUnit) {
        if unit.forwarded().is_some() {
            return;
        }
        if let Some(before) = self.decoded.filter(|before| unit.decode_time() < *before) {
            unit.decode_lead = DecodeLead::not_before(before, unit.time);
        }
        self.decoded = Some(unit.decode_time());
    }

    /// Returns the size of the latest keyframe of the present source; `None` before the first one.
    pub(crate) const fn keyframe_size(&self) -> Option<KeyframeSize> {
        self.keyframe_meter.size()
    }

    /// Notes that another source begins, whose keyframes are not compared with those before.
    pub(crate) fn begin_source(&mut self) {
        self.source_index = self.next_index;
        self.keyframe_published = None;
        self.keyframe_time = None;
        self.keyframe_interval = None;
        self.keyframe_meter = KeyframeMeter::default();
    }

    /// Measures what the ring received until `now`.
    pub(crate) fn figures(&self, now: Instant) -> LayerFigures {
        let age = |unit: &MediaUnit| now.saturating_duration_since(unit.stamps.published);
        let recent = self.units.iter().rev().map(|unit| &**unit);
        let recent = recent.take_while(|unit| age(unit) <= FIGURES_SPAN);
        let (mut frames, mut bytes, mut span) = (0_u32, 0, Duration::ZERO);
        let (mut oldest, mut temporal_bytes) = (None, TemporalBytes::default());
        let newest = self.units.back().map_or(now, |unit| unit.stamps.published);
        for unit in recent {
            oldest = Some(unit);
            bytes += unit.payload_bytes() as u64;
            temporal_bytes.add(unit);
            frames += u32::from(unit.first);
            span = newest.saturating_duration_since(unit.stamps.published);
        }
        // The oldest frame begins the time, and the others pass in it.
        let intervals = f64::from(frames.saturating_sub(1));
        let oldest = oldest.filter(|_| intervals > 0.0 && !span.is_zero());
        let is_measured = oldest.is_some();
        let of_oldest = oldest.map_or(0, |it| it.payload_bytes() as u64);
        LayerFigures {
            frame_rate: if is_measured {
                intervals / span.as_secs_f64()
            } else {
                0.0
            },
            bitrate: if is_measured {
                Bitrate::over(bytes - of_oldest, span)
            } else {
                Bitrate::default()
            },
            temporal_rates: oldest.map_or_else(TemporalRates::default, |oldest| {
                temporal_bytes.over(oldest, span)
            }),
            keyframe_interval: self.keyframe_interval,
            since_keyframe: self
                .keyframe_published
                .map(|at| now.saturating_duration_since(at)),
        }
    }

    /// Returns when the newest unit was published; `None` if there is none.
    pub(crate) fn latest_published(&self) -> Option<Instant> {
        self.units.back().map(|unit| unit.stamps.published)
    }

    /// Iterates over the units that were published within `span` before the newest one, oldest first.
    pub(crate) fn newest(&self, span: Duration) -> impl Iterator<Item = &Arc<MediaUnit>> {
        let newest = self.latest_published();
        let is_old = move |unit: &&Arc<MediaUnit>| {
            newest.is_some_and(|at| at.saturating_duration_since(unit.stamps.published) > span)
        };
        self.units.iter().skip_while(is_old)
    }

    /// Drops all units. The numbers of units and packets go on.
    pub(crate) fn clear(&mut self) {
        self.units.clear();
        self.bytes = 0;
        self.keyframe = None;
    }

    /// Drops the oldest units that are beyond the limits; the newest unit always stays.
    fn evict(&mut self, now: Instant, limits: &Limits) {
        while self.units.len() > 1 {
            let oldest = &self.units[0];
            let age = now.saturating_duration_since(oldest.stamps.published);
            let before_keyframe = self
                .keyframe
                .is_some_and(|keyframe| oldest.index < keyframe);
            // Late viewers begin with the latest keyframe, which may be older than the span where
            // keyframes are far apart. Without the keyframe, what follows is of no use to them.
            let is_needed = self.keyframe == Some(oldest.index);
            let spent = before_keyframe && age > limits.repair_span;
            let is_old = age > limits.ring_span && !is_needed;
            if !(spent || is_old || self.bytes > limits.ring_bytes) {
                break;
            }
            self.bytes -= oldest.memory_bytes();
            self.units.pop_front();
        }
    }

    /// Number of the oldest unit; of the next one if the ring is empty.
    pub(crate) fn oldest_index(&self) -> u64 {
        let oldest = self.units.front();
        oldest.map_or(self.next_index, |unit| unit.index)
    }

    /// Number that the next unit will get.
    pub(crate) fn next_index(&self) -> u64 {
        self.next_index
    }

    /// Appends the units from number `index` on to `out`. Returns how many units from `index`
    /// on have left the ring before they were read.
    pub(crate) fn read_from(&self, index: u64, out: &mut Vec<Arc<MediaUnit>>) -> u64 {
        let oldest = self.oldest_index();
        let skip = usize::try_from(index.saturating_sub(oldest)).unwrap_or(usize::MAX);
        out.extend(self.units.iter().skip(skip).cloned());
        oldest.saturating_sub(index)
    }

    /// Appends the units from the latest keyframe on to `out`; none if the keyframe has left
    /// the ring.
    pub(crate) fn since_keyframe(&self, out: &mut Vec<Arc<MediaUnit>>) {
        let oldest = self.oldest_index();
        if let Some(keyframe) = self.keyframe.filter(|keyframe| *keyframe >= oldest) {
            self.read_from(keyframe, out);
        }
    }

    /// Returns the latest keyframe; `None` if it left the ring.
    pub(crate) fn latest_keyframe(&self) -> Option<&Arc<MediaUnit>> {
        self.unit(self.keyframe?)
    }

    /// Iterates over the units of the present source, oldest first.
    pub(crate) fn of_source(&self) -> impl Iterator<Item = &Arc<MediaUnit>> {
        let of_others = self.source_index.saturating_sub(self.oldest_index());
        let of_others = usize::try_from(of_others).unwrap_or(usize::MAX);
        self.units.iter().skip(of_others)
    }

    /// Returns unit number `index`; `None` if it left the ring or is not published yet.
    pub(crate) fn unit(&self, index: u64) -> Option<&Arc<MediaUnit>> {
        let at = index.checked_sub(self.oldest_index())?;
        self.units.get(usize::try_from(at).ok()?)
    }

    /// Returns the unit that contains packet `number`, and the packet's index in it. `None` if
    /// the unit left the ring or is not published yet.
    pub(crate) fn find(&self, number: u64) -> Option<(Arc<MediaUnit>, usize)> {
        let after = self
            .units
            .partition_point(|unit| unit.first_packet <= number);
        let unit = self.units.get(after.checked_sub(1)?)?;
        let index = usize::try_from(number - unit.first_packet).ok()?;
        (index < unit.packet_count()).then(|| (Arc::clone(unit), index))
    }

    /// Number of bytes that the units take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests;
