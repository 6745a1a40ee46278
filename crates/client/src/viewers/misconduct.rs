use std::ops::Range;
use std::time::{Duration, Instant};

use super::Conduct;

/// Decides when a misbehaving viewer does what.
#[derive(Debug)]
pub(in crate::viewers) struct Misconduct {
    conduct: Conduct,
    next: Option<Instant>,
    stalled: bool,
    /// Reading rate of a slow viewer that plays.
    pace: Option<Pace>,
}

/// Action of a misbehaving viewer that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::viewers) enum Act {
    /// No action is due.
    Nothing,
    /// From now on nothing is read or sent.
    Stall,
    /// Close the sockets without a farewell.
    Vanish,
    /// Send datagrams of random bytes.
    Garbage,
    /// Read again what the rate allows by now.
    Read,
}

/// Time between two pieces of garbage: fifty a second.
const GARBAGE_INTERVAL: Duration = Duration::from_millis(20);

/// Time between two reads of a slow viewer.
const READ_INTERVAL: Duration = Duration::from_millis(50);

/// Time for which a viewer that will stall behaves correctly.
const STALL_AFTER: Duration = Duration::from_secs(2);

impl Misconduct {
    pub(in crate::viewers) const fn new(conduct: Conduct) -> Self {
        Self {
            conduct,
            next: None,
            stalled: false,
            pace: None,
        }
    }

    /// Starts the clock when the viewer plays.
    pub(in crate::viewers) fn begin(&mut self, now: Instant) {
        let after = match self.conduct {
            Conduct::Good | Conduct::TinyWindow => return,
            Conduct::Stall => STALL_AFTER,
            Conduct::Slow { bytes_per_second } => {
                self.pace = Some(Pace {
                    bytes_per_second,
                    since: now,
                    read: 0,
                });
                READ_INTERVAL
            }
            Conduct::Vanish => Duration::from_secs(1).mul_f64(rand::random_range(1.0..2.0)),
            Conduct::Garbage => GARBAGE_INTERVAL,
        };
        self.next = Some(now + after);
    }

    /// When to call [`Misconduct::due`].
    pub(in crate::viewers) const fn deadline(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the action that is due at `now`.
    pub(in crate::viewers) fn due(&mut self, now: Instant) -> Act {
        if self.next.is_none_or(|at| at > now) {
            return Act::Nothing;
        }
        self.next = None;
        match self.conduct {
            Conduct::Good | Conduct::TinyWindow => Act::Nothing,
            Conduct::Slow { .. } => {
                self.next = Some(now + READ_INTERVAL);
                Act::Read
            }
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

    /// Whether the viewer reads and sends nothing any more.
    pub(in crate::viewers) const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Bytes that may be read at `now`.
    pub(in crate::viewers) fn may_read(&self, now: Instant) -> usize {
        match &self.pace {
            _ if self.stalled => 0,
            Some(pace) => pace.allowed(now),
            None => usize::MAX,
        }
    }

    /// Notes that `bytes` were read.
    pub(in crate::viewers) fn has_read(&mut self, bytes: usize) {
        if let Some(pace) = &mut self.pace {
            pace.read += bytes as u64;
        }
    }
}

/// A bound on the reading rate.
#[derive(Debug)]
struct Pace {
    bytes_per_second: u64,
    since: Instant,
    read: u64,
}

impl Pace {
    fn allowed(&self, now: Instant) -> usize {
        let seconds = now.saturating_duration_since(self.since).as_secs_f64();
        let allowed = (seconds * self.bytes_per_second as f64) as u64;
        usize::try_from(allowed.saturating_sub(self.read)).unwrap_or(usize::MAX)
    }
}

/// Garbage for a WebRTC peer's port.
pub(in crate::viewers) fn peer_garbage() -> Vec<u8> {
    let starts: [&[u8]; 6] = [
        // A STUN request with its cookie and no attributes that make sense.
        &[0, 1, 0, 80, 0x21, 0x12, 0xa4, 0x42],
        // DTLS 1.2: handshake of epoch 0, application data of epoch 1.
        &[22, 0xfe, 0xfd, 0, 0],
        &[23, 0xfe, 0xfd, 0, 1],
        // RTP, RTCP.
        &[0x80, 0x60],
        &[0x81, 0xcd],
        &[],
    ];
    garbage(&starts, 20..1200)
}

/// Garbage for an RTSP connection: broken frames and requests.
pub(in crate::viewers) fn stream_garbage() -> Vec<u8> {
    let starts: [&[u8]; 4] = [
        b"$",
        // Some of them are whole.
        &[b'$', 1, 0, 50],
        b"SETUP rtsp://\xff/ RTSP/1.0\r\nCSeq: -1\r\nTransport: ",
        &[],
    ];
    let mut bytes = garbage(&starts, 1..200);
    bytes.extend(b"\r\n\r\n");
    bytes
}

/// Garbage for an RTSP server's UDP ports; some of it begins like RTP or RTCP.
pub(in crate::viewers) fn datagram_garbage() -> Vec<u8> {
    let starts: [&[u8]; 5] = [&[0x80, 96], &[0x81, 201], &[0x80, 200], &[0xff, 205], &[]];
    garbage(&starts, 1..200)
}

/// One of `starts`, followed by random bytes.
fn garbage(starts: &[&[u8]], noise: Range<usize>) -> Vec<u8> {
    let mut bytes = starts[rand::random_range(0..starts.len())].to_vec();
    let length = rand::random_range(noise);
    bytes.extend((0..length).map(|_| rand::random::<u8>()));
    bytes
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
        assert_eq!((after, act), (Some(STALL_AFTER), Some(Act::Stall)));
        assert!(stalled.is_stalled() && stalled.deadline().is_none());
        assert_eq!(stalled.may_read(now), 0);
        assert!(matches!(run(Conduct::TinyWindow), (None, None, _)));
        let (after, act, _) = run(Conduct::Vanish);
        assert!(after.is_some_and(|after| (SECOND..SECOND * 2).contains(&after)));
        assert_eq!(act, Some(Act::Vanish));
        let (after, act, again) = run(Conduct::Garbage);
        assert_eq!((after, act), (Some(GARBAGE_INTERVAL), Some(Act::Garbage)));
        assert!(again.deadline().is_some());
        assert!((0..100).all(|_| !stream_garbage().is_empty()));
        assert!((0..100).all(|_| !datagram_garbage().is_empty()));
        assert!((0..100).all(|_| peer_garbage().len() >= 20));
    }

    #[test]
    fn a_slow_one_reads_at_its_rate() {
        let now = Instant::now();
        let mut slow = Misconduct::new(Conduct::Slow {
            bytes_per_second: 1000,
        });
        assert_eq!(slow.may_read(now), usize::MAX, "until it plays");
        slow.begin(now);
        assert_eq!(slow.may_read(now), 0);
        let later = slow.deadline().expect("it looks again");
        assert_eq!((later - now, slow.due(later)), (READ_INTERVAL, Act::Read));
        assert_eq!(slow.may_read(later), 50);
        slow.has_read(150);
        assert_eq!(slow.may_read(now + SECOND / 10), 0);
        assert_eq!(slow.may_read(now + SECOND), 850);
    }
}
