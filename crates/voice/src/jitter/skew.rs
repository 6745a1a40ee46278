use std::collections::VecDeque;

/// Time between two points, in ms.
const POINT_MS: f64 = 1_000.0;
/// Points that the line is fitted through: a minute.
const POINTS: usize = 60;

/// Estimates how much faster our clock runs than the sender's, from the slope of the least
/// delays.
#[derive(Clone, Debug, Default)]
pub(super) struct Skew {
    points: VecDeque<Point>,
}

/// One second of a stream; times in ms.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// When the second began.
    at: f64,
    /// Least delay in that second.
    delay: f64,
}

impl Skew {
    pub(super) fn arrived(&mut self, at: f64, delay: f64) {
        match self.points.back_mut() {
            Some(point) if at - point.at < POINT_MS => point.delay = point.delay.min(delay),
            _ => {
                if self.points.len() == POINTS {
                    self.points.pop_front();
                }
                self.points.push_back(Point { at, delay });
            }
        }
    }

    /// Skew in parts per million, by least squares; `None` during the first ten seconds.
    pub(super) fn ppm(&self) -> Option<f64> {
        if self.points.len() < 10 {
            return None;
        }
        let count = self.points.len() as f64;
        let mean = |of: fn(&Point) -> f64| self.points.iter().map(of).sum::<f64>() / count;
        let (middle, height) = (mean(|it| it.at), mean(|it| it.delay));
        let (mut rise, mut run) = (0.0, 0.0);
        for Point { at, delay } in &self.points {
            rise += (at - middle) * (delay - height);
            run += (at - middle) * (at - middle);
        }
        Some(rise / run * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets every 250 ms for `seconds`, whose delay grows by `ppm` and is more than that
    /// in all but one of four.
    fn after(seconds: u32, ppm: f64) -> Skew {
        let mut skew = Skew::default();
        for packet in 0..4 * seconds {
            let at = f64::from(packet) * 250.0;
            let more = f64::from((packet + 2) % 4 * 5);
            skew.arrived(at, 100.0 + at * ppm / 1e6 + more);
        }
        skew
    }

    #[test]
    fn the_slope_of_the_least_delays_is_the_skew_from_ten_seconds_on() {
        assert_eq!(after(9, 100.0).ppm(), None);
        for ppm in [0.0, 100.0, -300.0] {
            for seconds in [10, 30, 100] {
                let found = after(seconds, ppm).ppm().expect("ten seconds");
                assert!((found - ppm).abs() < 1e-6, "{seconds} s: {found}");
            }
        }
        assert_eq!(after(100, 0.0).points.len(), POINTS);
        // A point holds a second from its first packet on.
        let mut skew = Skew::default();
        for at in [0.0, 999.0, 1_000.0, 1_999.9, 2_000.5] {
            skew.arrived(at, at);
        }
        let points: Vec<_> = skew.points.iter().map(|it| it.at).collect();
        assert_eq!(points, [0.0, 1_000.0, 2_000.5]);
    }

    #[test]
    fn a_minute_is_fitted_and_what_is_older_is_forgotten() {
        // 200 ppm for a minute, then 50 ppm.
        let mut skew = Skew::default();
        for second in 0..120 {
            let at = f64::from(second) * 1_000.0;
            let delay = match second {
                0..60 => at * 200.0 / 1e6,
                _ => 12.0 + (at - 60_000.0) * 50.0 / 1e6,
            };
            skew.arrived(at, delay);
        }
        let found = skew.ppm().expect("two minutes");
        assert!((found - 50.0).abs() < 1e-6, "{found}");
    }
}
