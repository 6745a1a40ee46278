//! Sources of every kind in virtual time, before the judge of any server's playlists.
//!
//! ```text
//! Frames, each with its arrival ─► Publisher ─► hub ─► Writer::turn ─► playlists ─► judge
//! ```

mod cadences;
mod changes;
mod first_segment;
mod on_demand;
mod pauses;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use glassline_config::Hls as Settings;
use glassline_demux::Options;
use glassline_hls::Directives;
use glassline_hls::judge::{
    Findings, Follower, Load, Member, Severity, judge_media, judge_members, judge_multivariant,
};
use glassline_hls::reader::{MediaPlaylist, Playlist, Surroundings, read};
use glassline_hub::{Hub, Limits, Publisher, Stream, StreamName};
use glassline_media::{
    Codec, DecodeLead, LayerIndex, MediaTime, MediaUnit, Stamps, Track, TrackIndex, UnitBuilder,
};
use glassline_runtime::Clock;

use super::broadcast::Broadcast;
use super::pass::{self, PassKey};
use super::writer::{Services, Writer};

/// Time between two looks at what does not come with a unit, as the writer has them.
const TICK: Duration = Duration::from_millis(250);

/// Findings about a source that sends nothing, which is late whatever the server does.
const OF_SOURCE: &[&str] = &["parts-late", "segments-late"];

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A frame and its arrival.
#[derive(Clone, Debug)]
struct Sent {
    arrives: Duration,
    track: usize,
    layer: LayerIndex,
    time: Duration,
    decode_time: Duration,
    keyframe: bool,
    data: Vec<u8>,
}

impl Sent {
    /// Returns a frame of VP8 as far as a header describes it, which arrives when it is due.
    fn video(time: Duration, keyframe: Option<u8>) -> Self {
        let mut data = match keyframe {
            Some(width) => vec![0x10, 0, 0, 0x9d, 1, 0x2a, width, 0, 32, 0],
            None => vec![0x11, 0, 0],
        };
        data.resize(100, 7);
        Self {
            arrives: time,
            track: 0,
            layer: LayerIndex::BASE,
            time,
            decode_time: time,
            keyframe: keyframe.is_some(),
            data,
        }
    }

    /// Returns a packet of Opus of 20 ms on the second track.
    fn audio(time: Duration) -> Self {
        Self {
            track: 1,
            keyframe: true,
            data: vec![0x98; 10],
            ..Self::video(time, None)
        }
    }

    fn unit(&self, zero: Instant) -> MediaUnit {
        let time = |at: Duration| MediaTime::ZERO + at;
        let mut builder = UnitBuilder::default();
        builder.wire_only(&[0xee]);
        builder.coded(&self.data);
        builder.end_packet();
        let track = TrackIndex(self.track);
        let stamps = Stamps::arrived(zero + self.arrives);
        let unit = builder.build(track, time(self.time), self.keyframe, stamps);
        let mut unit = unit.expect("a frame");
        unit.layer = self.layer;
        unit.decode_lead = DecodeLead::between(time(self.decode_time), time(self.time));
        unit
    }
}

/// Frames of a camera at these times, with a keyframe each `group`, and Opus beside them.
fn camera(times: impl IntoIterator<Item = Duration>, group: Duration) -> Vec<Sent> {
    let (mut next, mut sent) = (Duration::ZERO, Vec::new());
    let mut last = Duration::ZERO;
    for time in times {
        let is_keyframe = time >= next;
        if is_keyframe {
            next = time + group;
        }
        sent.push(Sent::video(time, is_keyframe.then_some(64)));
        last = time;
    }
    let packets = (0..).map(|it| ms(20 * it)).take_while(|it| *it <= last);
    sent.extend(packets.map(Sent::audio));
    sent.sort_by_key(|it| it.arrives);
    sent
}

/// Returns times that are `gap` apart, from `from` until `to`.
fn steady(gap: Duration, from: Duration, to: Duration) -> impl Iterator<Item = Duration> {
    let times = (0..).map(move |it| from + gap * it);
    times.take_while(move |it| *it < to)
}

fn camera_tracks() -> Vec<Track> {
    vec![Track::new(Codec::Vp8), Track::audio(Codec::Opus, 2)]
}

/// Returns the tracks of a film in H.264, with B-frames, and AAC, and its frames in the order in which they
/// are decoded. It repeats until `end`.
fn film(end: Duration) -> (Vec<Track>, Vec<Sent>) {
    let sample = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../demux/samples/h264-aac.mp4");
    let mut film = glassline_demux::open(&[sample], &Options::default()).expect("a sample");
    let since_zero = |it: MediaTime| it.saturating_since(MediaTime::ZERO);
    let (tracks, mut sent) = (film.tracks().to_vec(), Vec::new());
    loop {
        let frame = film.next_frame().expect("a good sample").expect("it loops");
        let decode_time = since_zero(frame.decode_time);
        if decode_time > end {
            return (tracks, sent);
        }
        sent.push(Sent {
            arrives: decode_time,
            track: frame.track.get(),
            layer: LayerIndex::BASE,
            time: since_zero(frame.time),
            decode_time,
            keyframe: frame.keyframe,
            data: frame.data.to_vec(),
        });
    }
}

/// A stream that is written from the first request for it on.
struct Scene {
    hub: Arc<Hub>,
    stream: Arc<Stream>,
    zero: Instant,
    now: Duration,
    ticked: Duration,
    watched: Option<Watched>,
    findings: Findings,
}

struct Watched {
    broadcast: Arc<Broadcast>,
    writer: Writer,
    followed: BTreeMap<String, Followed>,
}

/// The judge's view of a rendition.
#[derive(Default)]
struct Followed {
    follower: Follower,
    entity_tag: String,
    playlist: Option<MediaPlaylist>,
}

impl Scene {
    /// Begins a scene with a window of passes, which is longer than any scene.
    fn new() -> Self {
        Self::beginning(Duration::ZERO)
    }

    /// Begins a scene when this much of a window of passes is over. The calendar is that of the machine.
    fn beginning(over: Duration) -> Self {
        let later = Instant::now() + Duration::from_secs(1000);
        let unix = Clock::start().wall().unix(later);
        let window = Duration::from_secs(pass::window(unix) * pass::WINDOW.as_secs());
        let hub = Arc::new(Hub::new(Limits::default()));
        let name = StreamName::parse("cam").expect("a name");
        Self {
            stream: hub.create(name).expect("there is room"),
            hub,
            zero: later + pass::WINDOW + over - (unix - window),
            now: Duration::ZERO,
            ticked: Duration::ZERO,
            watched: None,
            findings: Findings::default(),
        }
    }

    fn at(&self, now: Duration) -> Instant {
        self.zero + now
    }

    fn publish(&self, tracks: Vec<Track>) -> Publisher {
        let publisher = self.stream.publish(tracks, self.at(self.now));
        publisher.expect("nobody publishes")
    }

    /// Begins to write the stream, as the first request has it.
    fn watch(&mut self) {
        self.watch_with(Settings::default());
    }

    fn watch_with(&mut self, settings: Settings) {
        let now = self.at(self.now);
        let broadcast = Arc::new(Broadcast::new(Arc::clone(&self.stream), settings, now));
        let services = Services {
            hub: Arc::clone(&self.hub),
            clock: Clock::start(),
            key: PassKey::new(b"key"),
        };
        let mut writer = Writer::new(Arc::clone(&broadcast), services, now);
        writer.turn(now);
        self.watched = Some(Watched {
            broadcast,
            writer,
            followed: BTreeMap::new(),
        });
        self.look();
    }

    /// Publishes frames when they arrive. Those that arrive together come in one turn.
    fn play(&mut self, publisher: &mut Publisher, frames: &[Sent]) {
        let mut sorted: Vec<_> = frames.iter().collect();
        sorted.sort_by_key(|it| it.arrives);
        for together in sorted.chunk_by(|one, other| one.arrives == other.arrives) {
            let arrival = together[0].arrives;
            self.pass_until(arrival);
            self.now = arrival;
            for frame in together {
                let pushed = publisher.push(frame.unit(self.zero), self.at(arrival));
                pushed.expect("it publishes");
            }
            self.turn();
        }
    }

    /// Lets time pass without a frame.
    fn pass_until(&mut self, until: Duration) {
        while self.ticked + TICK <= until {
            self.ticked += TICK;
            self.now = self.ticked;
            let now = self.at(self.now);
            if let Some(watched) = &mut self.watched {
                watched.broadcast.note_use(now);
                assert_eq!(watched.writer.look_around(now), None);
            }
            self.turn();
        }
    }

    fn turn(&mut self) {
        let now = self.at(self.now);
        if let Some(watched) = &mut self.watched {
            watched.writer.turn(now);
            self.look();
        }
    }

    /// Reads each playlist as a client that misses no change.
    fn look(&mut self) {
        let Some(watched) = &mut self.watched else {
            return;
        };
        for rendition in watched.broadcast.renditions() {
            let asked = Directives::default();
            let text = rendition.playlist(&asked, Vec::new).now_or_never();
            let Some(Ok(text)) = text else { continue };
            let followed = watched.followed.entry(rendition.name.clone()).or_default();
            if followed.entity_tag == text.entity_tag {
                continue;
            }
            followed.entity_tag = text.entity_tag.clone();
            let reading = read(&text.plain, Surroundings::default()).expect("a playlist");
            self.findings.add_faults(&reading.faults);
            let Playlist::Media(playlist) = reading.playlist else {
                panic!("a Media Playlist: {:?}", text.plain);
            };
            judge_media(&playlist, &mut self.findings);
            let load = Load {
                at: self.now,
                uncertainty: Duration::ZERO,
                playlist: &playlist,
            };
            followed.follower.take(load, &mut self.findings);
            followed.playlist = Some(playlist);
        }
    }

    /// Returns the text of the Multivariant Playlist, if there is one now.
    fn multivariant(&self) -> Option<String> {
        let broadcast = &self.watched.as_ref()?.broadcast;
        let patience = Duration::from_secs(10);
        let playlist = broadcast.multivariant(patience, "P", "");
        // A test asks more often than a task of the runtime may without a pause.
        tokio::task::unconstrained(playlist).now_or_never()?
    }

    /// Returns the playlist of a rendition as it was read last.
    fn playlist(&self, name: &str) -> &MediaPlaylist {
        let watched = self.watched.as_ref().expect("it is watched");
        let followed = watched.followed.get(name);
        let playlist = followed.and_then(|it| it.playlist.as_ref());
        playlist.unwrap_or_else(|| panic!("{name} has no playlist"))
    }

    /// Returns the errors that the judge has found, but for those of the source.
    fn errors(&mut self, of_source: &[&str]) -> Vec<String> {
        let watched = self.watched.as_ref().expect("it is watched");
        let named = watched.followed.iter();
        let members: Vec<_> = named
            .filter_map(|(name, followed)| {
                Some(Member {
                    name,
                    playlist: followed.playlist.as_ref()?,
                    is_subtitles: false,
                })
            })
            .collect();
        judge_members(&members, false, &mut self.findings);
        let text = self.multivariant().expect("a Multivariant Playlist");
        let reading = read(text.as_bytes(), Surroundings::default()).expect("a playlist");
        self.findings.add_faults(&reading.faults);
        let Playlist::Multivariant(playlist) = reading.playlist else {
            panic!("a Multivariant Playlist: {text}");
        };
        judge_multivariant(&playlist, &mut self.findings);
        let found = std::mem::take(&mut self.findings).into_sorted().into_iter();
        let errors = found.filter(|it| it.rule.severity == Severity::Error);
        let errors = errors.filter(|it| !of_source.contains(&it.rule.name));
        errors.map(|it| format!("{it:?}")).collect()
    }
}
