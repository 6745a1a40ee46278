use super::*;

#[test]
fn has_its_frames_keyframes_and_packets_in_every_loop() {
    let mut demuxer = from_bytes(DEMO_VIDEO, DEMO_AUDIO).expect("the shipped clip");
    assert_eq!(demuxer.warnings(), []);
    assert_eq!(demuxer.duration(), Duration::from_secs(10));
    assert_eq!(demuxer.frame_rate(), FrameRate::new(30, 1));
    let [video, audio] = demuxer.tracks() else {
        panic!("two tracks");
    };
    assert_eq!((video.codec, audio.codec), (Codec::H264, Codec::Opus));
    assert_eq!((video.video.width, video.video.height), (1280, 720));
    assert_eq!(video.video.profile_level_id(), Some([0x42, 0xc0, 0x1f]));
    assert_eq!(audio.channels, 2);

    // The first loop lacks the packet whose audio begins before the frame.
    for (turn, audio) in [(0, 499), (1, 500), (2, 500)] {
        let frames = take(&mut demuxer, 300 + audio);
        let of = |track| {
            frames
                .iter()
                .filter(move |frame| frame.track == TrackIndex(track))
        };
        assert_eq!((of(0).count(), of(1).count()), (300, audio), "loop {turn}");
        for (index, frame) in of(0).enumerate() {
            let place = turn * 300 + index as i64;
            assert_eq!(frame.time.ticks(90_000), place * 3000);
            assert_eq!(frame.keyframe, index % 30 == 0);
            let expected: &[u8] = if frame.keyframe { &[7, 8, 5] } else { &[1] };
            assert_eq!(types(frame), expected);
        }
    }
}

#[test]
fn its_audio_goes_on_over_loops_without_a_gap() {
    let mut demuxer = from_bytes(DEMO_VIDEO, DEMO_AUDIO).expect("the shipped clip");
    let frames = take(&mut demuxer, 2400);
    let ticks: Vec<i64> = frames
        .iter()
        .filter(|frame| frame.track == TrackIndex(1))
        .map(|frame| frame.time.ticks(48_000))
        .collect();
    assert_eq!(ticks[0], 960 - 312);
    assert!(ticks.windows(2).all(|pair| pair[1] - pair[0] == 960));
    let sorted = frames.windows(2).all(|pair| pair[0].time <= pair[1].time);
    assert!(sorted, "frames come in the order of time");
}
