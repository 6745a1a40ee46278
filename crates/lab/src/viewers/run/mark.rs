//! State of the viewers at one time, and what they received between two times.
//!
//! RTP time advances by whole frames, so that a single reading is wrong by up to a frame: 33 ms
//! of a window of 5 s are 0.7 %, more than the loss that matters. A mark therefore consists of
//! several readings within a few frames' time, of which each viewer's most advanced one counts,
//! with its own time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use glassline_client::viewers::{Flow, HlsFigures, Id, Mode, Progress, State};

use crate::statistics::quantile;
use crate::viewers::floor::Shape;
use crate::viewers::timing::Hls;

/// Readings of a mark at the edge of a window, [`READING_INTERVAL`] apart: the time of several
/// frames.
pub(super) const EDGE_READINGS: usize = 20;

/// Readings of a mark within a window.
pub(super) const SAMPLE_READINGS: usize = 4;

/// Time between the readings of a mark: about 0.38 of a frame at 30 per second, and no simple
/// fraction at 25, 50 or 60 either, so that one of the readings comes soon after a frame at any
/// phase.
pub(super) const READING_INTERVAL: Duration = Duration::from_micros(12_700);

/// State of all well-behaved viewers at one time.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// Time of the last reading, to which all counts belong.
    pub(super) at: Instant,
    pub(super) viewers: BTreeMap<Id, Reading>,
}

/// One viewer's state at the last reading, and its most advanced position.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) state: State,
    is_verifying: bool,
    video: Flow,
    audio: Flow,
    frames: u64,
    damaged: u64,
    nacked: u64,
    hls: Option<HlsFigures>,
    video_position: Position,
    audio_position: Position,
}

/// Position in the media, and the time of reading it.
#[derive(Clone, Copy, Debug)]
struct Position {
    at: Instant,
    media: Duration,
}

impl Position {
    /// Whether this position is further ahead, both taken to the same time.
    fn leads(self, other: Self) -> bool {
        let later = self.at.saturating_duration_since(other.at);
        let earlier = other.at.saturating_duration_since(self.at);
        self.media + earlier > other.media + later
    }
}

impl Mark {
    pub(super) const fn nobody(at: Instant) -> Self {
        Self {
            at,
            viewers: BTreeMap::new(),
        }
    }

    /// Adds a reading at `at`; `viewers` are the well-behaved ones.
    pub(super) fn look(&mut self, at: Instant, viewers: impl Iterator<Item = Progress>) {
        self.at = at;
        for now in viewers {
            let position = |flow: &Flow| Position {
                at,
                media: flow.media_time,
            };
            let (mut video_position, mut audio_position) =
                (position(&now.video), position(&now.audio));
            if let Some(before) = self.viewers.get(&now.id) {
                for (position, before) in [
                    (&mut video_position, before.video_position),
                    (&mut audio_position, before.audio_position),
                ] {
                    if !position.leads(before) {
                        *position = before;
                    }
                }
            }
            let reading = Reading {
                state: now.state,
                is_verifying: now.mode == Mode::Verify,
                video: now.video,
                audio: now.audio,
                frames: now.frames,
                damaged: now.damaged,
                nacked: now.nacked,
                hls: now.hls,
                video_position,
                audio_position,
            };
            self.viewers.insert(now.id, reading);
        }
    }

    /// Number of viewers that receive media.
    pub(super) fn playing(&self) -> usize {
        let viewers = self.viewers.values();
        viewers
            .filter(|viewer| viewer.state == State::Playing)
            .count()
    }

    /// Number of viewers that ended.
    pub(super) fn ended(&self) -> usize {
        let viewers = self.viewers.values();
        viewers
            .filter(|viewer| viewer.state == State::Ended)
            .count()
    }

    /// Counts of what arrived since `earlier`, at viewers that played by then.
    pub(super) fn since(&self, earlier: &Self) -> Account {
        let mut account = Account {
            connected: self.playing(),
            failed: self.ended(),
            seconds: self.at.saturating_duration_since(earlier.at).as_secs_f64(),
            ..Account::default()
        };
        for (id, now) in &self.viewers {
            if let Some(before) = earlier.viewers.get(id)
                && before.state == State::Playing
            {
                account.add(before, now);
            }
        }
        account
    }
}

/// The playback of viewers of HLS between two marks.
#[derive(Clone, Debug, Default)]
pub(super) struct HlsAccount {
    viewers: usize,
    requests: u64,
    stalls: u64,
    stalled: Duration,
    latencies_ms: Vec<f64>,
}

impl HlsAccount {
    fn add(&mut self, before: HlsFigures, now: HlsFigures) {
        self.viewers += 1;
        self.requests += now.requests.saturating_sub(before.requests);
        self.stalls += now.stalls.saturating_sub(before.stalls);
        self.stalled += now.stalled.saturating_sub(before.stalled);
        self.latencies_ms
            .extend(now.latency.map(|it| it.as_secs_f64() * 1e3));
    }

    /// The figures for a report; `None` without viewers of HLS.
    pub(super) fn figures(&self, seconds: f64) -> Option<Hls> {
        let viewer_seconds = self.viewers as f64 * seconds;
        (viewer_seconds > 0.0).then(|| Hls {
            requests_per_viewer_second: self.requests as f64 / viewer_seconds,
            stalls: self.stalls,
            stalled_ratio: self.stalled.as_secs_f64() / viewer_seconds,
            latency_p50_ms: quantile(&self.latencies_ms, 0.5),
            latency_p95_ms: quantile(&self.latencies_ms, 0.95),
        })
    }
}

/// Counts of what viewers received between two marks.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// Viewers that receive media at the end.
    pub(super) connected: usize,
    /// Viewers that ended before the end.
    pub(super) failed: usize,
    /// Time between the marks.
    pub(super) seconds: f64,
    /// Viewers that played at the beginning.
    pub(super) watched: usize,
    pub(super) expected: u64,
    pub(super) received: u64,
    pub(super) recovered: u64,
    pub(super) nacked: u64,
    pub(super) bytes: u64,
    pub(super) frames_verified: u64,
    pub(super) frames_damaged: u64,
    pub(super) hls: HlsAccount,
    frames: u64,
    video: Flow,
    audio: Flow,
    ratio_sum: f64,
    slowest: Option<f64>,
}

impl Account {
    fn add(&mut self, before: &Reading, now: &Reading) {
        let video = grown(&now.video, &before.video);
        let audio = grown(&now.audio, &before.audio);
        let total = video.and(audio);
        self.watched += 1;
        self.expected += total.expected;
        self.received += total.received;
        self.recovered += total.recovered;
        self.nacked += now.nacked.saturating_sub(before.nacked);
        if let (Some(before), Some(now)) = (before.hls, now.hls) {
            self.hls.add(before, now);
        }
        self.bytes += total.bytes;
        self.video = self.video.and(video);
        self.audio = self.audio.and(audio);
        let frames = now.frames.saturating_sub(before.frames);
        self.frames += frames;
        if now.is_verifying {
            self.frames_verified += frames;
            self.frames_damaged += now.damaged.saturating_sub(before.damaged);
        }
        let (from, to) = if now.video.received > 0 {
            (before.video_position, now.video_position)
        } else {
            (before.audio_position, now.audio_position)
        };
        let wall = to.at.saturating_duration_since(from.at).as_secs_f64();
        let advanced = to.media.saturating_sub(from.media).as_secs_f64();
        let kept = 1.0 - total.lost() as f64 / total.expected.max(1) as f64;
        let ratio = if wall > 0.0 {
            advanced / wall * kept
        } else {
            0.0
        };
        self.ratio_sum += ratio;
        self.slowest = Some(self.slowest.map_or(ratio, |slowest| slowest.min(ratio)));
    }

    /// Mean of the viewers' ratios; `None` without viewers.
    pub(super) fn delivered_ratio(&self) -> Option<f64> {
        (self.watched > 0).then(|| self.ratio_sum / self.watched as f64)
    }

    pub(super) const fn slowest_ratio(&self) -> Option<f64> {
        self.slowest
    }

    /// Share of lost packets; `None` if none were expected.
    pub(super) fn loss_ratio(&self) -> Option<f64> {
        let lost = self.expected.saturating_sub(self.received + self.recovered);
        (self.expected > 0).then(|| lost as f64 / self.expected as f64)
    }

    pub(super) const fn packets(&self) -> u64 {
        self.received + self.recovered
    }

    pub(super) fn packets_per_second(&self) -> f64 {
        self.packets() as f64 / self.seconds.max(1e-9)
    }

    pub(super) fn mbps(&self) -> f64 {
        self.bytes as f64 * 8.0 / 1e6 / self.seconds.max(1e-9)
    }

    /// Traffic of one viewer, for the floor.
    pub(super) fn shape(&self) -> Shape {
        let viewer_seconds = (self.watched as f64 * self.seconds).max(1e-9);
        let packets = |flow: &Flow| flow.received + flow.recovered;
        let rate = |count: u64| count as f64 / viewer_seconds;
        let size = |flow: &Flow| flow.bytes as f64 / packets(flow).max(1) as f64;
        Shape {
            frames_per_second: rate(self.frames),
            video_packets_per_second: rate(packets(&self.video)),
            video_datagram_bytes: size(&self.video),
            audio_packets_per_second: rate(packets(&self.audio)),
            audio_datagram_bytes: size(&self.audio),
        }
    }
}

/// Counts of `now` less those of `before`, without media time.
fn grown(now: &Flow, before: &Flow) -> Flow {
    Flow {
        expected: now.expected.saturating_sub(before.expected),
        received: now.received.saturating_sub(before.received),
        recovered: now.recovered.saturating_sub(before.recovered),
        bytes: now.bytes.saturating_sub(before.bytes),
        media_time: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_client::viewers::Conduct;

    /// Simulated media at `fps` frames per second and `speed` times real time, observed `elapsed`
    /// after a start.
    #[derive(Clone, Copy)]
    struct Stream {
        fps: f64,
        speed: f64,
        /// Share of packets that are lost.
        loss: f64,
        /// Time at which frames stop.
        stalls_at: f64,
    }

    impl Stream {
        fn progress(self, id: Id, elapsed: f64) -> Progress {
            let seconds = elapsed.min(self.stalls_at) * self.speed;
            let frames = (seconds * self.fps).floor();
            let expected = frames as u64 * 10;
            let received = expected - (expected as f64 * self.loss) as u64;
            Progress {
                id,
                mode: Mode::Verify,
                conduct: Conduct::Good,
                state: State::Playing,
                failure: None,
                connect_time: None,
                join_time: None,
                video: Flow {
                    expected,
                    received,
                    recovered: 0,
                    bytes: received * 1000,
                    media_time: Duration::from_secs_f64(frames / self.fps),
                },
                audio: Flow::default(),
                frames: frames as u64,
                damaged: 0,
                nacked: 0,
                hls: None,
            }
        }
    }

    const STEADY: Stream = Stream {
        fps: 30.0,
        speed: 1.0,
        loss: 0.0,
        stalls_at: f64::INFINITY,
    };

    /// Counts of one viewer of each stream in a window of `seconds` that begins `phase` after a
    /// start.
    fn watch(streams: &[Stream], phase: f64, seconds: f64) -> Account {
        // Only a pool can make ids.
        let pool = glassline_client::viewers::Pool::start(Default::default()).expect("a pool");
        let nowhere = glassline_client::viewers::Endpoint::parse("http://127.0.0.1:1/x/whep");
        let join = glassline_client::viewers::Join::new(nowhere.expect("a URL"));
        let ids: Vec<Id> = streams.iter().map(|_| pool.join(join.clone())).collect();
        let start = Instant::now();
        let mark = |from: f64| {
            let mut mark = Mark::nobody(start);
            for reading in 0..EDGE_READINGS {
                let elapsed = from + READING_INTERVAL.as_secs_f64() * reading as f64;
                let viewers = streams.iter().zip(&ids);
                let at = start + Duration::from_secs_f64(elapsed);
                mark.look(
                    at,
                    viewers.map(|(stream, id)| stream.progress(*id, elapsed)),
                );
            }
            mark
        };
        mark(phase + seconds).since(&mark(phase))
    }

    #[test]
    fn the_ratio_does_not_depend_on_where_in_a_frame_the_window_begins() {
        for fps in [24.0, 25.0, 29.97, 30.0, 50.0, 60.0] {
            let stream = Stream { fps, ..STEADY };
            for phase in 0..20 {
                let phase = 10.0 + f64::from(phase) * 0.00317;
                let ratio = watch(&[stream], phase, 5.0).delivered_ratio();
                let error = (ratio.expect("it was watched") - 1.0).abs();
                assert!(error < 0.001, "{fps} frames/s, phase {phase}: {error}");
            }
        }
    }

    #[test]
    fn falling_behind_stalling_and_losing_all_lower_the_ratio() {
        let slow = Stream {
            speed: 0.43,
            ..STEADY
        };
        let lossy = Stream {
            loss: 0.02,
            ..STEADY
        };
        let stalled = Stream {
            stalls_at: 14.0,
            ..STEADY
        };
        for (stream, wanted) in [(slow, 0.43), (lossy, 0.98), (stalled, 0.4)] {
            let ratio = watch(&[stream], 12.0, 5.0).delivered_ratio();
            let error = (ratio.expect("it was watched") - wanted).abs();
            assert!(error < 0.005, "{ratio:?} instead of {wanted}");
        }
        let account = watch(&[STEADY, slow], 12.0, 5.0);
        assert!((account.slowest_ratio().expect("watched") - 0.43).abs() < 0.005);
        assert!((account.delivered_ratio().expect("watched") - 0.715).abs() < 0.005);
        assert_eq!(
            (account.watched, account.connected, account.failed),
            (2, 2, 0)
        );
        assert!((account.packets_per_second() - 300.0 * 1.43).abs() < 10.0);
        let loss = watch(&[lossy], 12.0, 5.0).loss_ratio().expect("watched");
        assert!((loss - 0.02).abs() < 0.002, "{loss}");
    }

    #[test]
    fn a_window_tells_the_traffic_of_one_viewer() {
        let shape = watch(&[STEADY, STEADY], 12.0, 5.0).shape();
        assert!((shape.frames_per_second - 30.0).abs() < 0.3, "{shape:?}");
        assert!(
            (shape.video_packets_per_second - 300.0).abs() < 3.0,
            "{shape:?}"
        );
        assert!(
            (shape.video_datagram_bytes - 1000.0).abs() < 1.0,
            "{shape:?}"
        );
        assert_eq!(shape.audio_packets_per_second, 0.0);
    }

    #[test]
    fn nobody_has_no_ratio() {
        let nobody = Mark::nobody(Instant::now());
        let account = nobody.since(&nobody);
        assert_eq!(
            (account.delivered_ratio(), account.loss_ratio()),
            (None, None)
        );
        assert_eq!(account.packets_per_second(), 0.0);
    }
}
