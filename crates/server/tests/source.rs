//! A camera that exists only in memory: every byte that it publishes is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glassline_hub::{Publisher, Stream};
use glassline_media::{
    Codec, MediaTime, MediaUnit, PAYLOAD_BYTES_MAX, Stamps, Track, TrackIndex, UnitBuilder,
    VideoParameters,
};
use glassline_rtp::h264;
use glassline_sim::Rng;
use parking_lot::Mutex;

pub(crate) const VIDEO: TrackIndex = TrackIndex(0);
pub(crate) const AUDIO: TrackIndex = TrackIndex(1);

const FRAME: Duration = Duration::from_nanos(33_333_333);
const SPS: &[u8] = &[0x67, 0x42, 0xc0, 0x1f, 0xda];
const PPS: &[u8] = &[0x68, 0xce, 0x3c, 0x80];

/// The parameters of the camera's video.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Film {
    /// Frames from keyframe to keyframe.
    pub(crate) gop: u32,
    /// Bytes of a frame; a keyframe has four times as many.
    pub(crate) frame_bytes: usize,
}

impl Default for Film {
    fn default() -> Self {
        Self {
            gop: 30,
            frame_bytes: 10_000,
        }
    }
}

/// A thread that publishes 30 frames and 50 packets of audio a second.
pub(crate) struct Source {
    stop: Arc<AtomicBool>,
    hangs: Arc<AtomicBool>,
    published: Arc<Mutex<Vec<Arc<MediaUnit>>>>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn tracks() -> Vec<Track> {
    let video = VideoParameters {
        sps: SPS.to_vec(),
        pps: PPS.to_vec(),
        width: 1280,
        height: 720,
        reordered: false,
    };
    vec![Track::h264(video), Track::audio(Codec::Opus, 2)]
}

impl Source {
    /// Starts to publish to `stream`; the camera's own clock begins at zero.
    pub(crate) fn start(stream: &Arc<Stream>, film: Film) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let hangs = Arc::new(AtomicBool::new(false));
        let published = Arc::default();
        let thread = {
            let (stop, published) = (Arc::clone(&stop), Arc::clone(&published));
            let hangs = Arc::clone(&hangs);
            let publisher = stream
                .publish(tracks(), Instant::now())
                .expect("a free stream");
            std::thread::spawn(move || run(publisher, film, (&stop, &hangs), &published))
        };
        Self {
            stop,
            hangs,
            published,
            thread: Some(thread),
        }
    }

    /// Publishes nothing from now on while `hangs`, as if the frames were lost.
    pub(crate) fn set_hangs(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
    }

    /// Returns all units published so far.
    pub(crate) fn published(&self) -> Vec<Arc<MediaUnit>> {
        self.published.lock().clone()
    }

    /// Returns all payloads of a track so far, in order.
    pub(crate) fn payloads(&self, track: TrackIndex) -> Vec<Vec<u8>> {
        let published = self.published();
        let units = published.iter().filter(|unit| unit.track == track);
        units
            .flat_map(|unit| unit.payloads().map(<[u8]>::to_vec))
            .collect()
    }

    /// Waits until `done` is true of everything published.
    pub(crate) fn await_published(&self, mut done: impl FnMut(&[Arc<MediaUnit>]) -> bool) {
        while !done(&self.published.lock()) {
            let runs = self.thread.as_ref().is_some_and(|it| !it.is_finished());
            assert!(runs, "the source ended");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("the source panicked");
        }
    }
}

fn run(
    mut publisher: Publisher,
    film: Film,
    (stop, hangs): (&AtomicBool, &AtomicBool),
    published: &Mutex<Vec<Arc<MediaUnit>>>,
) {
    let start = Instant::now();
    let mut rng = Rng::new(1);
    let (mut frames, mut packets) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let frame_at = FRAME * frames;
        let audio_at = Duration::from_millis(20) * packets;
        let at = frame_at.min(audio_at);
        std::thread::sleep((start + at).saturating_duration_since(Instant::now()));
        let unit = if frame_at <= audio_at {
            frames += 1;
            frame(frames - 1, film, start + at, &mut rng)
        } else {
            packets += 1;
            audio(at, start + at, &mut rng)
        };
        if hangs.load(Ordering::Relaxed) {
            continue;
        }
        // No viewer may receive a unit that is not in the list yet.
        let mut published = published.lock();
        let unit = publisher.push(unit, Instant::now());
        published.extend(unit.expect("a good unit"));
    }
}

/// Returns a frame of random bytes behind a NAL header: every packet differs from every other.
fn frame(number: u32, film: Film, due: Instant, rng: &mut Rng) -> MediaUnit {
    let keyframe = number.is_multiple_of(film.gop);
    let bytes = film.frame_bytes * if keyframe { 4 } else { 1 };
    let mut slice = vec![0; bytes];
    rng.fill(&mut slice);
    slice[0] = if keyframe { 0x65 } else { 0x41 };
    let mut builder = UnitBuilder::with_capacity(bytes);
    let sets: &[&[u8]] = if keyframe { &[SPS, PPS] } else { &[] };
    let nals = sets.iter().copied().chain([slice.as_slice()]);
    h264::packetize(nals, PAYLOAD_BYTES_MAX, &mut builder);
    let time = MediaTime::from_ticks(i64::from(number) * 3000, 90_000);
    builder
        .build(VIDEO, time, keyframe, Stamps::arrived(due))
        .expect("a frame has packets")
}

fn audio(at: Duration, due: Instant, rng: &mut Rng) -> MediaUnit {
    let mut packet = [0; 160];
    rng.fill(&mut packet);
    let mut builder = UnitBuilder::default();
    builder.push(&packet);
    builder
        .build(AUDIO, MediaTime::ZERO + at, true, Stamps::arrived(due))
        .expect("a packet")
}
