//! Which nodes are alive, judged by this node's monotonic clock alone.
//!
//! A node is dead when four things hold: no beat of it arrived for 4 s; this node's own beats
//! came back without a hole for 4 s, so that the engine carries beats; a probe over QUIC failed;
//! and this process did not stand still meanwhile. An outage of the engine therefore proves
//! nobody dead.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::config::Moment;
use crate::event::ProbeId;
use crate::name::NodeId;
use crate::record::{Beat, Load, NodeState};

/// Silence after which a node is dead if the other conditions hold.
pub const SILENCE: Duration = Duration::from_secs(4);

/// Silence after which a node is probed, so that the result is there at [`SILENCE`].
const PROBE_AFTER: Duration = Duration::from_secs(3);

/// A gap between own beats that is a hole: two of them missing.
const HOLE: Duration = Duration::from_millis(2_500);

/// Silence after which a node is overdue: one of its beats is missing, and the next one about to be.
const OVERDUE: Duration = Duration::from_millis(1_800);

/// How long a failed probe counts.
const PROBE_COUNTS: Duration = Duration::from_secs(3);

/// A probe without result counts as failed after this time.
const PROBE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Load in percent from which on a node takes no viewers and no pulls from others.
pub(crate) const TOO_BUSY: u32 = 90;

/// Most nodes whose beats are kept; more than a region has.
const PEERS_MAX: usize = 1_000;

/// Beats of the other nodes and of this one.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    peers: BTreeMap<NodeId, Peer>,
    echo: Option<Echo>,
}

/// Facts about a node that beats.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) inc: u64,
    pub(crate) state: NodeState,
    pub(crate) load: Load,
    pub(crate) is_dead: bool,
    /// When the node was found dead.
    pub(crate) dead_since: Option<Instant>,
    /// How far its wall clock is ahead of this node's, in ms; `None` if it does not tell.
    pub(crate) ahead_ms: Option<i64>,
    contact: Instant,
    probe: Option<(ProbeId, Instant)>,
    probe_failed: Option<Instant>,
}

/// This node's own beats, as they came back.
#[derive(Debug)]
struct Echo {
    seq: u64,
    last: Instant,
    whole_since: Instant,
}

/// The next step about a node that may be dead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Again(Instant),
    Probe,
    Dies,
    Nothing,
}

/// The news of a beat about its sender.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BeatEffect {
    Known,
    New,
    /// The process is another one than before.
    Restarted,
}

impl Peers {
    pub(crate) fn get(&self, node: &NodeId) -> Option<&Peer> {
        self.peers.get(node)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.peers.iter()
    }

    /// Whether the node, as this process of it, is known to be dead. A process is dead, too,
    /// when its node beats as another process.
    pub(crate) fn is_dead(&self, node: &NodeId, inc: u64) -> bool {
        let peer = self.peers.get(node);
        peer.is_some_and(|peer| peer.is_dead || peer.inc != inc)
    }

    pub(crate) fn on_beat(&mut self, node: &NodeId, beat: &Beat, moment: Moment) -> BeatEffect {
        let now = moment.at;
        let ahead_ms = ahead_of(beat, moment);
        if let Some(peer) = self.peers.get_mut(node) {
            let was = (peer.inc, peer.is_dead);
            (peer.inc, peer.state, peer.load) = (beat.inc, beat.state, beat.load);
            (peer.contact, peer.is_dead, peer.probe_failed) = (now, false, None);
            (peer.dead_since, peer.ahead_ms) = (None, ahead_ms);
            return match was {
                (inc, _) if inc != beat.inc => BeatEffect::Restarted,
                (_, true) => BeatEffect::New,
                _ => BeatEffect::Known,
            };
        }
        if self.peers.len() >= PEERS_MAX {
            self.peers.retain(|_, peer| !peer.is_dead);
        }
        if self.peers.len() < PEERS_MAX {
            let peer = Peer {
                inc: beat.inc,
                state: beat.state,
                load: beat.load,
                is_dead: false,
                dead_since: None,
                ahead_ms,
                contact: now,
                probe: None,
                probe_failed: None,
            };
            self.peers.insert(node.clone(), peer);
        }
        BeatEffect::New
    }

    /// Takes a beat of this node that came back. Doubled and late ones change nothing.
    pub(crate) fn on_echo(&mut self, seq: u64, now: Instant) {
        match &mut self.echo {
            Some(echo) if seq <= echo.seq => {}
            Some(echo) => {
                let is_whole = seq == echo.seq + 1 && now - echo.last < HOLE;
                if !is_whole {
                    echo.whole_since = now;
                }
                (echo.seq, echo.last) = (seq, now);
            }
            None => {
                self.echo = Some(Echo {
                    seq,
                    last: now,
                    whole_since: now,
                });
            }
        }
    }

    /// Begins all judgements anew: the process stood still or the engine was away.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.echo = None;
        for peer in self.peers.values_mut() {
            (peer.contact, peer.probe_failed) = (now, None);
        }
    }

    /// Whether beats have passed through the engine for long enough to judge others by them.
    pub(crate) fn hears_itself(&self, now: Instant) -> bool {
        let echo = self.echo.as_ref();
        echo.is_some_and(|it| now - it.last < HOLE && now - it.whole_since >= SILENCE)
    }

    /// Whether a beat of a node is missing, and another one about to be, although this node hears its own. That is no proof of a
    /// death: the node may have lost the engine.
    pub(crate) fn is_overdue(&self, node: &NodeId, now: Instant) -> bool {
        let peer = self.peers.get(node);
        let is_silent = peer.is_some_and(|it| now.saturating_duration_since(it.contact) >= OVERDUE);
        is_silent && self.hears_itself(now)
    }

    pub(crate) fn on_probe(&mut self, probe: ProbeId, is_reached: bool, now: Instant) {
        let mut peers = self.peers.values_mut();
        let asked = |peer: &&mut Peer| peer.probe.is_some_and(|(id, _)| id == probe);
        if let Some(peer) = peers.find(asked) {
            peer.probe = None;
            if is_reached {
                (peer.contact, peer.probe_failed) = (now, None);
            } else {
                peer.probe_failed = Some(now);
            }
        }
    }

    /// Notes that [`Check::Probe`] was carried out.
    pub(crate) fn probing(&mut self, node: &NodeId, probe: ProbeId, now: Instant) {
        if let Some(peer) = self.peers.get_mut(node) {
            peer.probe = Some((probe, now));
        }
    }

    /// Looks at a node, and declares it dead if everything says so.
    pub(crate) fn check(&mut self, node: &NodeId, now: Instant) -> Check {
        let hears_itself = self.hears_itself(now);
        let Some(peer) = self.peers.get_mut(node) else {
            return Check::Nothing;
        };
        let silence = now.saturating_duration_since(peer.contact);
        if peer.is_dead {
            return Check::Nothing;
        }
        if silence < PROBE_AFTER {
            return Check::Again(peer.contact + PROBE_AFTER);
        }
        if !hears_itself {
            return Check::Again(now + Duration::from_millis(500));
        }
        if let Some((_, since)) = peer.probe {
            if now - since < PROBE_TIMEOUT {
                return Check::Again(since + PROBE_TIMEOUT);
            }
            (peer.probe, peer.probe_failed) = (None, Some(now));
        }
        match peer.probe_failed {
            Some(at) if now - at < PROBE_COUNTS => {}
            _ => return Check::Probe,
        }
        if silence < SILENCE {
            return Check::Again(peer.contact + SILENCE);
        }
        (peer.is_dead, peer.dead_since) = (true, Some(now));
        Check::Dies
    }
}

impl Peer {
    /// Whether the node lives, and does not leave.
    pub(crate) fn is_serving(&self) -> bool {
        !self.is_dead && self.state == NodeState::Serving
    }

    /// Whether the node lives, and is about to leave.
    pub(crate) fn is_draining(&self) -> bool {
        !self.is_dead && self.state == NodeState::Draining
    }

    /// Whether viewers may be sent to the node.
    pub(crate) fn takes_viewers(&self) -> bool {
        self.is_serving() && self.load.headroom > 0 && self.load.busy < TOO_BUSY
    }
}

/// How far the wall clock of the sender of a beat is ahead of this node's, in ms.
pub(crate) fn ahead_of(beat: &Beat, now: Moment) -> Option<i64> {
    let own = i64::try_from(now.unix_ms).ok()?;
    let theirs = i64::try_from(beat.unix_ms).ok().filter(|it| *it > 0)?;
    theirs.checked_sub(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at: Instant) -> Moment {
        Moment {
            at,
            unix_ms: 1_700_000_000_000,
        }
    }

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    /// A node that heard `peer` and itself until second 10, and from then on only itself.
    fn silent_peer(start: Instant) -> (Peers, NodeId) {
        let (mut peers, peer) = (Peers::default(), NodeId::new("b").expect("a name"));
        for seq in 0..=10 {
            let now = at(start, seq * 1_000);
            peers.on_echo(seq, now);
            peers.on_beat(&peer, &Beat::default(), moment(now));
        }
        (peers, peer)
    }

    fn start() -> Instant {
        glassline_sim::Clock::new().now()
    }

    #[test]
    fn a_silent_node_is_dead_after_four_seconds_and_a_failed_probe() {
        let start = start();
        let (mut peers, peer) = silent_peer(start);
        for seq in 11..=13 {
            peers.on_echo(seq, at(start, seq * 1_000));
        }
        assert_eq!(peers.check(&peer, at(start, 13_000)), Check::Probe);
        peers.probing(&peer, ProbeId(1), at(start, 13_000));
        peers.on_probe(ProbeId(1), false, at(start, 13_900));
        let check = peers.check(&peer, at(start, 13_900));
        assert_eq!(check, Check::Again(at(start, 14_000)));
        assert_eq!(peers.check(&peer, at(start, 14_000)), Check::Dies);
        assert!(peers.is_dead(&peer, 0));
        peers.on_beat(&peer, &Beat::default(), moment(at(start, 14_100)));
        assert!(!peers.is_dead(&peer, 0));
    }

    #[test]
    fn a_node_is_overdue_once_beats_are_missing_which_this_one_would_have_heard() {
        let start = start();
        let (mut peers, peer) = silent_peer(start);
        assert!(
            !peers.is_overdue(&peer, at(start, 11_500)),
            "it may be late"
        );
        peers.on_echo(11, at(start, 11_000));
        assert!(peers.is_overdue(&peer, at(start, 11_900)));
        let stranger = NodeId::new("c").expect("a name");
        assert!(!peers.is_overdue(&stranger, at(start, 11_900)));
        // The engine carries no beats of this node either.
        assert!(!peers.is_overdue(&peer, at(start, 14_000)));
    }

    #[test]
    fn an_engine_that_carries_no_beats_proves_nobody_dead() {
        let start = start();
        let (mut peers, peer) = silent_peer(start);
        for ms in (13_000..60_000).step_by(500) {
            let check = peers.check(&peer, at(start, ms));
            assert!(matches!(check, Check::Again(_) | Check::Probe), "{check:?}");
            if check == Check::Probe {
                peers.probing(&peer, ProbeId(ms), at(start, ms));
                peers.on_probe(ProbeId(ms), false, at(start, ms));
            }
        }
        assert!(!peers.is_dead(&peer, 0));
    }

    #[test]
    fn a_hole_in_the_own_beats_begins_the_judgement_anew() {
        let start = start();
        let (mut peers, peer) = silent_peer(start);
        for seq in [11, 13, 14, 15] {
            peers.on_echo(seq, at(start, seq * 1_000));
        }
        assert!(!peers.hears_itself(at(start, 15_000)));
        assert!(matches!(
            peers.check(&peer, at(start, 15_000)),
            Check::Again(_)
        ));
        for seq in 16..=17 {
            peers.on_echo(seq, at(start, seq * 1_000));
        }
        assert_eq!(peers.check(&peer, at(start, 17_000)), Check::Probe);
    }

    #[test]
    fn a_node_that_a_probe_reaches_lives() {
        let start = start();
        let (mut peers, peer) = silent_peer(start);
        (11..=13).for_each(|seq| peers.on_echo(seq, at(start, seq * 1_000)));
        assert_eq!(peers.check(&peer, at(start, 13_100)), Check::Probe);
        peers.probing(&peer, ProbeId(1), at(start, 13_100));
        peers.on_probe(ProbeId(1), true, at(start, 13_200));
        peers.on_echo(14, at(start, 14_000));
        let check = peers.check(&peer, at(start, 14_500));
        assert_eq!(check, Check::Again(at(start, 16_200)));
    }

    #[test]
    fn a_process_is_dead_when_its_node_beats_as_another() {
        let start = start();
        let (mut peers, peer) = silent_peer(start);
        let beat = Beat {
            inc: 9,
            ..Beat::default()
        };
        assert_eq!(
            peers.on_beat(&peer, &beat, moment(at(start, 10_500))),
            BeatEffect::Restarted
        );
        assert!(peers.is_dead(&peer, 0) && !peers.is_dead(&peer, 9));
    }

    #[test]
    fn a_process_that_stood_still_judges_nobody_at_once() {
        let start = start();
        let (mut peers, peer) = silent_peer(start);
        peers.restart(at(start, 30_000));
        let check = peers.check(&peer, at(start, 30_000));
        assert_eq!(check, Check::Again(at(start, 33_000)));
    }
}
