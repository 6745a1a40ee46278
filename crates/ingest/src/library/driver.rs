//! The threads that readings run on.
//!
//! Each thread keeps its readings in the order of their next units, sleeps until the first unit is
//! due, and reads ahead for its readings while none is due. A reading that may wait long has a thread
//! of its own, which ends with it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use glassline_hub::Wake;
use glassline_runtime::{
    Heartbeat, Part, PollingThread, ServedPeer, Serving, Supervisor, Turn, catch,
};
use parking_lot::{Condvar, Mutex};

use super::frame_source::SourceError;
use super::reading::{Next, Reading};

/// Shortest time to the next unit in which the thread reads ahead for another reading: data in the
/// system's cache is read in less.
const SPARE: Duration = Duration::from_micros(500);

/// Longest time that a thread sleeps, so that it is seen to live.
const IDLE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Driver {
    threads: Mutex<Vec<Arc<DriverThread>>>,
    /// Starts a thread for each reading; `None` if all readings share those that there are.
    apart: Option<ThreadOfOne>,
    next_id: AtomicU64,
}

/// The start of a thread for one reading.
#[derive(Debug)]
struct ThreadOfOne {
    name: String,
    supervisor: Arc<Supervisor>,
}

/// One thread, as other threads see it.
#[derive(Debug, Default)]
struct DriverThread {
    /// Number in the names of threads, which metrics have as a label: the lowest that is free.
    number: usize,
    inbox: Mutex<Inbox>,
    changed: Condvar,
    readings: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inbox {
    new: Vec<(u64, Reading)>,
    woken: Vec<u64>,
    closed: bool,
}

/// A handle to a reading on its thread.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    driver_thread: Arc<DriverThread>,
    id: u64,
}

impl Driver {
    pub(super) fn start(
        name: &str,
        threads: usize,
        supervisor: &Arc<Supervisor>,
    ) -> io::Result<Self> {
        let threads = (0..threads.max(1)).map(|number| {
            let thread = Arc::new(DriverThread::default());
            thread.start(&format!("{name}-{number}"), supervisor, false)?;
            Ok(thread)
        });
        Ok(Self {
            threads: Mutex::new(threads.collect::<io::Result<_>>()?),
            apart: None,
            next_id: AtomicU64::new(0),
        })
    }

    /// Returns a driver that starts a thread for each reading, called after `name`.
    pub(super) fn apart(name: &str, supervisor: &Arc<Supervisor>) -> Self {
        let apart = ThreadOfOne {
            name: name.to_owned(),
            supervisor: Arc::clone(supervisor),
        };
        Self {
            threads: Mutex::default(),
            apart: Some(apart),
            next_id: AtomicU64::new(0),
        }
    }

    /// Gives `reading` to a thread of its own, or to the one with the fewest readings. Without a thread, the
    /// reading fails.
    pub(super) fn add(&self, reading: Reading) -> Handle {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut threads = self.threads.lock();
        let driver_thread = match &self.apart {
            Some(_) => {
                threads.retain(|it| it.readings.load(Ordering::Relaxed) > 0);
                let is_free = |number: &usize| threads.iter().all(|it| it.number != *number);
                let number = (0..).find(is_free).unwrap_or_default();
                Arc::new(DriverThread {
                    number,
                    ..DriverThread::default()
                })
            }
            None => {
                let load = |it: &&Arc<DriverThread>| it.readings.load(Ordering::Relaxed);
                let least = threads.iter().min_by_key(load);
                Arc::clone(least.expect("there is at least one thread"))
            }
        };
        driver_thread.readings.fetch_add(1, Ordering::Relaxed);
        driver_thread.inbox.lock().new.push((id, reading));
        driver_thread.changed.notify_one();
        if let Some(apart) = &self.apart {
            threads.push(Arc::clone(&driver_thread));
            let name = format!("{}-{}", apart.name, driver_thread.number);
            if let Err(error) = driver_thread.start(&name, &apart.supervisor, true) {
                driver_thread.fail(&error);
            }
        }
        Handle { driver_thread, id }
    }

    /// Returns the number of readings.
    pub(super) fn readings(&self) -> usize {
        let threads = self.threads.lock();
        let counts = threads.iter().map(|it| &it.readings);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Ends the threads and all their readings. Readings hold the driver, so dropping it is not
    /// enough.
    pub(super) fn close(&self) {
        for driver_thread in &*self.threads.lock() {
            driver_thread.inbox.lock().closed = true;
            driver_thread.changed.notify_one();
        }
    }
}

impl Handle {
    /// Wakes the reading's thread, because the reading's control has a new command or a user left.
    pub(super) fn wake(&self) {
        let mut inbox = self.driver_thread.inbox.lock();
        // One entry is enough, however many calls come before the thread reads the inbox.
        if !inbox.woken.contains(&self.id) {
            inbox.woken.push(self.id);
        }
        drop(inbox);
        self.driver_thread.changed.notify_one();
    }
}

impl Wake for Handle {
    fn wake(&self) {
        Self::wake(self);
    }
}

impl DriverThread {
    /// Starts the thread; one that `ends_alone` ends when its only reading does.
    fn start(
        self: &Arc<Self>,
        name: &str,
        supervisor: &Arc<Supervisor>,
        ends_alone: bool,
    ) -> io::Result<()> {
        let heartbeat = supervisor.register(Part::Library, name);
        let driver_loop = DriverLoop::new(Arc::clone(self), &heartbeat, ends_alone);
        let supervisor = Arc::clone(supervisor);
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || supervisor.run(driver_loop, &heartbeat))?;
        Ok(())
    }

    /// Ends the readings of a thread that the system did not give.
    fn fail(&self, error: &io::Error) {
        for (_, mut reading) in std::mem::take(&mut self.inbox.lock().new) {
            let why = format!("the system has no thread for a playback: {error}");
            reading.fail(SourceError::Away(why).into());
        }
        self.readings.store(0, Ordering::Relaxed);
    }

    /// Returns the new readings, the readings to wake, and whether the thread is to end. Waits
    /// until `until` if there are none.
    fn receive(&self, until: Instant) -> (Vec<(u64, Reading)>, Vec<u64>, bool) {
        let mut inbox = self.inbox.lock();
        while inbox.new.is_empty() && inbox.woken.is_empty() && !inbox.closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.changed.wait_for(&mut inbox, left);
        }
        let Inbox { new, woken, closed } = &mut *inbox;
        (std::mem::take(new), std::mem::take(woken), *closed)
    }
}

/// One thread's own state.
struct DriverLoop {
    driver_thread: Arc<DriverThread>,
    /// Whether the thread ends when it has had a reading, and has none any more.
    ends_alone: bool,
    /// The reading that is advanced at the moment.
    serving: Serving<u64>,
    /// Identifiers of readings that have a new command or are new.
    woken: VecDeque<u64>,
    readings: HashMap<u64, ScheduledReading>,
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Identifiers of readings that want to read ahead.
    read_ahead_queue: VecDeque<u64>,
}

struct ScheduledReading {
    reading: Reading,
    /// Time at which the reading's next unit is due. Entries of the heap with another time are
    /// outdated.
    next: Option<Instant>,
    is_queued: bool,
}

impl PollingThread for DriverLoop {
    fn turn(&mut self) -> Turn {
        let (new, woken, closed) = self.driver_thread.receive(self.wake_at());
        // Counted from the moment on at which a reading is given to the thread.
        let is_left = || self.driver_thread.readings.load(Ordering::Relaxed) == 0;
        if closed || self.ends_alone && new.is_empty() && is_left() {
            return Turn::Ended;
        }
        for (id, reading) in new {
            let entry = ScheduledReading {
                reading,
                next: None,
                is_queued: false,
            };
            self.readings.insert(id, entry);
            self.woken.push_back(id);
        }
        self.woken.extend(woken);
        while let Some(id) = self.woken.pop_front() {
            self.step(id);
        }
        self.publish_due();
        self.read_ahead();
        Turn::Again
    }

    fn drop_served(&mut self) -> bool {
        let Some(ServedPeer::Peer(id)) = self.serving.take() else {
            return false;
        };
        self.abandon(id);
        true
    }

    fn start_anew(&mut self) {
        let readings: Vec<u64> = self.readings.keys().copied().collect();
        for id in readings {
            self.abandon(id);
        }
        self.due.clear();
        self.read_ahead_queue.clear();
        self.woken.clear();
    }
}

impl DriverLoop {
    fn new(driver_thread: Arc<DriverThread>, heartbeat: &Heartbeat, ends_alone: bool) -> Self {
        Self {
            driver_thread,
            ends_alone,
            serving: Serving::new(heartbeat),
            woken: VecDeque::new(),
            readings: HashMap::new(),
            due: BinaryHeap::new(),
            read_ahead_queue: VecDeque::new(),
        }
    }

    /// Returns when the next turn begins, even if no command comes.
    fn wake_at(&self) -> Instant {
        let now = Instant::now();
        // While some reading wants to read ahead, the inbox is only checked.
        if !self.read_ahead_queue.is_empty() || !self.woken.is_empty() {
            return now;
        }
        let latest = now + IDLE;
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        due.map_or(latest, |at| at.min(latest))
    }

    /// Ends a reading that panicked. Its clients are told that the stream is down.
    fn abandon(&mut self, id: u64) {
        if let Some(entry) = self.readings.remove(&id) {
            self.driver_thread.readings.fetch_sub(1, Ordering::Relaxed);
            let mut reading = entry.reading;
            // A reading that is half changed may panic again while it is dropped.
            let _ = catch(move || reading.abandon());
        }
    }

    fn publish_due(&mut self) {
        while let Some(Reverse((at, id))) = self.due.peek().copied() {
            if at > Instant::now() {
                return;
            }
            self.due.pop();
            if self.readings.get(&id).is_some_and(|it| it.next == Some(at)) {
                self.step(id);
            }
        }
    }

    fn step(&mut self, id: u64) {
        let Some(entry) = self.readings.get_mut(&id) else {
            return;
        };
        self.serving.begin(id);
        match entry.reading.advance(Instant::now()) {
            Next::At(at) => {
                entry.next = Some(at);
                self.due.push(Reverse((at, id)));
            }
            Next::Idle => entry.next = None,
            Next::Gone => {
                self.readings.remove(&id);
                self.driver_thread.readings.fetch_sub(1, Ordering::Relaxed);
                self.serving.end();
                return;
            }
        }
        if entry.reading.wants_read_ahead() && !std::mem::replace(&mut entry.is_queued, true) {
            self.read_ahead_queue.push_back(id);
        }
        self.serving.end();
    }

    /// Reads ahead for one reading, if there is time.
    fn read_ahead(&mut self) {
        let spare = |at: Instant| at.saturating_duration_since(Instant::now()) > SPARE;
        let first = self.due.peek().map(|Reverse((at, _))| *at);
        if !first.is_none_or(spare) {
            // Nothing is lost: they read their frames when these are due, possibly late.
            for id in self.read_ahead_queue.drain(..) {
                if let Some(entry) = self.readings.get_mut(&id) {
                    entry.is_queued = false;
                }
            }
            return;
        }
        let Some(id) = self.read_ahead_queue.pop_front() else {
            return;
        };
        if let Some(entry) = self.readings.get_mut(&id) {
            self.serving.begin(id);
            entry.reading.read_ahead();
            self.serving.end();
            entry.is_queued = entry.reading.wants_read_ahead();
            if entry.is_queued {
                self.read_ahead_queue.push_back(id);
            }
        }
    }
}
