//! One place in the audience: a viewer that joins again when its video stops, as a player does.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use glassline_client::viewers::{Id, Join, Pool, Progress, State};

/// Time without a frame after which another join is tried beside the silent viewer.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Time between two joins that fail.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// A viewer of a person: the connection that plays, and a second one that is tried while the first
/// is silent. Whichever shows frames first stays.
#[derive(Debug)]
pub(super) struct PersistentViewer {
    join: Join,
    current: Option<Connection>,
    spare: Option<Connection>,
    retry_at: Instant,
    /// Arrival of the last frame; the begin of watching before the first frame.
    pub(super) last_frame: Instant,
    /// Whether a frame has ever come.
    pub(super) has_begun: bool,
}

/// Counts of one connection at the last look.
#[derive(Clone, Copy, Debug)]
struct Connection {
    id: Id,
    frames: u64,
    expected: u64,
    received: u64,
    damaged: u64,
}

/// Observations of one look at a viewer.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) frames: u64,
    pub(super) expected: u64,
    pub(super) received: u64,
    pub(super) damaged: u64,
    /// Whether another join was begun.
    pub(super) has_rejoined: bool,
    pub(super) failure: Option<String>,
}

impl Connection {
    const fn new(id: Id) -> Self {
        Self {
            id,
            frames: 0,
            expected: 0,
            received: 0,
            damaged: 0,
        }
    }

    /// Adds what came since the last look.
    fn advance(&mut self, now: &Progress, seen: &mut Seen) {
        let total = now.video.and(now.audio);
        let received = total.received + total.recovered;
        seen.frames += now.frames.saturating_sub(self.frames);
        seen.expected += total.expected.saturating_sub(self.expected);
        seen.received += received.saturating_sub(self.received);
        seen.damaged += now.damaged.saturating_sub(self.damaged);
        self.frames = now.frames;
        self.expected = total.expected;
        self.received = received;
        self.damaged = now.damaged;
    }
}

impl PersistentViewer {
    /// Creates the viewer, which begins to join at `now`.
    pub(super) fn begin(pool: &Pool, join: Join, now: Instant) -> Self {
        let id = pool.join(join.clone());
        Self {
            join,
            current: Some(Connection::new(id)),
            spare: None,
            retry_at: now,
            last_frame: now,
            has_begun: false,
        }
    }

    /// Counts what came, and joins again if that is due.
    pub(super) fn look(
        &mut self,
        pool: &Pool,
        progress: &BTreeMap<Id, Progress>,
        now: Instant,
    ) -> Seen {
        let mut seen = Seen::default();
        Self::settle(&mut self.current, pool, progress, &mut seen);
        let from_current = seen.frames;
        Self::settle(&mut self.spare, pool, progress, &mut seen);
        if seen.frames > 0 {
            self.last_frame = now;
            self.has_begun = true;
            // Both are the same person's: only one of them is needed.
            let is_spare_better = from_current == 0;
            if is_spare_better {
                std::mem::swap(&mut self.current, &mut self.spare);
            }
            if let Some(other) = self.spare.take() {
                pool.leave(other.id);
            }
            return seen;
        }
        let is_silent =
            now.saturating_duration_since(self.last_frame) >= SILENCE_MAX || self.current.is_none();
        if is_silent && self.spare.is_none() && now >= self.retry_at {
            self.spare = Some(Connection::new(pool.join(self.join.clone())));
            self.retry_at = now + RETRY_AFTER;
            seen.has_rejoined = true;
        }
        seen
    }

    /// Counts what came on one connection, and forgets a connection that has ended.
    fn settle(
        connection: &mut Option<Connection>,
        pool: &Pool,
        progress: &BTreeMap<Id, Progress>,
        seen: &mut Seen,
    ) {
        let Some(open) = connection else {
            return;
        };
        let Some(now) = progress.get(&open.id) else {
            return;
        };
        open.advance(now, seen);
        if now.state == State::Ended {
            seen.failure = now.failure.as_deref().map(str::to_owned);
            pool.leave(open.id);
            *connection = None;
        }
    }
}
