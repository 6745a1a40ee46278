use super::super::assembly::{DropReason, FrameFormat};
use super::{Output, SequenceStep};

/// Depacketizer of formats with frames of many packets: all packets of one timestamp, up to the
/// marker.
#[derive(Debug)]
pub(super) struct Frames {
    format: Box<dyn FrameFormat>,
    unit_bytes_max: usize,
    /// Whether packets are missing before the next one, which then may be in the middle of a
    /// frame.
    gap: bool,
    state: State,
    pub(super) out: Output,
}

/// State of the frame that is being received.
#[derive(Debug)]
enum State {
    /// No frame has begun.
    Idle,
    /// A frame has begun, and nothing of it is missing so far.
    Building(Building),
    /// A frame has begun that is dropped.
    Dropping { timestamp: u32 },
}

#[derive(Debug)]
/// The frame that is being received.
struct Building {
    timestamp: u32,
    after_gap: bool,
    data: Vec<u8>,
}

/// Most complete frames that are kept until they are polled.
const READY_MAX: usize = 8;

impl Frames {
    pub(super) fn new(format: Box<dyn FrameFormat>, unit_bytes_max: usize) -> Self {
        Self {
            format,
            unit_bytes_max,
            gap: true,
            state: State::Idle,
            out: Output::new(READY_MAX),
        }
    }

    pub(super) fn push(&mut self, sequence: u64, timestamp: u32, marker: bool, payload: &[u8]) {
        match self.out.step(sequence) {
            SequenceStep::Late => return,
            SequenceStep::Gap => {
                self.gap = true;
                self.drop_unit(DropReason::Loss);
            }
            SequenceStep::First | SequenceStep::Next => {}
        }
        if payload.is_empty() {
            // Padding of a bandwidth probe has a sequence number, but belongs to no frame.
            return;
        }
        let under_way = match &self.state {
            State::Idle => None,
            State::Building(Building { timestamp, .. }) | State::Dropping { timestamp } => {
                Some(*timestamp)
            }
        };
        if under_way.is_some_and(|old| old != timestamp) {
            self.finish();
        }
        if matches!(self.state, State::Idle) {
            self.begin(timestamp, payload);
        }
        self.gap = false;
        self.take(payload);
        if marker {
            self.finish();
        }
    }

    fn begin(&mut self, timestamp: u32, payload: &[u8]) {
        if self.gap && !self.format.begins(payload) {
            // Joining in the middle of a frame is not damage unless packets were lost.
            if self.out.loss {
                self.out.counters.damaged += 1;
            }
            self.out.loss = true;
            self.state = State::Dropping { timestamp };
            return;
        }
        self.format.reset();
        self.state = State::Building(Building {
            timestamp,
            after_gap: self.gap,
            data: Vec::new(),
        });
    }

    fn take(&mut self, payload: &[u8]) {
        let State::Building(Building { data, .. }) = &mut self.state else {
            return;
        };
        let taken = self.format.take(payload, data);
        // A payload fits a datagram, so it adds at most a few times its length.
        let bounded = taken.and_then(|()| {
            within(
                self.unit_bytes_max,
                data.len() + self.format.pending_bytes(),
            )
        });
        if let Err(reason) = bounded {
            self.drop_unit(reason);
        }
    }

    /// Completes the frame that is being received.
    fn finish(&mut self) {
        let State::Building(mut unit) = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        if unit.data.is_empty() && self.format.pending_bytes() == 0 {
            return;
        }
        let finished = self.format.finish(&mut unit.data, unit.after_gap);
        let bounded = within(self.unit_bytes_max, unit.data.len());
        match finished.and_then(|keyframe| bounded.map(|()| keyframe)) {
            Ok(keyframe) => self.out.deliver(unit.timestamp, keyframe, unit.data),
            Err(reason) => self.out.count(reason),
        }
    }

    /// Drops the frame that is being received. Its further packets are ignored.
    fn drop_unit(&mut self, reason: DropReason) {
        if let State::Building(Building { timestamp, .. }) = self.state {
            self.state = State::Dropping { timestamp };
            self.out.count(reason);
        }
    }
}

fn within(unit_bytes_max: usize, bytes: usize) -> Result<(), DropReason> {
    if bytes > unit_bytes_max {
        Err(DropReason::Oversized)
    } else {
        Ok(())
    }
}
