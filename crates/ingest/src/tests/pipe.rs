//! Tests of named pipes as sources.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::thread;

use glassline_hub::Status;
use glassline_media::Codec;

use super::*;

static FLV: &[u8] = include_bytes!("../../../demux/samples/h264-aac.flv");

fn make_pipe(folder: &Folder, name: &str) -> PathBuf {
    let path = folder.0.join(name);
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo").success());
    path
}

/// Opens the pipe for writing, which waits for a reader, and writes all of `bytes`.
fn write(path: &Path, bytes: &'static [u8]) -> thread::JoinHandle<File> {
    let path = path.to_owned();
    thread::spawn(move || {
        let mut pipe = File::options().write(true).open(path).expect("a reader");
        pipe.write_all(bytes).expect("somebody reads");
        pipe
    })
}

async fn until_status(stream: &Stream, wanted: Status) {
    until(wanted.as_str(), || stream.status(Instant::now()) == wanted).await;
}

#[tokio::test]
async fn a_named_pipe_waits_for_a_writer_and_then_for_the_next() {
    let folder = Folder::new("pipe");
    let pipe = make_pipe(&folder, "live.flv");
    let spec = format!("cam={}", pipe.display());
    let specs = [&*spec];
    let starting = Running::start(&specs);
    let starting = tokio::time::timeout(Duration::from_secs(10), starting).await;
    let running = starting.expect("no writer is waited for").expect("starts");
    let stream = running.stream("cam");
    until_status(&stream, Status::Waiting).await;

    let first = write(&pipe, FLV);
    until_status(&stream, Status::Live).await;
    let codecs: Vec<_> = stream.tracks().iter().map(|it| it.codec).collect();
    assert_eq!(codecs, [Codec::H264, Codec::Aac]);
    let mut units: Vec<Arc<MediaUnit>> = Vec::new();
    let mut subscription = stream.subscribe(Arc::new(NoWake));
    let first = tokio::task::spawn_blocking(|| first.join().expect("no panic"));
    let first = first.await.expect("no panic");
    until("media of the first writer", || {
        subscription.poll(&mut units);
        units.len() > 20
    })
    .await;
    drop(first);
    until_status(&stream, Status::Waiting).await;

    let second = write(&pipe, FLV);
    until_status(&stream, Status::Live).await;
    let latest = units.last().expect("some").time;
    units.clear();
    until("media of the second writer", || {
        subscription.poll(&mut units);
        units.len() > 20
    })
    .await;
    assert!(units.iter().all(|unit| unit.time > latest), "time goes on");
    // The writer is there, has nothing to say, and does not keep the server from stopping.
    running.stop().await;
    drop(second.join());
}

#[tokio::test]
async fn what_a_pipe_brings_is_paced_by_its_own_times() {
    let folder = Folder::new("paced-pipe");
    let pipe = make_pipe(&folder, "live");
    let spec = format!("cam={}?fps=25", pipe.display());
    let running = Running::start(&[&*spec]).await.expect("starts");
    let stream = running.stream("cam");
    let began = Instant::now();
    let writer = write(&pipe, DEMO_VIDEO);
    let mut subscription = stream.subscribe(Arc::new(NoWake));
    let mut units: Vec<Arc<MediaUnit>> = Vec::new();
    until("a second", || {
        subscription.poll(&mut units);
        units.len() >= 31
    })
    .await;
    // 31 frames of 30 a second, which the clip states, whatever the option says.
    assert!(began.elapsed() > Duration::from_millis(900));
    let end = units[30].time.saturating_since(units[0].time);
    assert_eq!(end.as_millis(), 1000);
    running.stop().await;
    drop(writer.join());
}

#[tokio::test]
async fn a_writer_of_something_else_is_refused_and_the_next_one_taken() {
    let folder = Folder::new("odd-pipe");
    let pipe = make_pipe(&folder, "live.mp4");
    let spec = format!("cam={}?once", pipe.display());
    let running = Running::start(&[&*spec]).await.expect("starts");
    let stream = running.stream("cam");
    let mp4 = include_bytes!("../../../demux/samples/h264-aac.mp4");
    let first = write(&pipe, mp4);
    until_status(&stream, Status::Unreachable).await;
    let state = stream.state();
    let detail = state.detail().expect("a reason");
    assert!(
        detail.contains("live.mp4") && detail.contains("moov"),
        "{detail}"
    );
    drop(first.join());
    drop(write(&pipe, FLV).join());
    until("the end", || matches!(stream.state(), State::Ended { .. })).await;
    running.stop().await;

    let video = folder.file("v.h264", one_second());
    let both = format!("cam={video},{}", pipe.display());
    let error = Running::start(&[&*both]).await.err().expect("refused");
    assert!(error.to_string().contains("is a named pipe"), "{error}");
}
