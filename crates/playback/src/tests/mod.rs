mod copies;
mod many_days;
mod readers;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, UNIX_EPOCH};

use futures_util::StreamExt as _;
use glassline_cmaf::{CutRule, FileWriter, Fragmenter, Output, SpanCut};
use glassline_config::Config;
use glassline_demux::{Format, Input, Options};
use glassline_media::{
    DecodeLead, Kind, MediaTime, MediaUnit, Stamps, TrackIndex, UnitBuilder, WallClock,
};
use glassline_recording::{Beginning, FileHeader, Folder};
use glassline_runtime::Clock;
use glassline_transcode::SizeLimit;

use super::time_text::rfc3339;
use super::*;

const CLIENT: SourcePrefix = SourcePrefix::V4(Ipv4Addr::LOCALHOST);

/// Start of the recordings of tests: 2023-11-14T22:13:20Z.
const START_S: u64 = 1_700_000_000;

pub(super) fn at(seconds: f64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(START_S) + Duration::from_secs_f64(seconds)
}

/// A folder of recordings of the stream `cam`, which is removed at the end.
pub(super) struct Recorded {
    pub(super) folder: Folder,
    pub(super) playback: Playback,
    catalogue: Catalogue,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.folder.path());
    }
}

impl Recorded {
    /// Records runs of H.264 and AAC, each from a second of the test on for so many seconds, in files of two
    /// seconds.
    pub(super) fn of(runs: &[(u64, u64)]) -> Self {
        Self::in_files_of(runs, 2)
    }

    /// Records runs like [`Self::of`], in files of so many seconds.
    fn in_files_of(runs: &[(u64, u64)], file_s: u64) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("glassline-played-{}-{number}", std::process::id()));
        let folder = Folder::open(&path, None).expect("a folder");
        for (start, seconds) in runs {
            record(&folder, *start, *seconds, file_s);
        }
        let findings = Catalogue::repair(&folder).expect("our own files");
        assert!(findings.files > 0, "{findings:?}");
        let catalogue = Catalogue::default();
        catalogue.add(&folder).expect("an index");
        Self {
            folder,
            playback: playback(),
            catalogue,
        }
    }

    pub(super) fn subject(&self) -> Subject {
        Subject {
            catalogue: self.catalogue.clone(),
            others: None,
            stream: StreamName::parse("cam").expect("a name"),
            layer: None,
        }
    }

    async fn clip(&self, from: f64, to: f64, form: ClipForm) -> Result<Clip, NoFootage> {
        let wanted = Wanted {
            from: at(from),
            to: at(to),
            stops_at_gap: false,
        };
        self.playback.clip(self.subject(), wanted, form).await
    }
}

/// A playback of a server that records nothing itself.
fn playback() -> Playback {
    let supervisor = Supervisor::start().expect("a thread");
    let (config, hub) = (Config::default(), Arc::default());
    let recording = Recording::start(&config, &hub, Clock::start(), &supervisor);
    Playback::new(Arc::new(recording), &supervisor)
}

/// Writes the files of one run.
fn record(folder: &Folder, start: u64, seconds: u64, file_s: u64) {
    let sample = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../demux/samples/h264-aac.mp4");
    let mut film = glassline_demux::open(&[sample], &Options::default()).expect("a sample");
    let zero = Instant::now() + Duration::from_secs(1000);
    let clock = WallClock::new(zero, Duration::from_secs(START_S + start));
    let tracks = TrackIndex::enumerate(film.tracks().to_vec());
    let fragment = Duration::from_millis(if file_s < 60 { 500 } else { 1_000 });
    let rule = CutRule::recording(fragment, Duration::from_secs(file_s));
    let mut fragmenter = Fragmenter::new(tracks, rule, None).expect("carried codecs");
    let mut outputs = Vec::new();
    loop {
        let frame = film.next_frame().expect("a good sample").expect("it loops");
        if frame.time >= MediaTime::from_nanos(seconds as i64 * 1_000_000_000) {
            break;
        }
        let mut builder = UnitBuilder::default();
        builder.wire_only(&[0xee]);
        builder.coded(&frame.data);
        builder.end_packet();
        let due = zero + frame.time.saturating_since(MediaTime::ZERO);
        let stamps = Stamps::arrived(due);
        let unit = builder.build(frame.track, frame.time, frame.keyframe, stamps);
        let mut unit: MediaUnit = unit.expect("a frame");
        unit.decode_lead = DecodeLead::between(frame.decode_time, frame.time);
        fragmenter
            .push(&Arc::new(unit), &clock)
            .expect("a good stream");
        outputs.extend(std::iter::from_fn(|| fragmenter.poll()));
    }
    fragmenter.flush();
    outputs.extend(std::iter::from_fn(|| fragmenter.poll()));
    let mut outputs = outputs.into_iter();
    let Some(Output::Header(new)) = outputs.next() else {
        panic!("a run begins with its header");
    };
    let mut file: Option<(Vec<u8>, FileWriter, SystemTime)> = None;
    let mut number = 0;
    for output in outputs {
        let Output::Fragment(fragment) = output else {
            panic!("{output:?}");
        };
        if fragment.begins_segment {
            finish(folder, file.take());
            let header = FileHeader {
                stream: StreamName::parse("cam").expect("a name"),
                layer: String::new(),
                run: start,
                number,
                start: UNIX_EPOCH + fragment.wall_clock,
                beginning: if number == 0 {
                    Beginning::Start
                } else {
                    Beginning::Length
                },
            };
            number += 1;
            let writer = FileWriter::new(&new.header, &fragment).with_note(&header.to_note());
            file = Some((writer.head().to_vec(), writer, header.start));
        }
        let (bytes, writer, _) = file.as_mut().expect("a segment begins");
        assert_eq!(writer.add(&fragment), bytes.len() as u64);
        bytes.extend(fragment.to_vec());
    }
    finish(folder, file);
}

fn finish(folder: &Folder, file: Option<(Vec<u8>, FileWriter, SystemTime)>) {
    let Some((mut bytes, writer, start)) = file else {
        return;
    };
    let end = writer.finish();
    bytes.extend_from_slice(&end.tail);
    let at = end.patch.offset as usize;
    bytes[at..at + end.patch.bytes.len()].copy_from_slice(&end.patch.bytes);
    let text = rfc3339(start);
    let (day, time) = text.split_once('T').expect("a date and a time");
    let name = format!("{}Z.mp4", time[..12].replace(':', "-"));
    let day = folder.path().join("cam").join(day);
    std::fs::create_dir_all(&day).expect("a folder");
    std::fs::write(day.join(name), bytes).expect("a file");
}

/// Returns the presentation times of the video in `bytes`, in ms.
fn video_times(bytes: Vec<u8>) -> Vec<i64> {
    let frames = frames_of(bytes).into_iter();
    let video = frames.filter(|(kind, _)| *kind == Kind::Video);
    let mut times: Vec<_> = video.map(|(_, it)| it.time.nanos() / 1_000_000).collect();
    times.sort_unstable();
    times
}

/// Returns the frames in `bytes`, each with the kind of its track.
fn frames_of(bytes: Vec<u8>) -> Vec<(Kind, glassline_demux::Frame)> {
    let input = Input {
        name: "clip.mp4".into(),
        format: Format::of("clip.mp4".as_ref()).expect("known"),
        data: Box::new(InMemory(std::io::Cursor::new(bytes.into()))),
    };
    let options = Options {
        once: true,
        ..Options::default()
    };
    let mut film = glassline_demux::Demuxer::new(vec![input], &options).expect("a clip that plays");
    let kinds: Vec<_> = film
        .tracks()
        .iter()
        .map(glassline_media::Track::kind)
        .collect();
    let mut frames = Vec::new();
    while let Some(frame) = film.next_frame().expect("good frames") {
        frames.push((kinds[frame.track.get()], frame));
    }
    frames
}

#[derive(Debug)]
struct InMemory(std::io::Cursor<Arc<[u8]>>);

impl std::io::Read for InMemory {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl std::io::Seek for InMemory {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

impl glassline_demux::Data for InMemory {
    fn fork(&self) -> Box<dyn glassline_demux::Data> {
        Box::new(Self(std::io::Cursor::new(Arc::clone(self.0.get_ref()))))
    }
}

async fn whole_of(recorded: &Recorded, clip: Clip) -> Vec<u8> {
    bytes_of(recorded, clip.assembly).await
}

async fn bytes_of(recorded: &Recorded, assembly: Assembly) -> Vec<u8> {
    let length = assembly.length();
    let body = recorded.playback.read(assembly, 0..length, CLIENT);
    let mut chunks = Box::pin(body.expect("a place").into_chunks());
    let mut whole = Vec::new();
    while let Some(chunk) = chunks.next().await {
        whole.extend_from_slice(&chunk.expect("a file that is there"));
    }
    assert_eq!(whole.len() as u64, length, "the length was known before");
    whole
}

#[tokio::test]
async fn what_was_recorded_is_listed_with_its_gaps() {
    let recorded = Recorded::of(&[(0, 7), (20, 5)]);
    let stretches = recorded
        .playback
        .stretches(&recorded.subject(), always())
        .await;
    let stretches = stretches.expect("an index").items;
    let seconds = |it: SystemTime| {
        it.duration_since(at(0.0))
            .expect("later")
            .as_secs_f64()
            .round()
    };
    let shown: Vec<_> = stretches
        .iter()
        .map(|it| (seconds(it.from), seconds(it.to)))
        .collect();
    assert_eq!(shown, [(0.0, 7.0), (20.0, 25.0)]);
    let range = TimeRange {
        from: at(30.0),
        to: at(40.0),
    };
    let none = recorded
        .playback
        .stretches(&recorded.subject(), range)
        .await;
    assert!(none.expect("an index").items.is_empty());
}

#[tokio::test]
async fn every_form_of_a_clip_plays_from_the_keyframe_before_and_joins_what_is_around_a_gap() {
    let recorded = Recorded::of(&[(0, 7), (20, 5)]);
    for form in [ClipForm::Fragments, ClipForm::Whole(SpanCut::Keyframe)] {
        let clip = recorded.clip(3.2, 23.0, form).await.expect("footage");
        assert!(
            clip.from <= at(3.2) && clip.from > at(0.0),
            "{form:?}: {:?}",
            clip.from
        );
        assert!(clip.to >= at(22.9), "{form:?}: {:?}", clip.to);
        assert!(
            clip.media_type.starts_with("video/mp4; codecs=\"avc1."),
            "{}",
            clip.media_type
        );
        let lead = at(3.2)
            .duration_since(clip.from)
            .expect("before")
            .as_millis() as i64;
        let times = video_times(whole_of(&recorded, clip).await);
        let steps: Vec<_> = times.windows(2).map(|it| it[1] - it[0]).collect();
        let longest = steps.iter().max().copied().unwrap_or(0);
        assert!(longest <= 2_100, "{form:?}: a step of {longest} ms");
        // Seconds 3.2 to 7, and 20 to 23, with what is before and behind.
        let expected = 3_800 + lead + 3_000;
        let length = times[times.len() - 1] - times[0];
        assert!(
            (length - expected).abs() < 1_200,
            "{form:?}: {length}, not {expected} ms"
        );
    }
}

#[tokio::test]
async fn an_exact_clip_is_as_long_as_it_was_asked_for() {
    let recorded = Recorded::of(&[(0, 7)]);
    let form = ClipForm::Whole(SpanCut::Exact);
    let clip = recorded.clip(1.3, 4.3, form).await.expect("footage");
    let length = clip
        .to
        .duration_since(clip.from)
        .expect("later")
        .as_secs_f64();
    assert!((length - 3.0).abs() < 0.1, "{length} s");
    assert_eq!(clip.from, at(1.3));
}

#[tokio::test]
async fn any_part_of_a_clip_is_that_of_the_whole_byte_for_byte() {
    let recorded = Recorded::of(&[(0, 5), (9, 3)]);
    for form in [ClipForm::Fragments, ClipForm::Whole(SpanCut::Keyframe)] {
        let clip = recorded.clip(0.5, 12.0, form).await.expect("footage");
        let assembly = clip.assembly.clone();
        let whole = whole_of(&recorded, clip).await;
        let length = whole.len() as u64;
        for step in 1..200_u64 {
            let start = step * 7919 % length;
            let end = (start + 1 + step * step * 13 % 9_000).min(length);
            let read = assembly.read(&(start..end), u64::MAX).expect("readable");
            assert_eq!(
                read,
                whole[start as usize..end as usize],
                "{form:?} {start}..{end}"
            );
        }
        let again = recorded.clip(0.5, 12.0, form).await.expect("footage");
        assert_eq!(again.assembly.identity(), assembly.identity());
        let other = recorded.clip(2.5, 12.0, form).await.expect("footage");
        assert_ne!(other.assembly.identity(), assembly.identity());
    }
}

#[tokio::test]
async fn a_time_without_footage_is_nothing_and_a_gap_is_where_a_clip_may_end() {
    let recorded = Recorded::of(&[(0, 5), (20, 5)]);
    for (from, to) in [(6.0, 19.0), (30.0, 40.0), (1_000.0, 90_000.0)] {
        let none = recorded.clip(from, to, ClipForm::Fragments).await;
        assert!(matches!(none, Err(NoFootage::Nothing)), "{from}: {none:?}");
        let none = recorded
            .clip(from, to, ClipForm::Whole(SpanCut::Exact))
            .await;
        assert!(matches!(none, Err(NoFootage::Nothing)), "{from}: {none:?}");
    }
    let behind = recorded
        .clip(10.0, 22.0, ClipForm::Fragments)
        .await
        .expect("footage");
    assert_eq!(behind.from, at(20.0));
    let wanted = Wanted {
        from: at(0.0),
        to: at(25.0),
        stops_at_gap: true,
    };
    for form in [ClipForm::Fragments, ClipForm::Whole(SpanCut::Keyframe)] {
        let cut = recorded
            .playback
            .clip(recorded.subject(), wanted.clone(), form)
            .await;
        let end = cut.expect("footage").to;
        assert!(end < at(5.5), "{form:?}: {end:?}");
    }
}

#[tokio::test]
async fn a_file_that_vanishes_ends_the_body_with_an_error_that_names_it() {
    let recorded = Recorded::of(&[(0, 3)]);
    let clip = recorded
        .clip(0.0, 3.0, ClipForm::Fragments)
        .await
        .expect("footage");
    std::fs::remove_dir_all(recorded.folder.path().join("cam")).expect("an operator's mistake");
    let length = clip.assembly.length();
    let body = recorded
        .playback
        .read(clip.assembly, 0..length, CLIENT)
        .expect("a place");
    let mut chunks = Box::pin(body.into_chunks());
    let error = chunks.next().await.expect("an error").expect_err("no file");
    assert!(error.to_string().contains(".mp4"), "{error}");
    assert!(chunks.next().await.is_none(), "and nothing behind it");
}

#[tokio::test]
async fn a_time_has_a_thumbnail_which_is_made_once() {
    let recorded = Recorded::of(&[(0, 3)]);
    let order = |at, width| ThumbnailOrder {
        of: recorded.subject(),
        at,
        limit: SizeLimit {
            width: Some(width),
            height: None,
        },
    };
    let thumbnail = recorded
        .playback
        .thumbnail(order(at(1.0), 96))
        .await
        .expect("a thumbnail");
    assert!(thumbnail.starts_with(&[0xff, 0xd8]), "JPEG");
    let again = recorded
        .playback
        .thumbnail(order(at(1.01), 96))
        .await
        .expect("a thumbnail");
    assert_eq!(again.as_ptr(), thumbnail.as_ptr(), "kept");
    let none = recorded.playback.thumbnail(order(at(60.0), 96)).await;
    assert!(matches!(none, Err(NoFootage::Nothing)), "{none:?}");
}

#[tokio::test]
async fn segments_are_all_that_was_recorded_and_play_behind_their_initialization() {
    let recorded = Recorded::of(&[(0, 7), (20, 5)]);
    let (playback, of) = (&recorded.playback, recorded.subject());
    let cutter = SegmentCutter::of_span(of.clone(), Duration::from_secs(10));
    let cut = playback.segments(cutter, always()).await.expect("footage");
    assert_eq!(cut.oldest, at(0.0));
    let content = cut.cutter.content().expect("a segment");
    assert!(content.codecs.starts_with("avc1."), "{content:?}");
    let seconds: f64 = cut.new.iter().map(|it| it.duration.as_secs_f64()).sum();
    assert!((seconds - 12.0).abs() < 0.2, "{seconds} s");
    let begins: Vec<_> = cut.new.iter().filter(|it| !it.goes_on).collect();
    assert_eq!(begins.len(), 1, "the run behind the gap: {begins:?}");
    assert_eq!(begins[0].at, at(20.0));
    let first_run = cut.new.iter().filter(|it| it.at < at(20.0));
    let start = cut.new[0].place.file;
    let header = playback.initialization(of.clone(), start).await;
    let mut film = bytes_of(&recorded, header.expect("a file")).await;
    for segment in first_run {
        let bytes = playback.segment(of.clone(), segment.place).await;
        film.extend(bytes_of(&recorded, bytes.expect("a file")).await);
    }
    let times = video_times(film);
    let longest = times.windows(2).map(|it| it[1] - it[0]).max();
    assert!(longest <= Some(2_100), "a step of {longest:?} ms");
    assert!((times[times.len() - 1] - times[0] - 7_000).abs() < 1_200);
    let again = playback.segments(cut.cutter, always()).await;
    assert_eq!(again.expect("footage").new, [], "each comes once");
    for (file, offset, bytes) in [
        (start, 0, u64::MAX),
        (start, u64::MAX, 1),
        (at(3000.0), 0, 1),
    ] {
        let place = SegmentPlace {
            file,
            offset,
            bytes,
        };
        let none = playback.segment(of.clone(), place).await;
        assert!(matches!(none, Err(NoFootage::Nothing)), "{place:?}");
    }
}

pub(crate) mod of_servers;
