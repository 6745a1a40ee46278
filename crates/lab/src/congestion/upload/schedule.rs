//! Decides which bytes are passed to the transport next, and which are dropped.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use noq_proto::{Connection, Dir, StreamId, VarInt, WriteError};

use super::camera::Media;
use super::message::{HEADER_BYTES, Message, zeros};
use super::wire::Wire;
use crate::congestion::session::{Delivery, Groups};

/// Error code that resets the stream of a late group.
const LATE: VarInt = VarInt::from_u32(1);

/// Number of congestion windows that the transport is given at a time: one in flight, and one to
/// follow it at once. Bytes that the transport does not have can still be overtaken or dropped.
const WINDOWS: u64 = 2;
const GIVEN_MIN: u64 = 32 << 10;
const GIVEN_MAX: u64 = 2 << 20;

/// Audio may be this fraction of the bytes that may wait: 1 / 8.
const AUDIO_SHARE: u64 = 8;

/// Media that waits for the transport.
#[derive(Debug)]
pub(super) struct Schedule {
    delivery: Delivery,
    wire: Wire,
    /// Queues of the groups, the newest last; a single one where all media is in order.
    groups: VecDeque<StreamQueue>,
    /// Queue of audio, where it has streams of its own.
    audio: Option<StreamQueue>,
    /// Whether frames are dropped until the next group, since the last one was dropped while it
    /// was made.
    waiting: bool,
    counts: Counts,
}

/// Counts of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Bytes that came from the encoder.
    pub(super) made: u64,
    /// Bytes that were passed to the transport.
    pub(super) written: u64,
    /// Number of groups that were reset because they were late or too large.
    pub(super) dropped_groups: u64,
    /// Bytes that were not acknowledged when their group was reset, and bytes of frames whose
    /// group was gone.
    pub(super) dropped_bytes: u64,
    /// Largest number of bytes that waited here or were not acknowledged.
    pub(super) backlog_max: u64,
}

/// Messages that wait for one stream.
#[derive(Debug)]
struct StreamQueue {
    /// The stream; `None` until the transport allows to open it.
    stream: Option<StreamId>,
    messages: VecDeque<Waiting>,
    /// Bytes of the waiting messages.
    queued: u64,
    written: u64,
    /// Time of the group's last frame.
    newest: Instant,
    /// Whether no more messages will follow.
    complete: bool,
    finished: bool,
    /// Numbers of the pings in the queue.
    pings: Vec<u64>,
}

/// The rest of a message.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    header: [u8; HEADER_BYTES as usize],
    /// Bytes of the header that are written.
    written: u32,
    zeros: u32,
}

impl Schedule {
    pub(super) fn new(delivery: Delivery, wire: Wire) -> Self {
        Self {
            delivery,
            wire,
            groups: VecDeque::new(),
            audio: None,
            waiting: false,
            counts: Counts::default(),
        }
    }

    /// Takes a frame or a piece of audio.
    pub(super) fn push(&mut self, now: Instant, media: Media) {
        let (bytes, opens_group) = match media {
            Media::Frame { bytes, opens_group } => (bytes, opens_group),
            Media::Audio { bytes } => (bytes, false),
        };
        let message = Message::media(bytes);
        self.counts.made += u64::from(message.bytes);
        match (self.delivery, media) {
            (Delivery::Groups(_), Media::Audio { .. }) => {
                let audio = self.audio.get_or_insert_with(|| StreamQueue::new(now));
                audio.push(now, message);
            }
            (Delivery::Groups(_), Media::Frame { .. }) if self.waiting && !opens_group => {
                self.counts.dropped_bytes += u64::from(message.bytes);
            }
            _ => self.queue(now, opens_group).push(now, message),
        }
    }

    /// Takes a ping, behind the media that came before it; returns `false` if there is no group
    /// for it.
    pub(super) fn push_ping(&mut self, now: Instant, number: u64) -> bool {
        if self.waiting {
            return false;
        }
        let message = Message::ping(number);
        self.counts.made += u64::from(message.bytes);
        let queue = self.queue(now, false);
        queue.push(now, message);
        queue.pings.push(number);
        true
    }

    fn queue(&mut self, now: Instant, opens_group: bool) -> &mut StreamQueue {
        let alone = matches!(self.delivery, Delivery::InOrder);
        if self.groups.is_empty() || (opens_group && !alone) {
            if let Some(last) = self.groups.back_mut() {
                last.complete = true;
            }
            self.waiting = false;
            self.groups.push_back(StreamQueue::new(now));
        }
        self.groups.back_mut().expect("one was just made")
    }

    /// Passes to the transport what it accepts: audio first, then the newest group. Resets late
    /// groups, and passes the numbers of their pings to `dropped`.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        connection: &mut Connection,
        window: u64,
        dropped: impl FnMut(u64),
    ) {
        connection.set_send_window((WINDOWS * window).clamp(GIVEN_MIN, GIVEN_MAX));
        if let Delivery::Groups(limits) = self.delivery {
            self.bound_audio(limits);
            self.drop_late(now, connection, limits, dropped);
        }
        let lanes = self.groups.iter_mut().enumerate().rev();
        let lanes =
            lanes.map(|(place, queue)| (i32::try_from(place).unwrap_or(i32::MAX - 1), queue));
        let audio = self.audio.iter_mut().map(|queue| (i32::MAX, queue));
        let mut blocked = false;
        for (priority, queue) in audio.chain(lanes) {
            if !blocked {
                blocked = queue.write(connection, priority, &mut self.counts.written);
            }
        }
        self.groups
            .retain(|queue| !queue.finished || queue.unacked(&self.wire) > 0);
        self.counts.backlog_max = self.counts.backlog_max.max(self.backlog());
    }

    /// Drops the oldest audio if too much of it waits. Audio is never late before its frames are,
    /// but it must be bounded when nothing leaves at all.
    fn bound_audio(&mut self, limits: Groups) {
        let Some(audio) = &mut self.audio else {
            return;
        };
        let most = limits.queue_bytes / AUDIO_SHARE;
        while audio.queued > most
            && let Some(oldest) = audio.messages.iter().position(|it| it.written == 0)
            && let Some(message) = audio.messages.remove(oldest)
        {
            let bytes = u64::from(HEADER_BYTES + message.zeros);
            audio.queued -= bytes;
            self.counts.dropped_bytes += bytes;
        }
    }

    fn drop_late(
        &mut self,
        now: Instant,
        connection: &mut Connection,
        limits: Groups,
        mut dropped: impl FnMut(u64),
    ) {
        loop {
            let Some(oldest) = self.groups.front() else {
                return;
            };
            let late =
                oldest.complete && now.saturating_duration_since(oldest.newest) > limits.late;
            let too_much = self.backlog() > limits.queue_bytes;
            if !late && !too_much {
                return;
            }
            let queue = self.groups.pop_front().expect("there is one");
            let lost = queue.queued + queue.unacked(&self.wire);
            if lost > 0 {
                self.counts.dropped_groups += 1;
                self.counts.dropped_bytes += lost;
                queue.pings.iter().for_each(|number| dropped(*number));
                if let Some(stream) = queue.stream {
                    // An error means that the stream is closed already: the receiver has all of
                    // it.
                    let _ = connection.send_stream(stream).reset(LATE);
                }
            }
            if self.groups.is_empty() {
                self.waiting = !queue.complete;
                return;
            }
        }
    }

    /// Bytes that wait here or are not acknowledged.
    pub(super) fn backlog(&self) -> u64 {
        let lanes = self.groups.iter().chain(&self.audio);
        lanes
            .map(|queue| queue.queued + queue.unacked(&self.wire))
            .sum()
    }

    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }
}

impl StreamQueue {
    fn new(now: Instant) -> Self {
        Self {
            stream: None,
            messages: VecDeque::new(),
            queued: 0,
            written: 0,
            newest: now,
            complete: false,
            finished: false,
            pings: Vec::new(),
        }
    }

    fn push(&mut self, now: Instant, message: Message) {
        self.newest = now;
        self.queued += u64::from(message.bytes);
        self.messages.push_back(Waiting {
            header: message.header(),
            written: 0,
            zeros: message.bytes - HEADER_BYTES,
        });
    }

    fn unacked(&self, wire: &Wire) -> u64 {
        let acked = self
            .stream
            .map_or(0, |id| wire.acked_of(u64::from(VarInt::from(id))));
        self.written.saturating_sub(acked)
    }

    /// Writes until the queue is empty; returns `true` if the transport accepts no more before
    /// that.
    fn write(&mut self, connection: &mut Connection, priority: i32, total: &mut u64) -> bool {
        if self.messages.is_empty() && (!self.complete || self.finished) {
            return false;
        }
        if self.stream.is_none() {
            self.stream = connection.streams().open(Dir::Uni);
        }
        let Some(id) = self.stream else {
            return true;
        };
        let mut stream = connection.send_stream(id);
        let _ = stream.set_priority(priority);
        while let Some(message) = self.messages.front_mut() {
            let header = Bytes::copy_from_slice(&message.header[message.written as usize..]);
            let mut chunks = [header, zeros(u64::from(message.zeros))];
            let bytes = match stream.write_chunks(&mut chunks.as_mut_slice()) {
                Ok(bytes) => bytes as u64,
                Err(WriteError::Blocked) => return true,
                // The receiver stopped the stream, or the connection is gone: the next turn
                // notices.
                Err(_) => return false,
            };
            message.advance(bytes);
            self.queued -= bytes;
            self.written += bytes;
            *total += bytes;
            if message.is_written() {
                self.messages.pop_front();
            }
        }
        if self.complete && !self.finished {
            self.finished = true;
            let _ = stream.finish();
        }
        false
    }
}

impl Waiting {
    fn advance(&mut self, bytes: u64) {
        let header = bytes.min(u64::from(HEADER_BYTES - self.written));
        self.written += header as u32;
        self.zeros -= (bytes - header) as u32;
    }

    const fn is_written(&self) -> bool {
        self.written == HEADER_BYTES && self.zeros == 0
    }
}
