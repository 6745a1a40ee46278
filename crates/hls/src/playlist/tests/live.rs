//! Publishers that pause, restart, change their codec and stop, in virtual time.

use std::fmt;

use proptest::prelude::*;

use super::*;
use crate::judge::{Findings, Follower, Load, Severity, judge_media};
use crate::reader::{Playlist, Surroundings, read};

/// The next step of a publisher.
#[derive(Clone, Copy)]
enum Deed {
    /// Groups of pictures of this many frames.
    Play { groups: u8, frames: u8 },
    /// Frames this many ms apart from now on.
    Rate(u16),
    /// Nothing for this many ms, after which the same timestamps go on.
    Pause(u16),
    /// One frame that stands for this many ms.
    Hold(u16),
    /// Another source with other parameters.
    Change,
    /// Another window of rights begins.
    Move,
}

impl fmt::Debug for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Play { groups, frames } => write!(f, "{groups} groups of {frames} frames"),
            Self::Rate(ms) => write!(f, "frames of {ms} ms"),
            Self::Pause(ms) => write!(f, "pause {ms} ms"),
            Self::Hold(ms) => write!(f, "hold {ms} ms"),
            Self::Change => f.write_str("change"),
            Self::Move => f.write_str("move"),
        }
    }
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (1_u8..4, 5_u8..80).prop_map(|(groups, frames)| Deed::Play { groups, frames }),
        2 => (7_u16..201).prop_map(Deed::Rate),
        2 => (2_000_u16..9_000).prop_map(Deed::Pause),
        2 => (201_u16..2_000).prop_map(Deed::Hold),
        1 => Just(Deed::Change),
        1 => Just(Deed::Move),
    ]
}

/// A publisher of 25 frames a second at first, whose parts are cut as a writer cuts them: before the frame
/// that is too much, where a segment ends, and where the source pauses.
struct Writer {
    playlist: MediaPlaylist,
    now: Duration,
    /// Time from one frame to the next.
    frame: Duration,
    /// Media of the part that is made, and whether it has a keyframe.
    pending: Duration,
    has_keyframe: bool,
    begins: bool,
    group: Duration,
    changes: u32,
    folders: u32,
    texts: Vec<Rules>,
    /// The judge of any server's playlists, which knows nothing of the writer.
    follower: Follower,
    findings: Findings,
}

impl Writer {
    fn new() -> Self {
        Self {
            playlist: playlist(),
            now: Duration::from_secs(1_000),
            frame: ms(40),
            pending: Duration::ZERO,
            has_keyframe: false,
            begins: true,
            group: Duration::ZERO,
            changes: 1,
            folders: 1,
            texts: Vec::new(),
            follower: Follower::default(),
            findings: Findings::default(),
        }
    }

    /// Reads the playlist as one that polls it, and one that takes delta updates.
    fn look(&mut self) {
        let whole = Rules::read(&self.playlist.text(false, &[]));
        let delta = Rules::read(&self.playlist.text(true, &[]));
        if let Some(before) = self.texts.last() {
            whole.check_after(before);
            delta.check_after(before);
        }
        self.check_answers(&whole);
        self.texts.push(whole);
        let text = self.playlist.text(false, &[]);
        let reading = read(text.as_bytes(), Surroundings::default()).expect("a playlist");
        self.findings.add_faults(&reading.faults);
        let Playlist::Media(playlist) = reading.playlist else {
            panic!("a Media Playlist: {text}");
        };
        judge_media(&playlist, &mut self.findings);
        let load = Load {
            at: self.now,
            uncertainty: Duration::ZERO,
            playlist: &playlist,
        };
        self.follower.take(load, &mut self.findings);
    }

    /// Whatever the playlist lists is answered at once, and what it does not list waits.
    fn check_answers(&self, read: &Rules) {
        if self.playlist.is_ended() {
            return;
        }
        let next = read
            .last_segment()
            .map_or(self.playlist.first_segment(), |it| it + 1);
        let parts = read.open_parts() as u64;
        let answer = |part| self.playlist.answer(&asked(next, part));
        assert_eq!(answer(None), Answer::Wait);
        assert_eq!(answer(Some(parts)), Answer::Wait);
        if let Some(last) = parts.checked_sub(1) {
            assert_eq!(answer(Some(last)), Answer::Now);
        }
        if let Some(last) = read.last_segment() {
            assert_eq!(self.playlist.answer(&asked(last, None)), Answer::Now);
        }
        let far = self.playlist.answer(&asked(next + 2, None));
        assert_eq!(far, Answer::TooFarAhead);
    }

    fn push_part(&mut self) {
        if self.pending.is_zero() {
            return;
        }
        let duration = self.pending;
        let begins_segment = self.begins || self.playlist.is_full_for(duration);
        self.playlist.push(NewPart {
            duration,
            bytes: 1_000,
            independent: self.has_keyframe,
            begins_segment,
            date: self.now - duration,
        });
        (self.pending, self.has_keyframe, self.begins) = (Duration::ZERO, false, false);
        self.look();
    }

    fn push_frame(&mut self, keyframe: bool) {
        if keyframe && self.playlist.ends_at_keyframe(self.pending, self.group) {
            self.push_part();
            self.begins = true;
        }
        self.push_full_part();
        self.pending += self.frame;
        self.has_keyframe |= keyframe;
        self.now += self.frame;
        self.push_full_part();
    }

    /// Ends the part if it has no room for another frame.
    fn push_full_part(&mut self) {
        if self.pending + self.frame > self.playlist.terms().part_target {
            self.push_part();
        }
    }

    fn pause(&mut self, pause: Duration) {
        self.push_part();
        let mut rest = pause;
        let target = self.playlist.terms().target();
        while !rest.is_zero() {
            let gap = rest.min(target);
            self.playlist.push_gap(gap, self.now);
            self.now += gap;
            rest -= gap;
            self.look();
        }
    }

    fn hold(&mut self, duration: Duration) {
        self.push_part();
        self.playlist.push(NewPart {
            duration,
            bytes: 500,
            independent: false,
            begins_segment: self.begins || self.playlist.is_full_for(duration),
            date: self.now,
        });
        self.begins = false;
        self.now += duration;
        self.look();
    }

    fn act(&mut self, deed: Deed) {
        match deed {
            Deed::Play { groups, frames } => {
                for _ in 0..groups {
                    self.push_frame(true);
                    (1..frames).for_each(|_| self.push_frame(false));
                    self.group = self.frame * u32::from(frames);
                }
            }
            Deed::Rate(ms) => self.frame = Duration::from_millis(ms.into()),
            Deed::Pause(ms) => self.pause(Duration::from_millis(ms.into())),
            Deed::Hold(ms) => self.hold(Duration::from_millis(ms.into())),
            // The judge counts two discontinuities in one place once.
            Deed::Change if self.playlist.discontinuities > 0 => {}
            Deed::Change => {
                self.push_part();
                self.changes += 1;
                let map = format!("i{}.mp4", self.changes);
                self.playlist.set_map(map.into());
                self.playlist.discontinue();
            }
            Deed::Move => {
                self.folders += 1;
                let folder = format!("../w{}/video0", self.folders);
                self.playlist.set_folder(folder.into());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Each playlist keeps the rules, alone and after the one before.
    #[test]
    fn every_playlist_keeps_the_rules(deeds in proptest::collection::vec(deed(), 1..14)) {
        let mut writer = Writer::new();
        for deed in deeds {
            writer.act(deed);
        }
        writer.push_part();
        // Nobody is served an empty playlist.
        prop_assume!(!writer.texts.is_empty());
        writer.playlist.end();
        writer.look();
        let found = writer.findings.into_sorted();
        // That a source pauses is known only after the time of the next part.
        let is_of_pause = |name: &str| matches!(name, "parts-late" | "segments-late");
        let errors: Vec<_> = found
            .iter()
            .filter(|it| it.rule.severity == Severity::Error && !is_of_pause(it.rule.name))
            .collect();
        prop_assert!(errors.is_empty(), "{errors:#?}");
    }

    /// A client that reads one playlist in a while sees one Discontinuity Sequence Number for each segment.
    #[test]
    fn discontinuities_stay_with_their_segments(
        deeds in proptest::collection::vec(deed(), 1..14),
    ) {
        let mut writer = Writer::new();
        for deed in deeds {
            writer.act(deed);
        }
        let mut known = std::collections::BTreeMap::new();
        for (number, discontinuity) in writer.texts.iter().flat_map(Rules::discontinuities) {
            let before = *known.entry(number).or_insert(discontinuity);
            prop_assert_eq!(before, discontinuity);
        }
    }
}
