//! A live playlist that grows, and requests for it with any query: its text reads back without a fault, and
//! a request that waits is answered once the segment that it names has come.
//!
//! The input is a sequence of steps of three bytes. Behind a step of kind [`ASK`] is a query up to `\n`.

use std::time::Duration;

use glassline_hls::reader::{Playlist, Surroundings, read};
use glassline_hls::{Answer, Directives, MediaPlaylist, NewPart, Numbers, Terms};

/// Kinds of steps that do not push a part, among the eight.
const GAP: u8 = 5;
const CUT: u8 = 6;
const ASK: u8 = 7;

const TERMS: Terms = Terms {
    target: 2,
    part_target: Duration::from_millis(400),
    part_hold_back: Duration::from_millis(1200),
    window: Duration::from_secs(20),
    independent: false,
};

pub(crate) fn run(mut bytes: &[u8]) {
    let mut live = Live::new();
    while let Some((&[kind, number, value], rest)) = bytes.split_first_chunk::<3>() {
        bytes = rest;
        match kind & 7 {
            GAP => live.gap(Duration::from_millis(u64::from(number) * 8)),
            CUT if number & 1 == 0 => live.playlist.discontinue(),
            CUT => live.playlist.set_map(format!("i{value}.mp4").into()),
            ASK => {
                let end = bytes.iter().position(|it| *it == b'\n');
                let (query, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
                bytes = rest.get(1..).unwrap_or_default();
                live.ask(&String::from_utf8_lossy(query));
                live.ask_near(i64::from(number.cast_signed()), u64::from(value));
            }
            flags => live.push(Duration::from_millis(u64::from(number) * 2), flags),
        }
    }
    live.check_text();
    live.playlist.end();
    live.check_text();
}

struct Live {
    playlist: MediaPlaylist,
    /// Time of the next frame.
    date: Duration,
}

impl Live {
    fn new() -> Self {
        let first = Numbers {
            segment: 1000,
            part: 5,
            discontinuity: 7,
        };
        Self {
            playlist: MediaPlaylist::new(TERMS, first, "F/v".into(), "i0.mp4".into()),
            date: Duration::from_secs(1_800_000_000),
        }
    }

    /// Adds a part of at least a millisecond. A full segment ends before it.
    fn push(&mut self, duration: Duration, flags: u8) {
        let duration = duration.max(Duration::from_millis(1));
        let is_full = self.playlist.is_full_for(duration);
        self.playlist.push(NewPart {
            duration,
            bytes: 100,
            independent: flags & 1 != 0,
            begins_segment: is_full || flags & 2 != 0,
            date: self.date,
        });
        self.date += duration;
    }

    fn gap(&mut self, duration: Duration) {
        self.playlist.push_gap(duration, self.date);
        self.date += duration;
    }

    fn ask(&self, query: &str) {
        let pairs = query
            .split('&')
            .map(|it| it.split_once('=').unwrap_or((it, "")));
        match Directives::of(pairs) {
            Ok(directives) => self.check_answer(&directives),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }

    /// Asks for a segment near the end of the playlist.
    fn ask_near(&self, from_first: i64, part: u64) {
        let segment = self.playlist.first_segment().checked_add_signed(from_first);
        for part in [None, Some(part)] {
            let segment = segment.or(Some(0));
            self.check_answer(&Directives {
                segment,
                part,
                skip: false,
            });
        }
    }

    fn check_answer(&self, directives: &Directives) {
        if self.playlist.answer(directives) != Answer::Wait {
            return;
        }
        let mut later = Self {
            playlist: self.playlist.clone(),
            date: self.date,
        };
        // The awaited segment is at most the second that is not complete, and two more end it.
        for _ in 0..4 {
            later.push(Duration::from_millis(400), 3);
        }
        assert_eq!(
            later.playlist.answer(directives),
            Answer::Now,
            "{directives:?}"
        );
    }

    fn check_text(&self) {
        for skip in [false, true] {
            let text = self.playlist.text(skip, &[]);
            let reading = read(text.as_bytes(), Surroundings::default()).expect("a playlist");
            assert!(reading.faults.is_empty(), "{:?} in {text}", reading.faults);
            assert!(matches!(reading.playlist, Playlist::Media(_)));
        }
    }
}
