//! Many viewers of another project's RTSP server, by our own client.

use std::thread;
use std::time::{Duration, Instant};

use glassline_client::viewers::{
    Conduct, Endpoint, Join, Mode, Options, Pool, RtspTransport, State, Viewer,
};
use libtest_mimic::Failed;

use crate::peers::{Peer, Test};
use crate::process::eventually;
use crate::rtsp::Camera;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&twenty_by_tcp_and_twenty_by_udp_receive_everything).needs(&[Peer::RtspServer]),
    Test::of(&the_camera_outlives_viewers_that_behave_badly).needs(&[Peer::RtspServer]),
];

const BOTH: [RtspTransport; 2] = [RtspTransport::Tcp, RtspTransport::Udp];
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);
const WATCH: Duration = Duration::from_secs(10);
const FRAMES_PER_SECOND: f64 = 30.0;

fn twenty_by_tcp_and_twenty_by_udp_receive_everything() -> Result<(), Failed> {
    const EACH: usize = 20;
    let camera = Camera::start(0, &["--audio", "opus"])?;
    let pool = Pool::start(Options::default()).map_err(|error| error.to_string())?;
    for transport in BOTH {
        for _ in 0..EACH {
            join(&pool, &camera, transport, Mode::Verify, Conduct::Good)?;
        }
    }
    let before = wait_until_playing(&pool, 2 * EACH)?;
    let begun = Instant::now();
    thread::sleep(WATCH);
    let after = pool.snapshot();
    let watched = begun.elapsed().as_secs_f64();
    let delays = pool.take_delays().summary();
    println!("delays {delays:?}");
    for (before, after) in before.iter().zip(&after) {
        received_everything(before, after, watched)?;
    }
    if delays.count == 0 {
        return Err("no sender report has told when frames were captured".into());
    }
    // The server removes viewers that have said goodbye, and serves new ones.
    drop(pool);
    let pool = Pool::start(Options::default()).map_err(|error| error.to_string())?;
    join(
        &pool,
        &camera,
        RtspTransport::Tcp,
        Mode::Count,
        Conduct::Good,
    )?;
    wait_until_playing(&pool, 1)?;
    Ok(())
}

fn received_everything(before: &Viewer, after: &Viewer, watched: f64) -> Result<(), Failed> {
    let frames = (after.frames - before.frames) as f64 / watched / FRAMES_PER_SECOND;
    let audio = after
        .audio
        .media_time
        .saturating_sub(before.audio.media_time);
    let audio = audio.as_secs_f64() / watched;
    // The snapshot may fall within a frame whose packets are in flight.
    let on_their_way = 3;
    let whole = after.total().lost() <= on_their_way
        && after.damaged == 0
        && after.state == State::Playing
        && (0.9..1.1).contains(&frames)
        && (0.9..1.1).contains(&audio);
    if whole {
        return Ok(());
    }
    let of_time = format!("{frames:.3} of the frames, {audio:.3} of the audio");
    Err(format!("{}: {of_time} in {watched:.1} s: {after:?}", after.id).into())
}

fn the_camera_outlives_viewers_that_behave_badly() -> Result<(), Failed> {
    let camera = Camera::start(0, &[])?;
    let pool = Pool::start(Options::default()).map_err(|error| error.to_string())?;
    for transport in BOTH {
        join(&pool, &camera, transport, Mode::Verify, Conduct::Good)?;
    }
    wait_until_playing(&pool, 2)?;
    let bad = Pool::start(Options::default()).map_err(|error| error.to_string())?;
    for conduct in [Conduct::Stall, Conduct::Vanish, Conduct::Garbage] {
        for transport in BOTH {
            join(&bad, &camera, transport, Mode::Count, conduct)?;
        }
    }
    thread::sleep(Duration::from_secs(6));
    let viewers = pool.snapshot();
    println!("{} bad viewers were replaced", bad.replaced());
    let suffering = |viewer: &&Viewer| viewer.state != State::Playing || viewer.damaged > 0;
    match viewers.iter().find(suffering) {
        None => Ok(()),
        Some(viewer) => Err(format!("a good viewer suffers: {viewer:?}").into()),
    }
}

fn join(
    pool: &Pool,
    camera: &Camera,
    transport: RtspTransport,
    mode: Mode,
    conduct: Conduct,
) -> Result<(), String> {
    let url = url::Url::parse(&camera.url).map_err(|error| format!("{}: {error}", camera.url))?;
    pool.join(Join {
        endpoint: Endpoint::Rtsp { url, transport },
        mode,
        conduct,
    });
    Ok(())
}

fn wait_until_playing(pool: &Pool, count: usize) -> Result<Vec<Viewer>, String> {
    eventually(JOIN_TIMEOUT, || {
        let viewers = pool.snapshot();
        if let Some(reason) = viewers.iter().find_map(|viewer| viewer.failure.as_ref()) {
            return Err(format!("a viewer failed: {reason}"));
        }
        let playing = |viewer: &&Viewer| viewer.state == State::Playing && viewer.frames > 0;
        match viewers.iter().filter(playing).count() {
            playing if playing == count => Ok(viewers),
            playing => Err(format!("{playing} of {count} play")),
        }
    })
}
