use std::time::{Duration, Instant};

use crate::message::{Method, Request};

/// The one request that waits for its response. There is never more than one, since many
/// servers confuse pipelined requests.
#[derive(Debug)]
pub(super) struct Exchange {
    next_cseq: u32,
    timeout: Duration,
    pending: Option<Pending>,
    /// Whether the pending request was repeated because its nonce was stale.
    repeated: bool,
}

#[derive(Debug)]
struct Pending {
    cseq: u32,
    request: Request,
    deadline: Instant,
}

impl Exchange {
    pub(super) const fn new(timeout: Duration) -> Self {
        Self {
            next_cseq: 1,
            timeout,
            pending: None,
            repeated: false,
        }
    }

    /// Numbers `request`, and starts to wait for its response.
    pub(super) fn begin(&mut self, now: Instant, mut request: Request) -> Request {
        let cseq = self.next_cseq;
        self.next_cseq = self.next_cseq.wrapping_add(1);
        request.headers.set("CSeq", &cseq.to_string());
        self.pending = Some(Pending {
            cseq,
            request: request.clone(),
            deadline: now + self.timeout,
        });
        request
    }

    /// Returns the request that a response with this `CSeq` answers.
    ///
    /// A response without a number answers the pending request. A response with another number
    /// is late and answers nothing.
    pub(super) fn complete(&mut self, cseq: Option<u32>) -> Option<Request> {
        let pending = self.pending.as_ref()?;
        if cseq.is_some_and(|cseq| cseq != pending.cseq) {
            return None;
        }
        self.pending.take().map(|pending| pending.request)
    }

    /// Returns whether the current request may be sent once more with a fresh nonce.
    pub(super) const fn may_repeat(&self) -> bool {
        !self.repeated
    }

    /// Notes whether the next request repeats one that had credentials (`true`), or is a new
    /// one.
    pub(super) const fn note_repeat(&mut self, repeated: bool) {
        self.repeated = repeated;
    }

    /// Stops waiting for a response. Later requests have `timeout` for theirs.
    pub(super) fn abandon(&mut self, timeout: Duration) {
        self.pending = None;
        self.timeout = timeout;
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

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pending.as_ref().map(|pending| pending.deadline)
    }

    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }
}
