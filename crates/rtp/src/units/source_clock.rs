use std::time::{Duration, Instant};

use glassline_media::{MediaTime, TrackIndex};

/// Jump of a track's timestamps from which on the source counts as started anew.
const LEAP: Duration = Duration::from_secs(2);

/// Longest move of a track by sender reports. Reports that demand more are ignored: cameras without
/// a set clock report arbitrary times.
const SHIFT_MAX: Duration = Duration::from_secs(5);

/// Shortest move of a track by sender reports; less is jitter of the reports. Audio and video this
/// close are in sync (ITU-R BT.1359 finds errors below 45 ms not detectable).
const SHIFT_MIN: Duration = Duration::from_millis(10);

/// Largest difference between two reports of a track, by the calendar and by its timestamps, that is
/// jitter. With more, the sender's clock was set or the timestamps leapt.
const REPORT_JITTER: Duration = Duration::from_millis(50);

/// Longest delay of a packet behind the one before that is jitter, where timestamps leap.
const ARRIVAL_JITTER: Duration = Duration::from_millis(100);

/// Step between times of a track that was moved backwards, until its timestamps pass its latest
/// time.
const CREEP: Duration = Duration::from_millis(1);

/// Maps the timestamps of all tracks of one source to one timeline.
///
/// A track begins where its first packet arrived, or where the sender reports (RFC 3550 §6.4.1) that
/// came before say: several frames of audio in one packet arrive up to a second later than they were
/// taken. Reports that come later move the video to the audio: a frame shown a little longer is not
/// seen, a gap in audio is heard. Where the timestamps of a track leap, its times go on, so that sound
/// and picture stay together until the next reports. Times of a track never go back.
#[derive(Debug)]
pub(super) struct SourceClock {
    zero: Option<Instant>,
    states: Vec<TrackState>,
    /// Index of the track that is never moved.
    fixed: TrackIndex,
}

/// RTP ticks, and the nanoseconds on the source's timeline that they stand for.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    ticks: i64,
    nanos: i64,
}

/// A sender report: the calendar time at which the source sampled a timestamp.
#[derive(Clone, Copy, Debug)]
struct Report {
    /// Calendar time in nanoseconds since 1900.
    wall: i128,
    ticks: i64,
}

#[derive(Clone, Copy, Debug)]
struct TrackState {
    rate: u32,
    anchor: Option<Anchor>,
    /// RTP ticks and arrival of the latest packet.
    latest: Option<(i64, Instant)>,
    /// Shortest time in nanoseconds between two units of late; it grows slowly when units come less often.
    step: Option<i64>,
    /// Arrival of the latest packet, and the time in nanoseconds of its first unit.
    arrival: Option<(Instant, i64)>,
    /// The latest sender report.
    report: Option<Report>,
    /// Time that every later time must exceed, after the track was moved backwards.
    floor: Option<MediaTime>,
    out: MediaTime,
}

impl SourceClock {
    /// Creates a clock for tracks with these clock rates in Hz. The track `fixed` is never moved.
    pub(super) fn new(rates: &[u32], fixed: TrackIndex) -> Self {
        let state = |rate: &u32| TrackState {
            rate: *rate,
            anchor: None,
            latest: None,
            step: None,
            arrival: None,
            report: None,
            floor: None,
            out: MediaTime::from_nanos(i64::MIN),
        };
        Self {
            zero: None,
            states: rates.iter().map(state).collect(),
            fixed,
        }
    }

    /// Returns the time of an access unit of `track` with the extended timestamp `ticks`, whose
    /// first packet arrived at `received`.
    pub(super) fn time(&mut self, track: TrackIndex, ticks: i64, received: Instant) -> MediaTime {
        let zero = *self.zero.get_or_insert(received);
        let Some(state) = self.states.get_mut(track.get()) else {
            return MediaTime::ZERO;
        };
        if state.leaps(ticks, received) {
            let nanos = state.continued(received);
            state.anchor = nanos.map(|nanos| Anchor { ticks, nanos });
            state.report = None;
            state.floor = Some(state.out);
        } else {
            state.note_step(ticks);
        }
        state.latest = Some((ticks, received));
        let arrival_ns = nanos(received.saturating_duration_since(zero));
        let anchor = match state.anchor {
            Some(anchor) => anchor,
            None => self.first_anchor(track, ticks, arrival_ns),
        };
        let state = &mut self.states[track.get()];
        state.anchor = Some(anchor);
        let nanos = state.nanos_at(anchor, ticks);
        if state.arrival.is_none_or(|(at, _)| at != received) {
            state.arrival = Some((received, nanos));
        }
        let mut time = MediaTime::from_nanos(nanos);
        if let Some(floor) = state.floor {
            if time > floor {
                state.floor = None;
            } else {
                time = floor + CREEP;
                state.floor = Some(time);
            }
        }
        state.out = time;
        time
    }

    /// Notes that the sender sampled the extended timestamp `ticks` of `track` at the NTP time
    /// `ntp`.
    pub(super) fn sender_report(&mut self, track: TrackIndex, ntp: u64, ticks: i64) {
        let Some(state) = self.states.get_mut(track.get()) else {
            return;
        };
        let wall = ntp_nanos(ntp);
        let report = Report { wall, ticks };
        // Reports of other tracks from before such a step say nothing about this one.
        if state.disagrees(report) {
            self.states.iter_mut().for_each(|it| it.report = None);
        }
        self.states[track.get()].report = Some(report);
        for track in TrackIndex::first(self.states.len()) {
            self.align(track);
        }
    }

    /// Returns how far the sender's wall clock is ahead of the time of `track`, in ns since 1900; `None`
    /// without a sender report.
    pub(super) fn wall_clock(&self, track: TrackIndex) -> Option<i128> {
        let state = self.states.get(track.get())?;
        let Report { wall, ticks } = state.report?;
        Some(wall - i128::from(state.nanos_at(state.anchor?, ticks)))
    }

    /// Returns where `track` begins with `ticks`, which arrived at `arrival_ns` of the timeline.
    fn first_anchor(&self, track: TrackIndex, ticks: i64, arrival_ns: i64) -> Anchor {
        let arrived = Anchor {
            ticks,
            nanos: arrival_ns,
        };
        let is_near = |it: &Anchor| {
            let nanos = self.states[track.get()].nanos_at(*it, ticks);
            Duration::from_nanos(nanos.abs_diff(arrival_ns)) <= SHIFT_MAX
        };
        let reported = self.reported_place(track).filter(is_near);
        reported.unwrap_or(arrived)
    }

    /// Returns the place that the reports give `track` against one that has begun, the fixed one if it
    /// has; `None` without both reports.
    fn reported_place(&self, track: TrackIndex) -> Option<Anchor> {
        let state = self.states.get(track.get())?;
        let fixed = self.states.get(self.fixed.get())?;
        let others = TrackIndex::enumerate(&self.states).filter(|(it, _)| *it != track);
        let mut begun = std::iter::once(fixed)
            .filter(|_| track != self.fixed)
            .chain(others.map(|(_, other)| other))
            .filter_map(|other| other.anchor.zip(other.report).map(|known| (other, known)));
        let Report { wall, ticks } = state.report?;
        let (other, (anchor, of_other)) = begun.next()?;
        let nanos = i128::from(other.nanos_at(anchor, of_other.ticks)) + (wall - of_other.wall);
        let nanos = i64::try_from(nanos).ok()?;
        Some(Anchor { ticks, nanos })
    }

    /// Moves `track` to the place that the reports give it against the fixed track.
    fn align(&mut self, track: TrackIndex) {
        let fixed = self.states.get(self.fixed.get());
        let is_fixed_known = fixed.is_some_and(|it| it.anchor.is_some() && it.report.is_some());
        let Some(wanted) = self
            .reported_place(track)
            .filter(|_| is_fixed_known && track != self.fixed)
        else {
            return;
        };
        let Some(state) = self.states.get_mut(track.get()) else {
            return;
        };
        let Some(anchor) = state.anchor else {
            return;
        };
        let shift = wanted
            .nanos
            .saturating_sub(state.nanos_at(anchor, wanted.ticks));
        let distance = Duration::from_nanos(shift.unsigned_abs());
        if distance > SHIFT_MAX || distance < SHIFT_MIN {
            return;
        }
        tracing::debug!(
            track = track.get(),
            shift_ms = shift / 1_000_000,
            "track aligned by sender reports"
        );
        state.anchor = Some(Anchor {
            nanos: anchor.nanos + shift,
            ..anchor
        });
        state.floor = Some(state.out);
    }
}

impl TrackState {
    fn nanos_at(&self, anchor: Anchor, ticks: i64) -> i64 {
        let since = MediaTime::from_ticks(ticks.saturating_sub(anchor.ticks), self.rate);
        anchor.nanos.saturating_add(since.nanos())
    }

    /// Notes the time between the latest unit and one at `ticks`.
    fn note_step(&mut self, ticks: i64) {
        let Some((before, _)) = self.latest.filter(|(before, _)| *before != ticks) else {
            return;
        };
        let step = MediaTime::from_ticks(ticks.saturating_sub(before), self.rate);
        let step = step.nanos().saturating_abs();
        let most = self.step.map_or(i64::MAX, |it| it + it / 8);
        self.step = Some(step.min(most));
    }

    /// Returns the place of a unit that arrives at `received` with a timestamp that leaps: next to the
    /// unit before, or later if it arrives later than jitter explains. `None` before the second unit.
    fn continued(&self, received: Instant) -> Option<i64> {
        let (before, _) = self.latest?;
        let next = self
            .nanos_at(self.anchor?, before)
            .saturating_add(self.step?);
        let (then, first) = self.arrival?;
        let arrived = first.saturating_add(nanos(received.saturating_duration_since(then)));
        let is_late = arrived > next.saturating_add(nanos(ARRIVAL_JITTER));
        Some(if is_late { arrived } else { next })
    }

    /// Returns whether a report and the one before it tell different relations of calendar and timestamps.
    fn disagrees(&self, report: Report) -> bool {
        self.report.is_some_and(|before| {
            let ticks = report.ticks.saturating_sub(before.ticks);
            let passed = MediaTime::from_ticks(ticks, self.rate);
            let by_wall = report.wall - before.wall;
            by_wall.abs_diff(passed.nanos().into()) > REPORT_JITTER.as_nanos()
        })
    }

    /// Returns whether the timestamps went back, or further ahead than the time that passed.
    fn leaps(&self, ticks: i64, received: Instant) -> bool {
        let Some((before, then)) = self.latest else {
            return false;
        };
        let passed = nanos(received.saturating_duration_since(then));
        let step = MediaTime::from_ticks(ticks.saturating_sub(before), self.rate).nanos();
        let leap = nanos(LEAP);
        step < -leap || step > passed.saturating_add(leap)
    }
}

/// Converts an NTP timestamp to nanoseconds since 1900.
fn ntp_nanos(ntp: u64) -> i128 {
    (i128::from(ntp) * 1_000_000_000) >> 32
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIDEO: TrackIndex = TrackIndex(0);
    const AUDIO: TrackIndex = TrackIndex(1);

    fn clock() -> SourceClock {
        SourceClock::new(&[90_000, 48_000], AUDIO)
    }

    fn ms(time: MediaTime) -> i64 {
        time.nanos() / 1_000_000
    }

    fn ntp(ms: u64) -> u64 {
        (3_900_000_000 << 32) + (ms << 32) / 1000
    }

    #[test]
    fn tracks_begin_where_their_first_packets_arrive() {
        let start = Instant::now();
        let mut clock = clock();
        assert_eq!(ms(clock.time(VIDEO, 1_000_000, start)), 0);
        let later = start + Duration::from_millis(30);
        assert_eq!(ms(clock.time(AUDIO, 777, later)), 30);
        // After the first packet the timestamps decide, however late packets come.
        let late = start + Duration::from_millis(500);
        assert_eq!(ms(clock.time(VIDEO, 1_003_000, late)), 33);
        assert_eq!(ms(clock.time(AUDIO, 777 + 960, late)), 50);
    }

    #[test]
    fn sender_reports_move_the_frame_to_the_audio() {
        let start = Instant::now();
        let mut clock = clock();
        clock.time(VIDEO, 0, start);
        clock.time(AUDIO, 0, start);
        // Both tracks began together by arrival, but the frame was taken 200 ms after the audio.
        clock.sender_report(AUDIO, ntp(1000), 48_000);
        let before = clock.time(VIDEO, 90_000, start + Duration::from_secs(1));
        assert_eq!(ms(before), 1000, "one report alone moves nothing");
        clock.sender_report(VIDEO, ntp(1200), 90_000);
        let now = start + Duration::from_millis(1033);
        assert_eq!(ms(clock.time(VIDEO, 93_000, now)), 1233);
        assert_eq!(ms(clock.time(AUDIO, 48_960, now)), 1020);
        // The same report again, with a little jitter, moves nothing more.
        clock.sender_report(VIDEO, ntp(2205), 180_000);
        let now = start + Duration::from_millis(1066);
        assert_eq!(ms(clock.time(VIDEO, 96_000, now)), 1266);
    }

    /// FFmpeg sends a report ahead of each track's first packet, which has up to 0.7 s of AAC.
    #[test]
    fn reports_ahead_of_the_first_packets_place_them_from_the_beginning() {
        for audio_is_late in [true, false] {
            let start = Instant::now();
            let mut clock = clock();
            let late = start + Duration::from_millis(680);
            let (first, second) = match audio_is_late {
                true => (VIDEO, AUDIO),
                false => (AUDIO, VIDEO),
            };
            clock.sender_report(first, ntp(1000), 7_000);
            assert_eq!(ms(clock.time(first, 7_000, start)), 0);
            clock.sender_report(second, ntp(1250), 5_000);
            assert_eq!(ms(clock.time(second, 5_000, late)), 250);
        }
        // A camera whose clocks disagree by minutes begins by arrival.
        let start = Instant::now();
        let mut clock = clock();
        clock.sender_report(VIDEO, ntp(1000), 0);
        clock.time(VIDEO, 0, start);
        clock.sender_report(AUDIO, ntp(90_000), 0);
        let later = start + Duration::from_millis(30);
        assert_eq!(ms(clock.time(AUDIO, 0, later)), 30);
    }

    #[test]
    fn a_frame_that_must_wait_for_the_audio_never_goes_back() {
        let start = Instant::now();
        let mut clock = clock();
        clock.time(AUDIO, 0, start);
        clock.time(VIDEO, 0, start);
        clock.time(VIDEO, 90_000, start + Duration::from_secs(1));
        clock.sender_report(AUDIO, ntp(1000), 48_000);
        clock.sender_report(VIDEO, ntp(900), 90_000);
        let mut last = 1000;
        for frame in 1..=10i64 {
            let at = start + Duration::from_secs(1) + Duration::from_millis(33) * frame as u32;
            let time = ms(clock.time(VIDEO, 90_000 + 3000 * frame, at));
            assert!(time > last, "{time} after {last}");
            last = time;
        }
        assert_eq!(last, 1233);
    }

    #[test]
    fn nonsense_reports_and_clocks_that_leap_do_no_harm() {
        let start = Instant::now();
        let mut clock = clock();
        clock.time(AUDIO, 0, start);
        clock.time(VIDEO, 0, start);
        clock.sender_report(AUDIO, ntp(0), 0);
        clock.sender_report(VIDEO, 0, 0);
        let second = start + Duration::from_secs(1);
        clock.time(VIDEO, 86_400, second - Duration::from_millis(40));
        assert_eq!(ms(clock.time(VIDEO, 90_000, second)), 1000);
        // An encoder that starts over, and one whose clock was set.
        let next = second + Duration::from_millis(40);
        assert_eq!(ms(clock.time(VIDEO, -900_000, next)), 1040);
        let next = next + Duration::from_millis(40);
        assert_eq!(ms(clock.time(VIDEO, 900_000_000, next)), 1080);
        // A network that stalls is no jump: the timeline continues.
        let next = next + Duration::from_secs(8);
        assert_eq!(ms(clock.time(VIDEO, 900_003_600, next)), 1120);
    }

    /// Encoders start anew with any timestamp, and packets of a busy machine come late.
    #[test]
    fn audio_and_video_stay_together_where_their_timestamps_leap() {
        for leap_s in [-10, 5, 3600] {
            let start = Instant::now();
            let mut clock = clock();
            let mut apart = 0;
            let mut last = [-1; 2];
            for packet in 0..100i64 {
                // A packet has seven frames of AAC, and arrives when the last one is complete.
                let audio_s = if packet >= 50 { leap_s } else { 0 };
                let late = if packet == 50 { 60 } else { 20 * (packet % 3) };
                let arrived = start + Duration::from_micros(149_333 * (packet + 1) as u64);
                let arrived = arrived + Duration::from_millis(late as u64);
                for frame in packet * 7..packet * 7 + 7 {
                    let time = clock.time(AUDIO, (frame * 1024) + audio_s * 48_000, arrived);
                    apart = apart.max((ms(time) - frame * 64 / 3).abs());
                    assert!(ms(time) > last[1], "audio goes back to {time:?}");
                    last[1] = ms(time);
                }
                // Four frames a packet; the picture leaps a second later.
                for frame in packet * 4..packet * 4 + 4 {
                    let video_s = if frame >= 227 { leap_s } else { 0 };
                    let arrived = start + Duration::from_micros(37_333 * frame as u64);
                    let arrived = arrived + Duration::from_millis(late as u64);
                    let time = clock.time(VIDEO, frame * 3360 + video_s * 90_000, arrived);
                    apart = apart.max((ms(time) - frame * 112 / 3).abs());
                    assert!(ms(time) > last[0], "video goes back to {time:?}");
                    last[0] = ms(time);
                }
            }
            assert!(
                apart <= 2,
                "{apart} ms from its place behind a leap of {leap_s} s"
            );
        }
    }

    #[test]
    fn a_unit_behind_a_leap_and_a_pause_comes_behind_the_pause() {
        let start = Instant::now();
        let mut clock = clock();
        for frame in 0..10i64 {
            let at = start + Duration::from_millis(40) * frame as u32;
            clock.time(VIDEO, 3600 * frame, at);
        }
        let later = start + Duration::from_secs(7);
        assert_eq!(ms(clock.time(VIDEO, 900_000_000, later)), 7000);
    }

    /// The reports of both tracks come at different moments, and a step lies between them.
    #[test]
    fn reports_from_before_a_step_move_nothing() {
        let start = Instant::now();
        for (ticks_ms, wall_ms) in [(500, 0), (0, 1500), (0, -1500)] {
            let mut clock = clock();
            clock.time(AUDIO, 0, start);
            clock.time(VIDEO, 0, start);
            clock.sender_report(AUDIO, ntp(10_000), 0);
            clock.sender_report(VIDEO, ntp(10_000), 0);
            let at = start + Duration::from_secs(5);
            let wall = ntp((15_000 + wall_ms) as u64);
            let video = (5000 + ticks_ms) * 90;
            clock.sender_report(VIDEO, wall, video);
            assert_eq!(ms(clock.time(VIDEO, video, at)), 5000 + ticks_ms);
            clock.sender_report(AUDIO, wall, (5000 + ticks_ms) * 48);
            let next = at + Duration::from_millis(40);
            assert_eq!(ms(clock.time(VIDEO, video + 3600, next)), 5040 + ticks_ms);
        }
    }
}
