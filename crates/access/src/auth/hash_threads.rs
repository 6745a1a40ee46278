//! Threads that hash passwords, apart from the threads that serve media.
//!
//! ```text
//! verify ─► likely:  the Digest secret matches ─┐
//!        └► guesses: nothing is known of it ────┴► threads of low priority, half of the cores at most
//! ```
//!
//! Both queues are bounded. Wrong guesses are hashed for a quarter of the time of one core, whatever
//! arrives; right passwords have no such bound, because only users can cause them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::PasswordHash;

/// Most passwords that wait and are likely to be right: all viewers of an office after a restart.
const LIKELY_MAX: usize = 512;

/// Most passwords that wait and are guesses: at 20 ms each and a quarter of a core, the last one
/// waits for less than a second.
const GUESSES_MAX: usize = 8;

/// Part of one core's time that wrong guesses may take.
const GUESSING_SHARE: f64 = 0.25;

/// Wall-clock time whose share may be used at once after a pause.
const GUESSING_BURST: Duration = Duration::from_secs(2);

/// Nice value of the threads: media and signalling go first, and on a core that they fill, hashing
/// still gets a quarter of the time.
const NICENESS: i32 = 5;

/// Threads that hash passwords. They start with the first password, and again if they are gone.
pub(super) struct HashThreads {
    queue: Arc<Queue>,
}

struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    likely: VecDeque<Job>,
    guesses: VecDeque<Job>,
    /// Time up to which the share of wrong guesses is used up.
    guessed_until: Option<Instant>,
    /// Number of threads that take passwords.
    threads: usize,
    is_over: bool,
}

struct Job {
    hash: PasswordHash,
    password: String,
    is_guess: bool,
    reply: oneshot::Sender<bool>,
}

impl HashThreads {
    pub(super) fn new() -> Self {
        let queue = Queue {
            jobs: Mutex::default(),
            changed: Condvar::new(),
        };
        Self {
            queue: Arc::new(queue),
        }
    }

    /// Compares `password` with `hash` on another thread. `is_guess` says that nothing is known of
    /// the password yet. Returns `None` if too many passwords wait, or if no thread can be started.
    pub(super) fn compare(
        &self,
        hash: PasswordHash,
        password: String,
        is_guess: bool,
    ) -> Option<oneshot::Receiver<bool>> {
        let (reply, answer) = oneshot::channel();
        let mut jobs = self.queue.jobs.lock();
        if jobs.threads == 0 {
            jobs.threads = start(&self.queue);
        }
        if jobs.threads == 0 {
            return None;
        }
        let (waiting, max) = match is_guess {
            true => (&mut jobs.guesses, GUESSES_MAX),
            false => (&mut jobs.likely, LIKELY_MAX),
        };
        if waiting.len() >= max {
            // Clients that gave up need no answer.
            waiting.retain(|job| !job.reply.is_closed());
            if waiting.len() >= max {
                return None;
            }
        }
        waiting.push_back(Job {
            hash,
            password,
            is_guess,
            reply,
        });
        drop(jobs);
        self.queue.changed.notify_one();
        Some(answer)
    }
}

impl Drop for HashThreads {
    fn drop(&mut self) {
        self.queue.jobs.lock().is_over = true;
        self.queue.changed.notify_all();
    }
}

impl fmt::Debug for HashThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jobs = self.queue.jobs.lock();
        f.debug_struct("HashThreads")
            .field("likely", &jobs.likely.len())
            .field("guesses", &jobs.guesses.len())
            .finish_non_exhaustive()
    }
}

/// Starts the threads. Returns how many there are, which is 0 if the system has none to give.
fn start(queue: &Arc<Queue>) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut started = 0;
    for _ in 0..(cores / 2).max(1) {
        let queue = Arc::clone(queue);
        let thread = std::thread::Builder::new().name("glassline-hash".to_owned());
        let spawned = thread.spawn(move || {
            let _working = Working(&queue);
            if let Err(error) = glassline_net::lower_thread_priority(NICENESS) {
                tracing::debug!(%error, "the thread that hashes passwords keeps its priority");
            }
            queue.work();
        });
        match spawned {
            Ok(_) => started += 1,
            Err(error) => {
                tracing::error!(%error, "cannot start a thread that hashes passwords: logins may have to wait");
            }
        }
    }
    started
}

/// A thread that takes passwords, until it ends in any way.
struct Working<'a>(&'a Queue);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let mut jobs = self.0.jobs.lock();
        jobs.threads -= 1;
        if jobs.threads == 0 {
            // Nobody will compare these, and the next password starts threads again.
            jobs.likely.clear();
            jobs.guesses.clear();
        }
    }
}

impl Queue {
    fn work(&self) {
        while let Some(job) = self.next() {
            if job.reply.is_closed() {
                continue;
            }
            let begun = Instant::now();
            let is_right = job.hash.is_of(&job.password);
            if job.is_guess && !is_right {
                let took = begun.elapsed().div_f64(GUESSING_SHARE);
                self.jobs.lock().charge(begun, took);
            }
            // A client that gave up needs no answer.
            let _ = job.reply.send(is_right);
        }
    }

    /// Waits for the next password; returns `None` when the server ends.
    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        loop {
            if jobs.is_over {
                return None;
            }
            if let Some(job) = jobs.likely.pop_front() {
                return Some(job);
            }
            let now = Instant::now();
            let wait = jobs.guessing_rests(now);
            if wait.is_none()
                && let Some(job) = jobs.guesses.pop_front()
            {
                return Some(job);
            }
            let wait = wait.filter(|_| !jobs.guesses.is_empty());
            match wait {
                Some(wait) => _ = self.changed.wait_for(&mut jobs, wait),
                None => self.changed.wait(&mut jobs),
            }
        }
    }
}

impl Jobs {
    /// Uses up the share of wrong guesses for `took` from `now` on.
    fn charge(&mut self, now: Instant, took: Duration) {
        let until = self.guessed_until.map_or(now, |until| {
            until.max(now.checked_sub(GUESSING_BURST).unwrap_or(until))
        });
        self.guessed_until = Some(until + took);
    }

    /// Returns the time until the next guess may be hashed; `None` if it may be hashed at once.
    fn guessing_rests(&self, now: Instant) -> Option<Duration> {
        let wait = self.guessed_until?.checked_duration_since(now)?;
        (!wait.is_zero()).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_guesses_take_a_quarter_of_a_core() {
        let (mut jobs, start) = (Jobs::default(), Instant::now());
        let (mut now, mut hashed) = (start, Duration::ZERO);
        let end = start + Duration::from_secs(60);
        let job = Duration::from_millis(20);
        while now < end {
            now += jobs.guessing_rests(now).unwrap_or_default();
            jobs.charge(now, job.div_f64(GUESSING_SHARE));
            now += job;
            hashed += job;
        }
        let share = hashed.as_secs_f64() / now.duration_since(start).as_secs_f64();
        assert!((0.24..=0.26).contains(&share), "{share}");
    }

    #[test]
    fn guesses_that_wait_are_bounded_and_leave_room_for_likely_passwords() {
        let threads = HashThreads::new();
        // No thread takes anything.
        threads.queue.jobs.lock().threads = 1;
        let nobody = PasswordHash::of_nobody;
        let ask = |is_guess| threads.compare(nobody(), "x".to_owned(), is_guess);
        let waiting: Vec<_> = std::iter::from_fn(|| ask(true)).take(1_000).collect();
        assert_eq!(waiting.len(), GUESSES_MAX);
        assert!(ask(false).is_some());
        drop(waiting);
        assert!(
            ask(true).is_some(),
            "clients that gave up free their places"
        );
    }

    #[test]
    fn threads_that_are_gone_start_again() {
        let threads = HashThreads::new();
        let hash = PasswordHash::of("open sesame", &[7; 16]);
        let ask = || {
            let answer = threads.compare(hash.clone(), "open sesame".to_owned(), false);
            answer.expect("nothing else waits").blocking_recv()
        };
        assert_eq!(ask(), Ok(true));
        // As after a panic: each thread ends, and a password that waits gets no answer.
        threads.queue.jobs.lock().is_over = true;
        threads.queue.changed.notify_all();
        let until = Instant::now() + Duration::from_secs(60);
        while threads.queue.jobs.lock().threads > 0 {
            assert!(Instant::now() < until, "the threads do not end");
            std::thread::sleep(Duration::from_millis(1));
        }
        threads.queue.jobs.lock().is_over = false;
        assert_eq!(ask(), Ok(true));
    }

    #[test]
    fn passwords_are_compared_on_another_thread() {
        let threads = HashThreads::new();
        let hash = PasswordHash::of("open sesame", &[7; 16]);
        for (password, is_guess, expected) in [
            ("open sesame", true, true),
            ("open", true, false),
            ("open sesame", false, true),
        ] {
            let answer = threads.compare(hash.clone(), password.to_owned(), is_guess);
            let answer = answer.expect("nothing else waits").blocking_recv();
            assert_eq!(answer, Ok(expected), "{password}");
        }
    }
}
