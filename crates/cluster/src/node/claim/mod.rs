//! What this node holds or wants to hold: publishers, sources and rooms.
//!
//! ```text
//! Reading ─ nothing there ──────────────► Writing ─ written ─► Owned ─ released ─► Releasing
//!    │     another's, dead ───────────────► ▲  │ conflict, no answer             (deleted: gone)
//!    │     another's, alive ─ publisher ─► Asking ─ silent      ▼
//!    │                      ├ source ───► Standby         Waiting ─► Reading
//!    │                      └ room ─────► redirect
//!    └ engine away: served here, unannounced (provisional), Waiting until it is back
//! ```
//!
//! A publisher's name of which no record is known is written without reading: the store refuses the
//! write if there is one.
//!
//! A record with a higher fence ends a claim at once. A record that is gone or lower is written
//! back with the same epoch.

mod machine;
mod publish;
mod recheck;
mod room;
mod source;
mod takeover;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use self::takeover::Inquiry;
pub use self::takeover::ProbeResult;
use super::Node;
use super::directory::Found;
use crate::engine::{RequestId, Version};
use crate::event::{Policy, PublisherId, ViewerId};
use crate::name::{NodeId, StreamName};
use crate::record::{Fence, Kind, StreamState};

/// Time after which a publisher gets a decision, whatever the engine does.
const DECIDE_WITHIN: Duration = Duration::from_millis(1_400);

/// Without a frame for this long, a publisher no longer sends.
const FRAME_WITHIN: Duration = Duration::from_secs(1);

/// Most names that a node holds or wants; the server's own limits are lower.
const CLAIMS_MAX: usize = 50_000;

/// Everything that this node holds or wants.
#[derive(Debug, Default)]
pub(super) struct Claims {
    held: BTreeMap<StreamName, Holding>,
    /// Candidates of each configured source, in the order of rendezvous hashing.
    sources: BTreeMap<StreamName, Vec<NodeId>>,
    /// When each owned record is read again.
    checks: BTreeSet<(Instant, StreamName)>,
    /// The name that was written last; a store that was rolled back lost this one first.
    newest: Option<StreamName>,
    newest_due: Option<Instant>,
    /// The highest epoch that this process drew, for whatever name.
    last_epoch: u64,
    /// Names that were claimed although another node had them.
    takeovers: u64,
    /// How many records are read again in the next second.
    is_suspicious: bool,
}

/// One name that this node holds or wants.
#[derive(Debug)]
struct Holding {
    kind: Kind,
    phase: Phase,
    /// Publisher that is served, or waits for the decision.
    publisher: Option<PublisherId>,
    policy: Policy,
    /// Participants who wait for a room.
    waiting: Vec<ViewerId>,
    /// Whether media of this node reaches its hub under this name.
    is_serving: bool,
    /// Whether the claim was written at least once.
    was_owned: bool,
    epoch: u64,
    /// Version of the record as this node wrote or last read it.
    version: Option<Version>,
    request: Option<RequestId>,
    due: Option<Instant>,
    decide_by: Option<Instant>,
    retries: u32,
    /// When a candidate may claim a source that nobody holds.
    turn_at: Option<Instant>,
    /// When a frame came last, or the source was well without one.
    last_frame: Instant,
    /// When a frame came last.
    last_media: Option<Instant>,
    /// Whether the record that is being written takes the place of another node's.
    takes_over: bool,
    media: Media,
    /// When the next read of this record is due in [`Claims::checks`].
    check_at: Option<Instant>,
}

/// The media as the record describes them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Media {
    state: StreamState,
    tracks: Vec<String>,
    bps: u64,
}

/// Where a claim stands.
#[derive(Debug)]
enum Phase {
    Reading,
    Asking(Box<Inquiry>),
    Writing,
    Owned,
    Waiting,
    Standby,
    Releasing { since: Instant },
}

impl Claims {
    pub(super) fn has(&self, name: &StreamName) -> bool {
        self.held.contains_key(name)
    }

    pub(super) fn explain(&self, name: &StreamName) -> String {
        format!("{:?} of {} checks", self.held.get(name), self.checks.len())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = StreamName> {
        self.held.keys().cloned()
    }

    /// Whether no record of this node's stands or is being written.
    pub(super) fn has_no_record(&self) -> bool {
        self.held.values().all(|it| {
            let is_there = matches!(it.phase, Phase::Writing | Phase::Owned)
                || matches!(it.phase, Phase::Releasing { .. });
            !it.is_serving && !is_there
        })
    }

    /// Whether this node's own media is under a name.
    pub(super) fn is_serving(&self, name: &StreamName) -> bool {
        self.held.get(name).is_some_and(|it| it.is_serving)
    }

    /// Epoch of a claim that stands.
    pub(super) fn owned_epoch(&self, name: &StreamName) -> Option<u64> {
        let holding = self.held.get(name)?;
        (holding.is_serving && holding.was_owned).then_some(holding.epoch)
    }

    /// Time since the latest frame of this node's own media, in ms.
    pub(super) fn silent_for(&self, name: &StreamName, now: Instant) -> Option<u64> {
        let holding = self.held.get(name).filter(|it| it.is_serving)?;
        let silent = now.saturating_duration_since(holding.last_media?);
        u64::try_from(silent.as_millis()).ok()
    }

    /// Whether a publisher sends here, as others are told who found this node's record. One that waits
    /// for its decision counts: its record stands before this node hears so.
    pub(super) fn is_publishing(&self, name: &StreamName, now: Instant) -> bool {
        let holding = self.held.get(name);
        holding.is_some_and(|it| {
            let sends = it.kind == Kind::Room || now - it.last_frame < FRAME_WITHIN;
            (it.is_serving && sends) || (it.publisher.is_some() && it.is_undecided())
        })
    }
}

impl Holding {
    fn new(kind: Kind, now: Instant) -> Self {
        Self {
            kind,
            phase: Phase::Reading,
            publisher: None,
            policy: Policy::default(),
            waiting: Vec::new(),
            is_serving: false,
            was_owned: false,
            epoch: 0,
            version: None,
            request: None,
            due: None,
            decide_by: None,
            retries: 0,
            turn_at: None,
            last_frame: now,
            last_media: None,
            takes_over: false,
            media: Media {
                state: StreamState::Live,
                tracks: Vec::new(),
                bps: 0,
            },
            check_at: None,
        }
    }

    const fn fence(&self, inc: u64) -> Fence {
        Fence {
            epoch: self.epoch,
            inc,
        }
    }

    /// Whether somebody waits for a decision.
    const fn is_undecided(&self) -> bool {
        self.decide_by.is_some()
    }
}

impl Node {
    /// Whether a stream may be offered to other nodes: this node owns it, or pulls it by a path
    /// that may grow by one.
    pub fn announced(&self, name: &StreamName) -> bool {
        let is_owned = self.claims.owned_epoch(name).is_some();
        is_owned || (!self.claims.is_serving(name) && self.pull_may_be_offered(name))
    }

    /// Returns the epoch under which this node's own media is announced; `None` if another node
    /// or nobody has the stream, or the claim is provisional.
    pub fn owned_epoch(&self, name: &StreamName) -> Option<u64> {
        self.claims.owned_epoch(name)
    }

    /// Tells that a frame of a publisher or source of this node arrived. Four times a second are
    /// enough: after a second without, another node may take the name over.
    pub fn frame_arrived(&mut self, now: Moment, name: &StreamName) {
        self.now = now;
        if let Some(holding) = self.claims.held.get_mut(name) {
            holding.last_frame = now.at;
        }
    }

    /// Tells when the latest frame of a publisher or source of this node came. Nodes that pull the
    /// stream compare it with what reached them.
    pub fn media_arrived(&mut self, now: Moment, name: &StreamName, at: Instant) {
        self.now = now;
        if let Some(holding) = self.claims.held.get_mut(name) {
            holding.last_media = Some(at);
        }
    }

    /// Returns how many names this node has claimed although another one had them.
    pub const fn takeovers(&self) -> u64 {
        self.claims.takeovers
    }

    /// Takes what a read or a notice said about a name that is held or wanted.
    pub(super) fn claim_learns(&mut self, name: &StreamName, found: &Found) {
        let Some(holding) = self.claims.held.get(name) else {
            self.release_orphan(name, found);
            return;
        };
        match &holding.phase {
            // A notice of what stood here before may arrive after the answer to the own write.
            Phase::Owned if found.fence() < Some(holding.fence(self.incarnation())) => {
                self.check_at(name, self.now.at);
            }
            Phase::Owned => self.owned_learns(name, found),
            Phase::Standby => self.consider_source(name),
            Phase::Waiting if holding.kind == Kind::Source && !holding.is_serving => {
                self.consider_source(name);
            }
            _ => {}
        }
    }

    pub(super) fn on_claim_due(&mut self, name: &StreamName) {
        let now = self.now.at;
        let Some(holding) = self.claims.held.get_mut(name) else {
            return;
        };
        if holding.decide_by.is_some_and(|at| at <= now) {
            self.decide_without_engine(name);
        }
        let Some(holding) = self.claims.held.get_mut(name) else {
            return;
        };
        if holding.due.is_none_or(|at| at > now) {
            return;
        }
        holding.due = None;
        match holding.phase {
            Phase::Waiting | Phase::Releasing { .. } => self.read_claim(name),
            Phase::Standby => self.consider_source(name),
            Phase::Asking(_) => self.inquiry_due(name),
            Phase::Reading | Phase::Writing | Phase::Owned => {}
        }
    }

    /// The engine is back: everything that waits for it goes on, a little apart.
    pub(super) fn claims_on_connected(&mut self) {
        let names: Vec<StreamName> = self.claims.held.keys().cloned().collect();
        self.claims.is_suspicious = true;
        for name in names {
            let spread = Duration::from_millis(200 + self.claims.held.len() as u64 * 2);
            let at = self.now.at + self.jitter(Duration::ZERO, spread.min(Duration::from_secs(5)));
            let Some(holding) = self.claims.held.get_mut(&name) else {
                continue;
            };
            match holding.phase {
                Phase::Owned => self.check_at(&name, at),
                Phase::Standby | Phase::Waiting | Phase::Releasing { .. } => {
                    self.wake_claim(&name, at);
                }
                Phase::Reading | Phase::Writing | Phase::Asking(_) => {}
            }
        }
    }

    /// Looks at a claim again at a certain time.
    fn wake_claim(&mut self, name: &StreamName, at: Instant) {
        if let Some(holding) = self.claims.held.get_mut(name) {
            holding.due = Some(at);
            let timer = super::Timer::Holding(name.clone());
            self.timers.set(at, timer);
        }
    }

    fn set_phase(&mut self, name: &StreamName, phase: Phase) {
        if let Some(holding) = self.claims.held.get_mut(name) {
            holding.phase = phase;
            holding.request = None;
        }
    }
}

use crate::config::Moment;
