//! Player pages of one stream at 60 frames a second, and what they report each second.

use std::hint::black_box;
use std::time::{Duration, Instant};

use glassline_hub::StreamName;
use glassline_latency::{
    FrameCode, FrameStamps, Joined, LatencyRegistry, Origins, Report, ViewerLatency, join,
};
use glassline_runtime::{Clock, SessionId};

/// Number of player pages that report.
pub(crate) const PAGES: usize = 100;

/// Frames in a report.
const FRAMES: u32 = 60;

/// Names of the columns of a report.
const COLUMNS: [&str; 6] = [
    "rtp_timestamp",
    "received_us",
    "presented_us",
    "decode_us",
    "jitter_buffer_us",
    "code",
];

/// Seconds of the window, after which each page's account is full.
pub(crate) const WINDOW_S: usize = 11;

/// The pages, and the server's part that answers them.
pub(crate) struct Pages {
    clock: Clock,
    start: Instant,
    code: FrameCode,
    stream: StreamName,
    registry: LatencyRegistry,
    viewers: Vec<SessionId>,
    random: Random,
}

/// A page's report of one second, in each of its forms.
pub(crate) struct Second {
    body: Vec<u8>,
    report: Report,
    stamps: Vec<Option<FrameStamps>>,
    joined: Joined,
    now: Instant,
}

impl Pages {
    pub(crate) fn new() -> Self {
        let clock = Clock::start();
        let start = clock.epoch() + Duration::from_secs(100);
        Self {
            clock,
            start,
            code: FrameCode {
                fps: FRAMES,
                frames: FRAMES * 10,
                epoch: start,
            },
            stream: StreamName::parse("demo").expect("a name"),
            registry: LatencyRegistry::default(),
            viewers: (0..PAGES)
                .map(|page| SessionId::new(&format!("page-{page}-of-the-stream")))
                .collect(),
            random: Random(1),
        }
    }

    /// Makes what pages report in second `second`.
    pub(crate) fn second(&mut self, second: usize) -> Second {
        let first = u32::try_from(second).unwrap_or_default() * FRAMES;
        let frames: Vec<u32> = (first..first + FRAMES).collect();
        let stamps: Vec<_> = frames.iter().map(|frame| self.stamps(*frame)).collect();
        let mut columns = [const { Vec::new() }; COLUMNS.len()];
        let mut before = [0; COLUMNS.len()];
        for (frame, stamps) in frames.iter().zip(&stamps) {
            let numbers = self.numbers(*frame, stamps);
            for ((column, before), number) in columns.iter_mut().zip(&mut before).zip(numbers) {
                column.push((number - *before).to_string());
                *before = number;
            }
        }
        let columns = COLUMNS.iter().zip(columns);
        let columns = columns.map(|(name, numbers)| format!(r#""{name}":[{}]"#, numbers.join(",")));
        let body = format!(
            r#"{{"offset_ns":-5000123456,"error_ns":180000,"frames":{{{}}},"unmatched":0,"lost":0}}"#,
            columns.collect::<Vec<_>>().join(",")
        );
        let report = Report::read(body.as_bytes()).expect("a report");
        let stamps: Vec<_> = stamps.into_iter().map(Some).collect();
        let joined = join(&report, &stamps, Origins::drawn(&self.code), &self.clock);
        Second {
            body: body.into_bytes(),
            report,
            stamps,
            joined,
            now: self.start + Duration::from_secs(second as u64 + 1),
        }
    }

    /// Makes the stamps of the frame of number `frame`.
    fn stamps(&mut self, frame: u32) -> FrameStamps {
        let origin = self.start + Duration::from_secs(1) * frame / FRAMES;
        let mut at = origin;
        let mut later = |most_us: u32| {
            at += Duration::from_nanos((self.random.below(f64::from(most_us)) * 1e3) as u64);
            at
        };
        FrameStamps {
            timestamp: frame * (90_000 / FRAMES),
            origin,
            published: later(300),
            relay: None,
            read_at: later(200),
            paced: later(2_000),
            sent: later(400),
        }
    }

    /// Returns what a page tells of a frame: times in steps of 0.1 ms, as browsers have them.
    fn numbers(&mut self, frame: u32, stamps: &FrameStamps) -> [i64; COLUMNS.len()] {
        let tenths = |ms: f64| (ms * 10.0).round() as i64 * 100;
        let sent_ms = self.clock.nanos(stamps.sent) as f64 / 1e6 + 5_000.123_456;
        let received = tenths(sent_ms + 3.0 + self.random.below(8.0));
        let decode = tenths(2.0 + self.random.below(3.0));
        let presented = received + tenths(28.0 + self.random.below(20.0));
        let buffered = (12e3 + self.random.below(9e3)) as i64;
        [
            stamps.timestamp.into(),
            received,
            presented,
            decode,
            buffered.min(presented - received - decode),
            (frame % self.code.frames).into(),
        ]
    }

    /// Reads the body of a report of each page.
    pub(crate) fn read(&self, second: &Second) {
        for _ in &self.viewers {
            let report = Report::read(&second.body).expect("a report");
            report.check().expect("its numbers are right");
            let report = report.without_doubles();
            black_box(report.timestamps());
        }
    }

    /// Joins the report of each page with the server's stamps.
    pub(crate) fn join(&self, second: &Second) {
        for _ in &self.viewers {
            let origins = Origins::drawn(&self.code);
            black_box(join(&second.report, &second.stamps, origins, &self.clock));
        }
    }

    /// Counts the report of each page.
    pub(crate) fn count(&self, second: &Second) {
        for viewer in &self.viewers {
            black_box(
                self.registry
                    .report(&self.stream, viewer, &second.joined, second.now),
            );
        }
    }

    /// Counts the report of one page.
    pub(crate) fn figures(&self, second: &Second) -> ViewerLatency {
        let viewer = &self.viewers[0];
        self.registry
            .report(&self.stream, viewer, &second.joined, second.now)
    }

    /// Writes the answer to each page.
    pub(crate) fn answer(&self, figures: &ViewerLatency) {
        for _ in &self.viewers {
            black_box(serde_json::to_vec(figures).expect("it has a form in JSON"));
        }
    }
}

/// A generator of numbers that are the same in each run.
struct Random(u64);

impl Random {
    /// Returns a number from zero to `most`.
    fn below(&mut self, most: f64) -> f64 {
        // Knuth, The Art of Computer Programming 2, 3.3.4.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / f64::from(1 << 24) * most
    }
}
