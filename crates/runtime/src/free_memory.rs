//! When freed memory is returned to the system.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Shortest time between two looks.
const INTERVAL: Duration = Duration::from_secs(10);

/// Time between two looks, as a multiple of the processor time that a look takes.
const REST: u32 = 1000;

/// Least memory that is worth the work, in bytes.
const FEWEST_BYTES: u64 = 256 << 10;

/// Share of all private memory that is worth the work: one part in this number.
const SHARE: u64 = 64;

/// Returns the allocator's free pages to the system, as soon as there are many.
///
/// Streams replace all their units within some seconds, and sessions, connections and floods come
/// and go between them. So the allocator of glibc keeps about as much memory as was ever in use at
/// once. This looks every ten seconds how much of the process's memory nobody uses, and returns it
/// when it has become more by 256 KiB and a sixty-fourth of the whole. A look costs about 0.1 ms, and
/// a return 1 ms per 10 MiB; where they cost more, they are made less often, so that both together
/// take at most a thousandth of one core.
#[derive(Debug, Default)]
pub struct FreeMemory(Mutex<Looks>);

/// Results of the looks so far.
#[derive(Debug, Default)]
struct Looks {
    /// Least idle memory that was found since the last return, in bytes; `None` before the first
    /// look. A part of it cannot be returned: stacks, data, and pages with blocks in use.
    settled: Option<u64>,
    /// When the next look may be made.
    due: Option<Instant>,
}

/// The finding of a look, in bytes.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Private memory of the process.
    private: u64,
    /// The part of it that nobody uses.
    idle: u64,
}

impl Found {
    /// Looks at this process; `None` where the allocator does not say what it has.
    fn now() -> Option<Self> {
        Some(Self {
            private: glassline_net::private_bytes()?,
            idle: glassline_net::idle_heap_bytes()?,
        })
    }
}

impl FreeMemory {
    /// Looks, if a look is due, and returns memory that nobody uses. Blocks for some milliseconds.
    /// Does nothing while another thread is in here.
    pub fn tend(&self) {
        let Some(mut looks) = self.0.try_lock() else {
            return;
        };
        let now = Instant::now();
        if !looks.is_due(now) {
            return;
        }
        let begun = glassline_net::thread_cpu();
        if let Some(found) = Found::now()
            && looks.take(found)
        {
            glassline_net::release_free_memory();
            if let Some(left) = Found::now() {
                looks.settle(left);
                tracing::debug!(
                    before = found.private,
                    after = left.private,
                    "free memory was returned to the system"
                );
            }
        }
        let took = glassline_net::thread_cpu().saturating_sub(begun);
        looks.rest(now, took);
    }
}

impl Looks {
    fn is_due(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| due <= now)
    }

    /// Sets the time of the next look, after one at `now` that took so much processor time.
    fn rest(&mut self, now: Instant, took: Duration) {
        self.due = now.checked_add(INTERVAL.max(took * REST));
    }

    /// Takes what a look found. Returns whether memory is to be returned.
    fn take(&mut self, found: Found) -> bool {
        let settled = self.settled.map_or(found.idle, |it| it.min(found.idle));
        self.settled = Some(settled);
        found.idle - settled >= FEWEST_BYTES + found.private / SHARE
    }

    /// Takes what is left after memory was returned.
    fn settle(&mut self, left: Found) {
        self.settled = Some(left.idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Frees most of 64 MiB and looks once too early and once in time. Returns the process's private
    /// memory before, after the early look, and in the end.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn free_most_of_64_mib() -> [u64; 3] {
        const BLOCKS: usize = 16 << 10;
        let private = || glassline_net::private_bytes().expect("Linux has /proc");
        let memory = FreeMemory::default();
        memory.tend();
        let mut blocks: Vec<Option<Vec<u8>>> = (0..BLOCKS).map(|_| Some(vec![1; 4000])).collect();
        for (index, block) in blocks.iter_mut().enumerate() {
            if index % 16 > 0 {
                *block = None;
            }
        }
        let before = private();
        memory.tend();
        let early = private();
        {
            let mut looks = memory.0.lock();
            looks.due = None;
            // The blocks may lie in what another test had left idle before the first look.
            looks.settled = Some(0);
        }
        memory.tend();
        [before, early, private()]
    }

    /// The number of sessions and of descriptors does not change here, and says nothing.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn memory_between_blocks_in_use_is_returned() {
        // Other tests of this process take and free memory at the same time, some of them much.
        let mut seen = Vec::new();
        for _ in 0..50 {
            let [before, early, after] = free_most_of_64_mib();
            if early + 20 * MIB > before && after + 40 * MIB < before {
                return;
            }
            seen.push([before, early, after]);
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("before, too early, after: {seen:?}");
    }

    fn found(private: u64, idle: u64) -> Found {
        let (private, idle) = (private * MIB, idle * MIB);
        Found { private, idle }
    }

    #[test]
    fn memory_is_returned_after_a_crowd() {
        let mut looks = Looks::default();
        assert!(!looks.take(found(20, 3)), "the server has started");
        assert!(!looks.take(found(200, 4)), "the crowd uses its memory");
        assert!(!looks.take(found(200, 6)), "a few have left");
        assert!(looks.take(found(200, 180)));
        looks.settle(found(22, 5));
        assert!(!looks.take(found(22, 5)), "nothing is left to return");
    }

    #[test]
    fn memory_that_cannot_be_returned_is_left_alone() {
        let mut looks = Looks::default();
        assert!(!looks.take(found(20, 3)));
        assert!(looks.take(found(60, 40)));
        looks.settle(found(50, 30));
        for _ in 0..100 {
            assert!(!looks.take(found(51, 31)));
        }
        // It was used meanwhile, and is free again.
        assert!(!looks.take(found(51, 3)));
        assert!(looks.take(found(51, 31)));
    }

    #[test]
    fn looks_that_take_long_are_rare() {
        let mut looks = Looks::default();
        let now = Instant::now();
        assert!(looks.is_due(now));
        looks.rest(now, Duration::from_millis(1));
        assert!(!looks.is_due(now + Duration::from_secs(9)));
        assert!(looks.is_due(now + Duration::from_secs(10)));
        looks.rest(now, Duration::from_millis(50));
        assert!(!looks.is_due(now + Duration::from_secs(49)));
        assert!(looks.is_due(now + Duration::from_secs(50)));
    }
}
