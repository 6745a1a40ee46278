use std::collections::VecDeque;
use std::time::Instant;

use crate::message::{Method, Request};

/// The one request that waits for its response. There is never more than one, since many
/// servers confuse pipelined requests.
#[derive(Debug)]
pub(super) struct Exchange {
    next_cseq: u32,
    pending: Option<Pending>,
    /// Numbers of the latest requests that nobody waits for any more, and whose responses may
    /// still come.
    unanswered: VecDeque<u32>,
}

#[derive(Debug)]
struct Pending {
    cseq: u32,
    request: Request,
    deadline: Instant,
    attempt: Attempt,
}

/// How often a request has been sent, and why again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The request is sent for the first time.
    First,
    /// The server asked for credentials, and the request had none.
    Challenged,
    /// The server refused the credentials, and gave a nonce that they were not made for.
    Renewed,
}

/// A request that was answered.
#[derive(Debug)]
pub(super) struct AnsweredRequest {
    pub(super) request: Request,
    pub(super) attempt: Attempt,
}

/// Most numbers of unanswered requests that are remembered. A response that is later than as many
/// keep-alives is not told from that of the pending one.
const UNANSWERED_MAX: usize = 8;

impl Exchange {
    pub(super) const fn new() -> Self {
        Self {
            next_cseq: 1,
            pending: None,
            unanswered: VecDeque::new(),
        }
    }

    /// Numbers `request`, and starts to wait for its response until `deadline`.
    pub(super) fn begin(
        &mut self,
        mut request: Request,
        attempt: Attempt,
        deadline: Instant,
    ) -> Request {
        let cseq = self.next_cseq;
        self.next_cseq = self.next_cseq.wrapping_add(1);
        request.headers.set("CSeq", &cseq.to_string());
        self.pending = Some(Pending {
            cseq,
            request: request.clone(),
            deadline,
            attempt,
        });
        request
    }

    /// Returns the request that a response with this `CSeq` answers.
    ///
    /// Servers number responses wrongly or not at all. As one request is under way, the response
    /// is its own, unless its number is that of a request that was given up: that one is late.
    pub(super) fn complete(&mut self, cseq: Option<u32>) -> Option<AnsweredRequest> {
        let pending = self.pending.as_ref()?;
        let is_own = cseq.is_none_or(|cseq| cseq == pending.cseq);
        let late = self.unanswered.iter().position(|it| Some(*it) == cseq);
        if let Some(at) = late.filter(|_| !is_own) {
            self.unanswered.remove(at);
            return None;
        }
        self.pending.take().map(|pending| AnsweredRequest {
            request: pending.request,
            attempt: pending.attempt,
        })
    }

    /// Stops waiting for the response to the pending request. Returns its method.
    pub(super) fn give_up(&mut self) -> Option<Method> {
        let pending = self.pending.take()?;
        if self.unanswered.len() == UNANSWERED_MAX {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(pending.cseq);
        Some(pending.request.method)
    }

    /// Waits for the pending response no longer than until `end`.
    pub(super) fn hasten(&mut self, end: Instant) {
        if let Some(pending) = &mut self.pending {
            pending.deadline = pending.deadline.min(end);
        }
    }

    /// Returns the method of the pending request.
    pub(super) fn method(&self) -> Option<&Method> {
        self.pending.as_ref().map(|pending| &pending.request.method)
    }

    /// Returns why the pending request was sent.
    pub(super) fn attempt(&self) -> Option<Attempt> {
        self.pending.as_ref().map(|pending| pending.attempt)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pending.as_ref().map(|pending| pending.deadline)
    }

    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }
}
