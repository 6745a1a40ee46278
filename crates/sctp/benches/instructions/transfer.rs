//! Two ends in memory and in virtual time, one of which sends messages to the other.

use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_sctp::channel::{ChannelId, Channels, Event, Init, Limits, Message, Role};
use glassline_sctp::{Association, Config, Secrets};

/// Time between two exchanges: half of a round trip.
const STEP: Duration = Duration::from_micros(200);
/// Most bytes that wait in the sender, which therefore always has something to send.
const HIGH_WATER: usize = 64 << 10;
/// Most exchanges of a run, each of which delivers hundreds of messages.
const STEPS_MAX: usize = 100_000;

/// A sender, a receiver and what they exchange.
pub(crate) struct Transfer {
    sender: Channels,
    receiver: Channels,
    channels: Vec<ChannelId>,
    message: Bytes,
    now: Instant,
    packet: Vec<u8>,
    received: usize,
}

impl Transfer {
    /// Connects two ends and opens `channels` channels for messages of `message_bytes` bytes.
    pub(crate) fn new(message_bytes: usize, channels: usize) -> Result<Self, String> {
        let now = Instant::now();
        let config = Config::default();
        let packet = vec![0; config.mtu];
        let end = |role, seed| {
            let secrets = Secrets::from_random([seed; 40]);
            let association = Association::new(config.clone(), secrets, now);
            let mut end = Channels::new(association, role, Limits::default());
            end.set_peer_max_message_size(Some(message_bytes as u64));
            end
        };
        let mut transfer = Self {
            sender: end(Role::DtlsClient, 1),
            receiver: end(Role::DtlsServer, 2),
            channels: Vec::new(),
            message: Bytes::from(vec![0x5a; message_bytes]),
            now,
            packet,
            received: 0,
        };
        transfer.sender.connect(now);
        for _ in 0..channels {
            let opened = transfer.sender.open(Init::default(), now);
            let channel = opened.map_err(|error| error.to_string())?;
            transfer.channels.push(channel);
        }
        for _ in 0..20 {
            transfer.exchange();
        }
        Ok(transfer)
    }

    /// Sends `count` messages and waits until all have arrived; returns their number.
    pub(crate) fn run(&mut self, count: usize) -> u64 {
        let (mut sent, end) = (0, self.received + count);
        let share = HIGH_WATER / self.channels.len();
        for _ in 0..STEPS_MAX {
            for channel in &self.channels {
                while sent < count && self.sender.buffered_amount(*channel) < share {
                    // Each message of an application has memory of its own.
                    let message = Message::binary(self.message.to_vec());
                    let queued = self.sender.send(*channel, message, self.now);
                    queued.expect("an open channel with room");
                    sent += 1;
                }
            }
            self.exchange();
            if self.received == end {
                return count as u64;
            }
        }
        panic!(
            "{} of {count} messages arrived",
            self.received + count - end
        );
    }

    /// Lets time pass, and carries what each end has to say to the other.
    fn exchange(&mut self) {
        self.now += STEP;
        let now = self.now;
        self.received += carry(&mut self.sender, &mut self.receiver, &mut self.packet, now);
        self.now += STEP;
        let now = self.now;
        carry(&mut self.receiver, &mut self.sender, &mut self.packet, now);
    }
}

/// Carries all packets that may leave at `now`; returns the number of messages that came out.
fn carry(from: &mut Channels, to: &mut Channels, packet: &mut [u8], now: Instant) -> usize {
    if from.poll_timeout().is_some_and(|at| at <= now) {
        from.handle_timeout(now);
    }
    while let Some(len) = from.poll_transmit(now, packet) {
        to.handle_packet(&packet[..len], now)
            .expect("a good packet");
    }
    to.end_batch(now);
    let mut messages = 0;
    while let Some(event) = to.poll_event(now) {
        messages += usize::from(matches!(event, Event::Message { .. }));
    }
    // What the events made due, such as the answer to an OPEN, leaves with the next exchange.
    while from.poll_event(now).is_some() {}
    messages
}
