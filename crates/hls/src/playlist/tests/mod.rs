mod live;
mod rules;

use super::*;
use rules::Rules;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn terms() -> Terms {
    Terms {
        target: 2,
        part_target: ms(200),
        part_hold_back: ms(600),
        window: ms(16_000),
        independent: false,
    }
}

fn playlist() -> MediaPlaylist {
    let first = Numbers {
        segment: 10,
        part: 100,
        discontinuity: 5,
    };
    MediaPlaylist::new(terms(), first, "../w1/video0".into(), "i1.mp4".into())
}

fn part(begins_segment: bool, date_ms: u64) -> NewPart {
    NewPart {
        duration: ms(200),
        bytes: 1000,
        independent: begins_segment,
        begins_segment,
        date: ms(date_ms),
    }
}

/// Adds whole segments of ten parts.
fn push_segments(playlist: &mut MediaPlaylist, count: u64) {
    for index in 0..count * 10 {
        playlist.push(part(index % 10 == 0, index * 200));
    }
}

fn asked(segment: u64, part: Option<u64>) -> Directives {
    Directives {
        segment: Some(segment),
        part,
        skip: false,
    }
}

#[test]
fn a_playlist_has_its_parts_and_the_hint_of_the_next() {
    let mut playlist = playlist();
    playlist.push(part(true, 1_000));
    playlist.set_folder("../w2/video0".into());
    playlist.push(part(false, 1_200));
    playlist.push(part(true, 1_400));
    let report = RenditionReport {
        uri: "audio1.m3u8".to_owned(),
        segment: 12,
        part: Some(3),
    };
    let expected = "\
#EXTM3U
#EXT-X-VERSION:9
#EXT-X-TARGETDURATION:2
#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=12.0,PART-HOLD-BACK=0.6
#EXT-X-PART-INF:PART-TARGET=0.2
#EXT-X-MEDIA-SEQUENCE:10
#EXT-X-DISCONTINUITY-SEQUENCE:5
#EXT-X-MAP:URI=\"../w1/video0/i1.mp4\"
#EXT-X-PROGRAM-DATE-TIME:1970-01-01T00:00:01.000Z
#EXT-X-PART:DURATION=0.2,URI=\"../w1/video0/p100.m4s\",INDEPENDENT=YES
#EXT-X-PART:DURATION=0.2,URI=\"../w1/video0/p101.m4s\"
#EXTINF:0.4,
../w1/video0/s10.m4s
#EXT-X-MAP:URI=\"../w2/video0/i1.mp4\"
#EXT-X-PROGRAM-DATE-TIME:1970-01-01T00:00:01.400Z
#EXT-X-PART:DURATION=0.2,URI=\"../w2/video0/p102.m4s\",INDEPENDENT=YES
#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"../w2/video0/p103.m4s\"
#EXT-X-RENDITION-REPORT:URI=\"audio1.m3u8\",LAST-MSN=12,LAST-PART=3
";
    assert_eq!(playlist.text(false, &[report]), expected);
}

#[test]
fn a_frame_that_stands_for_longer_than_a_part_is_a_segment_without_parts() {
    let mut playlist = playlist();
    playlist.push(part(true, 0));
    let pushed = playlist.push(NewPart {
        duration: ms(1_500),
        ..part(false, 200)
    });
    assert_eq!((pushed.segment, pushed.undivided), (11, true));
    // Whoever asked for the hinted part waits on.
    assert_eq!((pushed.part, playlist.next_part()), (101, 101));
    assert_eq!(playlist.answer(&asked(11, Some(0))), Answer::Wait);
    let report = playlist.report("video0.m3u8".to_owned());
    assert_eq!(report.and_then(|it| it.part), None);
    assert_eq!(playlist.push(part(false, 1_700)).segment, 12);
    assert_eq!(playlist.answer(&asked(11, Some(0))), Answer::Now);
    let text = playlist.text(false, &[]);
    let expected = "00.200Z\n#EXTINF:1.5,\n../w1/video0/s11.m4s\n\
        #EXT-X-PROGRAM-DATE-TIME:1970-01-01T00:00:01.700Z\n\
        #EXT-X-PART:DURATION=0.2,URI=\"../w1/video0/p101.m4s\"\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_part_that_is_too_short_is_the_last_of_its_segment() {
    let mut playlist = playlist();
    playlist.push(part(true, 0));
    let short = |date| NewPart {
        duration: ms(169),
        ..part(false, date)
    };
    assert_eq!(playlist.push(short(200)).segment, 10);
    // A keyframe begins the segment that begins in any case.
    assert!(playlist.ends_at_keyframe(ms(40), ms(4_000)));
    assert_eq!(playlist.push(short(369)).segment, 11);
    let whole = NewPart {
        duration: ms(170),
        ..part(false, 538)
    };
    assert_eq!(playlist.push(whole).segment, 12);
    let keyframe = NewPart {
        independent: true,
        ..short(708)
    };
    assert_eq!(playlist.push(keyframe).segment, 12);
    assert_eq!(playlist.push(part(false, 877)).segment, 12);
}

#[test]
fn a_request_without_directives_waits_for_a_whole_segment() {
    let mut playlist = playlist();
    let plain = Directives::default();
    assert_eq!(playlist.answer(&plain), Answer::Wait);
    playlist.push(part(true, 0));
    assert_eq!(playlist.answer(&plain), Answer::Wait);
    playlist.push(part(true, 200));
    assert_eq!(playlist.answer(&plain), Answer::Now);
}

#[test]
fn a_segment_without_a_part_waits_for_the_whole_segment() {
    let mut playlist = playlist();
    push_segments(&mut playlist, 2);
    // Segment 10 is complete, 11 is open.
    assert_eq!(playlist.answer(&asked(10, None)), Answer::Now);
    assert_eq!(playlist.answer(&asked(11, None)), Answer::Wait);
    assert_eq!(playlist.answer(&asked(12, None)), Answer::Wait);
    assert_eq!(playlist.answer(&asked(13, None)), Answer::TooFarAhead);
    playlist.push(part(true, 4_000));
    assert_eq!(playlist.answer(&asked(11, None)), Answer::Now);
}

#[test]
fn a_part_behind_the_last_of_a_segment_is_the_first_of_the_next() {
    let mut playlist = playlist();
    push_segments(&mut playlist, 2);
    assert_eq!(playlist.answer(&asked(10, Some(9))), Answer::Now);
    assert_eq!(playlist.answer(&asked(10, Some(10))), Answer::Now);
    assert_eq!(playlist.answer(&asked(11, Some(9))), Answer::Now);
    // The open segment may have a tenth part; the request is answered by whatever comes next.
    assert_eq!(playlist.answer(&asked(11, Some(10))), Answer::Wait);
    let mut continued = playlist.clone();
    continued.push(part(false, 4_000));
    assert_eq!(continued.answer(&asked(11, Some(10))), Answer::Now);
    playlist.push(part(true, 4_000));
    assert_eq!(playlist.answer(&asked(11, Some(10))), Answer::Now);
}

#[test]
fn parts_too_far_ahead_are_refused_and_old_ones_answered() {
    let mut playlist = playlist();
    push_segments(&mut playlist, 30);
    // The Advance Part Limit of parts of 200 ms is 15.
    assert_eq!(playlist.answer(&asked(39, Some(24))), Answer::Wait);
    assert_eq!(playlist.answer(&asked(39, Some(25))), Answer::TooFarAhead);
    assert_eq!(playlist.answer(&asked(40, Some(0))), Answer::Wait);
    assert_eq!(playlist.answer(&asked(40, Some(15))), Answer::TooFarAhead);
    assert_eq!(playlist.answer(&asked(41, Some(0))), Answer::TooFarAhead);
    assert_eq!(playlist.answer(&asked(3, Some(99))), Answer::Now);
    assert_eq!(playlist.answer(&asked(3, None)), Answer::Now);
}

#[test]
fn an_ended_playlist_answers_everything_at_once() {
    let mut playlist = playlist();
    push_segments(&mut playlist, 2);
    playlist.end();
    assert_eq!(playlist.answer(&asked(99, Some(99))), Answer::Now);
    let text = playlist.text(true, &[]);
    assert!(text.ends_with("#EXT-X-ENDLIST\n"), "{text}");
    assert!(!text.contains("PRELOAD-HINT"), "{text}");
    assert_eq!(text.matches("#EXTINF").count(), 2, "{text}");
}

#[test]
fn directives_are_read_and_bad_ones_told() {
    let read = |pairs: &[(&'static str, &'static str)]| Directives::of(pairs.iter().copied());
    let all = [
        ("_HLS_msn", "7"),
        ("token", "a"),
        ("_HLS_part", "2"),
        ("_HLS_skip", "YES"),
    ];
    let expected = Directives {
        segment: Some(7),
        part: Some(2),
        skip: true,
    };
    assert_eq!(read(&all), Ok(expected));
    assert_eq!(read(&[]), Ok(Directives::default()));
    for (pairs, told) in [
        (
            &[("_HLS_part", "2")][..],
            "_HLS_part needs _HLS_msn beside it",
        ),
        (&[("_HLS_msn", "-1")], "_HLS_msn=-1: "),
        (&[("_HLS_msn", "+1")], "_HLS_msn=+1: "),
        (&[("_HLS_msn", "99999999999999999999")], "_HLS_msn=9"),
        (&[("_HLS_skip", "NO")], "_HLS_skip=NO: "),
    ] {
        let error = read(pairs).expect_err("bad").to_string();
        assert!(error.starts_with(told), "{error}");
    }
}

/// Returns a playlist of eleven complete segments, of which a delta update leaves out four.
fn long_playlist() -> MediaPlaylist {
    let terms = Terms {
        window: ms(30_000),
        ..terms()
    };
    let first = Numbers::at(ms(1_000));
    let mut playlist = MediaPlaylist::new(terms, first, "v".into(), "i1.mp4".into());
    push_segments(&mut playlist, 12);
    playlist
}

#[test]
fn a_delta_update_leaves_out_what_is_behind_the_boundary() {
    let playlist = long_playlist();
    let (whole, delta) = (playlist.text(false, &[]), playlist.text(true, &[]));
    // Of eleven complete segments, six reach up to the boundary of 12 s, and one lies on it.
    assert!(
        delta.contains("#EXT-X-SKIP:SKIPPED-SEGMENTS=4\n"),
        "{delta}"
    );
    assert_eq!(whole.matches("#EXTINF").count(), 11);
    assert_eq!(delta.matches("#EXTINF").count(), 7);
    assert!(!delta.contains("#EXT-X-MAP"), "it was in what is skipped");
    assert!(whole.ends_with(&delta[delta.rfind("#EXTINF").expect("a segment")..]));
}

#[test]
fn a_delta_update_leaves_out_nothing_that_the_client_never_saw() {
    let mut playlist = long_playlist();
    let first = playlist.first_segment();
    let listed = first + 4;
    let of = |segment: Option<u64>| Directives {
        segment,
        part: None,
        skip: true,
    };
    // The first segment that is listed is one that the client had, so that both can be joined.
    assert!(!playlist.skips(&of(Some(first))));
    assert!(!playlist.skips(&of(Some(listed))));
    assert!(playlist.skips(&of(Some(listed + 1))));
    assert!(playlist.skips(&of(None)), "it vouches for what it has");
    assert!(!playlist.skips(&asked(listed + 1, None)));
    playlist.end();
    assert!(!playlist.skips(&of(Some(listed + 1))));
}

#[test]
fn segments_end_at_keyframes_that_keep_them_short_enough() {
    let mut playlist = playlist();
    let group = ms(1_000);
    assert!(playlist.ends_at_keyframe(ms(0), group), "none is open");
    for index in 0..5 {
        playlist.push(part(index == 0, index * 200));
    }
    assert!(!playlist.ends_at_keyframe(ms(0), group), "another fits");
    assert!(playlist.ends_at_keyframe(ms(0), ms(1_500)), "none fits");
    assert!(!playlist.is_full_for(ms(1_450)));
    assert!(playlist.is_full_for(ms(1_451)));
    for index in 5..10 {
        playlist.push(part(false, index * 200));
    }
    assert!(playlist.ends_at_keyframe(ms(0), group));
}

#[test]
fn playlists_that_begin_later_have_greater_numbers_and_small_ones() {
    let begun = Duration::from_secs(1_796_011_899);
    let (one, later) = (Numbers::at(begun), Numbers::at(begun + ms(40_000)));
    assert!(later.segment == one.segment + 40 && later.part == one.part + 40_000);
    assert!(later.discontinuity >= one.discontinuity && one.discontinuity < 100_000);
}

#[test]
fn the_rates_are_those_of_segments() {
    let mut playlist = playlist();
    assert_eq!(playlist.rate(), None);
    push_segments(&mut playlist, 1);
    let rate = playlist.rate().expect("an open segment");
    assert_eq!(rate.average, 40_000);
    for index in 0..10 {
        playlist.push(NewPart {
            bytes: 3_000,
            ..part(index == 0, 2_000 + index * 200)
        });
    }
    playlist.push(part(true, 4_000));
    let rate = playlist.rate().expect("complete segments");
    assert_eq!((rate.peak, rate.average), (120_000, 80_000));
}

#[test]
fn a_playlist_that_is_shortened_keeps_three_target_durations() {
    let mut playlist = playlist();
    push_segments(&mut playlist, 6);
    assert!(playlist.shorten() && playlist.shorten());
    assert!(!playlist.shorten(), "three of five are left");
    assert_eq!(playlist.first_segment(), 12);
}
