use super::test_playlist::{live, live_with, media, names};
use super::*;
use crate::reader::{MediaPlaylist, Playlist, Position, Surroundings, read};

fn of_media(text: &str) -> Vec<&'static str> {
    let mut findings = Findings::default();
    judge_media(&media(text), &mut findings);
    names(findings)
}

fn changed(from: &'static str, to: &'static str) -> impl Fn(String) -> String {
    move |line| line.replace(from, to)
}

#[test]
fn a_playlist_as_the_text_wants_it_has_no_finding() {
    assert_eq!(of_media(&live(7, 8, 2)), [""; 0]);
    assert_eq!(
        of_media("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:9,\na.ts\n#EXT-X-ENDLIST\n"),
        [""; 0]
    );
}

/// One change of a good playlist, and what the judge must find.
const CASES: [(&str, &str, &str); 24] = [
    (
        "#EXT-X-VERSION:6",
        "#EXT-X-VERSION:6\n#EXT-X-DISCONTINUITY-SEQUENCE:1796015757",
        "discontinuity-sequence-large",
    ),
    ("VERSION:6", "VERSION:5", "version-too-low"),
    ("VERSION:6", "VERSION:12", "version-too-high"),
    ("#EXT-X-TARGETDURATION:2", "", "no-target-duration"),
    ("#EXTINF:2.0,", "#EXTINF:2.5,", "segment-too-long"),
    ("#EXT-X-MAP:URI=\"init.mp4\"", "", "no-map"),
    ("#EXT-X-PART-INF:PART-TARGET=0.5", "", "no-part-inf"),
    ("PART-TARGET=0.5", "PART-TARGET=0.48", "part-too-long"),
    ("PART-TARGET=0.5", "PART-TARGET=0.6", "part-too-short"),
    ("#EXTINF:2.0,", "#EXTINF:1.9,", "parts-differ-from-segment"),
    (",PART-HOLD-BACK=1.5", "", "no-part-hold-back"),
    ("HOLD-BACK=1.5", "HOLD-BACK=0.9", "part-hold-back-too-short"),
    ("HOLD-BACK=1.5", "HOLD-BACK=1.2", "part-hold-back-short"),
    (
        ",PART-HOLD",
        ",HOLD-BACK=5.9,PART-HOLD",
        "hold-back-too-short",
    ),
    ("UNTIL=12.0", "UNTIL=11.0", "skip-boundary-too-short"),
    (
        "CAN-SKIP-UNTIL=12.0",
        "CAN-SKIP-DATERANGES=YES",
        "skip-dateranges-alone",
    ),
    (
        "#EXT-X-VERSION:6",
        "#EXT-X-VERSION:6\n#EXT-X-ENDLIST",
        "hint-with-end",
    ),
    (
        "#EXT-X-PRELOAD-HINT:TYPE=PART",
        "#EXT-X-PRELOAD-HINT:TYPE=MAP",
        "no-hint",
    ),
    (
        "#EXT-X-VERSION:6",
        "#EXT-X-VERSION:6\n#EXT-X-I-FRAMES-ONLY",
        "parts-of-i-frames",
    ),
    (
        "#EXT-X-VERSION:6",
        "#EXT-X-VERSION:6\n#EXT-X-PLAYLIST-TYPE:EVENT",
        "live-with-type",
    ),
    (
        "#EXT-X-VERSION:6",
        "#EXT-X-VERSION:6\n#EXT-X-START:TIME-OFFSET=-3",
        "start-near-end",
    ),
    (
        "#EXT-X-VERSION:6",
        "#EXT-X-VERSION:6\n#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"x\"",
        "hint-twice",
    ),
    (
        "#EXT-X-VERSION:6",
        "#EXT-X-VERSION:6\n#EXT-X-DATERANGE:ID=\"a\",START-DATE=\"2026-01-01T00:00:01Z\",END-DATE=\"2026-01-01T00:00:00Z\"",
        "date-range-wrong",
    ),
    (
        "#EXT-X-VERSION:6",
        "#EXT-X-VERSION:6\n#EXT-X-DATERANGE:ID=\"a\",START-DATE=\"2026-01-01T00:00:01Z\",END-ON-NEXT=YES",
        "date-range-wrong",
    ),
];

#[test]
fn one_change_is_found_by_its_name() {
    for (from, to, wanted) in CASES.into_iter() {
        let text = live_with(7, 8, 2, |line| line.replace(from, to));
        let found = of_media(&text);
        assert!(found.contains(&wanted), "{from} -> {to}: {found:?}");
    }
}

#[test]
fn dates_must_advance_with_the_media() {
    let jump = |by: i64| {
        let mut count = 0_u32;
        let edit = std::cell::RefCell::new(move |line: String| {
            let Some(date) = line.strip_prefix("#EXT-X-PROGRAM-DATE-TIME:") else {
                return line;
            };
            count += 1;
            let date = crate::reader::DateTime::parse(date).expect("a date");
            let shift = if count > 3 { by } else { 0 };
            format!(
                "#EXT-X-PROGRAM-DATE-TIME:{}",
                crate::reader::DateTime(date.0 + shift * 1_000_000)
            )
        });
        of_media(&live_with(0, 8, 0, |line| edit.borrow_mut()(line)))
    };
    assert_eq!(jump(20), [""; 0]);
    assert_eq!(jump(250), ["dates-drift"]);
    assert_eq!(jump(-250), ["dates-drift"]);
    assert_eq!(jump(-1500), ["dates-overlap"]);
    let none = live_with(0, 8, 0, |line| {
        if line.contains("DATE-TIME") {
            String::new()
        } else {
            line
        }
    });
    assert_eq!(of_media(&none), ["no-dates"]);
}

#[test]
fn parts_far_from_the_end_are_a_warning() {
    let old = live_with(0, 9, 0, |line| match line.as_str() {
        "#EXTINF:2.0," => {
            "#EXT-X-PART:DURATION=2.0,INDEPENDENT=YES,URI=\"x\"\n#EXTINF:2.0,".to_owned()
        }
        line if line.starts_with("#EXT-X-PART:") => String::new(),
        "#EXT-X-PART-INF:PART-TARGET=0.5" => "#EXT-X-PART-INF:PART-TARGET=2".to_owned(),
        _ => line.replace("HOLD-BACK=1.5", "HOLD-BACK=6"),
    });
    assert_eq!(of_media(&old), ["parts-too-old"]);
}

fn of_loads(loads: &[(u64, String)]) -> Vec<&'static str> {
    let (mut follower, mut findings) = (Follower::default(), Findings::default());
    for (millis, text) in loads {
        let playlist = media(text);
        let at = Duration::from_millis(*millis);
        let load = Load {
            at,
            uncertainty: Duration::ZERO,
            playlist: &playlist,
        };
        follower.take(load, &mut findings);
    }
    names(findings)
}

#[test]
fn a_playlist_that_grows_part_by_part_has_no_finding() {
    let loads: Vec<_> = (0..40_u64)
        .map(|it| (it * 500, live(7 + it / 4, 8, it % 4)))
        .collect();
    assert_eq!(of_loads(&loads), [""; 0]);
}

#[test]
fn a_change_between_two_loads_is_found_by_its_name() {
    let good = || live(7, 8, 2);
    let next = |edit: fn(String) -> String| live_with(7, 8, 3, edit);
    let cases: [(String, &str); 12] = [
        (live(6, 8, 2), "media-sequence-fell"),
        (
            next(|it| it.replace("14.mp4", "14b.mp4")),
            "segment-changed",
        ),
        (
            next(|it| it.replace("2026-04-24", "2026-04-25")),
            "segment-changed",
        ),
        (
            next(|it| it.replace("15.0.mp4", "15.x.mp4")),
            "part-changed",
        ),
        (
            next(|it| it.replace("TARGETDURATION:2", "TARGETDURATION:3")),
            "target-changed",
        ),
        (
            next(|it| it.replace("PART-TARGET=0.5", "PART-TARGET=0.51")),
            "part-target-changed",
        ),
        (
            next(|it| it.replace("VERSION:6", "VERSION:9")),
            "head-changed",
        ),
        (
            next(|it| it.replace("15.2.mp4", "15.two.mp4")),
            "hint-not-kept",
        ),
        (live(7, 8, 1), "parts-vanished"),
        (live(7, 7, 3), "segments-vanished"),
        (live(13, 2, 3), "removed-too-early"),
        (
            next(|it| {
                it.replace(
                    "#EXT-X-VERSION:6",
                    "#EXT-X-VERSION:6\n#EXT-X-DISCONTINUITY-SEQUENCE:1",
                )
            }),
            "discontinuity-sequence-wrong",
        ),
    ];
    for (second, wanted) in cases {
        let found = of_loads(&[(0, good()), (500, second)]);
        assert!(found.contains(&wanted), "{wanted}: {found:?}");
    }
}

#[test]
fn segments_and_parts_that_do_not_come_are_late() {
    assert_eq!(
        of_loads(&[(0, live(7, 8, 2)), (3100, live(7, 8, 2))]),
        ["parts-late", "segments-late"]
    );
    assert_eq!(
        of_loads(&[(0, live(7, 8, 2)), (1100, live(7, 8, 3))]),
        ["parts-late"]
    );
    assert_eq!(
        of_loads(&[(0, live(7, 8, 2)), (900, live(7, 8, 3))]),
        [""; 0]
    );
}

/// The answer to a reload of a playlist whose last part is 1 of segment 15.
fn of_reload(
    directive: Directive,
    status: u16,
    millis: u64,
    answer: Option<&str>,
) -> Vec<&'static str> {
    let before = media(&live(7, 8, 2));
    let playlist = answer.map(media);
    let mut findings = Findings::default();
    let answer = ReloadAnswer {
        directive,
        status,
        waited: Duration::from_millis(millis),
        playlist: playlist.as_ref(),
        before: &before,
    };
    judge_reload(answer, &mut findings);
    names(findings)
}

#[test]
fn a_blocking_reload_must_answer_with_what_was_asked_for() {
    let part = |sequence, part| Directive::part(Position::new(sequence, part));
    let nothing = [""; 0];
    assert_eq!(
        of_reload(part(15, 2), 200, 400, Some(&live(7, 8, 3))),
        nothing
    );
    assert_eq!(
        of_reload(part(15, 2), 200, 1, Some(&live(7, 8, 2))),
        ["not-blocked"]
    );
    assert_eq!(of_reload(part(15, 2), 500, 1, None), ["reload-failed"]);
    assert_eq!(
        of_reload(part(15, 2), 200, 9000, Some(&live(7, 8, 3))),
        ["blocked-too-long"]
    );
    assert_eq!(
        of_reload(part(15, 4), 200, 1000, Some(&live(8, 8, 1))),
        nothing
    );
    assert_eq!(
        of_reload(part(12, 0), 200, 5, Some(&live(7, 8, 2))),
        nothing
    );
    assert_eq!(
        of_reload(part(12, 0), 200, 1500, Some(&live(7, 8, 3))),
        ["past-not-answered"]
    );
    let whole = Directive::segment(15);
    assert_eq!(of_reload(whole, 200, 1000, Some(&live(8, 8, 0))), nothing);
    assert_eq!(
        of_reload(whole, 200, 1, Some(&live(7, 8, 2))),
        ["segment-not-awaited"]
    );
    assert_eq!(
        of_reload(Directive::segment(16), 200, 1, Some(&live(7, 8, 2))),
        ["not-blocked"]
    );
    let ahead = Directive::segment(40);
    assert_eq!(of_reload(ahead, 400, 1, None), nothing);
    assert_eq!(of_reload(ahead, 400, 6000, None), ["too-far-ahead"]);
    assert_eq!(
        of_reload(ahead, 200, 1, Some(&live(7, 8, 2))),
        ["too-far-ahead"]
    );
    let alone = Directive {
        sequence: None,
        part: Some(0),
    };
    assert_eq!(of_reload(alone, 400, 1, None), nothing);
    assert_eq!(
        of_reload(alone, 200, 1, Some(&live(7, 8, 2))),
        ["part-without-msn"]
    );
}

fn of_multivariant(text: &str) -> Vec<&'static str> {
    let reading = read(text.as_bytes(), Surroundings::default()).expect("a playlist");
    assert!(reading.faults.is_empty(), "{:?}", reading.faults);
    let Playlist::Multivariant(playlist) = reading.playlist else {
        panic!("{text}");
    };
    let mut findings = Findings::default();
    judge_multivariant(&playlist, &mut findings);
    names(findings)
}

#[test]
fn renditions_and_variants_must_fit() {
    let good = "#EXTM3U\n#EXT-X-VERSION:6\n\
        #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"Main\",DEFAULT=YES,AUTOSELECT=YES,CHANNELS=\"2\",URI=\"a.m3u8\"\n\
        #EXT-X-STREAM-INF:BANDWIDTH=1,CODECS=\"avc1.64001f,mp4a.40.2\",AUDIO=\"a\"\nv.m3u8\n";
    assert_eq!(of_multivariant(good), [""; 0]);
    let cases = [
        ("AUDIO=\"a\"", "AUDIO=\"b\"", "group-unknown"),
        (
            "AUTOSELECT=YES",
            "AUTOSELECT=NO",
            "default-not-autoselected",
        ),
        ("TYPE=AUDIO", "TYPE=CLOSED-CAPTIONS", "rendition-uri"),
        ("TYPE=AUDIO", "TYPE=CLOSED-CAPTIONS", "instream-id"),
        (",CODECS=\"avc1.64001f,mp4a.40.2\"", "", "no-codecs"),
        (",CHANNELS=\"2\"", "", "no-channels"),
        (
            "DEFAULT=YES",
            "INSTREAM-ID=\"x\",DEFAULT=YES",
            "version-too-low",
        ),
        (
            "#EXT-X-STREAM-INF",
            "#EXT-X-STREAM-INF:BANDWIDTH=1,SCORE=2\nw.m3u8\n#EXT-X-STREAM-INF",
            "score-missing",
        ),
    ];
    for (from, to, wanted) in cases {
        let found = of_multivariant(&good.replace(from, to));
        assert!(found.contains(&wanted), "{from} -> {to}: {found:?}");
    }
    let twice = good.replace(
        "#EXT-X-VERSION:6",
        "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"Main\",DEFAULT=YES,CHANNELS=\"2\"",
    );
    assert_eq!(of_multivariant(&twice), ["defaults-two", "names-equal"]);
    assert_eq!(of_multivariant("#EXTM3U\n"), ["no-variants"]);
}

#[test]
fn media_playlists_of_one_presentation_must_agree() {
    let (one, other) = (
        media(&live(7, 8, 2)),
        media(&live_with(7, 8, 2, changed("UNTIL=12.0", "UNTIL=13.0"))),
    );
    fn member<'a>(name: &'a str, playlist: &'a MediaPlaylist) -> Member<'a> {
        Member {
            name,
            playlist,
            is_subtitles: false,
        }
    }
    let judge = |other: &MediaPlaylist| {
        let mut findings = Findings::default();
        judge_members(
            &[member("v", &one), member("a", other)],
            false,
            &mut findings,
        );
        names(findings)
    };
    assert_eq!(judge(&one), [""; 0]);
    assert_eq!(judge(&other), ["server-control-differs"]);
    let slow = media(&live_with(
        7,
        8,
        2,
        changed("TARGETDURATION:2", "TARGETDURATION:3"),
    ));
    assert_eq!(judge(&slow), ["targets-differ"]);
}

fn boxed(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let size = u32::try_from(content.len() + 8).expect("a small box");
    [&size.to_be_bytes()[..], kind, content].concat()
}

#[test]
fn fragments_need_decode_times_and_init_needs_tracks() {
    let tfdt = boxed(b"tfdt", &[0, 0, 0, 0, 0, 0, 3, 232]);
    let trun = boxed(b"trun", &[0, 0, 0, 0, 0, 0, 0, 5]);
    let fragment = |inner: &[u8]| {
        let moof = boxed(b"moof", &boxed(b"traf", inner));
        [moof, boxed(b"mdat", &[0; 100])].concat()
    };
    let judge = |bytes: &[u8]| {
        let mut findings = Findings::default();
        let found = judge_fragment(bytes, "a", 1, &mut findings);
        (found, names(findings))
    };
    let whole = fragment(&[tfdt.clone(), trun.clone()].concat());
    let counted = Fragment {
        samples: 5,
        media_bytes: 100,
        decode_time: Some(1000),
    };
    assert_eq!(judge(&whole), (Some(counted), vec![]));
    assert_eq!(judge(&fragment(&trun)).1, ["fragment-wrong"]);
    assert_eq!(judge(&whole[..whole.len() - 1]).1, ["fragment-wrong"]);
    assert_eq!(
        judge(&[0x47; 188]),
        (None, vec![]),
        "a transport stream is not judged"
    );

    let init = |brand: &[u8], moov: &[u8]| {
        let bytes = [boxed(b"ftyp", brand), boxed(b"moov", moov)].concat();
        let mut findings = Findings::default();
        judge_init(&bytes, "init.mp4", 1, &mut findings);
        names(findings)
    };
    let moov = [boxed(b"trak", &[]), boxed(b"mvex", &[])].concat();
    assert_eq!(init(b"iso6\0\0\0\0cmfc", &moov), [""; 0]);
    assert_eq!(init(b"isom\0\0\0\0mp41", &moov), ["init-wrong"]);
    assert_eq!(init(b"iso6\0\0\0\0", &boxed(b"trak", &[])), ["init-wrong"]);
}

#[test]
fn a_finding_is_kept_once_with_its_number() {
    let mut findings = Findings::default();
    for line in 3..9 {
        findings.add(&rules::PART_TOO_LONG, line, format!("of line {line}"));
    }
    findings.add(&rules::NO_DATES, 0, "none");
    let all = findings.into_sorted();
    assert_eq!((all.len(), all[0].line, all[0].times), (2, 3, 6));
    assert_eq!(all[1].rule.severity, Severity::Warning);
}
