//! Where fragments and segments begin.

use std::time::Duration;

use glassline_media::{Codec, MediaTime, Track, TrackIndex};
use proptest::prelude::*;

use super::{Run, Stream, Synthetic};
use crate::{CutRule, Fragment, Fragmenter, HeaderCause, NewHeader, Output};

const PART: Duration = Duration::from_millis(200);

fn fragments(outputs: &[Output]) -> Vec<&Fragment> {
    let found = outputs.iter().filter_map(|output| match output {
        Output::Fragment(fragment) => Some(fragment),
        _ => None,
    });
    found.collect()
}

fn causes(outputs: &[Output]) -> Vec<HeaderCause> {
    let found = outputs.iter().filter_map(|output| match output {
        Output::Header(NewHeader { cause, .. }) => Some(*cause),
        _ => None,
    });
    found.collect()
}

fn parts(segment_ms: u64) -> CutRule {
    CutRule::parts(PART, Duration::from_millis(segment_ms))
}

/// Video at 25 frames per second with a keyframe each second.
fn camera(seconds: usize) -> Vec<Synthetic> {
    let frames = 0..25 * seconds;
    frames
        .map(|it| Synthetic::video(40.0 * it as f64, (it % 25 == 0).then_some(64)))
        .collect()
}

#[test]
fn parts_of_a_steady_camera_are_as_long_as_asked_and_segments_begin_at_keyframes() {
    let run = Run::of(Stream::synthetic(true, false, &camera(6)).cut(parts(2_000)));
    assert_eq!(run.fragments.len(), 30);
    for (place, part) in run.fragments.iter().enumerate() {
        assert_eq!(part.duration, PART, "{place}");
        assert_eq!(part.begins_segment, place % 10 == 0, "{place}");
        assert_eq!(part.starts_with_sync, place % 5 == 0, "{place}");
        assert_eq!(part.decode_time.nanos(), place as i64 * 200_000_000);
        let wall = super::ZERO_UNIX + PART * place as u32;
        assert_eq!(part.wall_clock, wall);
        assert_eq!(part.sequence, place as u32 + 1);
        assert_eq!((part.sample_count(0), part.sample_count(1)), (5, 0));
        let styp = part.to_vec()[4..8] == *b"styp";
        assert_eq!(styp, part.begins_segment);
        assert_eq!(part.to_vec().len(), part.byte_count());
    }
}

#[test]
fn a_part_is_handed_out_as_soon_as_the_next_frame_would_be_too_much() {
    let stream = Stream::synthetic(true, false, &camera(1));
    let mut fragmenter = stream.fragmenter(parts(2_000));
    for unit in &stream.units[..6] {
        assert!(!matches!(fragmenter.poll(), Some(Output::Fragment(_))));
        fragmenter.push(unit, &stream.clock).expect("VP8");
    }
    assert!(matches!(fragmenter.poll(), Some(Output::Fragment(_))));
}

#[test]
fn a_recording_has_all_tracks_in_each_fragment_and_files_begin_at_keyframes() {
    let mut frames = camera(6);
    frames.extend((0..300).map(|it| Synthetic::audio(1, 20.0 * f64::from(it))));
    frames.sort_by(|a, b| a.decode_ms.total_cmp(&b.decode_ms));
    let rule = CutRule::recording(Duration::from_secs(1), Duration::from_secs(3));
    let run = Run::of(Stream::synthetic(true, true, &frames).cut(rule));
    let begins: Vec<_> = run.fragments.iter().map(|it| it.begins_segment).collect();
    assert_eq!(begins, [true, false, false, true, false, false]);
    for fragment in &run.fragments {
        assert!(fragment.starts_with_sync && fragment.sample_count(1) >= 48);
        assert_eq!(fragment.duration, Duration::from_secs(1));
        assert_eq!(fragment.to_vec()[4..8], *b"prft");
    }
}

#[test]
fn another_size_makes_another_header_and_times_go_on() {
    let mut frames = camera(4);
    frames[50].keyframe = Some(96);
    let outputs = Stream::synthetic(true, false, &frames).cut(parts(1_000));
    let source = TrackIndex::first(1).next().expect("one");
    assert_eq!(
        causes(&outputs),
        [
            HeaderCause::Start,
            HeaderCause::Parameters(source),
            HeaderCause::Parameters(source)
        ]
    );
    let parts = fragments(&outputs);
    assert_eq!(parts.len(), 20);
    assert!(parts[10].begins_segment && parts[10].starts_with_sync);
    assert_eq!(parts[10].decode_time.nanos(), 2_000_000_000);
    let headers: Vec<_> = outputs
        .iter()
        .filter_map(|it| match it {
            Output::Header(new) => new.header.tracks()[0].size(),
            _ => None,
        })
        .collect();
    assert_eq!(headers, [(64, 32), (96, 32), (64, 32)]);
}

#[test]
fn jumps_of_the_timestamps_are_told_and_make_no_long_sample() {
    for to in [60_000.0, -60_000.0] {
        let mut frames = camera(4);
        for frame in &mut frames[40..] {
            frame.decode_ms += to;
        }
        let outputs = Stream::synthetic(true, false, &frames).cut(parts(1_000));
        let jumps: Vec<_> = outputs
            .iter()
            .filter_map(|it| match it {
                Output::Discontinuity(jump) => Some(*jump),
                _ => None,
            })
            .collect();
        let [jump] = jumps[..] else {
            panic!("{jumps:?}");
        };
        assert_eq!(jump.from, MediaTime::from_nanos(39 * 40_000_000));
        // Before the origin, times are taken again from the next keyframe on.
        let first = if to < 0.0 { 2000.0 } else { 1600.0 };
        assert_eq!(jump.to.nanos(), (first + to) as i64 * 1_000_000);
        let all = fragments(&outputs);
        assert!(all.iter().all(|part| part.duration <= PART));
        // Frames between the jump and the next keyframe are of no use.
        let samples: usize = all.iter().map(|it| it.sample_count(0)).sum();
        assert_eq!(samples, 90);
        let behind = all
            .iter()
            .find(|part| part.sequence == 9)
            .expect("more than 8");
        assert!(behind.begins_segment && behind.starts_with_sync);
        assert_eq!(causes(&outputs).len(), if to < 0.0 { 2 } else { 1 });
    }
}

#[test]
fn small_steps_back_and_equal_times_stay_in_order() {
    let mut frames = camera(1);
    frames[10].decode_ms = frames[9].decode_ms;
    frames[11].decode_ms = frames[9].decode_ms - 30.0;
    let run = Run::of(Stream::synthetic(true, false, &frames).cut(parts(1_000)));
    let samples = run.fragments.iter().flat_map(|it| &it.tracks[0].samples);
    let samples: Vec<_> = samples.collect();
    assert_eq!(samples.len(), 25);
    assert_eq!((samples[9].duration, samples[10].duration), (1, 1));
    // Presentation stays where it was.
    assert_eq!(samples[11].composition, -2702);
}

#[test]
fn an_open_fragment_is_bounded_in_bytes_and_time() {
    let mut frames = camera(4);
    frames.iter_mut().for_each(|it| it.bytes = 10_000);
    let rule = CutRule {
        bytes_max: 100_000,
        ..CutRule::recording(Duration::from_secs(60), Duration::MAX)
    };
    let run = Run::of(Stream::synthetic(true, false, &frames).cut(rule));
    assert!(run.fragments.iter().all(|it| it.byte_count() < 100_000));
    // Audio goes on while the video stands still.
    let mut frames = camera(1);
    frames.extend((0..500).map(|it| Synthetic::audio(1, 20.0 * f64::from(it))));
    frames.sort_by(|a, b| a.decode_ms.total_cmp(&b.decode_ms));
    let rule = CutRule::recording(Duration::from_secs(1), Duration::MAX);
    let run = Run::of(Stream::synthetic(true, true, &frames).cut(rule));
    let longest = run.fragments.iter().flat_map(|it| &it.tracks);
    let longest = longest
        .filter(|it| it.position == 1)
        .map(|it| it.duration_ticks());
    assert!(longest.max() <= Some(2 * 48_000));
}

#[test]
fn segments_begin_where_they_are_asked_for() {
    let frames: Vec<_> = (0..100)
        .map(|it| Synthetic::audio(0, 20.0 * f64::from(it)))
        .collect();
    let stream = Stream::synthetic(false, true, &frames);
    let rule = CutRule {
        segment: Duration::MAX,
        ..parts(0)
    };
    let mut fragmenter = stream.fragmenter(rule);
    let mut outputs = Vec::new();
    for (place, unit) in stream.units.iter().enumerate() {
        if place == 10 {
            fragmenter.begin_segment_at(MediaTime::from_nanos(990_000_000));
        }
        fragmenter.push(unit, &stream.clock).expect("Opus");
        outputs.extend(std::iter::from_fn(|| fragmenter.poll()));
    }
    fragmenter.begin_segment();
    fragmenter.flush();
    outputs.extend(std::iter::from_fn(|| fragmenter.poll()));
    let begins = fragments(&outputs)
        .into_iter()
        .filter(|it| it.begins_segment);
    let begins: Vec<_> = begins
        .map(|it| it.decode_time.nanos() / 1_000_000)
        .collect();
    assert_eq!(begins, [0, 1000]);
    assert!(fragments(&outputs).iter().all(|it| it.starts_with_sync));
}

#[test]
fn a_track_that_does_not_come_is_waited_for_and_then_joins() {
    let audio = (0..1000).map(|it| Synthetic::audio(1, 20.0 * f64::from(it)));
    let mut frames: Vec<_> = audio.collect();
    frames.extend((0..50).map(|it| {
        Synthetic::video(
            15_000.0 + 40.0 * f64::from(it),
            (it % 25 == 0).then_some(64),
        )
    }));
    frames.sort_by(|a, b| a.decode_ms.total_cmp(&b.decode_ms));
    let stream = Stream::synthetic(true, true, &frames);
    let outputs = stream.cut(CutRule::recording(Duration::from_secs(1), Duration::MAX));
    let source = TrackIndex::first(1).next().expect("one");
    assert_eq!(
        causes(&outputs),
        [HeaderCause::Start, HeaderCause::Joined(source)]
    );
    let first = fragments(&outputs)[0];
    assert_eq!(first.decode_time, MediaTime::ZERO);
    let both = fragments(&outputs)
        .into_iter()
        .filter(|it| it.tracks.len() == 2);
    assert!(both.count() >= 2);
}

#[test]
fn audio_with_jitter_lasts_as_long_as_its_packets_say() {
    let jitter = [0.0, 0.4, -0.3, 0.9, -0.8];
    let frames: Vec<_> = (0..200)
        .map(|it| Synthetic::audio(0, 20.0 * f64::from(it) + jitter[it as usize % 5]))
        .collect();
    let run = Run::of(Stream::synthetic(false, true, &frames).cut(parts(1_000)));
    let samples = run.fragments.iter().flat_map(|it| &it.tracks[0].samples);
    let odd: Vec<_> = samples.clone().filter(|it| it.duration != 960).collect();
    assert!(odd.is_empty(), "{odd:?}");
    assert_eq!(samples.count(), 200);
}

#[test]
fn tracks_without_a_place_are_refused_with_their_name() {
    let refused = |track: Track| {
        let tracks = TrackIndex::enumerate([Track::new(Codec::Vp8), track]);
        let made = Fragmenter::new(tracks, parts(1_000), None);
        made.err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let theora = refused(Track::new(Codec::Theora));
    assert!(
        theora.starts_with("track 1 has the codec Theora"),
        "{theora}"
    );
    let aac = refused(Track::audio(Codec::Aac, 2));
    assert!(aac.contains("(AAC)") && aac.contains("`config`"), "{aac}");
    assert_eq!(refused(Track::audio(Codec::Opus, 2)), "");
    let stream = Stream::synthetic(true, false, &camera(1));
    let mut h264 = Stream::new(vec![Track::new(Codec::H264)]);
    h264.units = stream.units.clone();
    let mut fragmenter = h264.fragmenter(parts(1_000));
    let error = fragmenter
        .push(&h264.units[0], &h264.clock)
        .expect_err("no H.264");
    assert!(
        error
            .to_string()
            .contains("no sequence and picture parameter sets")
    );
    assert_eq!(fragmenter.left_out(), 1);
}

proptest! {
    #[test]
    fn any_timing_makes_parts_in_order_that_are_never_too_long(
        steps in prop::collection::vec((0.0f64..190.0, any::<bool>(), 0.0f64..300.0), 1..150),
        audio_steps in prop::collection::vec(0.0f64..90.0, 0..100),
    ) {
        let mut frames = Vec::new();
        let mut at = 0.0;
        for (place, (step, keyframe, lead)) in steps.iter().enumerate() {
            frames.push(Synthetic {
                lead_ms: *lead,
                ..Synthetic::video(at, (*keyframe || place == 0).then_some(64))
            });
            at += step;
        }
        let mut at = 1.0;
        for step in &audio_steps {
            frames.push(Synthetic::audio(1, at));
            at += step;
        }
        frames.sort_by(|a, b| a.decode_ms.total_cmp(&b.decode_ms));
        let stream = Stream::synthetic(true, true, &frames);
        let run = Run::of(stream.cut(parts(500)));
        let mut next = [None, None];
        let mut counts = [0, 0];
        for part in &run.fragments {
            for track in &part.tracks {
                let expected = &mut next[track.position];
                prop_assert!(expected.is_none_or(|it| it == track.decode_ticks));
                *expected = Some(track.decode_ticks + track.duration_ticks());
                prop_assert!(track.samples.iter().all(|it| it.duration > 0));
                counts[track.position] += track.samples.len();
                let most = if track.position == 0 { 18_000 } else { 19_200 };
                prop_assert!(track.duration_ticks() <= most, "{track:?}");
            }
            prop_assert!(!part.begins_segment || part.starts_with_sync);
        }
        prop_assert_eq!(counts, [steps.len(), audio_steps.len()]);
        // The file has the times of the stream, within a tick for each step that was too small.
        let (file, _) = run.file();
        let read = crate::RecordedFile::open(&file[..]).expect("whole");
        let mut shown = Vec::new();
        for entry in read.fragments() {
            for track in read.fragment(entry).expect("whole").tracks {
                if track.track.position == 0 {
                    shown.extend(track.samples().map(|it| it.presentation_ticks()));
                }
            }
        }
        let units = stream.units.iter().filter(|it| it.track == TrackIndex::default());
        for (unit, shown) in units.zip(shown) {
            let expected = unit.time.ticks(90_000).cast_unsigned();
            prop_assert!(expected.abs_diff(shown) <= 1, "{expected} {shown}");
        }
    }
}
