//! Publishers of layers: encoders without pictures, whose frames have the sizes of real ones.

use std::time::Duration;

use glassline_media::Bitrate;
use glassline_sim::Rng;

use super::frame_tag::TimePlace;

/// Description of a publisher.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedVideo {
    /// Bitrates of the encodings, best first; one for a publisher without simulcast.
    pub layers: Vec<Bitrate>,
    /// Frames per second while the picture moves.
    pub fps: u32,
    /// When keyframes come.
    pub keyframes: Keyframes,
    /// Whether no frame refers to every other frame.
    pub has_upper_frames: bool,
    /// The picture that is encoded.
    pub content: Content,
}

/// When a publisher makes keyframes, beside the first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyframes {
    /// Time from one keyframe to the next; `None` for keyframes on request alone.
    pub period: Option<Duration>,
    /// Whether the publisher heeds requests, as browsers do and OBS does not.
    pub on_request: bool,
}

/// Content that the publisher films.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A picture that always moves.
    Camera,
    /// A screen at rest, with a frame each second, that changes as a whole from time to time.
    Screen,
    /// A picture that always moves, of an encoder whose bitrate follows the server's estimate from this
    /// least bitrate on.
    Following(Bitrate),
}

/// A coded frame of one encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) layer: u8,
    pub(super) keyframe: bool,
    pub(super) place: TimePlace,
    pub(super) bytes: usize,
}

/// Size of a keyframe in average frames.
const KEYFRAME_FRAMES: f64 = 5.0;
/// Share of an average frame that each frame behind a keyframe is smaller, until the keyframe's
/// bytes are made up for.
const REPAYMENT: f64 = 0.2;
/// Most average frames that are made up for: an encoder forgets what many requests cost.
const DEBT_FRAMES_MAX: f64 = 10.0;
/// Spread of the sizes of frames (RFC 8593 §5.2: the scale of a Laplace distribution).
const SPREAD: f64 = 0.15;
/// Time from a request to the keyframe: the way to the publisher and its encoder.
const REQUEST_DELAY: Duration = Duration::from_millis(60);
/// Least time between two keyframes on request.
const REQUEST_INTERVAL: Duration = Duration::from_millis(300);
/// Interval of the frames of a screen at rest, as browsers send them.
const REST_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a frame of a screen at rest.
const REST_BYTES: f64 = 300.0;
/// Duration of a change of the screen.
const CHANGE: Duration = Duration::from_millis(1_500);

/// The encoders of a publisher.
#[derive(Debug)]
pub(super) struct Encoders {
    source: PublishedVideo,
    rng: Rng,
    layers: Vec<Encoder>,
    /// Time of the next frame.
    next: Duration,
    /// Until when the screen changes, and when the change after it begins.
    changing_until: Duration,
    change_at: Duration,
    /// Bitrate that a following encoder has.
    follows: Bitrate,
}

/// State of the encoder of one layer.
#[derive(Clone, Debug, Default)]
struct Encoder {
    /// Time of the latest keyframe.
    keyframe: Option<Duration>,
    /// Time from which on the next frame is a keyframe, because one was requested.
    wanted: Option<Duration>,
    /// Number of frames since that keyframe.
    since: u32,
    /// Bytes of the latest keyframe that are to be made up for.
    debt: f64,
}

impl Encoders {
    /// Returns the encoders of a publisher whose first frame comes at `start`.
    pub(super) fn new(source: &PublishedVideo, start: Duration, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let change_at = start + Duration::from_secs_f64(8.0 + 6.0 * rng.unit());
        Self {
            layers: vec![Encoder::default(); source.layers.len()],
            next: start,
            changing_until: start + CHANGE,
            change_at,
            follows: source.layers[0],
            source: source.clone(),
            rng,
        }
    }

    /// Returns when the next frame comes.
    pub(super) const fn due(&self) -> Duration {
        self.next
    }

    /// Lets the publisher film nothing before `until`.
    pub(super) fn pause(&mut self, until: Duration) {
        self.next = self.next.max(until);
    }

    /// Requests a keyframe of the layer at `place`.
    pub(super) fn request_keyframe(&mut self, place: usize, now: Duration) {
        if self.source.keyframes.on_request
            && let Some(layer) = self.layers.get_mut(place)
        {
            let soonest = layer.keyframe.map_or(now, |at| at + REQUEST_INTERVAL);
            layer.wanted.get_or_insert(soonest.max(now + REQUEST_DELAY));
        }
    }

    /// Sets the bitrate of an encoder that follows.
    pub(super) fn follow(&mut self, estimate: Bitrate) {
        if let Content::Following(least) = self.source.content {
            let bps = estimate.bps() / 10 * 9;
            let most = self.source.layers[0].bps();
            self.follows = Bitrate::from_bps(bps.clamp(least.bps().min(most), most));
        }
    }

    /// Returns the bitrate that the layer at `place` has now.
    pub(super) fn rate(&self, place: usize) -> Bitrate {
        match self.source.content {
            Content::Following(_) => self.follows,
            _ => self.source.layers[place],
        }
    }

    /// Returns the frames of all layers at `now`, which [`due`](Self::due) named.
    pub(super) fn film(&mut self, now: Duration) -> Vec<Frame> {
        let interval = Duration::from_secs(1) / self.source.fps;
        let is_still = self.is_still(now);
        let largest = match (is_still, now == self.changing_until.saturating_sub(CHANGE)) {
            (false, true) if self.source.content == Content::Screen => KEYFRAME_FRAMES,
            _ => 1.0,
        };
        self.next = match is_still {
            false => now + interval,
            true => (now + REST_INTERVAL).min(self.change_at),
        };
        let deviation = largest * self.deviation();
        let mut frames = Vec::with_capacity(self.layers.len());
        for place in 0..self.layers.len() {
            let average = self.rate(place).mbps() * 125_000.0 * interval.as_secs_f64();
            let keyframes = self.source.keyframes;
            let layer = &mut self.layers[place];
            let is_wanted = layer.wanted.is_some_and(|at| at <= now);
            let is_due = match (layer.keyframe, keyframes.period) {
                (None, _) => true,
                (Some(at), Some(period)) => now >= at + period,
                (Some(_), None) => false,
            };
            let keyframe = is_wanted || is_due;
            layer.since = if keyframe { 0 } else { layer.since + 1 };
            let place_in_time = match (self.source.has_upper_frames, layer.since % 2) {
                (false, _) => TimePlace::Chain,
                (true, 0) => TimePlace::Base,
                (true, _) => TimePlace::Upper,
            };
            let bytes = if keyframe {
                layer.keyframe = Some(now);
                layer.wanted = None;
                let owed = layer.debt + (KEYFRAME_FRAMES - 1.0) * average;
                layer.debt = owed.min(DEBT_FRAMES_MAX * average);
                KEYFRAME_FRAMES * average
            } else if is_still {
                REST_BYTES
            } else {
                let repaid = layer.debt.min(REPAYMENT * average);
                layer.debt -= repaid;
                deviation * average - repaid
            };
            frames.push(Frame {
                layer: u8::try_from(place).unwrap_or(u8::MAX),
                keyframe,
                place: place_in_time,
                bytes: bytes.max(64.0) as usize,
            });
        }
        frames
    }

    /// Returns whether the screen is at rest.
    fn is_still(&mut self, now: Duration) -> bool {
        if self.source.content != Content::Screen {
            return false;
        }
        if now >= self.change_at {
            self.changing_until = now + CHANGE;
            let pause = Duration::from_secs_f64(8.0 + 6.0 * self.rng.unit());
            self.change_at = now + pause;
        }
        now >= self.changing_until
    }

    /// Draws the size of a frame in relation to the average.
    fn deviation(&mut self) -> f64 {
        let centred = self.rng.unit() - 0.5;
        let laplace = -SPREAD * centred.signum() * (1.0 - 2.0 * centred.abs()).max(1e-9).ln();
        1.0 + laplace.clamp(-0.5, 0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn source(content: Content, keyframes: Keyframes) -> PublishedVideo {
        PublishedVideo {
            layers: [1_250_000, 400_000].map(Bitrate::from_bps).to_vec(),
            fps: 30,
            keyframes,
            has_upper_frames: false,
            content,
        }
    }

    const ON_REQUEST: Keyframes = Keyframes {
        period: None,
        on_request: true,
    };

    /// Returns the frames of `seconds`, with their times.
    fn filmed(encoders: &mut Encoders, until: Duration) -> Vec<(Duration, Vec<Frame>)> {
        let mut all = Vec::new();
        while encoders.due() < until {
            let now = encoders.due();
            all.push((now, encoders.film(now)));
        }
        all
    }

    #[test]
    fn each_layer_has_its_bitrate_whatever_its_keyframes() {
        for period in [None, Some(2 * SECOND)] {
            let keyframes = Keyframes {
                period,
                on_request: true,
            };
            let source = source(Content::Camera, keyframes);
            let mut encoders = Encoders::new(&source, Duration::ZERO, 3);
            let frames = filmed(&mut encoders, 60 * SECOND);
            for (place, rate) in source.layers.iter().enumerate() {
                let bytes: usize = frames.iter().map(|(_, it)| it[place].bytes).sum();
                let mbps = bytes as f64 / 125_000.0 / 60.0;
                assert!((mbps / rate.mbps() - 1.0).abs() < 0.05, "{place}: {mbps}");
            }
            let keyframes = frames.iter().filter(|(_, it)| it[0].keyframe).count();
            assert_eq!(keyframes, if period.is_some() { 30 } else { 1 });
        }
    }

    #[test]
    fn a_keyframe_comes_on_request_unless_the_publisher_is_deaf() {
        for on_request in [true, false] {
            let keyframes = Keyframes {
                period: None,
                on_request,
            };
            let source = source(Content::Camera, keyframes);
            let mut encoders = Encoders::new(&source, Duration::ZERO, 3);
            filmed(&mut encoders, SECOND);
            encoders.request_keyframe(1, SECOND);
            let frames = filmed(&mut encoders, 2 * SECOND);
            let first = frames.iter().find(|(_, it)| it[1].keyframe);
            assert_eq!(first.is_some(), on_request);
            assert!(frames.iter().all(|(_, it)| !it[0].keyframe));
        }
    }

    #[test]
    fn a_screen_at_rest_has_a_frame_each_second_and_changes_at_times() {
        let source = source(Content::Screen, ON_REQUEST);
        let mut encoders = Encoders::new(&source, Duration::ZERO, 3);
        let frames = filmed(&mut encoders, 60 * SECOND);
        let small = frames.iter().filter(|(_, it)| it[0].bytes == 300).count();
        let large = frames.iter().filter(|(_, it)| it[0].bytes > 8_000).count();
        assert!((35..60).contains(&small), "{small}");
        assert!((4..10).contains(&large), "{large}");
    }
}
