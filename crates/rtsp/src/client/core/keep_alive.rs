//! Keep-alives of a session (RFC 2326 §10.8).
//!
//! Their responses end no session that plays: cameras refuse them, number them wrongly or leave
//! them out, while their media goes on. The owner gives a server up when its media stops.

use std::fmt;
use std::time::{Duration, Instant};

use super::{Closed, Core};
use crate::message::{Method, Response, Status};
use crate::session::Session;

/// Methods that keep a session alive, the best first.
const METHODS: [Method; 3] = [Method::GetParameter, Method::Options, Method::SetParameter];

/// Shortest time between two keep-alives.
const INTERVAL_MIN: Duration = Duration::from_millis(500);

/// A keep-alive that a server did not grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedKeepAlive {
    /// Method of the keep-alive.
    pub method: Method,
    /// The server's status and reason phrase; `None` if no response came.
    pub answer: Option<(Status, String)>,
}

impl fmt::Display for RefusedKeepAlive {
    /// Writes what the server did, as the rest of a sentence whose subject is the server.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = &self.method;
        match &self.answer {
            None => write!(f, "did not answer the keep-alive {method}"),
            Some((status, reason)) => {
                write!(f, "answered the keep-alive {method} with {status}")?;
                if reason.is_empty() {
                    return Ok(());
                }
                write!(f, " {reason}")
            }
        }
    }
}

/// Which keep-alive is next, and how the latest ones went.
#[derive(Debug)]
pub(in crate::client) struct KeepAlives {
    /// Methods that the server may support, in the order in which they are tried.
    methods: Vec<Method>,
    /// Index of the next method.
    next: usize,
    /// When the next one is due; `None` unless the session plays.
    pub(super) due: Option<Instant>,
    /// Number of keep-alives since the last one that was granted.
    refused: usize,
    pub(in crate::client) latest_refused: Option<RefusedKeepAlive>,
}

impl KeepAlives {
    pub(in crate::client) fn new() -> Self {
        Self {
            methods: METHODS.to_vec(),
            next: 0,
            due: None,
            refused: 0,
            latest_refused: None,
        }
    }

    /// Reads the methods in the response to OPTIONS. Its status does not matter: a server
    /// without OPTIONS may well support DESCRIBE.
    pub(in crate::client) fn learn(&mut self, response: &Response) {
        let Some(public) = response.headers.get("Public") else {
            return;
        };
        let is_listed = |method: &Method| {
            let mut listed = public.split(',');
            listed.any(|name| name.trim().eq_ignore_ascii_case(method.as_str()))
        };
        let known = |method: &Method| *method == Method::Options || is_listed(method);
        self.methods = METHODS.into_iter().filter(known).collect();
    }

    fn granted(&mut self) {
        self.refused = 0;
        self.latest_refused = None;
    }

    /// Notes that a keep-alive failed, and turns to the next method. Returns whether that one is
    /// untried since the last that was granted.
    fn refused(&mut self, refused: RefusedKeepAlive) -> bool {
        self.next = (self.next + 1) % self.methods.len();
        self.refused += 1;
        self.latest_refused = Some(refused);
        self.refused < self.methods.len()
    }
}

impl Core {
    /// Sends a keep-alive. An earlier one without response is given up.
    pub(in crate::client) fn keep_alive(&mut self, now: Instant) {
        if let Some(method) = self.exchange.give_up() {
            self.keep_alive_refused(now, method, None);
        } else {
            self.send_keep_alive(now);
        }
    }

    fn send_keep_alive(&mut self, now: Instant) {
        self.arm_keep_alive(now);
        let keep_alives = &self.keep_alives;
        let method = keep_alives.methods[keep_alives.next].clone();
        let url = self.control.clone();
        self.send(now, method, &url, |_| {});
    }

    /// Schedules the next keep-alive: at two fifths of the session's timeout.
    pub(in crate::client) fn arm_keep_alive(&mut self, now: Instant) {
        self.keep_alives.due = Some(now + self.keep_alive_interval());
    }

    fn keep_alive_interval(&self) -> Duration {
        let session = self.session.as_ref();
        let timeout = session.map_or(Session::TIMEOUT, |session| session.timeout);
        (timeout * 2 / 5).max(INTERVAL_MIN)
    }

    /// Returns how long the response to a keep-alive may take.
    pub(super) fn keep_alive_patience(&self) -> Duration {
        self.config.response_timeout.min(self.keep_alive_interval())
    }

    /// Handles the response to a keep-alive that asks for no new credentials.
    pub(super) fn kept_alive(&mut self, now: Instant, method: Method, response: &Response) {
        if response.status.is_success() {
            self.keep_alives.granted();
        } else {
            let answer = (response.status, response.reason.clone());
            self.keep_alive_refused(now, method, Some(answer));
        }
    }

    /// Tries the next method at once, or when the next keep-alive is due if each was tried.
    fn keep_alive_refused(
        &mut self,
        now: Instant,
        method: Method,
        answer: Option<(Status, String)>,
    ) {
        let lost = match &answer {
            None => Some(Closed::NoResponse {
                method: method.clone(),
                after: self.keep_alive_patience(),
            }),
            Some((Status::SESSION_NOT_FOUND, _)) => Some(Closed::SessionLost),
            Some(_) => None,
        };
        let refused = RefusedKeepAlive { method, answer };
        let another = self.keep_alives.refused(refused);
        match lost {
            // A server that takes media sends none, so its responses alone show that it lives.
            Some(reason) if self.announcement.is_some() && !another => self.close(reason),
            _ if another || self.keep_alives.due.is_none_or(|due| due <= now) => {
                self.send_keep_alive(now);
            }
            _ => {}
        }
    }

    /// Returns when a keep-alive is due, or a response overdue.
    pub(in crate::client) fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.keep_alives.due, self.exchange.deadline()];
        deadlines.into_iter().flatten().min()
    }
}
