use std::time::{Duration, Instant};

use super::Conduct;

/// When a viewer that is told to behave badly does so.
#[derive(Debug)]
pub(in crate::viewers) struct Misconduct {
    conduct: Conduct,
    next: Option<Instant>,
    stalled: bool,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::viewers) enum Act {
    Nothing,
    /// From now on nothing is read or sent.
    Stall,
    /// Close without a word.
    Vanish,
    /// Send some.
    Garbage,
}

/// Fifty a second.
const GARBAGE_INTERVAL: Duration = Duration::from_millis(20);

impl Misconduct {
    pub(in crate::viewers) const fn new(conduct: Conduct) -> Self {
        Self {
            conduct,
            next: None,
            stalled: false,
        }
    }

    /// The viewer plays: its time begins.
    pub(in crate::viewers) fn begin(&mut self, now: Instant) {
        let after = match self.conduct {
            Conduct::Good => return,
            Conduct::Stall => Duration::from_secs(1),
            Conduct::Vanish => Duration::from_secs(1).mul_f64(rand::random_range(1.0..2.0)),
            Conduct::Garbage => GARBAGE_INTERVAL,
        };
        self.next = Some(now + after);
    }

    /// When to ask [`Misconduct::due`].
    pub(in crate::viewers) const fn deadline(&self) -> Option<Instant> {
        self.next
    }

    /// What to do now.
    pub(in crate::viewers) fn due(&mut self, now: Instant) -> Act {
        if self.next.is_none_or(|at| at > now) {
            return Act::Nothing;
        }
        self.next = None;
        match self.conduct {
            Conduct::Good => Act::Nothing,
            Conduct::Stall => {
                self.stalled = true;
                Act::Stall
            }
            Conduct::Vanish => Act::Vanish,
            Conduct::Garbage => {
                self.next = Some(now + GARBAGE_INTERVAL);
                Act::Garbage
            }
        }
    }

    /// It reads and sends nothing any more.
    pub(in crate::viewers) const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// A datagram for a WebRTC peer's port: noise, or the first bytes of STUN, DTLS,
    /// RTP or RTCP and noise behind them.
    pub(in crate::viewers) fn peer_garbage(&self) -> Vec<u8> {
        let mut bytes = noise(rand::random_range(20..1200));
        let starts: [&[u8]; 6] = [
            // A STUN request with its cookie and no attributes that make sense.
            &[0, 1, 0, 80, 0x21, 0x12, 0xa4, 0x42],
            // DTLS 1.2: handshake of epoch 0, application data of epoch 1.
            &[22, 0xfe, 0xfd, 0, 0],
            &[23, 0xfe, 0xfd, 0, 1],
            &[0x80, 0x60],
            &[0x81, 0xcd],
            &[],
        ];
        let start = starts[rand::random_range(0..starts.len())];
        bytes[..start.len()].copy_from_slice(start);
        bytes
    }

    /// Bytes for a connection: noise, broken frames, broken requests.
    pub(in crate::viewers) fn stream_garbage(&self) -> Vec<u8> {
        let mut bytes = noise(rand::random_range(1..200));
        match rand::random_range(0..4) {
            0 => {
                bytes.insert(0, b'$');
            }
            1 => {
                let frame = [b'$', rand::random_range(0..4), 0, bytes.len() as u8];
                bytes.splice(0..0, frame);
            }
            2 => {
                let request = b"SETUP rtsp://\xff/ RTSP/1.0\r\nCSeq: -1\r\nTransport: ";
                bytes.splice(0..0, request.iter().copied());
                bytes.extend(b"\r\n\r\n");
            }
            _ => {}
        }
        bytes
    }

    /// A datagram: noise, or RTP or RTCP of random contents.
    pub(in crate::viewers) fn datagram_garbage(&self) -> Vec<u8> {
        let mut bytes = noise(rand::random_range(1..200));
        let kinds = [[0x80, 96], [0x81, 201], [0x80, 200], [0xff, 205]];
        if let (Some(kind), Some(front)) = (
            kinds.get(rand::random_range(0..6)),
            bytes.first_chunk_mut::<2>(),
        ) {
            *front = *kind;
        }
        bytes
    }
}

fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|_| rand::random()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_conduct_comes_in_its_time() {
        let now = Instant::now();
        let run = |conduct| {
            let mut misconduct = Misconduct::new(conduct);
            assert_eq!(
                (misconduct.deadline(), misconduct.due(now)),
                (None, Act::Nothing)
            );
            misconduct.begin(now);
            let at = misconduct.deadline();
            let act = at.map(|at| misconduct.due(at));
            (at.map(|at| at - now), act, misconduct)
        };
        assert!(matches!(run(Conduct::Good), (None, None, _)));
        let (after, act, stalled) = run(Conduct::Stall);
        assert_eq!((after, act), (Some(SECOND), Some(Act::Stall)));
        assert!(stalled.is_stalled() && stalled.deadline().is_none());
        let (after, act, _) = run(Conduct::Vanish);
        assert!(after.is_some_and(|after| (SECOND..SECOND * 2).contains(&after)));
        assert_eq!(act, Some(Act::Vanish));
        let (after, act, again) = run(Conduct::Garbage);
        assert_eq!((after, act), (Some(GARBAGE_INTERVAL), Some(Act::Garbage)));
        assert!(again.deadline().is_some());
        assert!((0..100).all(|_| !again.stream_garbage().is_empty()));
        assert!((0..100).all(|_| !again.datagram_garbage().is_empty()));
        assert!((0..100).all(|_| again.peer_garbage().len() >= 20));
    }
}
