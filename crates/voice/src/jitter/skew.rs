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
