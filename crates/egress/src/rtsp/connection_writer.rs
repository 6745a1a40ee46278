//! Writes one client's connection: its own responses stand between frames that all clients share,
//! and one system call writes all of them.
//!
//! Frames for a client with its own SRTP keys are sealed once, a piece at a time. A piece that is
//! sealed is sent to its end before anything else.

use std::io::{self, IoSlice, Write};
use std::time::Instant;

use bytes::Bytes;
use smallvec::SmallVec;

use super::counters::Sent;
use super::cursor::{Budget, Cursor, LagOutcome};
use super::ring::Ring;
use super::transport::{TrackTransport, TrackTransports};

/// Most interleaved frames handed to the kernel in one call. A client that is this far behind has
/// far more waiting than its socket takes.
const FRAMES_PER_WRITE: usize = 16;

/// Bytes that are sealed ahead of the kernel for a client with its own keys; the last frame may
/// exceed this. Sealed frames cannot be skipped any more.
const SEALED_BYTES: usize = 64 << 10;

/// Bytes handed to the kernel in one call; the last frame may exceed this.
const BYTES_PER_WRITE: usize = 256 << 10;

/// The bytes that wait to be written to one connection: first the rest of a frame, then responses,
/// then frames of the stream from the client's cursor on.
#[derive(Debug, Default)]
pub struct ConnectionWriter {
    /// A frame of which the kernel took only a part, and how many bytes it took.
    partial: Option<(Bytes, usize)>,
    /// Responses and reports for this client alone.
    between: Vec<u8>,
    /// Number of bytes of `between` that are written.
    between_done: usize,
}

/// The result of [`ConnectionWriter::pump`].
#[derive(Debug)]
pub enum WriteOutcome {
    /// Everything that waited is written.
    Empty,
    /// The kernel takes no more bytes for now.
    Full,
    /// The client has skipped too often in a row and will not catch up.
    TooSlow,
    /// The connection failed with this error.
    Broken(io::Error),
}

/// The parts of a playing client's session that a write needs.
pub struct Playing<'a> {
    /// Recent packets of the stream, framed once for all clients.
    pub ring: &'a mut Ring,
    /// Place of the client in the ring.
    pub cursor: &'a mut Cursor,
    /// Channels of the tracks within the connection.
    pub transports: &'a mut TrackTransports,
    /// Limits on the delay of a client.
    pub budget: &'a Budget,
}

/// The next frames for a client, each as the number of its ring entry and the channel.
type WritePlan = SmallVec<[(u64, u8); FRAMES_PER_WRITE]>;

impl ConnectionWriter {
    /// Queues `bytes` to follow the frame that is being written.
    pub fn push(&mut self, bytes: &[u8]) {
        self.between.extend_from_slice(bytes);
    }

    /// Returns the number of bytes of responses and reports that wait.
    pub fn between_bytes(&self) -> usize {
        self.between.len() - self.between_done
    }

    /// Writes until nothing waits or the kernel takes no more.
    pub fn pump(
        &mut self,
        wire: &mut impl Write,
        mut playing: Option<Playing<'_>>,
        now: Instant,
        sent: &mut Sent,
    ) -> WriteOutcome {
        let is_sealed = playing.as_ref().is_some_and(Playing::is_sealed);
        loop {
            let mut plan = WritePlan::new();
            let mut end = 0;
            if let Some(playing) = &mut playing {
                match playing.cursor.check_lag(playing.ring, playing.budget, now) {
                    LagOutcome::Steady => {}
                    LagOutcome::Skipped(entries) => {
                        sent.skipped += entries;
                        sent.skips += 1;
                    }
                    LagOutcome::TooSlow => return WriteOutcome::TooSlow,
                }
                if is_sealed {
                    // Sealed frames go behind the responses, one piece at a time.
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
                    // Entries that the cursor skipped are skipped even if the write failed.
                    if let Some(playing) = &mut playing
                        && !is_sealed
                    {
                        let next = plan.first().map_or(end, |(number, _)| *number);
                        playing.cursor.advance(next, playing.ring);
                    }
                    if error.kind() == io::ErrorKind::WouldBlock {
                        return WriteOutcome::Full;
                    }
                    return WriteOutcome::Broken(error);
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
                return WriteOutcome::Full;
            }
            let more = playing
                .as_ref()
                .is_some_and(|playing| playing.cursor.position() < playing.ring.end());
            if !more {
                return WriteOutcome::Empty;
            }
        }
    }

    /// Writes everything that waits with one system call. Returns how many bytes the kernel took,
    /// and of how many.
    fn write(
        &self,
        wire: &mut impl Write,
        ring: Option<&Ring>,
        plan: &WritePlan,
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

    /// Removes `written` bytes from the partial frame and the responses. Returns the number of
    /// bytes that were written of planned frames.
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
            // A client with nothing to write keeps no buffer.
            self.between = Vec::new();
            self.between_done = 0;
        }
        written - taken
    }

    /// Accounts for `written` bytes of planned frames. Returns the number of the first entry of
    /// which nothing was written.
    fn settle_frames(
        &mut self,
        ring: &Ring,
        plan: &WritePlan,
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
            sent.packets += entry.packet_count();
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
    /// Returns whether some track is sealed for this client alone.
    fn is_sealed(&self) -> bool {
        self.transports.has_srtp()
    }

    /// Seals the client's next frames and moves its cursor behind them.
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
                sent.packets += entry.packet_count();
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

    /// Chooses the client's next frames and makes their bytes. Returns them, with the number of the
    /// entry behind the last.
    fn plan(&mut self) -> (WritePlan, u64) {
        let mut plan = WritePlan::new();
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
                bytes += self.ring.prepare(number, channel);
                plan.push((number, channel));
            }
            number += 1;
        }
        (plan, number)
    }
}
