//! How busy the server was: samples of the last ten minutes, and coarser ones of the last day.
//!
//! ```text
//!  server::observing ─ a reading each 5 s ─► History ─┬─► recent: 120 samples of 5 s
//!                                                     └─► day: 720 samples of 2 min ─► API, dashboard
//! ```
//!
//! A page that is opened shows at once what was before. Both rings together take 40 kB at most, however
//! many streams and viewers there are.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;

/// Time between two readings.
pub const READING: Duration = Duration::from_secs(5);

/// Most samples of the last ten minutes.
const RECENT_MAX: usize = 120;

/// Readings that become a sample of the last day: 2 minutes.
const READINGS_OF_A_SAMPLE: u32 = 24;

/// Most samples of the last day.
const DAY_MAX: usize = 720;

/// A reading of the server at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Time since the server began.
    pub at: Duration,
    /// Processor time of the process since its start.
    pub cpu: Duration,
    /// Work of the server at that instant.
    pub load: Load,
}

/// How much the server does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Memory in use in MiB.
    pub memory_mib: u32,
    /// Viewers of all streams, by every protocol.
    pub viewers: u32,
    /// Streams that the hub has.
    pub streams: u32,
    /// Streams that hang or are unreachable.
    pub broken: u32,
    /// Media that sources bring, in bits a second.
    pub in_bps: u64,
}

/// The server over some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// End of the time, in seconds since the server began.
    pub at_s: u32,
    /// Mean of the cores in use.
    pub cpu_cores: f32,
    /// The largest load of the time, of each kind by itself.
    pub load: Load,
}

/// The samples of a server.
#[derive(Debug, Default)]
pub struct History(Mutex<Rings>);

#[derive(Debug, Default)]
struct Rings {
    recent: VecDeque<Sample>,
    day: VecDeque<Sample>,
    /// The latest reading, from which the next sample goes on.
    latest: Option<Reading>,
    /// The sum that becomes the next sample of the day.
    forming: Forming,
}

/// The readings since the latest sample of the day.
#[derive(Debug, Default)]
struct Forming {
    readings: u32,
    began: Reading,
    load: Load,
}

impl History {
    /// Takes a reading. The first one only begins the first sample.
    pub fn note(&self, reading: Reading) {
        let mut rings = self.0.lock();
        let Some(before) = rings.latest.replace(reading) else {
            rings.forming.began = reading;
            return;
        };
        let sample = Sample::between(&before, &reading, reading.load);
        push(&mut rings.recent, sample, RECENT_MAX);
        let forming = &mut rings.forming;
        forming.readings += 1;
        forming.load = forming.load.or_more(reading.load);
        if forming.readings < READINGS_OF_A_SAMPLE {
            return;
        }
        let sample = Sample::between(&forming.began, &reading, forming.load);
        *forming = Forming {
            began: reading,
            ..Forming::default()
        };
        push(&mut rings.day, sample, DAY_MAX);
    }

    /// Returns the samples of the last ten minutes, the oldest first.
    pub fn recent(&self) -> Vec<Sample> {
        self.0.lock().recent.iter().copied().collect()
    }

    /// Returns the samples of the last day, the oldest first.
    pub fn day(&self) -> Vec<Sample> {
        self.0.lock().day.iter().copied().collect()
    }
}

impl Sample {
    fn between(before: &Reading, after: &Reading, load: Load) -> Self {
        let wall = after.at.saturating_sub(before.at).as_secs_f32();
        let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f32();
        let thousandths = (cpu / wall.max(f32::MIN_POSITIVE) * 1e3).round();
        Self {
            at_s: u32::try_from(after.at.as_secs()).unwrap_or(u32::MAX),
            cpu_cores: if wall > 0.0 { thousandths / 1e3 } else { 0.0 },
            load,
        }
    }
}

impl Load {
    fn or_more(self, other: Self) -> Self {
        Self {
            memory_mib: self.memory_mib.max(other.memory_mib),
            viewers: self.viewers.max(other.viewers),
            streams: self.streams.max(other.streams),
            broken: self.broken.max(other.broken),
            in_bps: self.in_bps.max(other.in_bps),
        }
    }
}

fn push(ring: &mut VecDeque<Sample>, sample: Sample, most: usize) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(sample);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a reading of a server that uses half a core, and has a viewer more each time.
    fn reading(number: u32) -> Reading {
        Reading {
            at: READING * number,
            cpu: READING * number / 2,
            load: Load {
                viewers: number,
                ..Load::default()
            },
        }
    }

    #[test]
    fn a_sample_has_the_mean_of_the_processor_and_the_most_viewers() {
        let history = History::default();
        for number in 0..=READINGS_OF_A_SAMPLE {
            history.note(reading(number));
        }
        let recent = history.recent();
        assert_eq!(recent.len(), 24);
        let expected = Sample {
            at_s: 5,
            cpu_cores: 0.5,
            load: reading(1).load,
        };
        assert_eq!(recent[0], expected);
        let expected = Sample {
            at_s: 120,
            cpu_cores: 0.5,
            load: reading(24).load,
        };
        assert_eq!(history.day(), [expected]);
    }

    #[test]
    fn the_rings_keep_ten_minutes_and_a_day_in_40_kilobytes() {
        let history = History::default();
        let two_days = 2 * 86_400 / 5;
        for number in 0..=two_days {
            history.note(reading(number));
        }
        let (recent, day) = (history.recent(), history.day());
        assert_eq!((recent.len(), day.len()), (RECENT_MAX, DAY_MAX));
        assert_eq!(recent[0].at_s, 2 * 86_400 - 595);
        assert_eq!(day[0].at_s, 86_400 + 120);
        let rings = history.0.lock();
        let samples = rings.recent.capacity() + rings.day.capacity();
        let bytes = samples * size_of::<Sample>();
        assert!(bytes <= 40_000, "{bytes}");
    }
}
