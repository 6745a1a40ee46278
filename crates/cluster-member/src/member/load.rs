//! How busy this server is, as its heartbeats tell the other servers.

use std::num::NonZero;
use std::time::{Duration, Instant};

use glassline_cluster::record::Load;

use super::Member;

/// Time between two measurements of the processor time.
const MEASURED_EVERY: Duration = Duration::from_secs(1);

/// Weight of the newest measurement: a burst of one second moves nobody.
const NEWEST: f32 = 0.4;

/// The measurement of the processors and the network.
#[derive(Debug)]
pub(super) struct Meter {
    /// Mbit/s that this server may send; `None` for no limit.
    mbps_max: Option<u32>,
    at: Instant,
    used: Duration,
    cpu: f32,
    mbps: f32,
}

impl Meter {
    pub(super) fn new(mbps_max: Option<u32>) -> Self {
        Self {
            mbps_max,
            at: Instant::now(),
            used: glassline_net::process_cpu(),
            cpu: 0.0,
            mbps: 0.0,
        }
    }

    /// Whether it is time for the next measurement.
    fn is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) >= MEASURED_EVERY
    }

    /// Takes the processor time that the process has used so far, and what it sends.
    fn measure(&mut self, now: Instant, used: Duration, mbps: f32) {
        let wall = now.saturating_duration_since(self.at).as_secs_f32();
        let cpu = used.saturating_sub(self.used).as_secs_f32() / wall.max(0.001) * 100.0;
        self.cpu += NEWEST * (cpu - self.cpu);
        self.mbps += NEWEST * (mbps - self.mbps);
        (self.at, self.used) = (now, used);
    }

    /// How busy the server is in percent, by its processors or by what it sends.
    fn busy(&self, cores: f32) -> u32 {
        let by_cpu = self.cpu / cores.max(1.0);
        let most = self.mbps_max.map_or(f32::INFINITY, |it| it as f32);
        let by_network = self.mbps / most * 100.0;
        by_cpu.max(by_network).round().clamp(0.0, 1_000.0) as u32
    }
}

impl Member {
    /// Measures processor time and media, about once a second.
    pub fn measure(&self, now: Instant) {
        if !self.core.lock().meter.is_due(now) {
            return;
        }
        let streams = self.hub.streams();
        let rates = streams.iter().map(|stream| {
            let receivers = stream.viewers() + self.pulls_from_here(stream.name().as_str());
            stream.bitrate(now).bps() as f32 / 1e6 * receivers as f32
        });
        let mbps = rates.sum();
        let used = glassline_net::process_cpu();
        self.core.lock().meter.measure(now, used, mbps);
    }

    /// Returns how many servers pull a stream from this one.
    fn pulls_from_here(&self, name: &str) -> usize {
        let name = glassline_cluster::StreamName::new(name);
        name.map_or(0, |name| self.core.lock().node.children(&name))
    }

    /// Returns the load of this server.
    pub fn load(&self) -> Load {
        let streams = self.hub.streams();
        let viewers = streams.iter().map(|stream| stream.viewers()).sum::<usize>();
        let headroom = self.viewers_max.saturating_sub(viewers);
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let core = self.core.lock();
        Load {
            cpu: core.meter.cpu,
            mbps: core.meter.mbps,
            viewers: number(viewers),
            streams: number(streams.len()),
            headroom: number(headroom),
            busy: core.meter.busy(cores as f32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_as_busy_as_its_scarcer_part() {
        let mut meter = Meter::new(Some(1_000));
        let begin = meter.at;
        let mut used = meter.used;
        for second in 1..30 {
            used += Duration::from_secs(1);
            meter.measure(begin + Duration::from_secs(second), used, 200.0);
        }
        assert_eq!((meter.busy(2.0), meter.busy(8.0)), (50, 20));
        for second in 30..60 {
            meter.measure(begin + Duration::from_secs(second), used, 950.0);
        }
        assert_eq!(meter.busy(2.0), 95);
        meter.mbps_max = None;
        assert_eq!(meter.busy(2.0), 0);
    }

    #[test]
    fn a_burst_of_a_second_makes_nobody_busy() {
        let mut meter = Meter::new(None);
        let (begin, used) = (meter.at, meter.used);
        meter.measure(begin + Duration::from_secs(1), used, 0.0);
        let burst = used + Duration::from_secs(2);
        meter.measure(begin + Duration::from_secs(2), burst, 0.0);
        assert_eq!(meter.busy(2.0), 40);
    }
}
