//! Windowed minimum and maximum over the recent past.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// Order of a filter: which of two samples it keeps.
pub(crate) trait Prefer<T> {
    /// Whether `new` makes `old`, which came earlier, useless.
    fn replaces(new: &T, old: &T) -> bool;
}

/// The filter keeps the minimum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Least;

/// The filter keeps the maximum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Largest;

impl<T: PartialOrd> Prefer<T> for Least {
    fn replaces(new: &T, old: &T) -> bool {
        new <= old
    }
}

impl<T: PartialOrd> Prefer<T> for Largest {
    fn replaces(new: &T, old: &T) -> bool {
        new >= old
    }
}

/// Exact minimum or maximum over a sliding window: a queue in which each sample is better
/// than all that came after it. Its length is bounded: of samples closer together than a
/// 64th of the window only the better one stays.
#[derive(Clone, Debug)]
pub(crate) struct Windowed<T, P> {
    /// Length of the window.
    window: Duration,
    /// Samples that may become the result, oldest first.
    samples: VecDeque<(Instant, T)>,
    /// Order of the filter.
    prefer: PhantomData<P>,
}

/// Samples that a window holds, at most about so many.
const SAMPLES: u32 = 64;

impl<T: Copy, P: Prefer<T>> Windowed<T, P> {
    /// Returns an empty filter over `window`.
    pub(crate) const fn new(window: Duration) -> Self {
        Self {
            window,
            samples: VecDeque::new(),
            prefer: PhantomData,
        }
    }

    /// Sets the length of the window for later samples.
    pub(crate) const fn set_window(&mut self, window: Duration) {
        self.window = window;
    }

    /// Records a sample, and drops those that are too old.
    pub(crate) fn record(&mut self, value: T, now: Instant) {
        while let Some((at, _)) = self.samples.front() {
            if now.saturating_duration_since(*at) <= self.window {
                break;
            }
            self.samples.pop_front();
        }
        while let Some((_, last)) = self.samples.back() {
            if !P::replaces(&value, last) {
                break;
            }
            self.samples.pop_back();
        }
        let apart = self.window / SAMPLES;
        let crowded = self.samples.back();
        if crowded.is_none_or(|(at, _)| now.saturating_duration_since(*at) >= apart) {
            self.samples.push_back((now, value));
        }
    }

    /// Returns the minimum or maximum; `None` before the first sample.
    pub(crate) fn get(&self) -> Option<T> {
        self.samples.front().map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_good_as_looking_at_all_of_them(
            samples in prop::collection::vec((0u64..50, 0u32..1000), 1..300),
        ) {
            let window = Duration::from_millis(640);
            let start = Instant::now();
            let mut filter = Windowed::<u32, Largest>::new(window);
            let mut all = Vec::new();
            let mut now = start;
            for (step, value) in samples {
                now += Duration::from_millis(step);
                filter.record(value, now);
                all.push((now, value));
                let within = |window: Duration| {
                    let young = all.iter().filter(|(at, _)| now.duration_since(*at) <= window);
                    young.map(|(_, value)| *value).max()
                };
                let found = filter.get();
                prop_assert!(found <= within(window), "nothing old");
                // A sample that was thinned out had a better one at most a 64th before it.
                prop_assert!(found >= within(window - window / SAMPLES));
                prop_assert!(filter.samples.len() <= SAMPLES as usize + 2);
            }
        }
    }
}
