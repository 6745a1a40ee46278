use std::time::Duration;

use bytes::Bytes;
use glassline_sctp::{Reliability, SendOptions};
use glassline_sim::{Rng, Simulation};

use crate::network::{A, B, Pair};
use crate::peers::Happened;

/// Messages to be sent one way, and which of them have arrived.
#[derive(Debug)]
pub(crate) struct Flow {
    options: SendOptions,
    streams: u16,
    sizes: Vec<usize>,
    sent: usize,
    /// The next message, if it was refused for lack of room.
    waiting: Option<Bytes>,
    seen: Vec<bool>,
    /// Number of the last message of each stream.
    last: Vec<Option<usize>>,
    pub(crate) received: usize,
}

impl Flow {
    /// `count` messages of random sizes, most of them small, some up to `largest`
    /// bytes, over streams 0 to `streams` in turn.
    pub(crate) fn new(
        count: usize,
        largest: usize,
        streams: u16,
        options: SendOptions,
        rng: &mut Rng,
    ) -> Self {
        let mut size = || {
            // Uniform in the logarithm: as many below a packet as above it.
            let bits = rng.unit() * (largest as f64 / HEADER as f64).log2();
            (HEADER as f64 * bits.exp2()) as usize
        };
        Self {
            options,
            streams,
            sizes: (0..count).map(|_| size()).collect(),
            sent: 0,
            waiting: None,
            seen: vec![false; count],
            last: vec![None; usize::from(streams)],
            received: 0,
        }
    }

    fn send(&mut self, pair: &mut Pair, from: usize) {
        let now = pair.now();
        while self.sent < self.sizes.len() {
            let waiting = self.waiting.take();
            let message = waiting.unwrap_or_else(|| content(self.sent, self.sizes[self.sent]));
            let stream = (self.sent % usize::from(self.streams)) as u16;
            if !pair.end(from).send(stream, &message, self.options, now) {
                return;
            }
            self.sent += 1;
        }
    }

    /// Checks a message that arrived: once, whole, on its stream, and in order where
    /// promised.
    fn take(&mut self, stream: u16, data: &Bytes) {
        let number = u32::from_be_bytes(data[..4].try_into().expect("four bytes")) as usize;
        assert!(number < self.sent, "message {number} was never sent");
        assert!(!self.seen[number], "message {number} came twice");
        assert_eq!(usize::from(stream), number % usize::from(self.streams));
        assert_eq!(data.len(), self.sizes[number], "length of {number}");
        assert!(*data == content(number, data.len()), "bytes of {number}");
        let last = &mut self.last[usize::from(stream)];
        if !self.options.unordered {
            assert!(*last < Some(number), "{number} came after {last:?}");
            if self.options.reliability == Reliability::Reliable {
                let before = number.checked_sub(usize::from(self.streams));
                assert_eq!(*last, before, "before {number} on stream {stream}");
            }
        }
        *last = Some(number);
        self.seen[number] = true;
        self.received += 1;
    }

    fn is_complete(&self) -> bool {
        self.received == self.sizes.len()
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.sent == self.sizes.len()
    }
}

/// Bytes of the message's number before the pattern. Smaller messages could not be
/// identified.
const HEADER: usize = 4;

/// Returns the number of a message, followed by bytes that differ in any two fragments.
fn content(number: usize, len: usize) -> Bytes {
    let mut bytes = vec![0; len];
    bytes[..HEADER].copy_from_slice(&(number as u32).to_be_bytes());
    for (at, block) in bytes[HEADER..].chunks_mut(64).enumerate() {
        block.fill((number.wrapping_mul(31) ^ at.wrapping_mul(0x9e37_79b9) >> 7) as u8);
    }
    bytes.into()
}

/// Sends both flows at once, `flows[A]` from A to B, until both are complete.
#[track_caller]
pub(crate) fn exchange(pair: &mut Pair, flows: &mut [Flow; 2], limit: Duration) {
    let complete = pump(pair, flows, limit, |flows| {
        flows.iter().all(Flow::is_complete)
    });
    let figures = flows
        .each_ref()
        .map(|flow| (flow.sent, flow.received, flow.sizes.len()));
    assert!(
        complete,
        "sent, received, of: {figures:?} after {:?}",
        pair.network.elapsed()
    );
    // Nothing more arrives after everything has.
    pump(pair, flows, Duration::from_secs(5), |_| false);
}

/// Sends and receives until `done` returns true or the time is up.
pub(crate) fn pump(
    pair: &mut Pair,
    flows: &mut [Flow; 2],
    limit: Duration,
    mut done: impl FnMut(&[Flow; 2]) -> bool,
) -> bool {
    pair.run_until(limit, |pair| {
        for end in [A, B] {
            while let Some(happened) = pair.ends[end].happened.pop_front() {
                match happened {
                    Happened::Message { stream, data } => flows[1 - end].take(stream, &data),
                    other => panic!("{other:?} at end {end}"),
                }
            }
            flows[end].send(pair, end);
        }
        done(flows)
    })
}
