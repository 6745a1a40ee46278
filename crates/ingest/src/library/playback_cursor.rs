//! Chooses the frames to play, and their order.

use std::collections::VecDeque;
use std::time::Duration;

use glassline_demux::Frame;
use glassline_media::{Codec, Kind, MediaTime, Track};

use super::frame_source::{FrameSource, NextFrame, Playable, SourceError};
use super::play::Play;

/// Scale from which on only keyframes are played; all frames would be more than a decoder or a
/// network takes.
const KEYS_FROM: f64 = 2.0;

/// Slowest scale; a requested value outside the limits is replaced by the nearest limit.
const SCALE_MIN: f64 = 0.125;
/// Fastest scale, forwards and backwards.
const SCALE_MAX: f64 = 64.0;
/// Slowest speed of sending.
const SPEED_MIN: f64 = 0.25;
/// Fastest speed of sending.
const SPEED_MAX: f64 = 8.0;

/// Shortest presented time between two keyframes when only keyframes are played: a tenth of a
/// second is quick enough to find a position by eye.
const KEY_GAP: Duration = Duration::from_millis(100);

/// Most frames that are read to find the keyframe of a position.
const SEARCH_MAX: usize = 1_000;

/// Most bytes of a keyframe in a transport stream.
const KEY_BYTES_MAX: usize = 4 << 20;

/// A frame, and the times at which it is sent and shown.
#[derive(Clone, Debug)]
pub(super) struct ScheduledFrame {
    pub(super) frame: Frame,
    /// Time at which the frame is to be sent, on a timeline that always runs forward.
    pub(super) due: MediaTime,
    /// Time at which the frame is presented, on the same timeline.
    pub(super) shown: MediaTime,
    /// Position of the frame in the file.
    pub(super) position: Duration,
}

impl ScheduledFrame {
    /// Returns the time at which the frame's presentation ends.
    pub(super) fn end(&self) -> MediaTime {
        self.shown + self.frame.duration
    }
}

/// Result of reading further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Frames were read.
    Read,
    /// The next frame is not there yet.
    Waiting,
    /// All frames were read.
    Ended,
}

/// Reads the frames of one playback in the order of playing.
pub(super) struct PlaybackCursor {
    tracks: Vec<Track>,
    source: Box<dyn FrameSource>,
    selection: FrameSelection,
    until_ns: Option<i64>,
    once: bool,
    ended: bool,
}

enum FrameSelection {
    /// All frames; only video frames if the scale is not 1.
    All {
        video_only: bool,
    },
    Keyframes(KeyframeWalk),
}

/// State of playing only keyframes.
struct KeyframeWalk {
    /// Position of the next keyframe in the file, in ns; `None` if there is none.
    next_ns: Option<i64>,
    backwards: bool,
    /// Shortest distance between two keyframes in the file, in ns.
    step_ns: i64,
    /// Presented time so far, in ns.
    run_ns: i64,
}

/// The requested scale and speed, brought within the limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Effective {
    pub(super) scale: f64,
    pub(super) speed: f64,
}

impl Effective {
    pub(super) fn of(play: &Play, has_video: bool) -> Self {
        let bounded = |value: f64, min: f64, max: f64| {
            if value.is_finite() && value.abs() > 0.0 {
                value.abs().clamp(min, max)
            } else {
                1.0
            }
        };
        let scale = bounded(play.scale, SCALE_MIN, SCALE_MAX).copysign(play.scale);
        Self {
            scale: if has_video { scale } else { 1.0 },
            speed: bounded(play.speed, SPEED_MIN, SPEED_MAX),
        }
    }

    fn keys_only(self) -> bool {
        self.scale < 0.0 || self.scale >= KEYS_FROM
    }
}

impl PlaybackCursor {
    /// Plays `of` from the position `from` with the settings `play`. Returns the position where the
    /// playback begins, too. Reads the file.
    pub(super) fn new(
        of: &dyn Playable,
        from: Duration,
        play: &Play,
        effective: Effective,
    ) -> Result<(Self, Duration), SourceError> {
        let mut source = of.frames(play.once);
        let requested = MediaTime::from_nanos(nanos(from)).min(source.end());
        let key = source.beginning(requested, effective.scale < 0.0)?;
        let begin = key.map_or(requested, |key| key.max(MediaTime::ZERO));
        let keyframes = play.keyframes.filter(|_| of.has_video());
        let selection = if effective.keys_only() || keyframes.is_some() {
            let apart = keyframes.map_or(0, |it| nanos(it).max(1));
            let fast = if effective.keys_only() {
                step(effective.scale)
            } else {
                1
            };
            FrameSelection::Keyframes(KeyframeWalk {
                next_ns: key.map(MediaTime::nanos),
                backwards: effective.scale < 0.0,
                step_ns: apart.max(fast),
                run_ns: 0,
            })
        } else {
            // At the start, everything before time zero belongs to the playback.
            if begin > MediaTime::ZERO {
                source.seek(begin)?;
            }
            let video_only = (effective.scale - 1.0).abs() > f64::EPSILON;
            FrameSelection::All { video_only }
        };
        let cursor = Self {
            tracks: of.tracks().to_vec(),
            source,
            selection,
            until_ns: play.until.map(nanos),
            once: play.once,
            ended: false,
        };
        Ok((cursor, duration(begin.nanos())))
    }

    /// Returns the time of the beginning on the playback's timeline.
    pub(super) fn zero(&self, begin: Duration) -> MediaTime {
        match self.selection {
            FrameSelection::All { .. } => MediaTime::from_nanos(nanos(begin)),
            FrameSelection::Keyframes(_) => MediaTime::ZERO,
        }
    }

    /// Returns whether keyframes alone are played.
    pub(super) const fn plays_keyframes(&self) -> bool {
        matches!(self.selection, FrameSelection::Keyframes(_))
    }

    /// Appends the next frames to `out`.
    ///
    /// # Errors
    /// Returns the error of reading the file; the playback has ended then.
    pub(super) fn read(
        &mut self,
        out: &mut VecDeque<ScheduledFrame>,
    ) -> Result<Progress, SourceError> {
        if self.ended {
            return Ok(Progress::Ended);
        }
        let read = match self.selection {
            FrameSelection::All { video_only } => self.read_frame(video_only, out),
            FrameSelection::Keyframes(_) => self.read_key(out),
        };
        self.ended = !matches!(read, Ok(Progress::Read | Progress::Waiting));
        read
    }

    fn read_frame(
        &mut self,
        video_only: bool,
        out: &mut VecDeque<ScheduledFrame>,
    ) -> Result<Progress, SourceError> {
        loop {
            let (frame, position) = match self.source.next_frame()? {
                NextFrame::Frame { frame, position } => (frame, position),
                NextFrame::Later => return Ok(Progress::Waiting),
                NextFrame::End => return Ok(Progress::Ended),
            };
            let lead = frame.time.nanos().saturating_sub(frame.decode_time.nanos());
            let decoded_ns = position.nanos().saturating_sub(lead);
            if self.until_ns.is_some_and(|until| decoded_ns >= until) {
                return Ok(Progress::Ended);
            }
            if video_only && self.tracks[frame.track.get()].kind() != Kind::Video {
                continue;
            }
            out.push_back(ScheduledFrame {
                due: frame.decode_time,
                shown: frame.time,
                position: duration(position.nanos()),
                frame,
            });
            return Ok(Progress::Read);
        }
    }

    fn read_key(&mut self, out: &mut VecDeque<ScheduledFrame>) -> Result<Progress, SourceError> {
        let FrameSelection::Keyframes(keys) = &self.selection else {
            return Ok(Progress::Ended);
        };
        let (run_ns, backwards, step_ns) = (keys.run_ns, keys.backwards, keys.step_ns);
        let Some(key_ns) = keys.next_ns else {
            return Ok(Progress::Ended);
        };
        let is_over = |until: i64| {
            if backwards {
                key_ns < until
            } else {
                key_ns >= until
            }
        };
        if self.until_ns.is_some_and(is_over) {
            return Ok(Progress::Ended);
        }
        self.source.seek(MediaTime::from_nanos(key_ns))?;
        let frames = self.key_frames()?;
        if frames.is_empty() {
            // The index names frames that are not there. In a loop there would be nothing to wait
            // for.
            return Ok(Progress::Ended);
        }
        for frame in frames {
            out.push_back(ScheduledFrame {
                due: MediaTime::from_nanos(run_ns),
                shown: MediaTime::from_nanos(run_ns),
                position: duration(key_ns),
                frame,
            });
        }
        let (next_ns, distance) = if backwards {
            self.key_before(key_ns, step_ns)?
        } else {
            self.key_after(key_ns, step_ns)?
        };
        if let FrameSelection::Keyframes(keys) = &mut self.selection {
            keys.next_ns = next_ns;
            keys.run_ns = run_ns.saturating_add(distance.max(1));
        }
        Ok(Progress::Read)
    }

    /// Returns the position of the next keyframe, and the distance to it.
    fn key_after(&mut self, key_ns: i64, step_ns: i64) -> Result<(Option<i64>, i64), SourceError> {
        let mut next = self.after(key_ns.saturating_add(step_ns - 1))?;
        if next.is_none() {
            // If there is no keyframe that late, the file's last one is used.
            let last = self.before(self.source.end().nanos())?;
            next = last.filter(|last| *last > key_ns);
        }
        if let Some(next) = next {
            return Ok((Some(next), self.played_between(key_ns, next)?));
        }
        let rest = self.source.end().nanos().saturating_sub(key_ns);
        if self.once {
            return Ok((None, rest));
        }
        // Playback wraps around the end.
        let first = self.after(-1)?;
        Ok((first, rest.saturating_add(first.unwrap_or(0))))
    }

    fn key_before(&mut self, key_ns: i64, step_ns: i64) -> Result<(Option<i64>, i64), SourceError> {
        let mut next = self.before(key_ns.saturating_sub(step_ns))?;
        if next.is_none() {
            // If there is no keyframe that early, the one right before is used.
            next = self.before(key_ns - 1)?;
        }
        if let Some(next) = next.filter(|next| *next < key_ns) {
            return Ok((Some(next), self.played_between(next, key_ns)?));
        }
        if self.once {
            return Ok((None, key_ns));
        }
        let end = self.source.end().nanos();
        let last = self.before(end)?;
        let rest = last.map_or(0, |last| end - last);
        Ok((last, key_ns.saturating_add(rest)))
    }

    fn after(&mut self, ns: i64) -> Result<Option<i64>, SourceError> {
        let found = self.source.keyframe_after(MediaTime::from_nanos(ns))?;
        Ok(found.map(MediaTime::nanos))
    }

    fn before(&mut self, ns: i64) -> Result<Option<i64>, SourceError> {
        let at = MediaTime::from_nanos(ns);
        let found = self.source.keyframe_at_or_before(at)?;
        Ok(found.map(MediaTime::nanos))
    }

    fn played_between(&mut self, from_ns: i64, to_ns: i64) -> Result<i64, SourceError> {
        let (from, to) = (MediaTime::from_nanos(from_ns), MediaTime::from_nanos(to_ns));
        self.source.played_between(from, to).map(nanos)
    }

    /// Returns the frames of the keyframe that was just sought: one, or the packets of a transport
    /// stream that carry it.
    fn key_frames(&mut self) -> Result<Vec<Frame>, SourceError> {
        let mut frames = Vec::new();
        let mut video_frame = TransportFrame::default();
        let mut bytes = 0;
        for _ in 0..SEARCH_MAX.max(KEY_BYTES_MAX / 188) {
            let NextFrame::Frame { frame, .. } = self.source.next_frame()? else {
                break;
            };
            let track = &self.tracks[frame.track.get()];
            if track.kind() != Kind::Video || frames.is_empty() && !frame.keyframe {
                continue;
            }
            if track.codec != Codec::MpegTs {
                return Ok(vec![frame]);
            }
            bytes += frame.data.len();
            if video_frame.ends_in(&frame.data) || bytes > KEY_BYTES_MAX {
                break;
            }
            frames.push(frame);
        }
        Ok(frames)
    }
}

/// Finds the end of the frame that a run of transport stream packets begins with
/// (ISO/IEC 13818-1 §2.4.3.2: `payload_unit_start_indicator`).
#[derive(Debug, Default)]
struct TransportFrame {
    /// PID of the packets that carry the frame.
    pid: Option<u16>,
}

impl TransportFrame {
    /// Returns whether the next frame begins in these packets.
    fn ends_in(&mut self, packets: &[u8]) -> bool {
        let mut starts = packets.chunks_exact(188).filter_map(pes_start);
        starts.any(|pid| match self.pid {
            None => {
                self.pid = Some(pid);
                false
            }
            Some(video_frame) => pid == video_frame,
        })
    }
}

/// Returns the PID of a packet in which an elementary stream's unit begins.
fn pes_start(packet: &[u8]) -> Option<u16> {
    let starts = packet[1] & 0x40 != 0;
    let pid = u16::from(packet[1] & 0x1f) << 8 | u16::from(packet[2]);
    let has_adaptation = packet[3] & 0x20 != 0;
    let payload = if has_adaptation {
        5 + usize::from(packet[4])
    } else {
        4
    };
    let is_pes = packet.get(payload..)?.starts_with(&[0, 0, 1]);
    (starts && is_pes).then_some(pid)
}

fn step(scale: f64) -> i64 {
    (scale.abs() * KEY_GAP.as_nanos() as f64) as i64
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

fn duration(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of `pid`; with `head` an elementary stream's unit begins in it.
    fn packet(pid: u16, begins: bool, adaptation: usize) -> [u8; 188] {
        let mut packet = [0xff; 188];
        let [high, low] = pid.to_be_bytes();
        packet[..3].copy_from_slice(&[0x47, high | u8::from(begins) << 6, low]);
        packet[3] = if adaptation > 0 { 0x30 } else { 0x10 };
        let mut at = 4;
        if adaptation > 0 {
            packet[4] = u8::try_from(adaptation - 1).expect("short");
            at += adaptation;
        }
        if begins {
            packet[at..at + 3].copy_from_slice(&[0, 0, 1]);
        }
        packet
    }

    #[test]
    fn the_frame_of_a_transport_stream_ends_where_the_next_begins() {
        let mut video_frame = TransportFrame::default();
        let first = [packet(0, false, 0), packet(0x100, true, 8)].concat();
        assert!(!video_frame.ends_in(&first), "its own beginning");
        let rest = [packet(0x100, false, 0), packet(0x101, true, 0)].concat();
        assert!(!video_frame.ends_in(&rest), "audio begins");
        assert!(video_frame.ends_in(&packet(0x100, true, 0)));
    }

    #[test]
    fn the_pid_of_a_packet_has_thirteen_bits() {
        for (adaptation, pid) in [(0, 0x1fff), (8, 0x1fff), (0, 0x100), (20, 0x0aa)] {
            assert_eq!(pes_start(&packet(pid, true, adaptation)), Some(pid));
            assert_eq!(pes_start(&packet(pid, false, adaptation)), None);
            let mut marked = packet(pid, true, adaptation);
            marked[1] |= 0xa0;
            marked[3] |= 0xc0;
            assert_eq!(pes_start(&marked), Some(pid), "error, priority, scrambling");
            marked[1] &= !0x40;
            assert_eq!(pes_start(&marked), None);
        }
    }

    #[test]
    fn packets_of_nonsense_begin_nothing() {
        let mut all_adaptation = packet(0x100, true, 0);
        all_adaptation[3] = 0x30;
        all_adaptation[4] = 255;
        assert_eq!(pes_start(&all_adaptation), None);
        assert_eq!(pes_start(&[0xff; 188]), None);
    }

    #[test]
    fn what_is_asked_for_is_brought_within_bounds() {
        let effective = |scale, speed| {
            let play = Play {
                scale,
                speed,
                ..Play::default()
            };
            let Effective { scale, speed } = Effective::of(&play, true);
            (scale, speed)
        };
        assert_eq!(effective(-4.0, 2.0), (-4.0, 2.0));
        assert_eq!(effective(1e9, 1e9), (SCALE_MAX, SPEED_MAX));
        assert_eq!(effective(-1e-9, 1e-9), (-SCALE_MIN, SPEED_MIN));
        assert_eq!(effective(f64::NAN, f64::INFINITY), (1.0, 1.0));
        assert_eq!(effective(0.0, -2.0), (1.0, 2.0));
    }
}
