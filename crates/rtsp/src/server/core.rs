use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::{Closed, Config, Ends, Event, SetUp, State, Way};
use crate::message::{Message, Response, Status};
use crate::output::Output;

/// All but the reader, which hands items to it.
#[derive(Debug)]
pub(super) struct Core {
    config: Arc<Config>,
    ends: Ends,
    secret: [u8; 32],
    pub(super) state: State,
    pub(super) events: VecDeque<Event>,
    pub(super) output: Output,
    pub(super) tracks: Vec<SetUp>,
    pub(super) path: Option<String>,
    pub(super) user: Option<String>,
    pub(super) session: Option<String>,
    pub(super) alive_at: Instant,
    pub(super) closed: bool,
}

impl Core {
    pub(super) fn new(config: Arc<Config>, ends: Ends, secret: [u8; 32], now: Instant) -> Self {
        Self {
            config,
            ends,
            secret,
            state: State::Init,
            events: VecDeque::new(),
            output: Output::default(),
            tracks: Vec::new(),
            path: None,
            user: None,
            session: None,
            alive_at: now,
            closed: false,
        }
    }

    pub(super) fn handle_message(&mut self, now: Instant, message: Message) {
        self.alive_at = now;
        if let Message::Request(request) = message {
            let mut response = Response::to(&request, Status::NOT_IMPLEMENTED);
            if !self.config.server_name.is_empty() {
                response.headers.push("Server", &self.config.server_name);
            }
            self.output.push(|out| response.write(out));
        }
    }

    /// The track that a channel belongs to, and whether it is its RTCP.
    pub(super) fn owner_of(&self, channel: u8) -> Option<(usize, bool)> {
        self.tracks.iter().find_map(|track| match track.way {
            Way::Interleaved { channels } if channels.0 == channel => Some((track.track, false)),
            Way::Interleaved { channels } if channels.1 == channel => Some((track.track, true)),
            _ => None,
        })
    }

    pub(super) fn close(&mut self, reason: Closed) {
        if !self.closed {
            self.closed = true;
            self.state = State::Init;
            self.events.push_back(Event::Closed(reason));
        }
    }
}
