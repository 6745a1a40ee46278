//! Round trips of the application, measured on the media itself, and other datagrams that both
//! ends exchange beside MoQ.
//!
//! ```text
//! sender: a frame enters the send queue at t ── the media path ──► receiver has it whole
//!         ◄── datagram: track, time of the frame, how long it was held ──┘ once a second
//! ```
//!
//! This counts the time that a frame waits in our queues and in those of the network, which a
//! ping beside the media would miss.
//!
//! An echo is a datagram that other MoQ implementations take for one of an unknown
//! subscription, and drop. It is sent only to publishers whose catalog asks for it. In the
//! opposite direction goes a report with what only the sender knows. Since MoQ has no request
//! for a keyframe, such requests are datagrams of this kind, too.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut};
use glassline_media::clock::{Estimate, Exchange};
use glassline_media::{Bitrate, Relay};
use parking_lot::{Mutex, MutexGuard};

use super::bursts::NodeClock;
use super::keyframe_requests::RequestScope;

/// Interval between two echo requests.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// First bytes of our datagrams: a subscription number that no session reaches (a QUIC
/// variable-length integer with all 62 bits set), and our version.
const MARK: [u8; 9] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
const ECHO: u8 = 1;
const REPORT: u8 = 2;
const KEYFRAME_REQUEST: u8 = 3;
/// A message of the comparison of two servers' clocks.
const CLOCK: u8 = 4;

/// Most frames whose send time is stored: half a minute of video and audio.
const SENT_MAX: usize = 4096;

/// Age at which a frame counts as lost, not late.
const SENT_AGE_MAX: Duration = Duration::from_secs(60);

/// Datagrams that both ends of a session exchange beside MoQ, and what they have shown.
#[derive(Debug, Default)]
pub(super) struct ControlDatagrams {
    state: Mutex<State>,
    /// Takes requests for keyframes of what the peer reads from a collection.
    scope: OnceLock<RequestScope>,
    /// Comparison of both ends' clocks, if both are servers of one cluster.
    clocks: OnceLock<Mutex<Clocks>>,
}

/// The comparison of this server's clock with that of its peer.
#[derive(Debug)]
struct Clocks {
    exchange: Exchange,
    estimate: Option<Estimate>,
}

#[derive(Debug, Default)]
struct State {
    /// Frames that entered the send queue, oldest first.
    sent: VecDeque<SentFrame>,
    last_echoed: Option<Instant>,
    round_trips: RoundTrips,
    report: Option<(Report, Instant)>,
    keyframe_requested: bool,
}

#[derive(Clone, Copy, Debug)]
struct SentFrame {
    track: u32,
    micros: u64,
    at: Instant,
}

/// Round trips between the applications of both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoundTrips {
    /// The latest round trip.
    pub latest: Option<Duration>,
    /// Sum of all round trips; divided by `count`, it is their mean.
    pub sum: Duration,
    /// Number of round trips.
    pub count: u64,
    /// Age of the frame whose echo is due, which is a lower bound of the next round trip.
    /// `None` where the peer sends no echoes.
    pub waiting: Option<Duration>,
}

/// The facts that the sender of media knows and its receiver cannot measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Latest round trip of the application; zero before the first one.
    pub app_rtt: Duration,
    /// Smoothed round-trip time of the transport.
    pub transport_rtt: Duration,
    /// Bytes of QUIC packets sent so far.
    pub sent: u64,
    /// Bytes of QUIC packets that were acknowledged.
    pub delivered: u64,
    /// Bytes of QUIC packets that were lost.
    pub lost: u64,
    /// Bytes of media that wait to be sent or acknowledged.
    pub backlog: u64,
    /// Bitrate that the encoder is set to.
    pub bitrate: Bitrate,
    /// Estimated bitrate that the path can carry.
    pub deliverable: Bitrate,
}

impl ControlDatagrams {
    /// Stores when a frame of `track` entered the send queue.
    pub(super) fn note_sent(&self, track: u32, micros: u64, at: Instant) {
        let mut state = self.state.lock();
        if state.sent.len() == SENT_MAX {
            state.sent.pop_front();
        }
        state.sent.push_back(SentFrame { track, micros, at });
    }

    /// Handles a datagram; returns the one to answer with, if there is one. Returns false if it is
    /// not one of ours.
    pub(super) fn handle(&self, datagram: &[u8]) -> (bool, Option<Vec<u8>>) {
        let Some(body) = datagram.strip_prefix(&MARK) else {
            return (false, None);
        };
        let now = Instant::now();
        match body.split_first() {
            Some((&CLOCK, body)) => return (true, self.handle_clock(body, now)),
            Some((&ECHO, body)) => self.handle_echo(body, now),
            Some((&KEYFRAME_REQUEST, body)) => self.handle_keyframe_request(body),
            Some((&REPORT, body)) => {
                if let Some(report) = Report::decode(body) {
                    self.state.lock().report = Some((report, now));
                }
            }
            _ => {}
        }
        (true, None)
    }

    /// Begins to answer the peer's questions for this server's clock.
    pub(super) fn compare_clocks(&self, clock: NodeClock) {
        let exchange = Exchange::new(clock.epoch());
        let _ = self.clocks.set(Mutex::new(Clocks {
            exchange,
            estimate: None,
        }));
    }

    fn clocks(&self) -> Option<MutexGuard<'_, Clocks>> {
        let clocks = self.clocks.get()?;
        Some(clocks.lock())
    }

    /// Handles a message about clocks; returns the response to a request. Other messages are
    /// ignored: they may be late, or repeated.
    fn handle_clock(&self, body: &[u8], now: Instant) -> Option<Vec<u8>> {
        let mut clocks = self.clocks()?;
        clocks.exchange.receive(body, now).ok()?;
        if clocks.exchange.poll_timeout().is_some() {
            // Nothing is owed, so it was a response.
            clocks.estimate = clocks.exchange.estimate();
            return None;
        }
        let response = clocks.exchange.poll_transmit(now)?;
        Some(clock_message(&response))
    }

    /// Returns the next question for the peer's clock, if one is due, and when the next one will be.
    /// `None` if the clocks are not compared.
    pub(super) fn ask_clock(&self, now: Instant) -> Option<(Option<Vec<u8>>, Option<Instant>)> {
        let mut clocks = self.clocks()?;
        let message = clocks.exchange.poll_transmit(now);
        let message = message.as_deref().map(clock_message);
        Some((message, clocks.exchange.poll_timeout()))
    }

    /// Returns how long something was under way that the peer published at `published_ns` on its
    /// clock, and that was whole at `arrived`. `None` before the clocks were compared.
    pub(super) fn hop(&self, published_ns: u64, arrived: Instant) -> Option<Relay> {
        let estimate = self.clocks()?.estimate?;
        let published = estimate.local(published_ns)?;
        Some(Relay {
            delay: arrived.saturating_duration_since(published),
            error: estimate.error(arrived),
        })
    }

    /// Returns when the peer's clock showed `peer_ns` and a whole number of rounds of `round` more, the
    /// last time before `now`, or else the next time. `None` before the clocks were compared.
    ///
    /// The time must be close to `now`: clocks drift apart, and this end may be younger than `peer_ns`.
    pub(super) fn round(&self, peer_ns: u64, round: Duration, now: Instant) -> Option<Instant> {
        let clocks = self.clocks()?;
        let estimate = clocks.estimate?;
        let offset_ns = (estimate.offset_s(now) * 1e9) as i128;
        let peer_now = i128::from(clocks.exchange.stamp(now)) + offset_ns;
        let round = i128::try_from(round.as_nanos()).ok().filter(|it| *it > 0)?;
        let since = (peer_now - i128::from(peer_ns)).rem_euclid(round);
        let local = |ns: i128| estimate.local(u64::try_from(ns).ok()?);
        local(peer_now - since).or_else(|| local(peer_now - since + round))
    }

    /// Passes requests of the peer on to the broadcasts of a collection that it may read. Called once,
    /// when the peer is granted that.
    pub(super) fn pass_requests_on(&self, scope: RequestScope) {
        let _ = self.scope.set(scope);
    }

    /// Handles a request, with the number of a track behind or for whatever is published.
    fn handle_keyframe_request(&self, mut body: &[u8]) {
        self.state.lock().keyframe_requested = true;
        if let (Some(scope), Ok(track)) = (self.scope.get(), body.try_get_u32()) {
            scope.request(track);
        }
    }

    fn handle_echo(&self, mut body: &[u8], now: Instant) {
        if body.len() < 16 {
            return;
        }
        let (track, micros) = (body.get_u32(), body.get_u64());
        let held = Duration::from_micros(body.get_u32().into());
        let mut state = self.state.lock();
        let is_it = |sent: &SentFrame| sent.track == track && sent.micros == micros;
        let Some(place) = state.sent.iter().position(is_it) else {
            return;
        };
        let at = state.sent[place].at;
        state.sent.drain(..=place);
        state.last_echoed = Some(at);
        let trip = now.saturating_duration_since(at).saturating_sub(held);
        state.round_trips.latest = Some(trip);
        state.round_trips.sum += trip;
        state.round_trips.count += 1;
    }

    /// Returns the round trips so far.
    pub(super) fn round_trips(&self, now: Instant) -> RoundTrips {
        let mut state = self.state.lock();
        let old = |it: &SentFrame| now.saturating_duration_since(it.at) > SENT_AGE_MAX;
        while state.sent.front().is_some_and(old) {
            state.sent.pop_front();
        }
        let waiting = state.last_echoed.and_then(|last_echoed| {
            let due = |it: &&SentFrame| it.at.saturating_duration_since(last_echoed) >= PERIOD;
            let next = state.sent.iter().find(due)?;
            Some(now.saturating_duration_since(next.at))
        });
        RoundTrips {
            waiting,
            ..state.round_trips
        }
    }

    /// Returns whether the peer asked for a keyframe since the last call.
    pub(super) fn take_keyframe_request(&self) -> bool {
        std::mem::take(&mut self.state.lock().keyframe_requested)
    }

    /// Returns the peer's last report, and when it came.
    pub(super) fn report(&self) -> Option<(Report, Instant)> {
        self.state.lock().report
    }
}

fn clock_message(message: &[u8]) -> Vec<u8> {
    [&MARK[..], &[CLOCK], message].concat()
}

/// Returns the datagram that asks the peer for a keyframe.
pub(super) fn keyframe_request() -> Vec<u8> {
    [&MARK[..], &[KEYFRAME_REQUEST]].concat()
}

/// Returns the datagram that asks the peer for a keyframe of `track`.
pub(super) fn keyframe_request_of(track: u32) -> Vec<u8> {
    [&keyframe_request()[..], &track.to_be_bytes()].concat()
}

/// Returns the datagram that echoes a frame of `track`. `held`: time from the frame's arrival
/// to this echo.
pub(super) fn echo(track: u32, micros: u64, held: Duration) -> Vec<u8> {
    let mut out = Vec::with_capacity(MARK.len() + 17);
    out.put_slice(&MARK);
    out.put_u8(ECHO);
    out.put_u32(track);
    out.put_u64(micros);
    out.put_u32(u32::try_from(held.as_micros()).unwrap_or(u32::MAX));
    out
}

impl Report {
    /// Returns the report as a datagram.
    pub(super) fn encode(&self) -> Vec<u8> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let fields = [
            micros(self.app_rtt),
            micros(self.transport_rtt),
            self.sent,
            self.delivered,
            self.lost,
            self.backlog,
            self.bitrate.bps(),
            self.deliverable.bps(),
        ];
        let mut out = Vec::with_capacity(MARK.len() + 1 + 8 * fields.len());
        out.put_slice(&MARK);
        out.put_u8(REPORT);
        for field in fields {
            out.put_u64(field);
        }
        out
    }

    fn decode(mut body: &[u8]) -> Option<Self> {
        if body.len() < 64 {
            return None;
        }
        let mut next = || body.get_u64();
        Some(Self {
            app_rtt: Duration::from_micros(next()),
            transport_rtt: Duration::from_micros(next()),
            sent: next(),
            delivered: next(),
            lost: next(),
            backlog: next(),
            bitrate: Bitrate::from_bps(next()),
            deliverable: Bitrate::from_bps(next()),
        })
    }
}

/// Returns the number of a track in datagrams: FNV-1a of the names of broadcast and track.
pub(super) fn track_number(broadcast: &str, track: &str) -> u32 {
    let bytes = broadcast.bytes().chain([0]).chain(track.bytes());
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_the_wait_of_its_frame_and_those_before() {
        let (control, start) = (ControlDatagrams::default(), Instant::now());
        let number = track_number("cam", "video");
        let at = |ms| start + Duration::from_millis(ms);
        for frame in 0..100 {
            control.note_sent(number, frame * 33_333, at(frame * 33));
        }
        assert_eq!(
            control.round_trips(at(3300)).waiting,
            None,
            "nobody answers"
        );
        control.handle_echo(&echo(number, 10 * 33_333, Duration::ZERO)[10..], at(500));
        let trips = control.round_trips(at(500));
        assert_eq!(trips.latest, Some(Duration::from_millis(170)));
        assert_eq!((trips.count, trips.sum), (1, Duration::from_millis(170)));
        // The frame a second later is due, and gets older until its answer comes.
        let waiting = control.round_trips(at(4000)).waiting.expect("one is due");
        assert_eq!(waiting, Duration::from_millis(4000 - 41 * 33));
        // The same again, or one of a frame that never was, says nothing.
        control.handle_echo(&echo(number, 10 * 33_333, Duration::ZERO)[10..], at(600));
        control.handle_echo(&echo(number, 7, Duration::ZERO)[10..], at(600));
        assert_eq!(control.round_trips(at(600)).count, 1);
    }

    #[test]
    fn what_the_receiver_held_is_no_part_of_the_trip() {
        let (control, start) = (ControlDatagrams::default(), Instant::now());
        control.note_sent(7, 1, start);
        let held = Duration::from_millis(300);
        control.handle_echo(&echo(7, 1, held)[10..], start + Duration::from_millis(350));
        let latest = control.round_trips(start).latest;
        assert_eq!(latest, Some(Duration::from_millis(50)));
    }

    #[test]
    fn reports_arrive_whole_and_garbage_is_none_of_ours() {
        let control = ControlDatagrams::default();
        let report = Report {
            app_rtt: Duration::from_millis(480),
            transport_rtt: Duration::from_millis(95),
            sent: 1 << 40,
            delivered: 3,
            lost: 2,
            backlog: 1,
            bitrate: Bitrate::from_bps(3_000_000),
            deliverable: Bitrate::from_bps(2_500_000),
        };
        let datagram = report.encode();
        assert!(control.handle(&datagram).0);
        assert_eq!(control.report().map(|(report, _)| report), Some(report));
        assert!(control.handle(&datagram[..40]).0, "ours, though cut short");
        assert!(control.handle(&MARK).0);
        assert!(!control.handle(&MARK[..8]).0 && !control.handle(b"").0);
        assert_eq!(control.report().map(|(report, _)| report), Some(report));
    }

    #[test]
    fn memory_of_frames_is_bounded() {
        let (control, start) = (ControlDatagrams::default(), Instant::now());
        for micros in 0..2 * SENT_MAX as u64 {
            control.note_sent(1, micros, start);
        }
        assert_eq!(control.state.lock().sent.len(), SENT_MAX);
        control.round_trips(start + 2 * SENT_AGE_MAX);
        assert!(control.state.lock().sent.is_empty());
    }
}
