//! The channels that carry a test's messages, and how they are kept filled.

use std::time::Instant;

use bytes::Bytes;
use glassline_sctp::channel::{ChannelId, Channels, Kind, Message, SendError};

use super::error::EndError;
use crate::data::plan::Plan;

/// The data channels of a test, and the message that they carry.
pub(super) struct Flows {
    flows: Vec<Flow>,
    payload: Bytes,
    /// Number of times that a channel was filled.
    pub(super) refills: u64,
    /// Number of those times at which the channel was empty.
    pub(super) starved: u64,
}

/// A channel that carries messages.
struct Flow {
    channel: ChannelId,
    is_open: bool,
    /// Whether the channel fell to its low-water mark, or was never filled.
    is_low: bool,
}

impl Flows {
    /// Starts without channels; messages will have `message_bytes` bytes.
    pub(super) fn new(message_bytes: usize) -> Self {
        // Content that no link can compress, the same for every message.
        let mut payload = vec![0; message_bytes];
        glassline_sim::Rng::new(1).fill(&mut payload);
        Self {
            flows: Vec::new(),
            payload: payload.into(),
            refills: 0,
            starved: 0,
        }
    }

    pub(super) fn push(&mut self, channel: ChannelId) {
        self.flows.push(Flow {
            channel,
            is_open: false,
            is_low: true,
        });
    }

    pub(super) fn mark_open(&mut self, channel: ChannelId) {
        if let Some(flow) = self.of(channel) {
            flow.is_open = true;
        }
    }

    pub(super) fn mark_low(&mut self, channel: ChannelId) {
        if let Some(flow) = self.of(channel) {
            flow.is_low = true;
        }
    }

    /// Whether there are `count` channels and all of them are open.
    pub(super) fn are_open(&self, count: u16) -> bool {
        self.flows.len() == usize::from(count) && self.flows.iter().all(|flow| flow.is_open)
    }

    fn of(&mut self, channel: ChannelId) -> Option<&mut Flow> {
        self.flows.iter_mut().find(|flow| flow.channel == channel)
    }

    /// Fills each channel that fell to its low-water mark, up to its high-water mark.
    ///
    /// # Errors A channel accepts no more messages.
    pub(super) fn fill(
        &mut self,
        channels: &mut Channels,
        plan: &Plan,
        now: Instant,
    ) -> Result<(), EndError> {
        for flow in &mut self.flows {
            if !flow.is_open || !flow.is_low {
                continue;
            }
            let mut buffered = channels.buffered_amount(flow.channel);
            self.refills += 1;
            self.starved += u64::from(buffered == 0);
            let mut is_blocked = false;
            while buffered < plan.high_water {
                let message = Message {
                    kind: Kind::Binary,
                    data: self.payload.clone(),
                };
                match channels.send(flow.channel, message, now) {
                    Ok(()) => buffered += plan.message_size,
                    Err(SendError::NotOpen | SendError::Association(_)) => {
                        is_blocked = true;
                        break;
                    }
                    Err(error) => return Err(EndError::Ended(error.to_string())),
                }
            }
            channels.set_buffered_low(flow.channel, plan.low_water);
            // A mark that was not passed causes no event.
            flow.is_low = is_blocked || buffered <= plan.low_water;
        }
        Ok(())
    }
}
