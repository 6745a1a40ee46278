//! The tasks that send traces and metrics.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_access::outbound::ClientError;
use glassline_runtime::Clock;
use rand::Rng;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc, watch};

use super::assembly::{Assembly, Join};
use super::collector::{Collector, ExportError};
use super::counters::{Signal, TelemetryCounters};
use super::data_points::{self, Times};
use super::join::JoinPart;
use super::resource;
use super::settings::Otlp;
use super::spans;

/// Most joins in one request.
const BATCH_MAX: usize = 128;

/// Longest time that a finished join waits for others.
const BATCH_WAIT: Duration = Duration::from_secs(1);

/// Time for which a request of traces is repeated. Meanwhile joins wait in the queue.
const RETRIED_FOR: Duration = Duration::from_secs(60);

/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(16);

/// Time for the last request before the server ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// The receiving end of the queue of joins. A task that begins again goes on with it.
pub type JoinQueue = Arc<Mutex<mpsc::Receiver<JoinPart>>>;

/// Writes the metrics as Prometheus gets them.
pub type Text = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync>;

/// Sends traces and metrics.
#[derive(Debug)]
pub struct Exporter {
    settings: Arc<Otlp>,
    counters: Arc<TelemetryCounters>,
    resource: Value,
    clock: Clock,
    /// Time that a session may take from its answer to its media.
    patience: Duration,
}

impl Exporter {
    /// Creates an exporter for the server that is `node` in its cluster. `patience` is the time that a
    /// session may take from its answer to its media.
    pub fn new(
        settings: &Otlp,
        node: Option<&str>,
        counters: &Arc<TelemetryCounters>,
        clock: Clock,
        patience: Duration,
    ) -> Self {
        Self {
            resource: resource::resource(settings, node),
            settings: Arc::new(settings.clone()),
            counters: Arc::clone(counters),
            clock,
            patience,
        }
    }

    /// Checks that requests can be sent.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the file of trusted certificates cannot be used.
    pub fn check(&self) -> Result<(), ClientError> {
        self.collector(Signal::Traces).map(|_| ())
    }

    /// Sends the joins of `queue` until `stopped` becomes true, and then what is left.
    pub async fn send_traces(
        self: Arc<Self>,
        queue: JoinQueue,
        mut stopped: watch::Receiver<bool>,
    ) {
        let Ok(collector) = self.collector(Signal::Traces) else {
            return;
        };
        let mut parts = queue.lock().await;
        let mut assembly = Assembly::new(self.patience);
        let mut batch = Vec::new();
        let mut ticks = tokio::time::interval(BATCH_WAIT);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut outage = Outage::new(Signal::Traces);
        let mut last = Vec::new();
        loop {
            let mut is_due = false;
            let joins: Vec<Join> = tokio::select! {
                part = parts.recv() => match part {
                    Some(part) => assembly.take(part, Instant::now()).into_iter().collect(),
                    None => return,
                },
                _ = ticks.tick() => {
                    is_due = true;
                    assembly.expire(Instant::now())
                }
                _ = stopped.wait_for(|stop| *stop) => break,
            };
            self.add(&joins, &mut batch);
            self.counters.incomplete.add(assembly.take_dropped());
            if !batch.is_empty() && (is_due || batch.len() >= BATCH_MAX) {
                let joins = batch.len();
                let body = self.traces_body(std::mem::take(&mut batch));
                let sending = self.send_body(&collector, body.clone(), joins, &mut outage);
                tokio::select! {
                    () = sending => {}
                    _ = stopped.wait_for(|stop| *stop) => {
                        last.push((body, joins));
                        break;
                    }
                }
            }
        }
        while let Ok(part) = parts.try_recv() {
            let join = assembly.take(part, Instant::now());
            self.add(join.as_slice(), &mut batch);
        }
        self.add(&assembly.finish(), &mut batch);
        if !batch.is_empty() {
            let joins = batch.len();
            last.push((self.traces_body(batch), joins));
        }
        for (body, joins) in last {
            let sent = collector.post(body, FAREWELL).await;
            self.note(Signal::Traces, sent.is_ok());
            self.counters
                .unsent
                .add(if sent.is_ok() { 0 } else { joins as u64 });
        }
    }

    /// Adds the spans of the joins that are wanted, one entry a join.
    fn add(&self, joins: &[Join], batch: &mut Vec<Vec<Value>>) {
        let wall = self.clock.wall();
        let wanted = joins
            .iter()
            .filter(|join| spans::is_wanted(join, self.settings.sample));
        batch.extend(wanted.map(|join| spans::spans(join, wall)));
    }

    /// Sends a request with this number of `joins`, with repetitions if the collector may take it later.
    async fn send_body(
        &self,
        collector: &Collector,
        body: Bytes,
        joins: usize,
        outage: &mut Outage,
    ) {
        let begun = Instant::now();
        let mut attempt = 0;
        let sent = loop {
            let error = match collector.post(body.clone(), self.timeout()).await {
                Ok(()) => break Ok(()),
                Err(error) => error,
            };
            let ExportError::Retry { after, .. } = &error else {
                break Err(error);
            };
            let pause = after.unwrap_or_else(|| pause(attempt));
            if begun.elapsed() + pause > RETRIED_FOR {
                break Err(error);
            }
            outage.begin(&error);
            attempt += 1;
            self.counters.of(Signal::Traces).retries.add(1);
            tokio::time::sleep(pause).await;
        };
        self.note(Signal::Traces, sent.is_ok());
        match sent {
            Ok(()) => outage.end(),
            Err(error) => {
                self.counters.unsent.add(joins as u64);
                outage.begin(&error);
            }
        }
    }

    /// Sends what `text` writes, each time the interval is over, until `stopped` becomes true, and
    /// then once more. Metrics are not repeated, because the next ones contain the same sums.
    pub async fn send_metrics(self: Arc<Self>, text: Text, mut stopped: watch::Receiver<bool>) {
        let Ok(collector) = self.collector(Signal::Metrics) else {
            return;
        };
        let interval = Duration::from_secs(self.settings.interval_s);
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut outage = Outage::new(Signal::Metrics);
        let mut time = self.timeout();
        loop {
            let stops = tokio::select! {
                _ = ticks.tick() => false,
                _ = stopped.wait_for(|stop| *stop) => true,
            };
            if stops {
                time = FAREWELL;
            }
            let body = self.metrics_body(&text().await);
            let sent = tokio::select! {
                sent = collector.post(body, time) => sent,
                _ = stopped.wait_for(|stop| *stop), if !stops => continue,
            };
            self.note(Signal::Metrics, sent.is_ok());
            match &sent {
                Ok(()) => outage.end(),
                Err(error) => outage.begin(error),
            }
            if stops {
                return;
            }
        }
    }

    fn collector(&self, signal: Signal) -> Result<Collector, ClientError> {
        Collector::new(&self.settings, signal, &self.counters)
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.settings.timeout_s)
    }

    fn note(&self, signal: Signal, is_sent: bool) {
        let counters = self.counters.of(signal);
        let counter = if is_sent {
            &counters.sent
        } else {
            &counters.failed
        };
        counter.add(1);
    }

    fn traces_body(&self, batch: Vec<Vec<Value>>) -> Bytes {
        let spans: Vec<Value> = batch.into_iter().flatten().collect();
        let body = json!({"resourceSpans": [{
            "resource": self.resource,
            "scopeSpans": [{"scope": resource::scope(), "spans": spans}],
        }]});
        Bytes::from(body.to_string())
    }

    fn metrics_body(&self, text: &str) -> Bytes {
        let wall = self.clock.wall();
        let nanos = |at| wall.unix(at).as_nanos().to_string();
        let times = Times {
            start: nanos(self.clock.epoch()),
            now: nanos(Instant::now()),
        };
        let points = data_points::data_points(text, &times);
        tracing::trace!(points = points.count, "telemetry: metrics");
        let body = json!({"resourceMetrics": [{
            "resource": self.resource,
            "scopeMetrics": [{"scope": resource::scope(), "metrics": points.metrics}],
        }]});
        Bytes::from(body.to_string())
    }
}

/// Returns the pause after attempt number `attempt`, counted from 0: 1 s, doubled up to
/// [`PAUSE_MAX`], and up to a fifth less, so that servers do not come back together.
fn pause(attempt: u32) -> Duration {
    let longest = Duration::from_secs(1 << attempt.min(6)).min(PAUSE_MAX);
    longest.mul_f64(rand::rng().random_range(0.8..=1.0))
}

/// Says once in the log that a collector takes nothing, and once that it does again.
struct Outage {
    signal: Signal,
    is_on: bool,
}

impl Outage {
    const fn new(signal: Signal) -> Self {
        Self {
            signal,
            is_on: false,
        }
    }

    fn begin(&mut self, error: &ExportError) {
        if !std::mem::replace(&mut self.is_on, true) {
            tracing::warn!(
                signal = self.signal.as_str(),
                "telemetry: the collector does not take it: {error}"
            );
        }
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.is_on, false) {
            tracing::info!(
                signal = self.signal.as_str(),
                "telemetry: the collector takes it again"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_maximum_and_are_spread() {
        for (attempt, longest) in [(0, 1), (1, 2), (3, 8), (4, 16), (40, 16)] {
            let longest = Duration::from_secs(longest);
            let pause = pause(attempt);
            assert!(
                pause <= longest && pause >= longest.mul_f64(0.79),
                "{attempt}: {pause:?}"
            );
        }
    }
}
