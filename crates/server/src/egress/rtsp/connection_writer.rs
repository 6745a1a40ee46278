//! One client's way out: responses between shared frames, one write for all of them.
//!
//! What is sealed for a client alone is sealed once: a piece at a time, which is then
//! finished before anything else.

use std::io::{self, IoSlice, Write};
use std::time::Instant;

use bytes::Bytes;
use smallvec::SmallVec;

use super::counters::Sent;
use super::cursor::{Budget, Cursor, Verdict};
use super::ring::Ring;
use super::transport::{TrackTransport, TrackTransports};

/// Frames handed to the kernel at once: a client that is this far behind has far more
/// waiting than its socket takes.
const FRAMES_PER_WRITE: usize = 16;

/// Bytes sealed ahead of the kernel for a client with keys of its own, but for the last
/// frame: what it cannot skip any more.
const SEALED_BYTES: usize = 64 << 10;

/// Bytes handed to the kernel at once, but for the last frame.
const BYTES_PER_WRITE: usize = 256 << 10;

/// What waits to be written to one connection: the rest of a frame, then responses,
/// then frames of the stream from the client's cursor on.
#[derive(Debug, Default)]
pub(crate) struct ConnectionWriter {
    /// A frame that the kernel took a part of, and how much of it.
    partial: Option<(Bytes, usize)>,
    /// Responses and reports of this client alone.
    between: Vec<u8>,
    /// How much of them is written.
    between_done: usize,
}

/// How a write went.
#[derive(Debug)]
pub(crate) enum Pumped {
    /// All is written.
    Empty,
    /// The kernel takes no more for now.
    Full,
    /// The client will not catch up.
    Hopeless,
    /// The connection is broken.
    Broken(io::Error),
}

/// A client's part in a stream while it plays.
pub(crate) struct Playing<'a> {
    pub(crate) ring: &'a mut Ring,
    pub(crate) cursor: &'a mut Cursor,
    pub(crate) transports: &'a mut TrackTransports,
    pub(crate) budget: &'a Budget,
}

/// The next frames for a client: entry and channel.
type Plan = SmallVec<[(u64, u8); FRAMES_PER_WRITE]>;

impl ConnectionWriter {
    /// Puts `bytes` behind the frame that is being written.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.between.extend_from_slice(bytes);
    }

    /// Bytes of responses that wait.
    pub(crate) fn between_bytes(&self) -> usize {
        self.between.len() - self.between_done
    }

    /// Writes what waits until nothing does or the kernel takes no more.
    pub(crate) fn pump(
        &mut self,
        wire: &mut impl Write,
        mut playing: Option<Playing<'_>>,
        now: Instant,
        sent: &mut Sent,
    ) -> Pumped {
        let is_sealed = playing.as_ref().is_some_and(Playing::is_sealed);
        loop {
            let mut plan = Plan::new();
            let mut end = 0;
            if let Some(playing) = &mut playing {
                match playing.cursor.judge(playing.ring, playing.budget, now) {
                    Verdict::Steady => {}
                    Verdict::Skipped(entries) => {
                        sent.skipped += entries;
                        sent.skips += 1;
                    }
                    Verdict::Hopeless => return Pumped::Hopeless,
                }
                if is_sealed {
                    // Behind the responses, and one piece at a time.
                    if self.partial.is_none() && self.between_bytes() == 0 {
                        self.partial = playing.seal(sent).map(|bytes| (bytes, 0));
                    }
                    end = playing.cursor.position();
                } else {
                    (plan, end) = playing.plan();
                }
            }
            let ring = playing.as_ref().map(|playing| &*playing.ring);
            let (written, offered) = match self.write(wire, ring, &plan, sent) {
                Ok(counts) => counts,
                Err(error) => {
                    // What was passed over stays so.
                    if let Some(playing) = &mut playing
                        && !is_sealed
                    {
                        let next = plan.first().map_or(end, |(number, _)| *number);
                        playing.cursor.advance(next, playing.ring);
                    }
                    if error.kind() == io::ErrorKind::WouldBlock {
                        return Pumped::Full;
                    }
                    return Pumped::Broken(error);
                }
            };
            let left = self.settle(written);
            if let Some(playing) = &mut playing
                && !(is_sealed && self.partial.is_some())
            {
                let next = self.settle_frames(playing.ring, &plan, left, sent);
                playing.cursor.advance(next.unwrap_or(end), playing.ring);
            }
            if written < offered {
                return Pumped::Full;
            }
            let more = playing
                .as_ref()
                .is_some_and(|playing| playing.cursor.position() < playing.ring.end());
            if !more {
                return Pumped::Empty;
            }
        }
    }

    /// One system call for all that waits; how much was taken, and of how much.
    fn write(
        &self,
        wire: &mut impl Write,
        ring: Option<&Ring>,
        plan: &Plan,
        sent: &mut Sent,
    ) -> io::Result<(usize, usize)> {
        let mut slices = SmallVec::<[IoSlice<'_>; FRAMES_PER_WRITE + 2]>::new();
        if let Some((bytes, done)) = &self.partial {
            slices.push(IoSlice::new(&bytes[*done..]));
        }
        if self.between_bytes() > 0 {
            slices.push(IoSlice::new(&self.between[self.between_done..]));
        }
        let frames = plan.iter().filter_map(|(number, channel)| {
            let bytes = ring?.get(*number)?.interleaved(*channel)?;
            Some(IoSlice::new(bytes))
        });
        slices.extend(frames);
        let offered = slices.iter().map(|slice| slice.len()).sum();
        let written = loop {
            let taken = match slices.as_slice() {
                [] => break 0,
                [one] => wire.write(one),
                all => wire.write_vectored(all),
            };
            sent.calls += 1;
            match taken {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        sent.bytes += written as u64;
        Ok((written, offered))
    }

    /// Takes `written` bytes off what is ours; what is left of them went to frames.
    fn settle(&mut self, mut written: usize) -> usize {
        if let Some((bytes, done)) = &mut self.partial {
            let taken = written.min(bytes.len() - *done);
            written -= taken;
            *done += taken;
            if *done == bytes.len() {
                self.partial = None;
            }
        }
        let taken = written.min(self.between_bytes());
        self.between_done += taken;
        if self.between_bytes() == 0 {
            // An idle client keeps no buffer.
            self.between = Vec::new();
            self.between_done = 0;
        }
        written - taken
    }

    /// Takes `written` bytes off the planned frames; the first that was not begun.
    fn settle_frames(
        &mut self,
        ring: &Ring,
        plan: &Plan,
        mut written: usize,
        sent: &mut Sent,
    ) -> Option<u64> {
        for (place, (number, channel)) in plan.iter().enumerate() {
            let Some(entry) = ring.get(*number) else {
                continue;
            };
            let Some(bytes) = entry.interleaved(*channel) else {
                continue;
            };
            if written == 0 {
                return Some(*number);
            }
            sent.packets += entry.burst().map_or(1, |burst| burst.packet_count() as u64);
            if written < bytes.len() {
                self.partial = Some((bytes.clone(), written));
                return plan
                    .get(place + 1)
                    .map(|(number, _)| *number)
                    .or(Some(number + 1));
            }
            written -= bytes.len();
        }
        None
    }
}

impl Playing<'_> {
    /// Some of it is for this client alone.
    fn is_sealed(&self) -> bool {
        self.transports.has_srtp()
    }

    /// Makes what the client gets next for it alone, and moves its cursor behind that.
    fn seal(&mut self, sent: &mut Sent) -> Option<Bytes> {
        let mut sealed = Vec::new();
        let mut number = self.cursor.position().max(self.ring.first());
        while sealed.len() < SEALED_BYTES {
            let Some(entry) = self.ring.get(number) else {
                break;
            };
            if let Some(TrackTransport::Interleaved { channels, srtp }) =
                self.transports.get_mut(entry.track())
                && self.cursor.takes(entry)
            {
                let channel = channels.channel_of(entry.is_report());
                sent.packets += entry.burst().map_or(1, |burst| burst.packet_count() as u64);
                if let Some(srtp) = srtp {
                    entry.seal_interleaved(srtp, channel, &mut sealed);
                } else {
                    self.ring.prepare(number, channel);
                    let made = self.ring.get(number).and_then(|it| it.interleaved(channel));
                    sealed.extend_from_slice(made.map_or(&[], |bytes| bytes));
                }
            }
            number += 1;
        }
        self.cursor.pass_to(number);
        (!sealed.is_empty()).then(|| sealed.into())
    }

    /// What the client gets next, its bytes made, and where the plan ends.
    fn plan(&mut self) -> (Plan, u64) {
        let mut plan = Plan::new();
        let mut bytes = 0;
        let mut number = self.cursor.position().max(self.ring.first());
        while plan.len() < FRAMES_PER_WRITE && bytes < BYTES_PER_WRITE {
            let Some(entry) = self.ring.get(number) else {
                break;
            };
            if let Some(TrackTransport::Interleaved { channels, .. }) =
                self.transports.get(entry.track())
                && self.cursor.takes(entry)
            {
                let channel = channels.channel_of(entry.is_report());
                self.ring.prepare(number, channel);
                let made = self.ring.get(number).and_then(|it| it.interleaved(channel));
                bytes += made.map_or(0, Bytes::len);
                plan.push((number, channel));
            }
            number += 1;
        }
        (plan, number)
    }
}
