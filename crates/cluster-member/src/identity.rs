//! Who this server is in its cluster, and where its streams come from.

use std::collections::HashMap;

use glassline_access::auth::Secret;
use glassline_hub::StreamName;
use glassline_quic::moq::{DrawnCode, NodeClock, NodeName, Provenance};
use parking_lot::Mutex;

use glassline_latency::{FrameCode, FrameCodes};

/// The identity of this server.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Name in the cluster, which no other server has.
    pub name: NodeName,
    /// Secret that all servers of the cluster share.
    pub secret: Secret,
    /// Random number of this process.
    pub incarnation: u64,
    /// Clock of the stamps that other servers get.
    pub clock: NodeClock,
}

/// Where the streams come from that this server does not publish itself, and the epochs of those that
/// it does.
#[derive(Debug)]
pub struct Provenances {
    node: NodeName,
    incarnation: u64,
    known: Mutex<Known>,
    clock: NodeClock,
    /// The numbers that sources draw into frames, those of pulled streams included.
    codes: FrameCodes,
}

#[derive(Debug, Default)]
struct Known {
    streams: HashMap<StreamName, (Mark, Provenance)>,
    marks: u64,
}

/// One source of a stream, by which it is told apart from those before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Provenances {
    /// Creates the record of a server whose frames have `codes`.
    pub fn new(identity: &Identity, codes: FrameCodes) -> Self {
        Self {
            node: identity.name.clone(),
            incarnation: identity.incarnation,
            known: Mutex::default(),
            clock: identity.clock,
            codes,
        }
    }

    /// Returns the number in the frames of a stream, as other servers get it.
    pub fn code_of(&self, name: &StreamName) -> Option<DrawnCode> {
        let FrameCode { fps, frames, epoch } = self.codes.get(name.as_str())?;
        let mut code = DrawnCode {
            fps,
            frames,
            epoch_ns: 0,
        };
        // The numbers begin again and again: of all rounds, the first since this server's start is told.
        let round = code.round().as_nanos().max(1);
        let start = self.clock.epoch();
        let after = epoch.saturating_duration_since(start).as_nanos() % round;
        let before = start.saturating_duration_since(epoch).as_nanos() % round;
        let since = (after + round - before) % round;
        code.epoch_ns = u64::try_from(since).ok()?;
        Some(code)
    }

    /// Notes the number in the frames of a pulled stream; `None` if there is none.
    pub(crate) fn set_code(&self, name: &StreamName, code: Option<FrameCode>) {
        match code {
            Some(code) => self.codes.set(name.as_str(), code),
            None => self.codes.remove(name.as_str()),
        }
    }

    /// Notes where a stream comes from, in place of the source before, for the servers that pull it
    /// from this one.
    pub(crate) fn begin(&self, name: &StreamName, provenance: Provenance) -> Mark {
        let mut known = self.known.lock();
        known.marks += 1;
        let mark = Mark(known.marks);
        known.streams.insert(name.clone(), (mark, provenance));
        mark
    }

    /// Notes that a stream of this server's own is published in `epoch`.
    pub(crate) fn begin_own(&self, name: &StreamName, epoch: u64) -> Mark {
        let provenance = Provenance {
            epoch,
            ..self.own()
        };
        self.begin(name, provenance)
    }

    /// Notes another way of the same source, unless another source has begun.
    pub(crate) fn change(&self, name: &StreamName, mark: Mark, provenance: Provenance) {
        if let Some(known) = self.known.lock().streams.get_mut(name)
            && known.0 == mark
        {
            known.1 = provenance;
        }
    }

    /// Forgets a source, unless another one has begun: the stream is this server's own again, in
    /// epoch 0.
    pub(crate) fn end(&self, name: &StreamName, mark: Mark) {
        let mut known = self.known.lock();
        if known.streams.get(name).is_some_and(|it| it.0 == mark) {
            known.streams.remove(name);
        }
    }

    /// Returns where a stream comes from, up to and with this server.
    pub fn of(&self, name: &StreamName) -> Provenance {
        match self.known.lock().streams.get(name) {
            Some((_, known)) => {
                let mut provenance = known.clone();
                if provenance.path.last() != Some(&self.node) {
                    provenance.path.push(self.node.clone());
                }
                provenance
            }
            None => self.own(),
        }
    }

    /// Returns whether this server has the claim of a stream: no other server publishes it.
    pub fn is_claimed(&self, name: &StreamName) -> bool {
        let known = self.known.lock();
        let provenance = known.streams.get(name).map(|(_, provenance)| provenance);
        provenance.is_some_and(|it| it.path == [self.node.clone()])
    }

    fn own(&self) -> Provenance {
        Provenance {
            epoch: 0,
            node: self.node.clone(),
            incarnation: self.incarnation,
            path: vec![self.node.clone()],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_number_in_frames_that_began_before_this_server_is_told_of_a_later_round() {
        let start = Instant::now() + Duration::from_secs(100);
        let identity = Identity {
            name: "here".parse().expect("a name"),
            secret: Secret::new("0123456789abcdef").expect("a secret"),
            incarnation: 7,
            clock: NodeClock::since(start),
        };
        let provenances = Provenances::new(&identity, FrameCodes::default());
        let name = StreamName::parse("clip").expect("a name");
        assert_eq!(provenances.code_of(&name), None);
        // Rounds of 10 s, of which one began 23 s before this server, and one 7 s after its start.
        for (epoch, expected_s) in [
            (start - Duration::from_secs(23), 7),
            (start + Duration::from_secs(4), 4),
        ] {
            let code = FrameCode {
                fps: 30,
                frames: 300,
                epoch,
            };
            provenances.set_code(&name, Some(code));
            let told = provenances.code_of(&name).expect("a code");
            assert_eq!((told.fps, told.frames), (30, 300));
            assert_eq!(told.epoch_ns, expected_s * 1_000_000_000);
        }
        provenances.set_code(&name, None);
        assert_eq!(provenances.code_of(&name), None);
    }

    #[test]
    fn a_source_that_was_replaced_changes_nothing_any_more() {
        let node = |name: &str| name.parse::<NodeName>().expect("a name");
        let identity = Identity {
            name: node("here"),
            secret: Secret::new("0123456789abcdef").expect("a secret"),
            incarnation: 7,
            clock: NodeClock::since(Instant::now()),
        };
        let provenances = Provenances::new(&identity, FrameCodes::default());
        let name = StreamName::parse("cam").expect("a name");
        let pulled = |epoch| Provenance {
            epoch,
            node: node("there"),
            incarnation: 9,
            path: vec![node("there")],
        };
        let first = provenances.begin(&name, pulled(1));
        assert_eq!(provenances.of(&name).path, [node("there"), node("here")]);
        assert!(!provenances.is_claimed(&name));
        let own = provenances.begin_own(&name, 2);
        provenances.change(&name, first, pulled(1));
        provenances.end(&name, first);
        let known = provenances.of(&name);
        assert_eq!((known.epoch, known.incarnation), (2, 7));
        assert_eq!(known.path, [node("here")]);
        assert!(provenances.is_claimed(&name));
        provenances.end(&name, own);
        assert!(!provenances.is_claimed(&name));
        assert_eq!(provenances.of(&name).epoch, 0);
    }
}
