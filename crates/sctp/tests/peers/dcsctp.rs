use std::time::{Duration, Instant};

use ::dcsctp::api::{
    DcSctpSocket, Message, Options, PpId, SendOptions as DcsctpOptions, SocketEvent, SocketTime,
    StreamId, ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_LOWER_LAYER_DTLS as DTLS,
};
use bytes::Bytes;
use glassline_sctp::{Reliability, SendOptions};

use super::{Figures, Happened, PPID, Peer, Setup};

/// Chromium's SCTP, ported to Rust.
pub(crate) struct Dcsctp {
    socket: Box<dyn DcSctpSocket>,
    start: Instant,
    happened: std::collections::VecDeque<Happened>,
    packets: std::collections::VecDeque<Vec<u8>>,
}

impl Dcsctp {
    pub(crate) fn new(setup: Setup, seed: u8, now: Instant) -> Self {
        fastrand::seed(seed.into());
        let mut options = Options {
            mtu: setup.mtu,
            max_receiver_window_buffer_size: setup.window,
            // dcsctp refuses what would exceed the limit only after it was exceeded.
            max_send_buffer_size: setup.send_buffer,
            per_stream_send_queue_limit: setup.send_buffer,
            enable_message_interleaving: setup.interleaving,
            ..Options::default()
        };
        if setup.zero_checksum {
            options.zero_checksum_alternate_error_detection_method = DTLS;
        }
        Self {
            socket: ::dcsctp::new_socket("dcsctp", &options),
            start: now,
            happened: Default::default(),
            packets: Default::default(),
        }
    }

    /// Most calls use the time of the last `advance_time`, so each comes after one.
    fn at(&mut self, now: Instant) -> &mut dyn DcSctpSocket {
        self.socket.advance_time(time(now - self.start));
        &mut *self.socket
    }

    fn drain(&mut self) {
        while let Some(event) = self.socket.poll_event() {
            let ids = |streams: Vec<StreamId>| streams.into_iter().map(|id| id.0).collect();
            self.happened.push_back(match event {
                SocketEvent::SendPacket(packet) => {
                    self.packets.push_back(packet);
                    continue;
                }
                SocketEvent::OnConnected() => Happened::Connected,
                SocketEvent::OnClosed() => Happened::Closed("shut down".into()),
                SocketEvent::OnAborted(kind, text) => Happened::Closed(format!("{kind:?} {text}")),
                SocketEvent::OnIncomingStreamReset(streams) => Happened::PeerReset(ids(streams)),
                SocketEvent::OnStreamsResetPerformed(streams) => Happened::Reset(ids(streams)),
                _ => continue,
            });
        }
    }
}

fn time(since_start: Duration) -> SocketTime {
    SocketTime::zero() + since_start
}

impl Peer for Dcsctp {
    fn connect(&mut self, now: Instant) {
        self.at(now).connect();
    }

    fn handle(&mut self, packet: &[u8], now: Instant) {
        self.at(now).handle_input(packet);
    }

    fn end_batch(&mut self, _now: Instant) {}

    fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if self.packets.is_empty() {
            self.at(now);
            self.drain();
        }
        match self.packets.pop_front() {
            Some(packet) => {
                *out = packet;
                true
            }
            None => false,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let at = self.socket.poll_timeout();
        (at != SocketTime::infinite_future()).then(|| self.start + (at - SocketTime::zero()))
    }

    fn on_deadline(&mut self, now: Instant) {
        self.at(now);
    }

    fn poll(&mut self, _now: Instant) -> Option<Happened> {
        self.drain();
        // Events of streams come after the messages that came before them.
        if let Some(message) = self.socket.get_next_message() {
            return Some(Happened::Message {
                stream: message.stream_id.0,
                data: message.payload.into(),
            });
        }
        self.happened.pop_front()
    }

    fn send(&mut self, stream: u16, data: &Bytes, options: SendOptions, now: Instant) -> bool {
        let message = Message::new(StreamId(stream), PpId(PPID), data.to_vec());
        let mut theirs = DcsctpOptions {
            unordered: options.unordered,
            ..DcsctpOptions::default()
        };
        match options.reliability {
            Reliability::Limited { retransmissions } => {
                theirs.max_retransmissions = Some(retransmissions as u16);
            }
            Reliability::Timed { lifetime } => theirs.lifetime = Some(lifetime),
            _ => {}
        }
        self.at(now).send(message, &theirs).is_ok()
    }

    fn buffered(&mut self, stream: u16) -> usize {
        self.socket.buffered_amount(StreamId(stream))
    }

    fn reset(&mut self, stream: u16, now: Instant) {
        let reset = self.at(now).reset_streams(&[StreamId(stream)]);
        reset.expect("the peer can reset streams");
    }

    fn shutdown(&mut self, now: Instant) {
        self.at(now).shutdown();
    }

    fn figures(&self) -> Figures {
        let metrics = self.socket.get_metrics();
        metrics.map_or_else(Figures::default, |metrics| Figures {
            resent: metrics.rtx_packets_count as u64,
            interleaving: metrics.uses_message_interleaving,
            zero_checksum: metrics.uses_zero_checksum,
        })
    }
}
