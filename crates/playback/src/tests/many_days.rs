//! Seeks in days of many streams: files of an hour or less, one behind the other, without an end.
//!
//! All files are one, linked under many names: its index states no wall-clock times, so that each file counts
//! from the beginning that the catalogue has for it.

use std::path::Path;
use std::sync::mpsc;

use glassline_cmaf::put_index;
use glassline_hub::Wake;
use glassline_ingest::library::Play;
use rusqlite::{Connection, params};

use super::*;

/// Files that are links to one: file systems allow 65,000.
const LINKS_MAX: u32 = 30_000;

/// Longest time from a seek to its first frame.
const FIRST_FRAME: Duration = Duration::from_millis(300);

/// The recordings of `streams` streams called `cam0`, `cam1`, …
struct Archive {
    recorded: Recorded,
    streams: u64,
    seconds: u64,
}

/// The times that seeks took.
#[derive(Debug, Default)]
struct Times {
    lookup: Vec<Duration>,
    clip: Vec<Duration>,
    past: Vec<Duration>,
}

impl Archive {
    /// Makes the archive of so many streams and files of each, of `file_s` seconds.
    fn of(streams: u64, files: u64, file_s: u64) -> Self {
        let recorded = Recorded::in_files_of(&[(0, file_s)], file_s);
        let folder = recorded.folder.path().to_owned();
        let range = always();
        let of = recorded.subject().stream;
        let master = recorded.catalogue.files(&of, range).expect("an index");
        let [master] = &master[..] else {
            panic!("one file: {}", master.len());
        };
        let bytes = without_wall_clocks(&master.path);
        let mut index = Connection::open(folder.join(".glassline/index.sqlite")).expect("an index");
        let rows = index.transaction().expect("an index");
        let mut link = folder.join("0.mp4");
        for number in 0..u32::try_from(streams * files).expect("not so many") {
            if number % LINKS_MAX == 0 {
                link = folder.join(format!("{number}.mp4"));
                std::fs::write(&link, &bytes).expect("a folder");
            }
            let (stream, place) = (u64::from(number) % streams, u64::from(number) / streams);
            let path = format!("cam{stream}-{place}.mp4");
            std::fs::hard_link(&link, folder.join(&path)).expect("a link");
            let insert = "INSERT INTO files (path, stream, layer, run, number, start_us, duration_us, bytes, \
                          tracks, beginning, state) VALUES (?, ?, '', 1, ?, ?, ?, ?, '[]', \
                          '{\"because\":\"length\"}', 1)";
            let start_us = (START_S + place * file_s) * 1_000_000;
            let row = params![
                path,
                format!("cam{stream}"),
                place as i64,
                start_us as i64,
                (file_s * 1_000_000) as i64,
                bytes.len() as i64,
            ];
            rows.execute(insert, row).expect("a row");
        }
        rows.commit().expect("an index");
        Self {
            recorded,
            streams,
            seconds: files * file_s,
        }
    }

    fn subject(&self, number: u64) -> Subject {
        Subject {
            stream: StreamName::parse(&format!("cam{number}")).expect("a name"),
            ..self.recorded.subject()
        }
    }

    /// Seeks `count` times, to any second of any stream.
    async fn seek(&self, count: u32) -> Times {
        let mut times = Times::default();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..count {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let of = self.subject((state >> 33) % self.streams);
            let second = (state >> 20) % (self.seconds - 10);
            let at = at(second as f64 + 0.3);
            let begun = Instant::now();
            let near = of.catalogue.around(&of.stream, None, at, 8);
            times.lookup.push(begun.elapsed());
            assert!(
                near.expect("an index")
                    .iter()
                    .any(|it| it.start <= at && it.end() > at)
            );
            times.clip.push(self.clip(of.clone(), at).await);
            times.past.push(self.first_frame(of, at).await);
        }
        times
    }

    /// Returns the time until the first bytes of a clip are there.
    async fn clip(&self, of: Subject, at: SystemTime) -> Duration {
        let begun = Instant::now();
        let wanted = Wanted {
            from: at,
            to: at + Duration::from_secs(4),
            stops_at_gap: false,
        };
        let clip = self.recorded.playback.clip(of, wanted, ClipForm::Fragments);
        let clip = clip.await.expect("footage");
        assert!(clip.from <= at && clip.from + Duration::from_secs(5) > at);
        let length = clip.assembly.length();
        let body = self
            .recorded
            .playback
            .read(clip.assembly, 0..length, CLIENT);
        let mut chunks = Box::pin(body.expect("a place").into_chunks());
        let first = chunks.next().await.expect("a chunk");
        assert!(!first.expect("a file").is_empty());
        begun.elapsed()
    }

    /// Returns the time from the request of a session to its first frame: the description, the opening, and
    /// the reading.
    async fn first_frame(&self, of: Subject, at: SystemTime) -> Duration {
        let begun = Instant::now();
        let playback = &self.recorded.playback;
        let found = playback.past(of, at).await.expect("footage");
        let opened = playback.open_past(found.past, [127, 0, 0, 1].into());
        let reading = opened.expect("a place").reading;
        let (tell, told) = mpsc::channel();
        let _subscription = reading.stream().subscribe(Arc::new(UnitNews(tell)));
        reading.play(Play {
            from: Some(at.duration_since(UNIX_EPOCH).expect("later")),
            ..Play::default()
        });
        told.recv_timeout(Duration::from_secs(30)).expect("a frame");
        begun.elapsed()
    }
}

/// Tells a test of each unit.
struct UnitNews(mpsc::Sender<()>);

impl Wake for UnitNews {
    fn wake(&self) {
        // The test may have ended.
        let _ = self.0.send(());
    }
}

/// Returns the bytes of a finished file, in whose index no fragment has a wall-clock time.
fn without_wall_clocks(path: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(path).expect("a file");
    let file = glassline_cmaf::RecordedFile::open(&bytes[..]).expect("our own");
    let mut fragments = file.fragments().to_vec();
    for fragment in &mut fragments {
        fragment.wall_clock = Duration::ZERO;
    }
    let mut index = Vec::new();
    put_index(&mut index, &fragments);
    let end = bytes.len() - index.len();
    bytes[end..].copy_from_slice(&index);
    bytes
}

/// Returns the median and the longest of `times`.
fn median_and_longest(times: &mut [Duration]) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1])
}

#[tokio::test]
async fn any_second_of_three_days_of_ten_streams_is_shown_at_once() {
    let archive = Archive::of(10, 3 * 24 * 6, 600);
    let mut times = archive.seek(20).await;
    for kind in [&mut times.lookup, &mut times.clip, &mut times.past] {
        let (median, longest) = median_and_longest(kind);
        assert!(median < FIRST_FRAME, "{median:?}, {longest:?}");
    }
}

mod soak {
    use super::*;

    #[tokio::test]
    #[ignore = "long: `cargo xtask soak` seeks in thirty days of a hundred streams"]
    async fn any_second_of_thirty_days_of_a_hundred_streams_is_shown_at_once() {
        let archive = Archive::of(100, 30 * 24, 3_600);
        let mut times = archive.seek(300).await;
        for (name, kind) in [
            ("index", &mut times.lookup),
            ("first bytes of a clip", &mut times.clip),
            ("first frame of a session", &mut times.past),
        ] {
            let (median, longest) = median_and_longest(kind);
            println!("{name}: {median:?} at the median, {longest:?} at most");
            assert!(longest < FIRST_FRAME, "{name}: {longest:?}");
        }
    }
}
