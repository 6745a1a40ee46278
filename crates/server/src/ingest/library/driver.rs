//! The threads that readings run on.
//!
//! Each keeps its readings by the time of what they publish next, sleeps until the
//! first of them is due, and reads ahead for them while nothing is.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::reading::{Next, Reading};

/// With less time than this to the next burst nothing is read ahead for another:
/// what lies in the system's cache is read in less.
const SPARE: Duration = Duration::from_micros(500);

#[derive(Debug)]
pub(super) struct Driver {
    lanes: Vec<Arc<Lane>>,
    next_id: AtomicU64,
}

/// One thread, seen from outside.
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

/// Reaches a reading on its thread.
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

    /// Hands `reading` to the thread that has the fewest.
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

    /// Readings that there are.
    pub(super) fn readings(&self) -> usize {
        let counts = self.lanes.iter().map(|lane| &lane.readings);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Ends the threads and with them all readings, which keep the driver alive.
    pub(super) fn close(&self) {
        for lane in &self.lanes {
            lane.lock().closed = true;
            lane.bell.notify_one();
        }
    }
}

impl Handle {
    /// Its control says something new.
    pub(super) fn poke(&self) {
        let mut inbox = self.lane.lock();
        // Once is enough, however often before the thread looks.
        if !inbox.poked.contains(&self.id) {
            inbox.poked.push(self.id);
        }
        drop(inbox);
        self.lane.bell.notify_one();
    }
}

impl Lane {
    /// What came, waiting for it until `until` if nothing is there.
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

/// One thread, from inside.
#[derive(Default)]
struct Run {
    readings: HashMap<u64, Entry>,
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Those that would read ahead.
    hungry: VecDeque<u64>,
}

struct Entry {
    reading: Reading,
    /// Entries of the heap with another time are old.
    next: Option<Instant>,
    hungry: bool,
}

impl Run {
    fn run(mut self, lane: &Lane) {
        loop {
            // While somebody is hungry it is only looked whether something came.
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

    /// Reads a little for one, if there is time.
    fn read_ahead(&mut self) {
        let spare = |at: Instant| at.saturating_duration_since(Instant::now()) > SPARE;
        let first = self.due.peek().map(|Reverse((at, _))| *at);
        if !first.is_none_or(spare) {
            // Nothing is lost: they are fed when they publish, if late.
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
