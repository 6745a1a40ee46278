//! The server's side of one viewer: a stream of the hub, the session, and what is sent by it. The calls
//! are those that a thread of the server makes for a peer.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_egress::webrtc::{Delivery, Nack, Outbox, Route, SendCounters, Sink, StreamSender};
use glassline_hub::{Limits, Publisher, Stream, StreamName};
use glassline_media::{
    Bitrate, Layer, LayerIndex, MediaTime, MediaUnit, Stamps, Track, TrackIndex, TrackLayer,
    UnitBuilder, VideoParameters,
};
use glassline_net::{Sent, Transmit};
use glassline_webrtc::{ControlPlan, ControlStart, Event, Session};

use super::arm::Arm;
use super::connection::{SERVER, VIEWER};
use super::frame_tag::FrameTag;
use super::gcc::GccSender;
use super::receipts::{Receipt, Receipts};
use super::source::Frame;

/// Largest payload of a packet in bytes.
const PAYLOAD: usize = 1_150;
/// Resolution of the timers of a server's thread.
const TIMER: Duration = Duration::from_millis(1);
/// The only track.
const VIDEO: TrackIndex = TrackIndex(0);

/// Takes datagrams in place of a socket.
#[derive(Debug, Default)]
struct Collected(RefCell<Vec<Vec<u8>>>);

impl Sink for Collected {
    fn send_batch(&self, transmits: &[Transmit<'_>]) -> Sent {
        let mut datagrams = self.0.borrow_mut();
        for transmit in transmits {
            let size = match transmit.segment_size {
                0 => transmit.contents.len().max(1),
                size => size,
            };
            datagrams.extend(transmit.contents.chunks(size).map(<[u8]>::to_vec));
        }
        Sent {
            transmits: transmits.len(),
            offset: 0,
            bytes: transmits.iter().map(|it| it.contents.len()).sum(),
            stopped: None,
        }
    }
}

/// Sender that chooses, paces and repeats.
#[derive(Debug)]
enum Sender {
    Ours(Box<StreamSender>),
    Gcc(Box<GccSender>),
}

/// A stream, and the peer that watches it.
#[derive(Debug)]
pub(super) struct ServerEnd {
    stream: Arc<Stream>,
    publisher: Publisher,
    session: Session,
    sender: Sender,
    outbox: Outbox<Collected>,
    counters: Arc<SendCounters>,
    start: Instant,
    /// Number of encodings that the publisher has.
    encodings: usize,
    /// Number of the next frame.
    number: u32,
    /// Number of keyframes that the publisher was asked for.
    pub(super) keyframes_asked: u64,
    /// Times from capture to sending, of frames that were sent.
    pub(super) waits: Vec<Duration>,
    /// Time of the latest flush, before which no timer is set again.
    flushed: Instant,
}

/// Returns the track of a publisher of encodings with these bitrates.
pub(super) fn track(layers: &[Bitrate]) -> Track {
    let track = Track::h264(VideoParameters::default());
    if layers.len() < 2 {
        return track;
    }
    let encodings = layers.iter().enumerate().map(|(place, rate)| Layer {
        rid: format!("r{place}"),
        bitrate: Some(*rate),
        ..Layer::default()
    });
    track.with_layers(encodings.collect())
}

impl ServerEnd {
    /// Returns the server's side of a viewer whose `session` is connected, and which joins at `now`.
    ///
    /// # Panics
    /// If the hub refuses the only stream.
    pub(super) fn new(
        arm: Arm,
        mut session: Session,
        layers: &[Bitrate],
        start: Instant,
        now: Instant,
    ) -> Self {
        let track = track(layers);
        let name = StreamName::parse("camera").expect("a good name");
        let stream = Stream::unlisted(name, Limits::default());
        let encodings = track.layers.len();
        let publisher = stream
            .publish(vec![track], now)
            .expect("no other publisher");
        let sender = match arm {
            Arm::Gcc => {
                // Packets get transport-wide numbers; the session's own control is not asked.
                session.enable_congestion_control(Algorithm::Glide, now);
                Sender::Gcc(Box::new(GccSender::new(layers, start, now)))
            }
            Arm::Ours | Arm::Plain | Arm::Oracle => {
                if arm == Arm::Ours {
                    let plan = ControlPlan {
                        algorithm: Algorithm::Glide,
                        start: ControlStart::WhenCongested,
                    };
                    session.plan_congestion_control(plan, now);
                }
                let sender = StreamSender::new(&session, &stream, &[], Delivery::default(), now);
                Sender::Ours(Box::new(sender))
            }
        };
        let counters = Arc::new(SendCounters::default());
        let mut end = Self {
            stream,
            publisher,
            session,
            sender,
            outbox: Outbox::new(Collected::default(), Arc::clone(&counters)),
            counters,
            start,
            encodings,
            number: 0,
            keyframes_asked: 0,
            waits: Vec::new(),
            flushed: now,
        };
        end.prefer(0, now);
        let (session, stream) = (&mut end.session, &end.stream);
        if let Sender::Ours(sender) = &mut end.sender {
            sender.start(session, stream, now);
        }
        end
    }

    /// States that the encoding at `place` is the best one for the viewer.
    pub(super) fn prefer(&mut self, place: usize, now: Instant) {
        if self.encodings < 2 {
            return;
        }
        let layer = TrackLayer {
            track: VIDEO,
            layer: LayerIndex::of_encoding(place),
        };
        self.publisher.prefer(layer);
        if let Sender::Ours(sender) = &mut self.sender {
            sender.choose(&self.session, &self.stream, now);
        }
    }

    /// Publishes the frames of one time.
    pub(super) fn publish(&mut self, frames: &[Frame], now: Instant) {
        for frame in frames {
            let mut unit = self.unit(*frame, now);
            if self.encodings >= 2 {
                unit.layer = LayerIndex::of_encoding(usize::from(frame.layer));
                if frame.layer == 0 {
                    // The base layer follows the best encoding, as for a publisher by WHIP.
                    let mut base = unit.clone();
                    base.layer = LayerIndex::BASE;
                    self.offer(base, now);
                }
            }
            self.offer(unit, now);
        }
        self.number += 1;
    }

    fn offer(&mut self, unit: MediaUnit, now: Instant) {
        if let Ok(Some(unit)) = self.publisher.push(unit, now) {
            match &mut self.sender {
                Sender::Ours(sender) => {
                    sender.offer(&unit, now, &self.stream);
                }
                Sender::Gcc(sender) => sender.offer(&unit, now, &self.stream),
            }
        }
    }

    fn unit(&self, frame: Frame, now: Instant) -> MediaUnit {
        let since = now - self.start;
        let captured_us = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        let packets = frame.bytes.div_ceil(PAYLOAD).max(1);
        let mut builder = UnitBuilder::with_capacity(frame.bytes);
        let mut left = frame.bytes;
        let mut payload = [0xa5; PAYLOAD];
        for packet in 0..packets {
            let tag = FrameTag {
                layer: frame.layer,
                keyframe: frame.keyframe,
                number: self.number,
                packet: u16::try_from(packet).unwrap_or(u16::MAX),
                packets: u16::try_from(packets).unwrap_or(u16::MAX),
                place: frame.place,
                captured_us,
            };
            payload[..FrameTag::BYTES].copy_from_slice(&tag.to_bytes());
            let size = left.clamp(FrameTag::BYTES, PAYLOAD);
            builder.push(&payload[..size]);
            left = left.saturating_sub(size);
        }
        let time = i64::try_from(captured_us).unwrap_or(i64::MAX);
        let time = MediaTime::from_ticks(time, 1_000_000);
        let unit = builder.build(VIDEO, time, frame.keyframe, Stamps::arrived(now));
        unit.expect("at least one packet")
    }

    /// Returns the encodings of which the publisher is asked for a keyframe.
    pub(super) fn wanted_keyframes(&mut self) -> Vec<usize> {
        let wanted = self.publisher.wanted_keyframes();
        if wanted.is_empty() {
            return Vec::new();
        }
        let mut places: Vec<usize> = match self.encodings {
            0 | 1 => vec![0],
            count => (0..count)
                .filter(|place| wanted.has(LayerIndex::of_encoding(*place)))
                .collect(),
        };
        if places.is_empty() {
            places.push(0);
        }
        self.keyframes_asked += places.len() as u64;
        places
    }

    /// Takes a datagram that the viewer sent at `sent`. `receipts`: arrivals that no feedback has named.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
        receipts: &mut Receipts,
        sent: Instant,
    ) {
        // The session counts what it does not take.
        let _ = self.session.handle_datagram(now, VIEWER, SERVER, datagram);
        self.serve(now, |acked| receipts.reported(acked, sent));
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.session.handle_timeout(now);
        self.serve(now, |_| Vec::new());
    }

    /// Handles the events of the session. `reported` says which packets feedback names.
    fn serve(&mut self, now: Instant, mut reported: impl FnMut(u32) -> Vec<Receipt>) {
        while let Some(event) = self.session.poll_event() {
            match &mut self.sender {
                Sender::Ours(sender) => match event {
                    Event::KeyframeRequest { sender: of, .. } => {
                        sender.request_keyframe(of, &self.stream, now);
                    }
                    Event::Nack {
                        sender: of, lost, ..
                    } => {
                        let nack = Nack {
                            sender: of,
                            lost: &lost,
                        };
                        sender.repair(&self.stream, nack, now, &self.counters);
                    }
                    Event::TransportFeedback { .. }
                        if sender.adapt_layers(&mut self.session, &self.stream, now) =>
                    {
                        sender.choose(&self.session, &self.stream, now);
                    }
                    _ => {}
                },
                Sender::Gcc(sender) => match event {
                    Event::KeyframeRequest { .. } => sender.request_keyframe(&self.stream),
                    Event::Nack { lost, .. } => sender.repair(&lost, now),
                    Event::TransportFeedback { acked, lost, .. } => {
                        sender.on_feedback(&reported(acked), acked + lost, now);
                    }
                    Event::ReceiverReport { rtt: Some(rtt), .. } => {
                        sender.on_round_trip(rtt, now);
                    }
                    _ => {}
                },
            }
        }
    }

    /// Returns the datagrams of media that leave at `now`.
    pub(super) fn flush(&mut self, now: Instant) -> Vec<Vec<u8>> {
        self.flushed = now;
        let sender = match &mut self.sender {
            Sender::Ours(sender) => sender,
            Sender::Gcc(sender) => {
                sender.choose(now, &self.stream);
                return sender.flush(&mut self.session, now);
            }
        };
        if sender.is_idle() {
            return Vec::new();
        }
        let route = Route {
            destination: VIEWER.into(),
            source: None,
        };
        let (session, batch) = (&mut self.session, self.outbox.batch(route));
        let waits = &mut self.waits;
        sender.flush(session, batch, now, &self.counters, |frame| {
            waits.push(frame.paced.saturating_duration_since(frame.origin));
        });
        self.outbox.flush();
        self.outbox.socket().0.take()
    }

    /// Returns the next datagram of control.
    pub(super) fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        let mut datagram = Vec::new();
        self.session.poll_transmit(&mut datagram)?;
        Some(datagram)
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) and [`flush`](Self::flush) are due.
    pub(super) fn due(&mut self) -> Option<Instant> {
        let now = self.flushed;
        let paced = match &mut self.sender {
            Sender::Ours(sender) => sender.deadline(&mut self.session, now),
            Sender::Gcc(sender) => sender.due(now),
        };
        let due = [self.session.poll_timeout(), paced].into_iter().flatten();
        Some(self.timer(due.min()?))
    }

    /// Returns when a timer for `at` expires, which is later than the last turn.
    fn timer(&self, at: Instant) -> Instant {
        let at = at.max(self.flushed + Duration::from_nanos(1));
        let since = at.saturating_duration_since(self.start).as_nanos();
        let ticks = since.div_ceil(TIMER.as_nanos());
        self.start + TIMER * u32::try_from(ticks).unwrap_or(u32::MAX)
    }

    /// Returns the server's estimate of the path.
    pub(super) fn estimate(&self) -> Option<Bitrate> {
        match &self.sender {
            Sender::Ours(sender) => match sender.layer_report() {
                Some(report) => report.estimate,
                None => self.session.path_report()?.deliverable,
            },
            Sender::Gcc(sender) => Some(sender.estimate()),
        }
    }
}
