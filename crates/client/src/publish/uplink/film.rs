//! A live upload in virtual time, for tests of every uplink: an encoder that follows its target
//! bitrate, the send queue, and an uplink on a path whose rate changes.

use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_congestion::adaptation::Rule;
use glassline_media::{Bitrate, Kind, MediaTime, TrackIndex};

use super::ROOM_BYTES;
use crate::publish::dispatch::{Config, Dispatch, Path};
use crate::publish::input::BitrateRange;
use crate::publish::queue::{self, Dropped, SendAction};
use crate::publish::unit::Unit;

/// Frames in a second.
const FPS: u32 = 30;

/// An uplink on a simulated path.
pub(super) trait TestedUplink {
    /// Lets a millisecond pass, and returns the present time.
    fn advance(&mut self) -> Instant;

    /// Returns the measurements of the path.
    fn path(&mut self) -> Path;

    /// Returns the bytes that wait in front of the session.
    fn waiting_bytes(&self) -> u64;

    /// Queues the packets of a frame.
    fn push(&mut self, unit: &Unit);

    /// Sets the rate of the path, in kbit/s.
    fn set_kbps(&mut self, kbps: u64);

    /// Returns whole frames that arrived, each with its number and the time at which it was complete.
    fn take_frames(&mut self) -> Vec<(u64, Instant)>;
}

/// A camera, its encoder, and the uplink that carries its frames.
pub(super) struct Film<U> {
    pub(super) uplink: U,
    dispatch: Dispatch,
    now: Instant,
    /// When each frame was made.
    made: Vec<Instant>,
    handed: u64,
    since_keyframe: u32,
}

/// The frames that arrived of a stretch of film.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) target_kbps: u64,
    pub(super) arrived: u64,
    /// Time from the camera to the server, of the frame in the middle.
    pub(super) delay_p50: Duration,
    /// The delay of the frame that took longer than 95 % of the others.
    pub(super) delay_p95: Duration,
}

impl<U: TestedUplink> Film<U> {
    pub(super) fn new(mut uplink: U) -> Self {
        let rate = Bitrate::from_bps;
        let config = Config {
            rule: Rule::Coupled,
            bitrate: BitrateRange {
                min: rate(150_000),
                max: rate(3_000_000),
            },
            start: rate(1_000_000),
            queue: queue::Config::of(Rule::Coupled),
        };
        Self {
            dispatch: Dispatch::new(&config, &[Kind::Video]),
            now: uplink.advance(),
            uplink,
            made: Vec::new(),
            handed: 0,
            since_keyframe: u32::MAX,
        }
    }

    /// Films for `seconds`.
    pub(super) fn run(&mut self, seconds: u32) -> Stretch {
        let first_frame = self.made.len() as u64;
        let frames = u64::from(seconds * FPS);
        let mut delays = Vec::new();
        for number in 0..frames {
            self.make();
            let due = self.now + Duration::from_secs(1) / FPS;
            while self.now < due {
                self.turn();
            }
            for (number, at) in self.uplink.take_frames() {
                delays.push(at.saturating_duration_since(self.made[number as usize]));
            }
            // Frames are counted from the first one that is decided here.
            debug_assert_eq!(self.made.len() as u64, first_frame + number + 1);
        }
        delays.sort_unstable();
        let percentile = |percent: usize| {
            let place = delays.len() * percent / 100;
            delays.get(place).copied().unwrap_or_default()
        };
        Stretch {
            target_kbps: self.dispatch.target().bps() / 1000,
            arrived: delays.len() as u64,
            delay_p50: percentile(50),
            delay_p95: percentile(95),
        }
    }

    /// Waits until nothing is under way any more, and returns how many frames were made, how many of
    /// them the uplink was given, and why the others were not sent.
    pub(super) fn end(&mut self) -> (u64, u64, Dropped) {
        for _ in 0..3000 {
            self.turn();
        }
        assert_eq!(self.dispatch.queue().bytes(), 0, "all was handed over");
        let dropped = self.dispatch.queue().dropped();
        (self.made.len() as u64, self.handed, dropped)
    }

    fn turn(&mut self) {
        self.now = self.uplink.advance();
        let path = self.uplink.path();
        self.dispatch.observe(self.now, &path);
        loop {
            let room = self.uplink.waiting_bytes() < ROOM_BYTES;
            match self.dispatch.next(self.now, room) {
                Some(SendAction::Send { unit, .. }) => {
                    self.handed += 1;
                    self.uplink.push(&unit);
                }
                Some(SendAction::Reset { .. }) => {}
                None => return,
            }
        }
    }

    /// Makes a frame of the target's size, four times that if a keyframe.
    fn make(&mut self) {
        let asked = self.dispatch.take_keyframe_request();
        let keyframe = asked || self.since_keyframe >= 2 * FPS;
        self.since_keyframe = if keyframe { 0 } else { self.since_keyframe + 1 };
        let mean = self.dispatch.target().bps() / 8 / u64::from(FPS);
        let bytes = if keyframe { mean * 4 } else { mean * 19 / 20 };
        let number = self.made.len() as u64;
        let mut data = vec![7; usize::try_from(bytes).expect("small").max(8)];
        data[..8].copy_from_slice(&number.to_be_bytes());
        self.made.push(self.now);
        let unit = Unit {
            track: TrackIndex(0),
            time: MediaTime::from_ticks(number.cast_signed(), FPS),
            keyframe,
            data: Bytes::from(data),
            made: self.now,
        };
        self.dispatch.push(self.now, unit);
    }
}

/// Films on a path of 2 Mbit/s that falls to 500 kbit/s and comes back, and checks that the bitrate
/// follows, that frames stay fresh, and that none is lost without a reason.
pub(super) fn follows_the_path<U: TestedUplink>(uplink: U, settled: Duration) -> Film<U> {
    let mut film = Film::new(uplink);
    film.uplink.set_kbps(2000);
    film.run(25);
    let wide = film.run(10);
    println!("2 Mbit/s: {wide:?}");
    assert!((1000..2500).contains(&wide.target_kbps), "{wide:?}");
    assert!(wide.delay_p50 < settled, "{wide:?}");
    assert!(wide.delay_p95 < Duration::from_millis(600), "{wide:?}");
    film.uplink.set_kbps(500);
    film.run(15);
    let narrow = film.run(10);
    println!("500 kbit/s: {narrow:?}");
    assert!((200..700).contains(&narrow.target_kbps), "{narrow:?}");
    assert!(narrow.arrived > 200, "{narrow:?}");
    film.uplink.set_kbps(2000);
    film.run(50);
    let again = film.run(10);
    println!("2 Mbit/s again: {again:?}");
    assert!((1000..2500).contains(&again.target_kbps), "{again:?}");
    let (made, handed, dropped) = film.end();
    println!("{made} frames made, {handed} sent, {dropped:?}");
    assert_eq!(made, handed + dropped.units(), "{dropped:?}");
    assert!(dropped.units() < made / 10, "{dropped:?} of {made}");
    film
}
