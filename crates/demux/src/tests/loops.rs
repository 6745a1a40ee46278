use super::*;

fn frame_times(frames: &[Frame]) -> Vec<i64> {
    let of_video = frames.iter().filter(|frame| frame.track == TrackIndex(0));
    of_video.map(|frame| frame.time.ticks(90_000)).collect()
}

#[test]
fn longer_audio_is_cut_and_begins_again_with_the_video() {
    let video = progressive(30, 10, Sequence::default());
    let audio = ogg_opus(1, &packets(90), 10, 312, 90 * 960);
    let mut demuxer = both(&video, &audio, &Options::default());
    assert_eq!(demuxer.duration(), Duration::from_secs(1));
    let frames = take(&mut demuxer, 400);
    let times = frame_times(&frames);
    assert!(
        times
            .iter()
            .enumerate()
            .all(|(index, &time)| time == index as i64 * 3000)
    );
    let numbers: Vec<_> = frames
        .iter()
        .filter(|f| f.track == TrackIndex(1))
        .map(number)
        .collect();
    let expected: Vec<_> = (1..50)
        .chain((0..50).cycle().take(numbers.len() - 49))
        .collect();
    assert_eq!(numbers, expected);
}

#[test]
fn shorter_audio_is_followed_by_silence() {
    let video = progressive(30, 10, Sequence::default());
    let audio = ogg_opus(1, &packets(10), 10, 0, 9600);
    let mut demuxer = both(&video, &audio, &Options::default());
    let frames = take(&mut demuxer, 120);
    let audio: Vec<_> = frames.iter().filter(|f| f.track == TrackIndex(1)).collect();
    for (index, frame) in audio.iter().enumerate() {
        let (turn, place) = (index as i64 / 10, index as i64 % 10);
        assert_eq!(frame.time.ticks(48_000), turn * 48_000 + place * 960);
    }
    assert_eq!(audio.len(), 30);
}

/// The first packet lies before time zero, and the second one ends behind the loop.
#[test]
fn audio_shorter_than_a_packet_is_played_again_and_again() {
    let file = ogg_opus(1, &packets(2), 2, 312, 1_752);
    let input = Input {
        name: "short.ogg".into(),
        format: Format::Ogg,
        data: Box::new(Cursor::new(file)),
    };
    let mut demuxer = Demuxer::new(vec![input], &Options::default()).expect("a good file");
    assert_eq!(demuxer.duration(), Duration::from_millis(30));
    let frames = take(&mut demuxer, 50);
    assert_eq!(frames.len(), 50, "it does not end");
    let last = frames.last().expect("fifty").time.nanos() / 1_000_000;
    assert!((1_000..2_000).contains(&last), "{last} ms");
}

#[test]
fn television_rates_do_not_drift() {
    let sequence = Sequence {
        timing: Some((1001, 60_000)),
        ..Sequence::default()
    };
    let mut demuxer = video(&progressive(7, 7, sequence), &Options::default()).expect("good");
    let times = frame_times(&take(&mut demuxer, 2000));
    assert!(
        times
            .iter()
            .enumerate()
            .all(|(index, &time)| time == index as i64 * 3003)
    );
}

#[test]
fn once_plays_each_track_to_its_end() {
    let video = progressive(30, 10, Sequence::default());
    let audio = ogg_opus(1, &packets(90), 10, 0, 90 * 960);
    let mut demuxer = both(&video, &audio, &ONCE);
    assert_eq!(demuxer.duration(), Duration::from_millis(1800));
    assert_eq!(take(&mut demuxer, 1000).len(), 120);
    assert_eq!(demuxer.next_frame().expect("still memory"), None);
}

#[test]
fn audio_that_never_fits_the_loop_is_silent() {
    let video = progressive(1, 1, Sequence::default());
    let mut long = opus_packet(0);
    long[0] = 3 << 3;
    let audio = ogg_opus(1, &[long], 1, 0, 2880);
    let mut demuxer = both(&video, &audio, &Options::default());
    assert!(
        take(&mut demuxer, 50)
            .iter()
            .all(|frame| frame.track == TrackIndex(0))
    );
}
