//! The queues of messages for the channels of one session.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_runtime::{Counter, SessionId};
use glassline_sctp as sctp;
use sctp::channel::{ChannelId, Channels, Init, SendError};
use sctp::{Reliability, SendError as AssociationError};

use super::super::sender::{Sender, Shares};
use super::super::{Bounds, DataCounters, DataStats, MessageCounts, Posted, PostedContent};

/// Most unsent bytes of a channel in the association: enough for some batches of datagrams. Other
/// messages stay in the queue, where they can still be dropped.
const HANDED_OVER_BYTES: usize = 64 << 10;

/// The channels of one session with their queues, which share one limit.
#[derive(Debug)]
pub(super) struct ChannelQueues {
    pub(super) session: SessionId,
    pub(super) bounds: Bounds,
    all: Vec<ChannelQueue>,
    queued_bytes: usize,
    /// Parts of that by sender, where the peer is a publisher.
    shares: Shares,
    /// Labels of channels that the viewer closed and does not want to be opened again.
    declined: Vec<String>,
    pub(super) counts: MessageCounts,
}

/// A channel, and the messages that wait to be sent on it.
#[derive(Debug)]
pub(super) struct ChannelQueue {
    pub(super) channel: ChannelId,
    pub(super) init: Arc<Init>,
    /// Whether the server opened the channel.
    pub(super) is_ours: bool,
    /// Whether the server is closing the channel because its queue was full.
    pub(super) is_closing: bool,
    pub(super) queue: VecDeque<Arc<Posted>>,
}

impl ChannelQueues {
    /// Creates the state without channels.
    pub(super) fn new(session: SessionId, bounds: Bounds) -> Self {
        Self {
            session,
            bounds,
            all: Vec::new(),
            queued_bytes: 0,
            shares: Shares::default(),
            declined: Vec::new(),
            counts: MessageCounts::default(),
        }
    }

    /// Returns the channels' statistics.
    pub(super) fn stats(&self) -> DataStats {
        DataStats {
            channels: self.all.len(),
            queued_bytes: self.queued_bytes,
            counts: self.counts,
        }
    }

    /// Returns the queue of `channel`.
    pub(super) fn of(&self, channel: ChannelId) -> Option<&ChannelQueue> {
        self.all.iter().find(|it| it.channel == channel)
    }

    /// Removes `channel`, which is closed, with its queue.
    pub(super) fn remove(&mut self, channel: ChannelId) -> Option<ChannelQueue> {
        let index = self.all.iter().position(|it| it.channel == channel)?;
        let queue = self.all.remove(index);
        queue.queue.iter().for_each(|it| self.forget(it));
        Some(queue)
    }

    /// Removes all channels with the messages that wait in them.
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.queued_bytes = 0;
        self.shares.clear();
    }

    /// Opens no channel with this label from now on, until the peer opens one.
    pub(super) fn decline(&mut self, label: &str) {
        if self.declined.len() < self.bounds.channels {
            self.declined.push(label.to_owned());
        }
    }

    /// Adds a channel that the peer opened, unless it has as many as it may have.
    pub(super) fn on_opened(&mut self, channel: ChannelId, channels: &mut Channels, now: Instant) {
        let Some(info) = channels.info(channel) else {
            return;
        };
        let init = Arc::new(info.init.clone());
        let theirs = self.all.iter().filter(|it| !it.is_ours).count();
        if theirs >= self.bounds.channels {
            channels.close(channel, now);
            return;
        }
        self.declined.retain(|label| *label != init.label);
        // The peer's channel replaces the server's channel of the same label: queued messages move
        // to it, and the server's channel is closed.
        let mut queue = VecDeque::new();
        let alike =
            |it: &&mut ChannelQueue| it.is_ours && !it.is_closing && it.init.label == init.label;
        for ours in self.all.iter_mut().filter(alike) {
            queue.append(&mut ours.queue);
            ours.is_closing = true;
            channels.close(ours.channel, now);
        }
        self.all.push(ChannelQueue {
            channel,
            init,
            is_ours: false,
            is_closing: false,
            queue,
        });
    }

    /// Closes the server's channel with the parameters of `init`, behind the messages that wait for
    /// it.
    pub(super) fn close_like(
        &mut self,
        init: &Init,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) {
        let closed = |it: &&mut ChannelQueue| it.is_ours && !it.is_closing && *it.init == *init;
        if let Some(closing) = self.all.iter_mut().find(closed) {
            closing.is_closing = true;
            // Queued messages are still sent, as they are whenever a channel is closed.
            let queue = std::mem::take(&mut closing.queue);
            let channel = closing.channel;
            for posted in &queue {
                self.forget(posted);
                if self.send(channel, posted, channels, now, counters).is_err() {
                    self.drop_one(&counters.messages_dropped_slow);
                }
            }
            channels.close(channel, now);
        }
    }

    /// Returns the index of the channel for messages from a channel with the parameters `init`.
    pub(super) fn channel_for(
        &mut self,
        init: &Arc<Init>,
        channels: &mut Channels,
        now: Instant,
        may_open: bool,
    ) -> Result<usize, SendRefusal> {
        let fits = |it: &ChannelQueue| match it.is_ours {
            true => *it.init == **init,
            false => it.init.label == init.label,
        };
        let candidates = self.all.iter().enumerate().filter(|(_, it)| fits(it));
        // An open channel is preferred to a closing one, and the peer's channel to the server's.
        let best = candidates.min_by_key(|(_, it)| (it.is_closing, it.is_ours));
        match best {
            Some((_, queue)) if queue.is_closing => return Err(SendRefusal::Closing),
            Some((index, _)) => return Ok(index),
            None => {}
        }
        let ours = self.all.iter().filter(|it| it.is_ours).count();
        if !may_open || ours >= self.bounds.channels || self.declined.contains(&init.label) {
            return Err(SendRefusal::NoChannel);
        }
        let wanted = Init {
            negotiated: None,
            ..Init::clone(init)
        };
        let opened = channels.open(wanted, now);
        let channel = opened.map_err(|_| SendRefusal::NoChannel)?;
        self.all.push(ChannelQueue {
            channel,
            init: Arc::clone(init),
            is_ours: true,
            is_closing: false,
            queue: VecDeque::new(),
        });
        Ok(self.all.len() - 1)
    }

    /// Appends a message to a channel's queue, and keeps the limit on all queues.
    pub(super) fn push(
        &mut self,
        index: usize,
        posted: &Arc<Posted>,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) {
        let bytes = posted.content.bytes();
        let bound = self.bounds.queue_bytes;
        if let Some(sender) = &posted.sender
            && !self.make_room(sender, bytes, counters)
        {
            posted.note_cut();
            return self.drop_one(&counters.messages_dropped_slow);
        }
        while self.queued_bytes + bytes > bound && !self.all[index].queue.is_empty() {
            if self.all[index].is_reliable() {
                return self.give_up(index, channels, now, counters);
            }
            self.drop_oldest(index, &counters.messages_dropped_slow);
        }
        if self.queued_bytes + bytes > bound && self.queued_bytes > 0 {
            // Other channels have used up the limit.
            if self.all[index].is_reliable() {
                return self.give_up(index, channels, now, counters);
            }
            return self.drop_one(&counters.messages_dropped_slow);
        }
        self.queued_bytes += bytes;
        self.shares.add(posted);
        self.all[index].queue.push_back(Arc::clone(posted));
    }

    /// Makes room for a message of one of several senders: whoever has most waiting loses its newest messages.
    /// Returns whether there is room.
    fn make_room(&mut self, sender: &Arc<Sender>, bytes: usize, counters: &DataCounters) -> bool {
        while self.queued_bytes > 0 && self.queued_bytes + bytes > self.bounds.queue_bytes {
            let Some(greatest) = self.shares.greatest_beside(sender, bytes) else {
                return false;
            };
            let is_its = |posted: &Arc<Posted>| {
                let sender = posted.sender.as_ref();
                sender.is_some_and(|it| Arc::ptr_eq(it, &greatest))
            };
            let newest = self.all.iter_mut().find_map(|it| {
                let place = it.queue.iter().rposition(is_its)?;
                it.queue.remove(place)
            });
            let Some(newest) = newest else {
                return false;
            };
            self.lose(&newest, &counters.messages_dropped_slow);
        }
        true
    }

    /// Closes a reliable channel of a sender whose message was dropped.
    pub(super) fn close_cut(
        &mut self,
        init: &Init,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) {
        let cut = |it: &ChannelQueue| !it.is_closing && it.is_reliable() && *it.init == *init;
        if let Some(index) = self.all.iter().position(cut) {
            self.give_up(index, channels, now, counters);
        }
    }

    /// Hands the association the messages that it has room for, the channels in turn. Returns
    /// whether there were any.
    pub(super) fn pump(
        &mut self,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) -> bool {
        let mut moved = false;
        for index in 0..self.all.len() {
            self.expire(index, channels, now, counters);
            let channel = self.all[index].channel;
            while channels.buffered_amount(channel) < HANDED_OVER_BYTES
                && let Some(posted) = self.all[index].queue.front().cloned()
            {
                match self.send(channel, &posted, channels, now, counters) {
                    Ok(()) => moved = true,
                    Err(SendError::TooLarge { .. }) => {
                        self.drop_one(&counters.messages_dropped_too_large);
                    }
                    // There will be room later, or the channel's end is about to be reported.
                    Err(_) => break,
                }
                self.all[index].queue.pop_front();
                self.forget(&posted);
            }
        }
        moved
    }

    /// Drops messages that waited too long. Closes the channel if it is reliable.
    fn expire(
        &mut self,
        index: usize,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) {
        let age = self.all[index].age_max(&self.bounds);
        let late = |posted: &Arc<Posted>| now.saturating_duration_since(posted.at) > age;
        while let Some(oldest) = self.all[index].queue.front().filter(|it| late(it)) {
            // Of several senders, one must not cost the others the channel.
            if self.all[index].is_reliable() && oldest.sender.is_none() {
                return self.give_up(index, channels, now, counters);
            }
            self.drop_oldest(index, &counters.messages_dropped_expired);
        }
    }

    /// Returns when a queued message will have waited too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let due = |queue: &ChannelQueue| {
            let oldest = queue.queue.front()?;
            oldest.at.checked_add(queue.age_max(&self.bounds))
        };
        // The deadline is a little later, because at that very moment nothing is too old yet.
        let due = self.all.iter().filter_map(due).min();
        due.map(|at| at + Duration::from_millis(1))
    }

    /// Closes all reliable channels, because a message was missed before it came here.
    pub(super) fn break_promises(
        &mut self,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) {
        for index in 0..self.all.len() {
            let queue = &self.all[index];
            if queue.is_reliable() && !queue.is_closing {
                self.give_up(index, channels, now, counters);
            }
        }
    }

    /// Closes a reliable channel whose peer receives too slowly.
    fn give_up(
        &mut self,
        index: usize,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) {
        let queue = &mut self.all[index];
        let waiting = std::mem::take(&mut queue.queue);
        queue.is_closing = true;
        channels.close(queue.channel, now);
        waiting.iter().for_each(|it| self.forget(it));
        let (queue, dropped) = (&self.all[index], waiting.len() as u64);
        self.counts.dropped += dropped;
        counters.messages_dropped_slow.add(dropped);
        counters.channels_closed_slow.add(1);
        tracing::info!(
            session = %self.session,
            label = queue.init.label,
            dropped,
            "reliable data channel closed: messages come faster than they are received"
        );
    }

    fn send(
        &mut self,
        channel: ChannelId,
        posted: &Posted,
        channels: &mut Channels,
        now: Instant,
        counters: &DataCounters,
    ) -> Result<(), SendError> {
        let PostedContent::Message { message, .. } = &posted.content else {
            return Ok(());
        };
        let sent = channels.send(channel, message.clone(), now);
        if let Err(SendError::Association(AssociationError::BufferFull { .. })) = sent {
            return sent;
        }
        if sent.is_ok() {
            self.counts.messages_sent += 1;
            self.counts.bytes_sent += message.data.len() as u64;
            counters.messages_sent.add(1);
            counters.message_bytes_sent.add(message.data.len() as u64);
        }
        sent
    }

    fn drop_oldest(&mut self, index: usize, counter: &Counter) {
        if let Some(oldest) = self.all[index].queue.pop_front() {
            self.lose(&oldest, counter);
        }
    }

    /// Drops a message that was taken out of its queue.
    fn lose(&mut self, posted: &Posted, counter: &Counter) {
        self.forget(posted);
        posted.note_cut();
        self.drop_one(counter);
    }

    /// Counts a message that waits no longer.
    fn forget(&mut self, posted: &Posted) {
        self.queued_bytes -= posted.content.bytes();
        self.shares.remove(posted);
    }

    pub(super) fn drop_one(&mut self, counter: &Counter) {
        self.counts.dropped += 1;
        counter.add(1);
    }
}

/// The reason why a message is not queued.
#[derive(Clone, Copy, Debug)]
pub(super) enum SendRefusal {
    /// The channel for the message is being closed; another may be opened afterwards.
    Closing,
    /// There is no channel for the message, and none is to be opened.
    NoChannel,
}

impl ChannelQueue {
    fn is_reliable(&self) -> bool {
        self.init.reliability == Reliability::Reliable
    }

    /// Returns how long a message may wait on this channel.
    fn age_max(&self, bounds: &Bounds) -> Duration {
        match self.init.reliability {
            Reliability::Timed { lifetime } => lifetime.min(bounds.queue_age),
            _ => bounds.queue_age,
        }
    }
}
