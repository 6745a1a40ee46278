//! Programs as sources.

use glassline_media::Codec;

use super::*;

const FILM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../demux/samples/h264-mp2.ts");

/// Starts `cam` with this source, and returns why it is down.
async fn reason(source: &str) -> String {
    let source = format!("cam={source}");
    let running = Running::start(&[&*source]).await.expect("starts");
    let stream = running.stream("cam");
    until("a reason", || matches!(stream.state(), State::Down { .. })).await;
    let state = stream.state();
    let why = state.detail().expect("a reason").to_string();
    running.stop().await;
    why
}

/// Returns whether a process runs: it is there, and no zombie that nobody has waited for.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    let stat = stat.unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some(None | Some('Z' | 'X')))
}

#[tokio::test]
async fn what_a_program_writes_plays_and_its_end_is_told() {
    let source = format!("cam=exec:cat {FILM}");
    let running = Running::start(&[&*source]).await.expect("starts");
    let stream = running.stream("cam");
    until("media", || stream.totals().units > 20).await;
    let codecs: Vec<_> = stream.tracks().iter().map(|it| it.codec).collect();
    assert_eq!(codecs, [Codec::H264, Codec::MpegAudio]);
    assert_eq!(stream.source_note().expect("told").protocol, "program");
    until("the end", || matches!(stream.state(), State::Down { .. })).await;
    let state = stream.state();
    assert_eq!(
        state.detail().expect("a reason").to_string(),
        "cat ended with code 0"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_program_that_fails_says_why() {
    let failed = reason("exec:sh -c 'echo no camera at rtsp://u:hunter2@h/ >&2; exit 3'").await;
    assert_eq!(failed, "sh ended with code 3: no camera at rtsp://u:…@h/");
    let absent = reason("exec:/no/such/program").await;
    assert!(
        absent.contains("'/no/such/program' is not installed"),
        "{absent}"
    );
    let text = reason("exec:sh -c 'yes hello'").await;
    assert!(
        text.starts_with("sh, byte 0: no known format begins here"),
        "{text}"
    );
    let device = reason("/dev/video99").await;
    assert!(
        device.starts_with("there is no /dev/video99: connect"),
        "{device}"
    );
}

#[tokio::test]
async fn a_program_gets_no_descriptor_and_no_variable_of_the_server() {
    let listed = "ls /proc/self/fd | tr \"\\n\" \" \" >&2; exit 1";
    let shown = reason(&format!("exec:sh -c '{listed}'")).await;
    let numbers = shown.rsplit_once(": ").expect("a list").1.split(' ');
    let numbers: Vec<u32> = numbers.map(|it| it.parse().expect("a number")).collect();
    // The fourth is the folder that is listed.
    assert_eq!(numbers, [0, 1, 2, 3], "{shown}");
    let shown = reason("exec:sh -c 'env | sort | tail -n 3 >&2; exit 1'#env=KEY=value").await;
    assert!(shown.contains("KEY=value; PATH=/usr"), "{shown}");
    let shown = reason("exec:sh -c 'env | grep -c -e HOME -e CARGO >&2; exit 1'").await;
    assert!(shown.ends_with(": 0"), "{shown}");
}

#[tokio::test]
async fn a_program_ends_with_the_source_and_with_all_that_it_started() {
    let folder = Folder::new("program");
    let pid = folder.0.join("pid");
    let shown = pid.display();
    // Both do not listen to SIGTERM.
    let script = format!(
        "trap \"\" TERM; sleep 600 & echo $! $$ > {shown}.new; mv {shown}.new {shown}; wait"
    );
    let source = format!("cam=exec:sh -c '{script}'");
    let running = Running::start(&[&*source]).await.expect("starts");
    until("the program", || pid.exists()).await;
    let pids = std::fs::read_to_string(&pid).expect("it began");
    assert!(pids.split_whitespace().all(is_alive));
    running.stop().await;
    // The system ends a killed process as soon as it runs again.
    until("their end", || !pids.split_whitespace().any(is_alive)).await;
}

#[tokio::test]
async fn a_program_on_demand_runs_only_while_somebody_watches() {
    let folder = Folder::new("program-on-demand");
    let marks = folder.0.join("marks");
    let script = format!(
        "echo x >> {}; while cat {FILM}; do :; done",
        marks.display()
    );
    let source = format!("cam=exec:sh -c '{script}'#idle_s=0.1");
    let running = Running::start(&[&*source]).await.expect("starts");
    let stream = running.stream("cam");
    assert_eq!(stream.state(), State::Idle);
    assert!(!marks.exists());
    let demand = stream.demand();
    until("media", || stream.totals().units > 5).await;
    drop(demand);
    until("rest", || stream.state() == State::Idle).await;
    assert_eq!(std::fs::read_to_string(&marks).expect("it ran"), "x\n");
    running.stop().await;
}

#[tokio::test]
async fn ffmpeg_brings_what_its_arguments_name() {
    let arguments =
        "-re -f lavfi -i testsrc2=r=10:s=320x240 -c:v libx264 -bf 0 -g 10 -pix_fmt yuv420p";
    let source = format!("cam=ffmpeg:{arguments}");
    let running = Running::start(&[&*source]).await.expect("starts");
    let stream = running.stream("cam");
    until("media", || stream.totals().units > 5).await;
    assert_eq!(stream.tracks()[0].codec, Codec::H264);
    running.stop().await;
    let source = format!("cam=ffmpeg:{FILM}#audio=none");
    let running = Running::start(&[&*source]).await.expect("starts");
    let stream = running.stream("cam");
    until("media", || stream.totals().units > 5).await;
    let codecs: Vec<_> = stream.tracks().iter().map(|it| it.codec).collect();
    assert_eq!(codecs, [Codec::H264]);
    running.stop().await;
    let failed = reason("ffmpeg:/no/such/film.mp4").await;
    assert!(failed.starts_with("ffmpeg ended with code 1: "), "{failed}");
    assert!(failed.contains("No such file or directory"), "{failed}");
}
