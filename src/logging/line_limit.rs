//! Limits how many lines each place in the code writes, because strangers can cause lines.

use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use glassline_access::audit::AUDIT;
use glassline_server::LogCounters;
use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Lines that a place in the code may write at once.
const BURST: f64 = 100.0;

/// Lines that a place in the code may write each second after that.
const PER_SECOND: f64 = 10.0;

/// Interval at which the log says what was left out.
const REPORT: Duration = Duration::from_secs(5);

/// Most characters of a line's message in that report.
const MESSAGE_CHARS_MAX: usize = 80;

/// A filter that leaves out lines of places that write too many. Lines of the levels `debug` and
/// `trace` pass: they are off unless somebody asked for them. Lines about operators' changes pass:
/// they are evidence, and bounded where they are made.
pub(super) struct LineLimit(Arc<Callsites>);

/// All places in the code that have written a line.
struct Callsites {
    places: Mutex<HashMap<Identifier, Callsite>>,
    counters: &'static LogCounters,
}

/// A place in the code that writes lines.
struct Callsite {
    tokens: f64,
    filled_at: Instant,
    /// Lines left out since the last report.
    suppressed: u64,
    /// Message of the first of these lines.
    message: String,
}

impl LineLimit {
    /// Creates the filter, and starts the thread that reports what was left out.
    pub(super) fn start(counters: &'static LogCounters) -> Self {
        let places = Arc::new(Callsites {
            places: Mutex::default(),
            counters,
        });
        let reported = Arc::downgrade(&places);
        let thread = thread::Builder::new().name("log-limit".to_owned());
        // Without the thread, lines that were left out are still counted in the metrics.
        let _ = thread.spawn(move || report(&reported));
        Self(places)
    }
}

impl<S: Subscriber> Layer<S> for LineLimit {
    fn event_enabled(&self, event: &Event<'_>, _context: Context<'_, S>) -> bool {
        let is_detail = *event.metadata().level() > Level::INFO;
        let is_evidence = event.metadata().target() == AUDIT;
        is_detail || is_evidence || self.0.admit(event, Instant::now())
    }
}

impl Callsites {
    fn admit(&self, event: &Event<'_>, now: Instant) -> bool {
        let mut places = self.places.lock();
        let place = places
            .entry(event.metadata().callsite())
            .or_insert_with(|| Callsite::new(now));
        if place.take(now) {
            return true;
        }
        if place.suppressed == 0 {
            let mut message = Message(String::new());
            event.record(&mut message);
            place.message = message.0;
        }
        place.suppressed += 1;
        self.counters.suppressed.add(1);
        false
    }

    /// Returns how many lines with which message were left out since the last call.
    fn take_suppressed(&self) -> Vec<(u64, String)> {
        let mut places = self.places.lock();
        let places = places.values_mut().filter(|place| place.suppressed > 0);
        let taken = places.map(|place| {
            let count = std::mem::take(&mut place.suppressed);
            (count, std::mem::take(&mut place.message))
        });
        taken.collect()
    }
}

impl Callsite {
    fn new(now: Instant) -> Self {
        Self {
            tokens: BURST,
            filled_at: now,
            suppressed: 0,
            message: String::new(),
        }
    }

    fn take(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.filled_at = now;
        self.tokens = (self.tokens + since * PER_SECOND).min(BURST);
        let has_one = self.tokens >= 1.0;
        if has_one {
            self.tokens -= 1.0;
        }
        has_one
    }
}

fn report(places: &Weak<Callsites>) {
    loop {
        thread::sleep(REPORT);
        let Some(places) = places.upgrade() else {
            return;
        };
        // A panic costs this report.
        let reported = catch_unwind(AssertUnwindSafe(|| {
            for (lines, like) in places.take_suppressed() {
                tracing::warn!(
                    lines,
                    like,
                    "lines were left out: this place writes too many"
                );
            }
        }));
        if reported.is_err() {
            places.counters.panics.add(1);
        }
    }
}

/// The beginning of an event's message.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let mut text = String::new();
            // A string takes everything.
            let _ = write!(text, "{value:?}");
            self.0 = text.chars().take(MESSAGE_CHARS_MAX).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Counts the events that pass.
    #[derive(Clone, Default)]
    struct Passed(Arc<AtomicUsize>);

    impl<S: Subscriber> Layer<S> for Passed {
        fn on_event(&self, _event: &Event<'_>, _context: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_place_that_writes_too_many_lines_is_limited_and_others_are_not() {
        let counters: &'static LogCounters = Box::leak(Box::default());
        let limit = LineLimit::start(counters);
        let places = Arc::clone(&limit.0);
        let passed = Passed::default();
        let subscriber = tracing_subscriber::registry()
            .with(limit)
            .with(passed.clone());
        let start = Instant::now();
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..5000 {
                tracing::warn!(number, "a stranger knocked");
            }
            tracing::info!("another line");
            for number in 0..1000 {
                tracing::info!(target: AUDIT, number, "an operator's request");
            }
            for number in 0..200 {
                tracing::debug!(number, "somebody asked for details");
            }
        });
        let passed = passed.0.load(Ordering::Relaxed);
        let gained = start.elapsed().as_secs_f64() * PER_SECOND;
        let most = BURST + gained + 1.0 + 1.0 + 1200.0;
        assert!(passed >= 1301 && (passed as f64) <= most, "{passed}");
        let suppressed = counters.suppressed.get();
        assert_eq!(suppressed + passed as u64, 6201);
        let told = places.take_suppressed();
        assert_eq!(told, [(suppressed, "a stranger knocked".to_owned())]);
        assert_eq!(places.take_suppressed(), []);
    }
}
