//! Sources that pause, are held up, or run late, in virtual time, before the judge of any server's playlists.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use glassline_demux::{Frame, Options};
use glassline_hls::judge::{Findings, Follower, Load, Severity, judge_media};
use glassline_hls::reader::{MediaPlaylist, Playlist, Surroundings, read};
use glassline_hls::{Directives, Numbers, Terms};
use glassline_hub::{Limits, Stream, StreamName};
use glassline_media::{
    DecodeLead, MediaTime, MediaUnit, Stamps, TrackIndex, TrackLayer, UnitBuilder, WallClock,
};

use super::broadcast::Broadcast;
use super::track_writer::{Common, TrackWriter, part_target};
use crate::config::Hls as Settings;

/// Length of each case.
const SPAN: Duration = Duration::from_secs(24);

/// Time between two looks at silent sources, as the writer has them.
const TICK: Duration = Duration::from_millis(250);

/// The arrival of a frame by its decode time; `None` for a frame that is never sent.
type Arrival = fn(Duration) -> Option<Duration>;

const fn s(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Sources, and how many gaps the playlists have of each.
const CASES: &[(&str, Arrival, std::ops::Range<usize>)] = &[
    ("a steady source", |at| Some(at), 0..1),
    (
        "frames are missing for less than a segment",
        |at| (at < s(7300) || at >= s(8500)).then_some(at),
        0..1,
    ),
    (
        "frames are missing for five seconds",
        |at| (at < s(7300) || at >= s(12_300)).then_some(at),
        1..4,
    ),
    (
        "frames are held up for five seconds, and come at once",
        |at| Some(if at < s(7300) { at } else { at.max(s(12_300)) }),
        1..4,
    ),
    (
        "the source stands still for five seconds, and is late from then on",
        |at| Some(if at < s(7300) { at } else { at + s(5000) }),
        1..5,
    ),
    (
        "frames are held up for less than a segment",
        |at| Some(if at < s(7300) { at } else { at.max(s(8500)) }),
        0..1,
    ),
];

struct Scene {
    broadcast: Broadcast,
    writers: Vec<TrackWriter>,
    common: Common,
    zero: Instant,
    wall: WallClock,
    /// The judge's view of each rendition.
    followed: Vec<(Follower, Option<MediaPlaylist>)>,
    findings: Findings,
}

impl Scene {
    fn new(film: &glassline_demux::Demuxer) -> Self {
        let zero = Instant::now() + Duration::from_secs(1000);
        let name = StreamName::parse("cam").expect("a name");
        let settings = Settings::default();
        let stream = Stream::unlisted(name, Limits::default());
        let broadcast = Broadcast::new(stream, settings, zero);
        let unix = Duration::from_secs(1_800_000_000);
        let longest = part_target(settings.part(), 25.0);
        let common = Common {
            terms: Terms {
                target: settings.segment_s,
                part_target: settings.part(),
                part_hold_back: longest * 3,
                window: settings.window(),
                independent: false,
            },
            origin: Some(MediaTime::ZERO),
            first: Numbers::at(unix),
            changes: 0,
            window: 0,
            pass: "F0.test".to_owned(),
        };
        let tracks = TrackIndex::enumerate(film.tracks());
        let writers: Vec<_> = tracks
            .map(|(index, track)| {
                TrackWriter::new(TrackLayer::from(index), track, &broadcast, &common)
            })
            .collect();
        Self {
            followed: writers.iter().map(|_| Default::default()).collect(),
            broadcast,
            writers,
            common,
            zero,
            wall: WallClock::new(zero, unix),
            findings: Findings::default(),
        }
    }

    fn push(&mut self, frame: &Frame, index: u64, now: Duration) {
        let mut builder = UnitBuilder::default();
        builder.wire_only(&[0xee]);
        builder.coded(&frame.data);
        builder.end_packet();
        let due = self.zero + frame.time.saturating_since(MediaTime::ZERO);
        let unit = builder.build(
            frame.track,
            frame.time,
            frame.keyframe,
            Stamps::arrived(due),
        );
        let mut unit: MediaUnit = unit.expect("a frame");
        unit.index = index;
        unit.decode_lead = DecodeLead::between(frame.decode_time, frame.time);
        let now_at = self.zero + now;
        let (common, broadcast) = (&self.common, &self.broadcast);
        let writer = &mut self.writers[frame.track.get()];
        writer.push(&Arc::new(unit), now_at, &self.wall, common, broadcast);
        self.look(now);
    }

    fn tick(&mut self, now: Duration) {
        for writer in &mut self.writers {
            let (common, broadcast) = (&self.common, &self.broadcast);
            writer.fill(self.zero + now, &self.wall, common, broadcast);
        }
        self.look(now);
    }

    /// Reads each playlist as a client that misses no change.
    fn look(&mut self, now: Duration) {
        let renditions = self.broadcast.renditions();
        for (rendition, (follower, last)) in renditions.iter().zip(&mut self.followed) {
            let asked = Directives::default();
            let text = rendition.playlist(&asked, Vec::new).now_or_never();
            let Some(Ok(text)) = text else { continue };
            let reading = read(&text.plain, Surroundings::default()).expect("a playlist");
            self.findings.add_faults(&reading.faults);
            let Playlist::Media(playlist) = reading.playlist else {
                panic!("a Media Playlist: {:?}", text.plain);
            };
            judge_media(&playlist, &mut self.findings);
            let load = Load {
                at: now,
                uncertainty: Duration::ZERO,
                playlist: &playlist,
            };
            follower.take(load, &mut self.findings);
            *last = Some(playlist);
        }
    }
}

fn film() -> glassline_demux::Demuxer {
    let sample = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../demux/samples/h264-aac.mp4");
    glassline_demux::open(&[sample], &Options::default()).expect("a sample")
}

/// Returns the frames of the case with their arrivals, the earliest first.
fn arrivals(film: &mut glassline_demux::Demuxer, arrival: Arrival) -> Vec<(Duration, Frame)> {
    let mut frames = Vec::new();
    loop {
        let frame = film.next_frame().expect("a good sample").expect("it loops");
        // B-frames come in the order in which they are decoded.
        let at = frame.decode_time.saturating_since(MediaTime::ZERO);
        if at > SPAN {
            break;
        }
        if let Some(comes) = arrival(at) {
            frames.push((comes, frame));
        }
    }
    frames.sort_by_key(|(comes, _)| *comes);
    frames
}

#[tokio::test]
async fn playlists_keep_the_rules_whenever_frames_come() {
    for (source, arrival, gaps) in CASES {
        let mut film = film();
        let mut scene = Scene::new(&film);
        let mut ticks = Duration::ZERO;
        for (index, (comes, frame)) in arrivals(&mut film, *arrival).iter().enumerate() {
            while ticks < *comes {
                scene.tick(ticks);
                ticks += TICK;
            }
            scene.push(frame, index as u64 + 1, *comes);
        }
        // A source that sends nothing is late, whatever the server does.
        let is_of_source = |name: &str| matches!(name, "parts-late" | "segments-late");
        let errors: Vec<_> = std::mem::take(&mut scene.findings)
            .into_sorted()
            .into_iter()
            .filter(|it| it.rule.severity == Severity::Error && !is_of_source(it.rule.name))
            .collect();
        assert!(errors.is_empty(), "{source}: {errors:#?}");
        assert_eq!(scene.followed.len(), 2);
        for (_, last) in &scene.followed {
            let last = last.as_ref().expect("it was read");
            let found = last.segments.iter().filter(|it| it.is_gap).count();
            assert!(gaps.contains(&found), "{source}: {found} gaps");
            let end: Duration = last
                .segments
                .iter()
                .rev()
                .take(2)
                .map(|it| it.duration)
                .sum();
            assert!(end > s(2000), "{source}: it ends with segments of media");
        }
    }
}
