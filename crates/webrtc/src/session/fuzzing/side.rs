use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use glassline_rtp as rtp;
use glassline_sctp::channel::{ChannelId, Event as ChannelEvent};

use crate::session::{Event, NACK_LOST_MAX, Received, SenderIndex, Session};

/// Most datagrams that an end may send in answer to one input before it waits for time to pass.
const ANSWERS_MAX: usize = 8192;
/// One end, with what it is expected to have done.
pub(super) struct Side {
    pub(super) session: Session,
    pub(super) address: SocketAddr,
    /// Datagrams on their way to this end.
    pub(super) queue: VecDeque<Vec<u8>>,
    /// Packets with a transport-wide number that this end sent.
    pub(super) numbered: u64,
    /// Packets that the peer's feedback acknowledged.
    pub(super) acked: u64,
    pub(super) channel: Option<ChannelId>,
}

impl Side {
    pub(super) fn send_to(&mut self, peer: &mut Self, now: Instant) {
        self.take_events(now);
        let mut out = Vec::new();
        for _ in 0..ANSWERS_MAX {
            let Some((_, segment)) = self.session.poll_transmit_batch(now, &mut out) else {
                return;
            };
            peer.queue.extend(out.chunks(segment).map(<[u8]>::to_vec));
        }
        panic!("more than {ANSWERS_MAX} datagrams in answer to one input");
    }

    pub(super) fn receive(&mut self, from: SocketAddr, now: Instant) {
        while let Some(mut datagram) = self.queue.pop_front() {
            let length = datagram.len();
            let received = self
                .session
                .handle_datagram(now, from, self.address, &mut datagram);
            if let Ok(Received::Rtp { packet, .. }) = received {
                assert!(packet.payload.len() + rtp::HEADER_BYTES <= length);
            }
            self.take_events(now);
        }
        self.session.end_batch(now);
    }

    fn take_events(&mut self, now: Instant) {
        let max = glassline_sctp::Config::default().max_message_size;
        if let Some(channels) = self.session.channels_mut() {
            while let Some(event) = channels.poll_event(now) {
                if let ChannelEvent::Message { message, .. } = event {
                    assert!(message.data.len() <= max, "{} bytes", message.data.len());
                }
            }
        }
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Nack { sender, lost, .. } => self.answer_nack(sender, &lost, now),
                Event::TransportFeedback { acked, .. } => self.acked += u64::from(acked),
                Event::ReceiverReport { rtt, .. } => {
                    assert!(rtt.is_none_or(|it| it < Duration::from_secs(65_536)));
                }
                _ => {}
            }
        }
    }

    /// Retransmits what the peer asks for, as far as it was sent.
    fn answer_nack(&mut self, sender: SenderIndex, lost: &[u64], now: Instant) {
        assert!(!lost.is_empty() && lost.len() <= NACK_LOST_MAX);
        let next = self.session.senders()[sender.0].next_sequence();
        for sequence in lost {
            assert!(Some(*sequence) < next, "{sequence} was never sent");
            let mut out = [0; 300];
            let again = self
                .session
                .seal_retransmission(sender, *sequence, 0, false, &[0; 100], now, &mut out);
            self.numbered += u64::from(again.is_some());
        }
    }
}
