//! Decode times of files, compared with those that the container states.

use super::*;

/// Time from decoding to presentation of the first video frames of `h264-aac.mp4`, in frames: those of
/// `ffprobe -select_streams v -show_entries packet=pts,dts`, less one. The container decodes all frames
/// a frame earlier than needed, which the demuxer takes back.
const LEADS: [i32; 16] = [1, 3, 0, 0, 3, 0, 0, 3, 0, 0, 3, 0, 0, 3, 0, 0];

/// Duration of a frame in microseconds.
const FRAME_US: i32 = 40_000;

#[tokio::test]
async fn b_frames_of_a_file_keep_the_decode_times_of_its_container() {
    let film = concat!(env!("CARGO_MANIFEST_DIR"), "/../demux/samples/h264-aac.mp4");
    let running = Running::start(&[&format!("film={film}?once")])
        .await
        .expect("starts");
    let stream = running.stream("film");
    let mut units: Vec<Arc<MediaUnit>> = Vec::new();
    until("the first frames", || {
        units = stream.since_keyframe(TrackIndex(0));
        units.len() >= LEADS.len()
    })
    .await;
    running.stop().await;
    let video = units.iter().filter(|unit| unit.track == TrackIndex(0));
    let video: Vec<_> = video.collect();
    assert!(
        video
            .windows(2)
            .all(|pair| pair[0].decode_time() < pair[1].decode_time())
    );
    for (unit, lead) in video.iter().zip(LEADS) {
        assert_eq!(unit.decode_lead.micros(), lead * FRAME_US, "{}", unit.index);
    }
    assert_eq!(
        video[0].index, 0,
        "the film has one keyframe in two seconds"
    );
}
