//! Joins the two parts of a join, whichever comes first.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use glassline_runtime::SessionId;

use super::join::{JoinPart, PeerPart, RequestPart};

/// Most joins under way.
const PENDING_MAX: usize = 8_192;

/// A join with what is known of it.
#[derive(Debug)]
pub(super) struct Join {
    pub(super) request: Box<RequestPart>,
    /// `None` if the request was refused, or if nothing was heard of the peer for too long.
    pub(super) peer: Option<Box<PeerPart>>,
}

/// The joins of which one part is missing.
#[derive(Debug)]
pub(super) struct Assembly {
    pending: HashMap<SessionId, JoinPart>,
    /// Sessions of `pending` and those that were completed, oldest first.
    order: VecDeque<(Instant, SessionId)>,
    /// Time that the second part may take.
    patience: Duration,
    /// Joins that were dropped incomplete since the count was taken.
    dropped: u64,
}

impl Assembly {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            pending: HashMap::new(),
            order: VecDeque::new(),
            patience,
            dropped: 0,
        }
    }

    /// Takes a part; returns the join if it is complete.
    pub(super) fn take(&mut self, part: JoinPart, now: Instant) -> Option<Join> {
        let session = match &part {
            JoinPart::Request(request) => request.session.clone(),
            JoinPart::Peer(peer) => Some(peer.session.clone()),
        };
        let Some(session) = session else {
            return joined(part, None);
        };
        if let Some(other) = self.pending.remove(&session) {
            return joined(part, Some(other));
        }
        self.order.push_back((now, session.clone()));
        self.pending.insert(session, part);
        while self.pending.len() > PENDING_MAX
            && let Some((_, oldest)) = self.order.pop_front()
        {
            self.dropped += u64::from(self.pending.remove(&oldest).is_some());
        }
        if self.order.len() > 2 * PENDING_MAX {
            self.order.retain(|(_, it)| self.pending.contains_key(it));
        }
        None
    }

    /// Returns the joins whose peer was not heard of for too long.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Join> {
        self.expire_until(|at, patience| now.saturating_duration_since(at) >= patience)
    }

    /// Returns all joins that are under way.
    pub(super) fn finish(&mut self) -> Vec<Join> {
        self.expire_until(|_, _| true)
    }

    /// Returns the number of joins that were dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn expire_until(&mut self, is_old: impl Fn(Instant, Duration) -> bool) -> Vec<Join> {
        let mut expired = Vec::new();
        while let Some((at, _)) = self.order.front()
            && is_old(*at, self.patience)
            && let Some((_, session)) = self.order.pop_front()
        {
            match self.pending.remove(&session) {
                None => {}
                Some(part) => match joined(part, None) {
                    Some(join) => expired.push(join),
                    None => self.dropped += 1,
                },
            }
        }
        expired
    }
}

/// Returns the join of two parts; `None` without a request.
fn joined(one: JoinPart, other: Option<JoinPart>) -> Option<Join> {
    let (mut request, mut peer) = (None, None);
    for part in [Some(one), other].into_iter().flatten() {
        match part {
            JoinPart::Request(part) => request = Some(part),
            JoinPart::Peer(part) => peer = Some(part),
        }
    }
    request.map(|request| Join { request, peer })
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::super::join::{Outcome, Steps};
    use super::super::trace_context::TraceContext;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(40);

    pub(in super::super) fn request(session: Option<&str>, now: Instant) -> RequestPart {
        RequestPart {
            context: TraceContext::draw(),
            route: "/{stream}/whep".to_owned(),
            stream: "cam".to_owned(),
            role: "viewer",
            client: IpAddr::V4(Ipv4Addr::LOCALHOST),
            started: now,
            admitted: Some(now + Duration::from_millis(1)),
            ended: now + Duration::from_millis(3),
            status: 201,
            refusal: None,
            session: session.map(SessionId::new),
        }
    }

    pub(in super::super) fn peer(session: &str, now: Instant) -> PeerPart {
        PeerPart {
            session: SessionId::new(session),
            steps: Steps::default(),
            ended: now,
            outcome: Outcome::Connected,
        }
    }

    #[test]
    fn two_parts_make_a_join_in_either_order_and_a_refusal_is_one_alone() {
        let (mut assembly, now) = (Assembly::new(PATIENCE), Instant::now());
        let of_request = |session| JoinPart::Request(Box::new(request(session, now)));
        let of_peer = |session| JoinPart::Peer(Box::new(peer(session, now)));
        assert!(assembly.take(of_request(Some("a")), now).is_none());
        assert!(assembly.take(of_peer("b"), now).is_none());
        let join = assembly.take(of_peer("a"), now).expect("both parts");
        assert_eq!(join.request.session, Some(SessionId::new("a")));
        let join = assembly
            .take(of_request(Some("b")), now)
            .expect("both parts");
        assert_eq!(join.peer.expect("a peer").session, SessionId::new("b"));
        let refused = assembly.take(of_request(None), now).expect("a refusal");
        assert!(refused.peer.is_none());
        assert!(assembly.expire(now + PATIENCE).is_empty());
        assert_eq!(assembly.take_dropped(), 0);
    }

    #[test]
    fn what_misses_its_other_part_is_let_go_after_a_while_and_its_number_is_bounded() {
        let (mut assembly, now) = (Assembly::new(PATIENCE), Instant::now());
        assembly.take(JoinPart::Request(Box::new(request(Some("a"), now))), now);
        assembly.take(JoinPart::Peer(Box::new(peer("b", now))), now);
        assert!(assembly.expire(now + PATIENCE / 2).is_empty());
        let expired = assembly.expire(now + PATIENCE);
        assert_eq!(
            expired.len(),
            1,
            "the request; nobody knows of what trace the peer was"
        );
        assert_eq!(assembly.take_dropped(), 1);
        for number in 0..PENDING_MAX + 3 {
            let session = number.to_string();
            assembly.take(
                JoinPart::Request(Box::new(request(Some(&session), now))),
                now,
            );
        }
        assert_eq!(assembly.take_dropped(), 3);
        assert_eq!(assembly.finish().len(), PENDING_MAX);
    }
}
