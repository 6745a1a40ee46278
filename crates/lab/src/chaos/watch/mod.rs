//! Good viewers in a process of their own, which report what they see twice a second.
//!
//! ```text
//! Pool ─ progress, every 20 ms ─► PersistentViewer: frames, silence, joins again
//!                                        └─► Sample, JSON lines ─► standard output
//! ```
//!
//! The process ends when its standard input is closed, so that no viewer outlives the harness.

mod sample;
mod viewer;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glassline_client::trust::Trust;
use glassline_client::viewers::{Endpoint, Join, Options, Pool};

pub use sample::{Freeze, Sample};

use super::clock::unix_ms;
use viewer::PersistentViewer;

/// Time without a frame that counts as an interruption: nine frames of the demo stream.
pub const FREEZE_MIN: Duration = Duration::from_millis(300);

/// Time between two looks at the viewers; interruptions are measured this exactly.
const LOOK: Duration = Duration::from_millis(20);

/// Time of a sample.
const SAMPLE: Duration = Duration::from_millis(500);

/// Viewers of one process.
#[derive(Clone, Debug)]
pub struct Audience {
    /// Endpoints that are watched; each one has a viewer of its own.
    pub endpoints: Vec<Endpoint>,
    /// Token that is sent as `Authorization: Bearer`.
    pub token: Option<String>,
}

/// Watches until standard input is closed; writes a line of JSON twice a second to `out`.
///
/// # Errors
/// The system refuses threads or sockets, or `out` cannot be written.
pub fn watch(audience: &Audience, out: &mut impl Write) -> io::Result<()> {
    let is_over = input_ends()?;
    let options = Options {
        token: audience.token.clone(),
        trust: Trust::Anyone,
        ..Options::default()
    };
    let pool = Pool::start(options)?;
    let mut watching = Watching::begin(&pool, &audience.endpoints);
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        watching.look(&pool);
        if let Some(sample) = watching.take_sample(&pool) {
            let line = serde_json::to_string(&sample).map_err(io::Error::other)?;
            writeln!(out, "{line}")?;
            out.flush()?;
        }
    }
    Ok(())
}

/// A flag that becomes true at the end of standard input.
fn input_ends() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&flag);
    std::thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || {
            let mut input = io::stdin().lock();
            let mut buffer = [0; 64];
            while matches!(input.read(&mut buffer), Ok(1..)) {}
            told.store(true, Ordering::Relaxed);
        })?;
    Ok(flag)
}

/// All viewers, and the half second that is being observed.
struct Watching {
    viewers: Vec<PersistentViewer>,
    sample: Sample,
    began: Instant,
    looked: Instant,
}

impl Watching {
    fn begin(pool: &Pool, endpoints: &[Endpoint]) -> Self {
        let now = Instant::now();
        let viewers = endpoints
            .iter()
            .map(|endpoint| PersistentViewer::begin(pool, Join::new(endpoint.clone()), now));
        let viewers: Vec<PersistentViewer> = viewers.collect();
        Self {
            sample: Self::empty(viewers.len()),
            viewers,
            began: now,
            looked: now,
        }
    }

    fn empty(viewers: usize) -> Sample {
        Sample {
            from_ms: unix_ms(),
            frames: vec![0; viewers],
            ..Sample::default()
        }
    }

    fn look(&mut self, pool: &Pool) {
        let progress: BTreeMap<_, _> = pool
            .progress()
            .into_iter()
            .map(|viewer| (viewer.id, viewer))
            .collect();
        let (now, now_ms) = (Instant::now(), unix_ms());
        let late = now.saturating_duration_since(self.looked + LOOK);
        self.looked = now;
        let sample = &mut self.sample;
        let late_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
        sample.starved_ms = sample.starved_ms.max(late_ms);
        for (index, viewer) in self.viewers.iter_mut().enumerate() {
            let (last_frame, had_begun) = (viewer.last_frame, viewer.has_begun);
            let seen = viewer.look(pool, &progress, now);
            sample.frames[index] += seen.frames;
            sample.expected += seen.expected;
            sample.received += seen.received;
            sample.damaged += seen.damaged;
            sample.rejoins += u64::from(seen.has_rejoined);
            sample.failure = seen.failure.or(sample.failure.take());
            let silence = now.saturating_duration_since(last_frame);
            if seen.frames > 0 && had_begun && silence >= FREEZE_MIN {
                let silence_ms = u64::try_from(silence.as_millis()).unwrap_or(u64::MAX);
                sample.freezes.push(Freeze {
                    viewer: index,
                    from_ms: now_ms.saturating_sub(silence_ms),
                    to_ms: now_ms,
                });
            }
        }
    }

    /// The sample, when its time is over.
    fn take_sample(&mut self, pool: &Pool) -> Option<Sample> {
        if self.began.elapsed() < SAMPLE {
            return None;
        }
        self.began += SAMPLE;
        if self.began.elapsed() >= SAMPLE {
            // The process was stopped for longer than a sample.
            self.began = Instant::now();
        }
        let viewers = self.viewers.iter();
        let frozen = viewers.filter(|viewer| viewer.last_frame.elapsed() >= FREEZE_MIN);
        self.sample.frozen = frozen.count();
        self.sample.set_gaps(&pool.take_gaps());
        self.sample.to_ms = unix_ms();
        let next = Self::empty(self.viewers.len());
        Some(std::mem::replace(&mut self.sample, next))
    }
}
