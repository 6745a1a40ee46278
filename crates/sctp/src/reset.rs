//! Stream reconfiguration: outgoing and incoming stream resets (RFC 6525).
//!
//! A request is sent once all data of its streams is acknowledged, so that the peer can
//! perform it at once: SCTP stacks differ in how they answer "in progress".

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use crate::chunk::parameter::{OutgoingReset, ReConfigResult, Response, StreamList};
use crate::chunk::{Parameter, ReConfig};
use crate::packet::PacketBuilder;
use crate::sequence::{Tsn, narrow};
use crate::timer::{Backoff, Timer};

/// Most streams in one request, so that it fits any packet.
const STREAMS_MAX: usize = 128;
/// Most responses that wait to be sent, and most requests of the peer that are remembered
/// or may be in progress at once. RFC 6525 §5.1.1 allows one; Pion sends as many as
/// channels close together, and repeats them in any order.
const REQUESTS_MAX: usize = 16;

/// Stream resets of both directions.
#[derive(Debug, Default)]
pub(crate) struct StreamResets {
    /// Sequence number of our next request.
    next: u32,
    /// Streams to be reset, each with the TSN that must be acknowledged first, once none of
    /// its data waits to be sent.
    wanted: BTreeMap<u16, Option<u64>>,
    /// Our request that is not answered yet; there is at most one.
    sent: Option<Request>,
    /// Sequence number of the peer's next request.
    expected: u32,
    /// Results of the peer's latest requests, for repetitions.
    results: VecDeque<RequestResult>,
    /// Requests of the peer that wait for data.
    deferred: Vec<Deferred>,
    /// Responses that wait to be sent.
    answers: VecDeque<RequestResult>,
}

/// Result of a request of the peer.
#[derive(Clone, Copy, Debug)]
struct RequestResult {
    /// Sequence number of the request.
    number: u32,
    /// Result that the response carries.
    result: ReConfigResult,
}

/// A reset request of ours that is not answered yet.
#[derive(Debug)]
struct Request {
    /// Sequence number of the request.
    number: u32,
    /// Last TSN sent before the reset.
    last_tsn: u64,
    /// Streams to be reset.
    streams: Vec<u16>,
    /// Whether the request has to be sent now.
    due: bool,
    /// Timer after which the request is sent again.
    timer: Timer,
}

/// A reset request of the peer that waits for data up to its last TSN.
#[derive(Debug)]
struct Deferred {
    /// Sequence number of the request.
    number: u32,
    /// Last TSN that the peer sent before the reset.
    last_tsn: u64,
    /// Streams to be reset; empty for all.
    streams: Vec<u16>,
}

/// The meaning of the peer's response to our request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResetResult {
    /// The peer reset these streams.
    Done(Vec<u16>),
    /// The peer refused to reset these streams.
    Refused(Vec<u16>),
}

impl StreamResets {
    /// Starts with both ends' first request numbers, which equal their initial TSNs.
    pub(crate) fn establish(&mut self, own_tsn: u32, peer_tsn: u32) {
        *self = Self {
            next: own_tsn,
            expected: peer_tsn,
            ..Self::default()
        };
    }

    /// Requests the reset of an outgoing stream, unless a request for it is in progress.
    pub(crate) fn request_reset(&mut self, stream: u16) {
        let sent = |request: &Request| request.streams.contains(&stream);
        if !self.sent.as_ref().is_some_and(sent) {
            self.wanted.entry(stream).or_insert(None);
        }
    }

    /// Returns the number of streams whose reset is wanted or requested.
    pub(crate) fn pending(&self) -> usize {
        let sent = self
            .sent
            .as_ref()
            .map_or(0, |request| request.streams.len());
        self.wanted.len() + sent
    }

    /// Makes a request of the streams that are ready. `drained`: whether none of a stream's
    /// data waits to be sent. `last`: last TSN that was sent. `acknowledged`: cumulative
    /// TSN.
    pub(crate) fn prepare(&mut self, drained: impl Fn(u16) -> bool, last: u64, acknowledged: u64) {
        if self.wanted.is_empty() || self.sent.is_some() {
            return;
        }
        let mut streams = Vec::new();
        for (stream, after) in &mut self.wanted {
            if after.is_none() && drained(*stream) {
                *after = Some(last);
            }
            if after.is_some_and(|after| after <= acknowledged) && streams.len() < STREAMS_MAX {
                streams.push(*stream);
            }
        }
        if streams.is_empty() {
            return;
        }
        for stream in &streams {
            self.wanted.remove(stream);
        }
        self.sent = Some(Request {
            number: self.next,
            last_tsn: acknowledged,
            streams,
            due: true,
            timer: Timer::default(),
        });
        self.next = self.next.wrapping_add(1);
    }

    /// Whether a request or a response has to be sent now.
    pub(crate) fn is_due(&self) -> bool {
        !self.answers.is_empty() || self.sent.as_ref().is_some_and(|request| request.due)
    }

    /// Returns when our request is to be retransmitted.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.sent.as_ref()?.timer.at
    }

    /// Makes our request due again if its timer ran out; returns whether it did.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> bool {
        let Some(request) = &mut self.sent else {
            return false;
        };
        let over = request.timer.is_over(now);
        if over {
            request.timer.stop();
            request.due = true;
        }
        over
    }

    /// Appends a RE-CONFIG with the first response or request that is due.
    pub(crate) fn write(&mut self, packet: &mut PacketBuilder<'_>, now: Instant, backoff: Backoff) {
        if let Some(&RequestResult { number, result }) = self.answers.front() {
            let answer = Parameter::Response(Response {
                response: number,
                result,
                next_tsns: None,
            });
            if ReConfig::write_parameters(&[answer], packet).is_ok() {
                self.answers.pop_front();
            }
            return;
        }
        let Some(request) = self.sent.as_mut().filter(|request| request.due) else {
            return;
        };
        let ask = Parameter::OutgoingReset(OutgoingReset {
            request: request.number,
            response: self.expected.wrapping_sub(1),
            last_tsn: Tsn(narrow(request.last_tsn)),
            streams: StreamList::Own(&request.streams),
        });
        if ReConfig::write_parameters(&[ask], packet).is_ok() {
            request.due = false;
            request.timer.start(now, backoff);
        }
    }

    /// Handles a request of the peer with sequence number `number`. If it is new, `perform`
    /// decides the result; a repeated one gets the same result again.
    pub(crate) fn on_request(
        &mut self,
        number: u32,
        perform: impl FnOnce(&mut Self) -> ReConfigResult,
    ) {
        let known = self.results.iter().find(|known| known.number == number);
        let ahead = number.wrapping_sub(self.expected) as usize;
        let result = if let Some(known) = known {
            known.result
        } else if ahead == 0 && self.deferred.len() < REQUESTS_MAX {
            self.expected = self.expected.wrapping_add(1);
            let result = perform(self);
            if self.results.len() >= REQUESTS_MAX {
                self.results.pop_front();
            }
            self.results.push_back(RequestResult { number, result });
            result
        } else if ahead < REQUESTS_MAX {
            // An earlier request is missing, or there are too many: the peer will repeat
            // this one.
            return;
        } else {
            ReConfigResult::BAD_NUMBER
        };
        self.answer(number, result);
    }

    /// Queues a response to the request `number`.
    fn answer(&mut self, number: u32, result: ReConfigResult) {
        if self.answers.len() < REQUESTS_MAX {
            self.answers.push_back(RequestResult { number, result });
        }
    }

    /// Defers the peer's request `number` until `last_tsn` has arrived.
    pub(crate) fn defer(&mut self, number: u32, last_tsn: u64, streams: Vec<u16>) {
        self.deferred.push(Deferred {
            number,
            last_tsn,
            streams,
        });
    }

    /// Whether a request of the peer waits for data.
    #[inline]
    pub(crate) const fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Removes a deferred request whose data has arrived, queues its response, and returns
    /// its streams. To be called until it returns `None`.
    pub(crate) fn take_deferred(&mut self, cumulative: u64) -> Option<Vec<u16>> {
        let mut deferred = self.deferred.iter();
        let ready = deferred.position(|it| it.last_tsn <= cumulative)?;
        let Deferred {
            number, streams, ..
        } = self.deferred.remove(ready);
        for known in &mut self.results {
            if known.number == number {
                known.result = ReConfigResult::PERFORMED;
            }
        }
        self.answer(number, ReConfigResult::PERFORMED);
        Some(streams)
    }

    /// Handles the peer's response to our request. `None` if the response changes nothing.
    pub(crate) fn on_response(
        &mut self,
        number: u32,
        result: ReConfigResult,
    ) -> Option<ResetResult> {
        let ours = |request: &mut Request| request.number == number;
        let mut request = self.sent.take_if(ours)?;
        match result {
            ReConfigResult::PERFORMED | ReConfigResult::NOTHING_TO_DO => {
                Some(ResetResult::Done(request.streams))
            }
            ReConfigResult::IN_PROGRESS => {
                // The request is repeated when the timer runs out, under a new number:
                // dcsctp answers the old number with "in progress" for ever, usrsctp
                // accepts both.
                request.number = self.next;
                self.next = self.next.wrapping_add(1);
                self.sent = Some(request);
                None
            }
            _ => Some(ResetResult::Refused(request.streams)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(resets: &mut StreamResets) -> Vec<(u32, ReConfigResult)> {
        let answers = resets.answers.drain(..);
        answers.map(|it| (it.number, it.result)).collect()
    }

    /// Three channels of Pion close at once, and their data is late.
    #[test]
    fn requests_on_their_way_together_are_all_performed() {
        const PERFORMED: ReConfigResult = ReConfigResult::PERFORMED;
        const IN_PROGRESS: ReConfigResult = ReConfigResult::IN_PROGRESS;
        let mut resets = StreamResets::default();
        resets.establish(1, 7);
        let ask = |resets: &mut StreamResets, number: u32, last_tsn: u64| {
            resets.on_request(number, |resets| {
                resets.defer(number, last_tsn, vec![number as u16]);
                IN_PROGRESS
            });
        };
        ask(&mut resets, 8, 102);
        assert_eq!(answers(&mut resets), [], "another comes before it");
        ask(&mut resets, 7, 101);
        ask(&mut resets, 8, 102);
        ask(&mut resets, 9, 103);
        let pending = [(7, IN_PROGRESS), (8, IN_PROGRESS), (9, IN_PROGRESS)];
        assert_eq!(answers(&mut resets), pending);
        ask(&mut resets, 8, 102);
        assert_eq!(answers(&mut resets), [(8, IN_PROGRESS)], "repeated");
        assert_eq!(resets.take_deferred(100), None);
        assert_eq!(resets.take_deferred(102), Some(vec![7]));
        assert_eq!(resets.take_deferred(102), Some(vec![8]));
        assert_eq!(resets.take_deferred(102), None);
        assert_eq!(answers(&mut resets), [(7, PERFORMED), (8, PERFORMED)]);
        ask(&mut resets, 7, 101);
        assert_eq!(answers(&mut resets), [(7, PERFORMED)], "repeated");
        ask(&mut resets, 7 + 100, 101);
        assert_eq!(answers(&mut resets), [(107, ReConfigResult::BAD_NUMBER)]);
    }

    #[test]
    fn a_peer_that_asks_on_and_on_is_remembered_within_bounds() {
        let mut resets = StreamResets::default();
        resets.establish(1, 0);
        for number in 0..1000 {
            resets.on_request(number, |resets| {
                resets.defer(number, u64::MAX, vec![0]);
                ReConfigResult::IN_PROGRESS
            });
        }
        assert_eq!(resets.deferred.len(), REQUESTS_MAX);
        assert!(resets.results.len() <= REQUESTS_MAX && resets.answers.len() <= REQUESTS_MAX);
    }
}
