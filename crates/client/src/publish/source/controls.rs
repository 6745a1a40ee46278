//! Requests of a session to the encoders of its source.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use glassline_media::{Bitrate, Kind, Track};

use super::NAP;

/// Requests of a session to its source.
#[derive(Debug)]
pub struct SourceControl {
    target_bps: AtomicU64,
    keyframe: AtomicBool,
    stop: AtomicBool,
}

impl SourceControl {
    /// Makes requests that begin with the bitrate `target`.
    pub(crate) const fn new(target: Bitrate) -> Self {
        Self {
            target_bps: AtomicU64::new(target.bps()),
            keyframe: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
    }

    /// The bitrate to make.
    pub fn target(&self) -> Bitrate {
        Bitrate::from_bps(self.target_bps.load(Ordering::Relaxed))
    }

    /// Sets the bitrate that the source should make.
    pub fn set_target(&self, target: Bitrate) {
        self.target_bps.store(target.bps(), Ordering::Relaxed);
    }

    /// Asks the encoder for a keyframe as soon as possible.
    pub fn want_keyframe(&self) {
        self.keyframe.store(true, Ordering::Relaxed);
    }

    pub(super) fn take_keyframe(&self) -> bool {
        self.keyframe.swap(false, Ordering::Relaxed)
    }

    /// Stops the source's threads, except one that waits for a pipe.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps until `due`; returns false if the source is to stop.
    pub(super) fn sleep_until(&self, due: Instant) -> bool {
        loop {
            if self.is_stopped() {
                return false;
            }
            match due.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => thread::sleep(left.min(NAP)),
                _ => return true,
            }
        }
    }
}

/// Requests of a session to its source and to the layers beside it.
#[derive(Debug)]
pub struct SourceControls(Vec<SharedControl>);

/// One encoder's part of the bitrate.
#[derive(Debug)]
struct SharedControl {
    control: Arc<SourceControl>,
    /// Part of the bitrate in relation to the others; 0 of an input that does not follow it.
    weight: f64,
}

/// Exponent of the pixels by which encoders share the bitrate: a small frame needs more for each pixel.
const PIXELS_EXPONENT: f64 = 0.75;

impl SourceControls {
    /// Creates the requests to an input with these tracks, which follows the bitrate if it `adapts`.
    pub(super) fn new(control: Arc<SourceControl>, adapts: bool, tracks: &[Track]) -> Self {
        let mut controls = Self(Vec::new());
        controls.add(control, adapts, tracks);
        controls
    }

    /// Adds the requests to a further input.
    pub(super) fn add(&mut self, control: Arc<SourceControl>, adapts: bool, tracks: &[Track]) {
        let video = tracks.iter().find(|it| it.kind() == Kind::Video);
        let pixels = video.map_or(1.0, |it| {
            f64::from(it.video.width.max(1)) * f64::from(it.video.height.max(1))
        });
        let weight = match adapts {
            true => pixels.powf(PIXELS_EXPONENT),
            false => 0.0,
        };
        self.0.push(SharedControl { control, weight });
    }

    /// Returns whether any input follows the bitrate.
    pub(super) fn adapt(&self) -> bool {
        self.0.iter().any(|it| it.weight > 0.0)
    }

    /// Divides the bitrate `target` among the encoders.
    pub fn set_target(&self, target: Bitrate) {
        let all: f64 = self.0.iter().map(|it| it.weight).sum();
        for it in &self.0 {
            let part = target.bps() as f64 * it.weight / all.max(f64::MIN_POSITIVE);
            it.control.set_target(Bitrate::from_bps(part as u64));
        }
    }

    /// Asks the encoders for a keyframe as soon as possible.
    pub fn want_keyframe(&self) {
        self.0.iter().for_each(|it| it.control.want_keyframe());
    }

    /// Stops all threads, except those that wait for a pipe.
    pub fn stop(&self) {
        self.0.iter().for_each(|it| it.control.stop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::VideoParameters;

    #[test]
    fn encoders_share_the_bitrate_by_their_pixels_and_files_take_none() {
        let control = || Arc::new(SourceControl::new(Bitrate::from_bps(1)));
        let video = |width, height| {
            [Track::h264(VideoParameters {
                width,
                height,
                ..VideoParameters::default()
            })]
        };
        let (top, file, low) = (control(), control(), control());
        let mut controls = SourceControls::new(Arc::clone(&top), true, &video(1280, 720));
        controls.set_target(Bitrate::from_bps(1_000_000));
        assert_eq!(top.target().bps(), 1_000_000, "alone");
        controls.add(Arc::clone(&file), false, &video(640, 360));
        controls.add(Arc::clone(&low), true, &video(640, 360));
        controls.set_target(Bitrate::from_bps(1_000_000));
        let kbps = |control: &SourceControl| control.target().bps() / 1_000;
        assert_eq!((kbps(&top), kbps(&file), kbps(&low)), (738, 0, 261));
        controls.want_keyframe();
        assert!(top.take_keyframe() && low.take_keyframe());
        controls.stop();
        assert!(top.is_stopped() && low.is_stopped());
    }
}
