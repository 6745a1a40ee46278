use std::time::Instant;

use bytes::Bytes;
use glassline_sctp::{Association, Config, Direction, Event, Secrets, SendError, SendOptions};

use super::{Figures, Happened, PPID, Peer, Setup};

/// One end of an association in our implementation, `glassline_sctp`.
pub(crate) struct Ours {
    association: Association,
    mtu_max: usize,
}

impl Ours {
    pub(crate) fn new(setup: Setup, seed: u8, now: Instant) -> Self {
        let config = Config {
            mtu: setup.mtu,
            mtu_max: setup.mtu,
            receive_window_max: setup.window as u32,
            receive_window_min: setup.window.min(1 << 20) as u32,
            send_buffer_max: setup.send_buffer,
            zero_checksum: setup.zero_checksum,
            interleaving: setup.interleaving,
            ..Config::default()
        };
        Self::with_config(config, seed, now)
    }

    pub(crate) fn with_config(config: Config, seed: u8, now: Instant) -> Self {
        let mtu_max = config.mtu.max(config.mtu_max);
        let secrets = Secrets::from_random([seed; 40]);
        Self {
            association: Association::new(config, secrets, now),
            mtu_max,
        }
    }
}

impl Peer for Ours {
    fn connect(&mut self, now: Instant) {
        self.association.connect(now);
    }

    fn handle(&mut self, packet: &[u8], now: Instant) {
        // Dropped packets are counted; the tests check what arrives.
        let _ = self.association.handle_packet(packet, now);
    }

    fn end_batch(&mut self, now: Instant) {
        self.association.end_batch(now);
    }

    fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        out.resize(self.mtu_max, 0);
        match self.association.poll_transmit(now, out) {
            Some(len) => {
                out.truncate(len);
                true
            }
            None => false,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.association.poll_timeout()
    }

    fn on_deadline(&mut self, now: Instant) {
        self.association.handle_timeout(now);
    }

    fn poll(&mut self, _now: Instant) -> Option<Happened> {
        loop {
            return Some(match self.association.poll_event()? {
                Event::Connected { .. } => Happened::Connected,
                Event::Message { stream, data, .. } => Happened::Message { stream, data },
                Event::StreamsReset { direction, streams } => match direction {
                    Direction::Incoming => Happened::PeerReset(streams),
                    Direction::Outgoing => Happened::Reset(streams),
                },
                Event::Closed(reason) => Happened::Closed(reason.to_string()),
                _ => continue,
            });
        }
    }

    fn send(&mut self, stream: u16, data: &Bytes, options: SendOptions, now: Instant) -> bool {
        let sent = self
            .association
            .send(stream, PPID, data.clone(), options, now);
        match sent {
            Ok(()) => true,
            Err(SendError::BufferFull { .. }) => false,
            Err(error) => panic!("not sent on stream {stream}: {error}"),
        }
    }

    fn buffered(&mut self, stream: u16) -> usize {
        self.association.buffered(stream)
    }

    fn reset(&mut self, stream: u16, now: Instant) {
        self.association
            .reset_streams(&[stream], now)
            .expect("the peer can reset streams");
    }

    fn shutdown(&mut self, now: Instant) {
        self.association.close(now);
    }

    fn figures(&self) -> Figures {
        let report = self.association.report();
        Figures {
            resent: report.retransmitted / self.mtu_max as u64,
            interleaving: report.interleaving,
            zero_checksum: report.zero_checksum,
        }
    }
}
