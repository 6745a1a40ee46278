//! Lines on their way to a reader that may stop reading.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use glassline_access::audit::AUDIT;
use glassline_server::LogCounters;
use parking_lot::{Condvar, Mutex};
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use super::Format;

/// Most bytes that wait for the reader.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// Most lines that wait for the reader; with few bytes each, their bookkeeping is most of the
/// memory.
pub(super) const LINES_MAX: usize = 8192;

/// Room beyond that for lines about operators' changes: what others write leaves it free. Each has
/// some 300 bytes, and is in the file of changes, too.
const RESERVED_BYTES: usize = 1 << 20;
const RESERVED_LINES: usize = 4096;

/// Longest time that the thread waits for a line before it shows again that it makes progress.
const TURN: Duration = Duration::from_secs(1);

/// A bounded queue of lines, which a thread writes to a stream. Threads that add a line never wait
/// for the stream.
pub(super) struct LineQueue {
    state: Mutex<State>,
    /// Signaled when a line was added, and when a line was written.
    changed: Condvar,
    counters: &'static LogCounters,
    /// The form of the log's lines about itself.
    format: Format,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines that were dropped since the reader was last told.
    dropped: u64,
    /// Whether the thread is writing a line.
    is_writing: bool,
}

impl LineQueue {
    /// Starts the thread that writes to `stream`, and that counts dropped lines in `counters`.
    ///
    /// # Errors
    /// Returns the system's error if it has no thread to give.
    pub(super) fn start(
        stream: impl Write + Send + 'static,
        counters: &'static LogCounters,
        format: Format,
    ) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            counters,
            format,
        });
        // The server shows the progress of a thread that has had a turn.
        counters.turns.add(1);
        let writing = Arc::clone(&queue);
        let thread = thread::Builder::new().name("log".to_owned());
        // The thread is never joined: a write may never return.
        thread.spawn(move || writing.write_to(stream))?;
        Ok(queue)
    }

    /// Adds `text`, which is no event, as a line of the log's format; or drops and counts the line if
    /// there is no room.
    pub(super) fn push(&self, text: &str) {
        self.push_bytes(self.format.line("ERROR", text).as_bytes(), false);
    }

    fn push_bytes(&self, line: &[u8], is_evidence: bool) {
        let (bytes_max, lines_max) = match is_evidence {
            true => (BYTES_MAX + RESERVED_BYTES, LINES_MAX + RESERVED_LINES),
            false => (BYTES_MAX, LINES_MAX),
        };
        let mut state = self.state.lock();
        if state.bytes + line.len() > bytes_max || state.lines.len() >= lines_max {
            state.dropped += 1;
            self.counters.dropped.add(1);
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.to_vec());
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until all lines are written, for `limit` at most.
    pub(super) fn flush(&self, limit: Duration) {
        let end = Instant::now() + limit;
        let mut state = self.state.lock();
        while !state.lines.is_empty() || state.is_writing {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.changed.wait_for(&mut state, left);
        }
    }

    fn write_to(&self, mut stream: impl Write) {
        loop {
            let (line, dropped) = self.next();
            // A panic costs the line: without this thread, nobody would see another one.
            let written = catch_unwind(AssertUnwindSafe(|| {
                // A stream that cannot be written to is closed, and nobody is there to be told.
                let _ = stream.write_all(&line);
                if dropped > 0 {
                    let text = format!(
                        "{dropped} log lines were dropped: the reader of stderr did not keep up"
                    );
                    let line = self.format.line("WARN", &text);
                    let _ = stream.write_all(line.as_bytes());
                }
            }));
            if written.is_err() {
                self.counters.panics.add(1);
            }
            let mut state = self.state.lock();
            state.is_writing = false;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits for a line and returns it. With the last one that waited, returns how many lines were
    /// dropped behind it.
    fn next(&self) -> (Vec<u8>, u64) {
        let mut state = self.state.lock();
        loop {
            self.counters.turns.add(1);
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len();
                state.is_writing = true;
                let is_last = state.lines.is_empty();
                let dropped = if is_last {
                    std::mem::take(&mut state.dropped)
                } else {
                    0
                };
                return (line, dropped);
            }
            self.changed.wait_for(&mut state, TURN);
        }
    }
}

/// Adds the lines of events to a queue.
pub(super) struct Lines(pub(super) Arc<LineQueue>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = QueuedLine<'a>;

    fn make_writer(&'a self) -> QueuedLine<'a> {
        QueuedLine {
            queue: &self.0,
            is_evidence: false,
        }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> QueuedLine<'a> {
        QueuedLine {
            queue: &self.0,
            is_evidence: metadata.target() == AUDIT,
        }
    }
}

/// Adds each piece that is written as a line: `tracing_subscriber` writes a line as one piece.
pub(super) struct QueuedLine<'a> {
    queue: &'a LineQueue,
    /// Whether the line is about an operator's change.
    is_evidence: bool,
}

impl Write for QueuedLine<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.queue.push_bytes(line, self.is_evidence);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// A stream whose reader takes one line for each permission.
    struct Reluctant {
        permissions: Receiver<()>,
        written: SyncSender<String>,
    }

    impl Write for Reluctant {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.permissions.recv();
            let text = String::from_utf8_lossy(bytes).into_owned();
            let _ = self.written.send(text);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn counters() -> &'static LogCounters {
        Box::leak(Box::default())
    }

    #[test]
    fn a_reader_that_stops_makes_nobody_wait_and_is_told_what_it_missed() {
        let (permit, permissions) = sync_channel(2 * LINES_MAX);
        let (written, lines) = sync_channel(2 * LINES_MAX);
        let counters = counters();
        let stream = Reluctant {
            permissions,
            written,
        };
        let queue = LineQueue::start(stream, counters, Format::Text).expect("a thread");
        for number in 0..LINES_MAX + 100 {
            queue.push(&format!("line {number}"));
        }
        // The thread holds one line or none already.
        let dropped = counters.dropped.get();
        assert!((99..=100).contains(&dropped), "{dropped}");
        for _ in 0..=LINES_MAX + 1 {
            permit.send(()).expect("the thread lives");
        }
        let mut last = String::new();
        let mut count = 0;
        while !last.contains("dropped") {
            last = lines
                .recv_timeout(Duration::from_secs(60))
                .expect("more lines");
            count += 1;
        }
        assert!(
            last.starts_with(&format!("{dropped} log lines were dropped")),
            "{last}"
        );
        let kept = u64::try_from(LINES_MAX + 100).expect("few") - dropped;
        assert_eq!(count, kept + 1);
    }

    #[test]
    fn lines_about_changes_wait_where_others_are_dropped() {
        use tracing_subscriber::layer::SubscriberExt as _;

        let (permit, permissions) = sync_channel(4 * LINES_MAX);
        let (written, lines) = sync_channel(4 * LINES_MAX);
        let stream = Reluctant {
            permissions,
            written,
        };
        let queue = LineQueue::start(stream, counters(), Format::Text).expect("a thread");
        let layer = tracing_subscriber::fmt::layer().with_writer(Lines(Arc::clone(&queue)));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            for number in 0..2 * LINES_MAX {
                tracing::info!(number, "a stranger knocked");
            }
            for _ in 0..8 {
                tracing::info!(target: AUDIT, "EVIL");
            }
        });
        let waiting = queue.state.lock().lines.len();
        for _ in 0..waiting + 2 {
            permit.send(()).expect("the thread lives");
        }
        let next = || lines.recv_timeout(Duration::from_secs(60)).expect("more");
        let told = (0..waiting).filter(|_| next().contains("EVIL")).count();
        // The thread may have held one line already.
        assert_eq!(told + usize::from(next().contains("EVIL")), 8);
    }

    #[test]
    fn waiting_lines_are_bounded_in_bytes() {
        let (_permit, permissions) = sync_channel(1);
        let (written, _lines) = sync_channel(1);
        let counters = counters();
        let stream = Reluctant {
            permissions,
            written,
        };
        let queue = LineQueue::start(stream, counters, Format::Text).expect("a thread");
        // Each has its end of the line, too.
        let line = "x".repeat(BYTES_MAX / 4 - 1);
        for _ in 0..8 {
            queue.push(&line);
        }
        // Four wait, and the thread may hold one.
        assert!((3..=4).contains(&counters.dropped.get()));
        assert!(queue.state.lock().bytes <= BYTES_MAX);
        let start = Instant::now();
        queue.flush(Duration::from_millis(50));
        assert!(start.elapsed() < Duration::from_secs(30), "it gives up");
    }

    /// A stream that panics at its second line.
    struct Panicking(SyncSender<String>, usize);

    impl Write for Panicking {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            assert_ne!(self.1, 2, "as told");
            let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_while_a_line_is_written_costs_that_line() {
        let (written, lines) = sync_channel(8);
        let counters = counters();
        let queue =
            LineQueue::start(Panicking(written, 0), counters, Format::Text).expect("a thread");
        for line in ["one", "two", "three"] {
            queue.push(line);
        }
        let next = || lines.recv_timeout(Duration::from_secs(30));
        assert_eq!(next().as_deref(), Ok("one\n"));
        assert_eq!(next().as_deref(), Ok("three\n"));
        assert_eq!(counters.panics.get(), 1);
        let turns = counters.turns.get();
        let end = Instant::now() + Duration::from_secs(30);
        while counters.turns.get() == turns {
            assert!(Instant::now() < end, "an idle thread shows its progress");
            thread::sleep(Duration::from_millis(20));
        }
    }
}
