//! The threads that readings run on.
//!
//! Each thread keeps its readings in the order of their next units, sleeps until the first unit is
//! due, and reads ahead for its readings while none is due.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::reading::{Next, Reading};

/// Shortest time to the next unit in which the thread reads ahead for another reading: data in the
/// system's cache is read in less.
const SPARE: Duration = Duration::from_micros(500);

#[derive(Debug)]
pub(super) struct Driver {
    lanes: Vec<Arc<Lane>>,
    next_id: AtomicU64,
}

/// One thread, as other threads see it.
#[derive(Debug, Default)]
struct Lane {
    inbox: Mutex<Inbox>,
    bell: Condvar,
    readings: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inbox {
    new: Vec<(u64, Reading)>,
    poked: Vec<u64>,
    closed: bool,
}

/// A handle to a reading on its thread.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    lane: Arc<Lane>,
    id: u64,
}

impl Driver {
    pub(super) fn start(threads: usize) -> io::Result<Self> {
        let mut driver = Self {
            lanes: Vec::new(),
            next_id: AtomicU64::new(0),
        };
        for number in 0..threads.max(1) {
            let lane = Arc::new(Lane::default());
            driver.lanes.push(Arc::clone(&lane));
            let thread = thread::Builder::new().name(format!("library {number}"));
            thread.spawn(move || Run::default().run(&lane))?;
        }
        Ok(driver)
    }

    /// Gives `reading` to the thread with the fewest readings.
    pub(super) fn add(&self, reading: Reading) -> Handle {
        let load = |lane: &&Arc<Lane>| lane.readings.load(Ordering::Relaxed);
        let lane = self.lanes.iter().min_by_key(load);
        let lane = Arc::clone(lane.expect("there is at least one thread"));
        lane.readings.fetch_add(1, Ordering::Relaxed);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        lane.lock().new.push((id, reading));
        lane.bell.notify_one();
        Handle { lane, id }
    }

    /// Returns the number of readings.
    pub(super) fn readings(&self) -> usize {
        let counts = self.lanes.iter().map(|lane| &lane.readings);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Ends the threads and all their readings. Readings hold the driver, so dropping it is not
    /// enough.
    pub(super) fn close(&self) {
        for lane in &self.lanes {
            lane.lock().closed = true;
            lane.bell.notify_one();
        }
    }
}

impl Handle {
    /// Wakes the reading's thread, because the reading's control has a new command or a user left.
    pub(super) fn poke(&self) {
        let mut inbox = self.lane.lock();
        // One entry is enough, however many calls come before the thread reads the inbox.
        if !inbox.poked.contains(&self.id) {
            inbox.poked.push(self.id);
        }
        drop(inbox);
        self.lane.bell.notify_one();
    }
}

impl Lane {
    /// Returns the new readings, the readings to wake, and whether the thread is to end. Waits
    /// until `until` if there are none.
    fn receive(&self, until: Option<Instant>) -> (Vec<(u64, Reading)>, Vec<u64>, bool) {
        let mut inbox = self.lock();
        while inbox.new.is_empty() && inbox.poked.is_empty() && !inbox.closed {
            let waited = match until {
                None => self.bell.wait(inbox),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    let waited = self.bell.wait_timeout(inbox, left);
                    waited
                        .map(|(inbox, _)| inbox)
                        .map_err(|error| PoisonError::new(error.into_inner().0))
                }
            };
            inbox = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let Inbox { new, poked, closed } = &mut *inbox;
        (std::mem::take(new), std::mem::take(poked), *closed)
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread's own state.
#[derive(Default)]
struct Run {
    readings: HashMap<u64, Entry>,
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Identifiers of readings that want to read ahead.
    hungry: VecDeque<u64>,
}

struct Entry {
    reading: Reading,
    /// Time at which the reading's next unit is due. Entries of the heap with another time are
    /// outdated.
    next: Option<Instant>,
    hungry: bool,
}

impl Run {
    fn run(mut self, lane: &Lane) {
        loop {
            // While some reading wants to read ahead, the inbox is only checked.
            let until = if self.hungry.is_empty() {
                self.due.peek().map(|Reverse((at, _))| *at)
            } else {
                Some(Instant::now())
            };
            let (new, poked, closed) = lane.receive(until);
            if closed {
                return;
            }
            for (id, reading) in new {
                let entry = Entry {
                    reading,
                    next: None,
                    hungry: false,
                };
                self.readings.insert(id, entry);
                self.step(id, lane);
            }
            for id in poked {
                self.step(id, lane);
            }
            self.publish_due(lane);
            self.read_ahead();
        }
    }

    fn publish_due(&mut self, lane: &Lane) {
        while let Some(Reverse((at, id))) = self.due.peek().copied() {
            if at > Instant::now() {
                return;
            }
            self.due.pop();
            if self.readings.get(&id).is_some_and(|it| it.next == Some(at)) {
                self.step(id, lane);
            }
        }
    }

    fn step(&mut self, id: u64, lane: &Lane) {
        let Some(entry) = self.readings.get_mut(&id) else {
            return;
        };
        match entry.reading.advance(Instant::now()) {
            Next::At(at) => {
                entry.next = Some(at);
                self.due.push(Reverse((at, id)));
            }
            Next::Idle => entry.next = None,
            Next::Gone => {
                self.readings.remove(&id);
                lane.readings.fetch_sub(1, Ordering::Relaxed);
                return;
            }
        }
        if entry.reading.is_hungry() && !std::mem::replace(&mut entry.hungry, true) {
            self.hungry.push_back(id);
        }
    }

    /// Reads ahead for one reading, if there is time.
    fn read_ahead(&mut self) {
        let spare = |at: Instant| at.saturating_duration_since(Instant::now()) > SPARE;
        let first = self.due.peek().map(|Reverse((at, _))| *at);
        if !first.is_none_or(spare) {
            // Nothing is lost: they read their frames when these are due, possibly late.
            for id in self.hungry.drain(..) {
                if let Some(entry) = self.readings.get_mut(&id) {
                    entry.hungry = false;
                }
            }
            return;
        }
        let Some(id) = self.hungry.pop_front() else {
            return;
        };
        if let Some(entry) = self.readings.get_mut(&id) {
            entry.reading.read_ahead();
            entry.hungry = entry.reading.is_hungry();
            if entry.hungry {
                self.hungry.push_back(id);
            }
        }
    }
}
