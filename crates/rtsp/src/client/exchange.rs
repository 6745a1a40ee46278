use std::time::{Duration, Instant};

use crate::message::{Method, Request};

/// The request that waits for its response: one at a time, since many servers
/// mix pipelined ones up.
#[derive(Debug)]
pub(super) struct Exchange {
    next_cseq: u32,
    timeout: Duration,
    pending: Option<Pending>,
    /// This request has been repeated because its nonce was stale.
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

    /// Numbers `request` and waits for its response from now on.
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

    /// The request that a response of this number answers. One without a number
    /// answers whatever is out; one with another is late, and nobody's.
    pub(super) fn complete(&mut self, cseq: Option<u32>) -> Option<Request> {
        let pending = self.pending.as_ref()?;
        if cseq.is_some_and(|cseq| cseq != pending.cseq) {
            return None;
        }
        self.pending.take().map(|pending| pending.request)
    }

    /// Whether the request at hand may go out once more with a fresh nonce.
    pub(super) const fn may_repeat(&self) -> bool {
        !self.repeated
    }

    /// The next request is the same once more, although it had credentials; or
    /// is another.
    pub(super) const fn note_repeat(&mut self, repeated: bool) {
        self.repeated = repeated;
    }

    /// Nothing is waited for; what follows is waited for this long.
    pub(super) fn abandon(&mut self, timeout: Duration) {
        self.pending = None;
        self.timeout = timeout;
    }

    /// What is waited for.
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
