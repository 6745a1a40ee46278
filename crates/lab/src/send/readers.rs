use std::io::{self, Read as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use glassline_media::Histogram;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::frame::{NUMBER_BYTES, NUMBER_OFFSET};
use super::{Error, Shape};

/// The receiving ends on a thread of their own. They record which frames arrived, when, and
/// whether the frames were intact.
pub(super) struct Readers {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Received>,
}

/// Figures of the received frames that count.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) frames: u64,
    /// Received frames whose two numbers differ.
    pub(super) damaged: u64,
    /// Intervals between a connection's frames, less the frame interval.
    pub(super) gaps: Histogram,
}

/// Parameters of the readers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    pub(super) shape: Shape,
    /// Time between two frames.
    pub(super) interval: Duration,
    /// First frame that counts; earlier ones are the warm-up.
    pub(super) first_number: u32,
}

/// Bytes of a read: a few frames.
const BUFFER_BYTES: usize = 64 << 10;

/// Longest time until the end is noticed.
const PATIENCE: Duration = Duration::from_millis(50);

impl Readers {
    pub(super) fn start(sockets: Vec<TcpStream>, watch: Watch) -> Result<Self, Error> {
        let poll = Poll::new().map_err(Error::Connect)?;
        for (index, socket) in sockets.iter().enumerate() {
            socket.set_nonblocking(true).map_err(Error::Connect)?;
            let mut source = SourceFd(&socket.as_raw_fd());
            let registered =
                poll.registry()
                    .register(&mut source, Token(index), Interest::READABLE);
            registered.map_err(Error::Connect)?;
        }
        let over = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new()
            .name("readers".to_owned())
            .spawn({
                let over = Arc::clone(&over);
                move || read(poll, sockets, watch, &over)
            })
            .map_err(Error::Thread)?;
        Ok(Self { over, thread })
    }

    /// Reads what is still in flight, and ends the thread.
    pub(super) fn finish(self) -> Received {
        self.over.store(true, Ordering::Relaxed);
        // A panic of the thread was printed already; its counts are lost.
        self.thread.join().unwrap_or_default()
    }
}

fn read(mut poll: Poll, sockets: Vec<TcpStream>, watch: Watch, over: &AtomicBool) -> Received {
    let mut received = Received::default();
    let mut ends: Vec<_> = sockets
        .into_iter()
        .map(|socket| (socket, End::default()))
        .collect();
    let mut events = Events::with_capacity(1024);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let is_over = over.load(Ordering::Relaxed);
        match poll.poll(&mut events, Some(PATIENCE)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return received,
        }
        if events.is_empty() && is_over {
            return received;
        }
        for event in &events {
            if let Some((socket, end)) = ends.get_mut(event.token().0) {
                end.empty(socket, &mut buffer, &watch, &mut received);
            }
        }
    }
}

/// State of a connection.
#[derive(Debug, Default)]
struct End {
    /// Position within the current frame.
    position: usize,
    first: [u8; NUMBER_BYTES],
    last: [u8; NUMBER_BYTES],
    /// Time at which the last frame was complete.
    whole_at: Option<Instant>,
}

impl End {
    /// Reads all that there is.
    fn empty(
        &mut self,
        mut socket: &TcpStream,
        buffer: &mut [u8],
        watch: &Watch,
        received: &mut Received,
    ) {
        loop {
            match socket.read(buffer) {
                Ok(0) => return,
                Ok(count) => {
                    self.take(&buffer[..count], Instant::now(), watch, received);
                    // Readiness is edge-triggered: later bytes cause a new event.
                    if count < buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8], now: Instant, watch: &Watch, received: &mut Received) {
        let frame_bytes = watch.shape.frame_bytes();
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(frame_bytes - self.position));
            note(&mut self.first, NUMBER_OFFSET, self.position, part);
            let last_offset = frame_bytes - NUMBER_BYTES;
            note(&mut self.last, last_offset, self.position, part);
            self.position += part.len();
            if self.position == frame_bytes {
                self.position = 0;
                self.whole(now, watch, received);
            }
            bytes = rest;
        }
    }

    fn whole(&mut self, now: Instant, watch: &Watch, received: &mut Received) {
        let before = self.whole_at.replace(now);
        if u32::from_be_bytes(self.first) < watch.first_number {
            return;
        }
        received.frames += 1;
        received.damaged += u64::from(self.first != self.last);
        if let Some(before) = before {
            let gap = now.saturating_duration_since(before);
            received.gaps.record(gap.saturating_sub(watch.interval));
        }
    }
}

/// Copies the bytes of the number at `offset` that are in `part`, which begins at `position` of
/// the frame.
fn note(number: &mut [u8; NUMBER_BYTES], offset: usize, position: usize, part: &[u8]) {
    for (index, byte) in number.iter_mut().enumerate() {
        let place = (offset + index).checked_sub(position);
        if let Some(found) = place.and_then(|place| part.get(place)) {
            *byte = *found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::frame::FrameSource;

    #[test]
    fn frames_are_whole_however_they_are_cut_and_changed_ones_are_found() {
        let shape = Shape {
            packets: 2,
            packet_bytes: 70,
        };
        let watch = Watch {
            shape,
            interval: Duration::from_millis(33),
            first_number: 2,
        };
        let mut source = FrameSource::new(shape);
        let mut stream = Vec::new();
        for number in 0..6 {
            source.renew(number);
            stream.extend_from_slice(&source.framed());
        }
        // The fifth frame was overwritten before it was read.
        stream[140 * 4 + 139] = 77;
        for cut in [1, 3, 139, 140, 141, 1000] {
            let (mut end, mut received) = (End::default(), Received::default());
            let now = Instant::now();
            for (index, part) in stream.chunks(cut).enumerate() {
                let at = now + Duration::from_millis(index as u64);
                end.take(part, at, &watch, &mut received);
            }
            assert_eq!((received.frames, received.damaged), (4, 1), "{cut}");
            assert_eq!(received.gaps.count(), 4, "{cut}");
        }
    }
}
