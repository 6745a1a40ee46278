//! The share of frames that were left out because the machine is too slow.

use std::time::{Duration, Instant};

/// Time over which frames are counted.
const WINDOW: Duration = Duration::from_secs(5);

/// Share of late frames that is worth telling: one in so many.
const ONE_IN: u64 = 20;

/// Counts the frames of one work, and those that were late.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    since: Option<Instant>,
    frames: u64,
    late: u64,
    trouble: Option<String>,
}

impl Lateness {
    /// Counts a frame.
    pub(super) fn note(&mut self, is_late: bool, now: Instant) {
        let since = *self.since.get_or_insert(now);
        self.frames += 1;
        self.late += u64::from(is_late);
        if now.saturating_duration_since(since) < WINDOW {
            return;
        }
        let is_trouble = self.late * ONE_IN > self.frames;
        self.trouble = is_trouble.then(|| {
            let (late, frames, seconds) = (self.late, self.frames, WINDOW.as_secs());
            format!(
                "this machine is too slow: {late} of {frames} frames were left out in {seconds} s; lower \
                 the resolution or the frame rate, or transcode fewer streams (transcoding.video_streams)"
            )
        });
        (self.since, self.frames, self.late) = (Some(now), 0, 0);
    }

    /// Returns what is wrong, and what to do.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_machine_is_told_from_one_frame_in_twenty_on_until_it_keeps_up() {
        let start = Instant::now();
        let mut lateness = Lateness::default();
        let mut window = |number: u32, late: u32| {
            for frame in 0..=100 {
                let at = start + WINDOW * number + WINDOW * frame / 100;
                lateness.note(frame < late, at);
            }
            lateness.trouble()
        };
        assert_eq!(window(0, 5), None);
        let trouble = window(1, 6).expect("more than one in twenty");
        assert!(trouble.contains("too slow: 6 of 101 frames"), "{trouble}");
        assert_eq!(window(2, 0), None);
    }
}
