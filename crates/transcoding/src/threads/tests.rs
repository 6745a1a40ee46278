use super::*;
use crate::TranscodingLease;
use crate::job::LINGER;
use crate::source::TranscodingSource;
use crate::transcoders::TranscodingRefusal;
use glassline_hub::{Stream, StreamName, Wake};
use glassline_media::{
    Codec, Kind, LayerIndex, MediaTime, MediaUnit, Stamps, Track, TrackIndex, TrackLayer,
    UnitBuilder,
};
use glassline_transcode::AudioSource;
use std::time::{Duration, Instant};

const AUDIO: TrackIndex = TrackIndex(0);

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

fn stream(name: &str) -> Arc<Stream> {
    let name = StreamName::parse(name).expect("good");
    Stream::unlisted(name, glassline_hub::Limits::default())
}

fn pcm() -> Track {
    Track::audio(Codec::L16, 1).with_clock_rate(48_000)
}

fn source() -> TranscodingSource {
    TranscodingSource::Audio(AudioSource::of(&pcm()).expect("transcodable"))
}

fn start(limit: usize) -> (Arc<Transcoders>, TranscodingThreads, Arc<Supervisor>) {
    let supervisor = Supervisor::start().expect("a thread");
    let limits = Limits {
        audio: limit,
        video: 1,
    };
    let started = TranscodingThreads::start(limits, Settings::default(), &supervisor);
    let (transcoders, threads) = started.expect("threads");
    (transcoders, threads, supervisor)
}

/// Waits until `done` says so, as long as a slow machine may take.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// 20 ms of samples, number `number` of the source.
fn unit(number: u32) -> MediaUnit {
    let mut builder = UnitBuilder::default();
    builder.push(&[1; 1_920]);
    let time = MediaTime::from_nanos(i64::from(number) * 20_000_000);
    let stamps = Stamps::arrived(Instant::now());
    let unit = builder.build(AUDIO, time, true, stamps);
    unit.expect("has a packet")
}

#[test]
fn a_track_is_transcoded_once_from_the_first_connected_viewer_until_some_time_after_the_last() {
    let (transcoders, threads, _supervisor) = start(4);
    let stream = stream("cam");
    let mut publisher = stream.publish(vec![pcm()], Instant::now()).expect("free");
    let lease = || transcoders.lease(&stream, stream.layout(), AUDIO, source());
    let mut leases = [(); 2].map(|()| lease().expect("room"));
    assert_eq!(transcoders.views(Instant::now()).len(), 1, "once for both");
    assert_eq!(transcoders.counters.started.get(), 0, "nobody is connected");
    let mut viewer = stream.subscribe(Arc::new(NoWake));
    viewer.read(&[TrackLayer {
        track: AUDIO,
        layer: LayerIndex::TRANSCODED,
    }]);
    leases.iter_mut().for_each(TranscodingLease::start);
    until("the work begins", || {
        transcoders.counters.started.get() == 1
    });
    let (mut number, mut heard) = (0, Vec::new());
    until("viewers get Opus", || {
        publisher
            .push(unit(number), Instant::now())
            .expect("announced");
        number += 1;
        viewer.poll(&mut heard);
        heard.len() >= 5
    });
    assert!(heard.iter().all(|unit| unit.payload_bytes() < 300), "Opus");
    until("the state is shown", || {
        transcoders.views(Instant::now())[0].frames_out >= 5
    });
    let view = &transcoders.views(Instant::now())[0];
    assert_eq!((view.viewers, view.from, view.to), (2, "L16", "opus"));
    assert_eq!(view.sample_rate, Some(48_000));
    assert!(view.delay_p50_ms.is_some() && view.cpu_s > 0.0);
    // A page that is loaded again finds it.
    let left = Instant::now();
    drop(leases);
    until("the work ends", || {
        transcoders.views(Instant::now()).is_empty()
    });
    assert!(left.elapsed() >= LINGER);
    threads.stop();
    threads.join();
}

#[test]
fn no_more_streams_than_allowed_are_transcoded() {
    let (transcoders, threads, _supervisor) = start(1);
    let [first, second] = ["one", "two"].map(stream);
    for stream in [&first, &second] {
        drop(stream.publish(vec![pcm()], Instant::now()).expect("free"));
    }
    let of = |stream: &Arc<Stream>| transcoders.lease(stream, stream.layout(), AUDIO, source());
    let mut lease = of(&first).expect("room for one");
    let again = of(&first).expect("the same one");
    lease.start();
    let refused = of(&second).expect_err("no room");
    assert!(
        refused.to_string().contains("transcoding.audio_streams"),
        "{refused}"
    );
    assert_eq!(transcoders.counters.refused.get(), 1);
    let refusal =
        |stream: &Arc<Stream>| transcoders.refusal(stream, stream.layout(), AUDIO, Kind::Audio);
    assert_eq!(refusal(&second), Some(refused));
    assert_eq!(refusal(&first), None);
    drop((lease, again));
    assert_eq!(refusal(&second), None, "nobody needs the first any more");
    let _lease = of(&second).expect("in its place");
    threads.stop();
    threads.join();

    let (off, threads, _supervisor) = start(0);
    let refused = off.lease(&first, first.layout(), AUDIO, source());
    assert_eq!(
        refused.expect_err("off"),
        TranscodingRefusal::Off { kind: Kind::Audio }
    );
    threads.stop();
    threads.join();
}

#[test]
fn an_offer_whose_handshake_is_not_done_keeps_no_place() {
    let (transcoders, threads, _supervisor) = start(1);
    let [first, second] = ["one", "two"].map(stream);
    for stream in [&first, &second] {
        drop(stream.publish(vec![pcm()], Instant::now()).expect("free"));
    }
    let of = |stream: &Arc<Stream>| transcoders.lease(stream, stream.layout(), AUDIO, source());
    let transcoded = || {
        let views = transcoders.views(Instant::now());
        let names = views.into_iter().map(|it| (it.stream, it.viewers));
        names.collect::<Vec<_>>()
    };
    let mut half_open = of(&first).expect("room for one");
    let refusal = transcoders.refusal(&second, second.layout(), AUDIO, Kind::Audio);
    assert_eq!(refusal, None);
    let mut viewer = of(&second).expect("in place of a half-open one");
    assert_eq!(transcoded(), [("two".to_owned(), 1)]);
    viewer.start();
    // Its handshake comes too late: the other one is connected.
    half_open.start();
    assert_eq!(transcoded(), [("two".to_owned(), 1)]);
    assert_eq!(transcoders.counters.refused.get(), 1);
    drop(viewer);
    half_open.start();
    assert_eq!(transcoded(), [("one".to_owned(), 1)]);
    drop(half_open);
    threads.stop();
    threads.join();
}

#[cfg(debug_assertions)]
#[test]
fn a_panic_costs_one_stream_a_moment_and_three_of_them_its_audio() {
    use glassline_runtime::Fault;
    let (transcoders, threads, supervisor) = start(2);
    let streams = ["one", "two"].map(stream);
    let mut publishers = Vec::new();
    let mut leases = Vec::new();
    for stream in &streams {
        publishers.push(stream.publish(vec![pcm()], Instant::now()).expect("free"));
        let lease = transcoders.lease(stream, stream.layout(), AUDIO, source());
        leases.push(lease.expect("room"));
    }
    leases.iter_mut().for_each(TranscodingLease::start);
    until("both begin", || transcoders.counters.started.get() == 2);
    let mut number = 0;
    let mut push = |which: usize| {
        let _ = publishers[which].push(unit(number), Instant::now());
        number += 1;
        thread::sleep(Duration::from_millis(1));
    };
    let frames = |which: usize| transcoders.views(Instant::now())[which].frames_out;
    for panics in 1..=3 {
        assert!(supervisor.inject("transcode-0", Fault::PanicServing));
        let count = || {
            let mut parts = supervisor.parts();
            let of = parts.find(|(part, _)| *part == Part::Transcoder);
            of.map(|(_, counters)| counters.panics.get())
        };
        until("the panic", || {
            push(0);
            count() == Some(panics)
        });
    }
    until("the reason is shown", || {
        transcoders.views(Instant::now())[0].trouble.is_some()
    });
    let before = frames(1);
    until("the other stream is transcoded", || {
        push(1);
        frames(1) > before + 5
    });
    assert_eq!(transcoders.views(Instant::now())[1].trouble, None);
    assert!(supervisor.inject("transcode-0", Fault::Panic));
    let started = transcoders.counters.started.get();
    until("the thread begins anew with the jobs that it had", || {
        transcoders.counters.started.get() > started
    });
    let before = frames(1);
    until("and goes on", || {
        push(1);
        frames(1) != before
    });
    threads.stop();
    threads.join();
}
