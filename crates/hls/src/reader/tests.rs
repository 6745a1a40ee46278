use std::sync::Arc;
use std::time::Duration;

use super::*;

fn read_text(text: &str) -> Reading {
    read(text.as_bytes(), Surroundings::default()).expect("a playlist")
}

pub(super) fn media(text: &str) -> MediaPlaylist {
    let reading = read_text(text);
    assert!(reading.faults.is_empty(), "{:?}", reading.faults);
    match reading.playlist {
        Playlist::Media(playlist) => playlist,
        other => panic!("{other:?}"),
    }
}

fn faults(text: &str) -> Vec<String> {
    read_text(text)
        .faults
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// The example of §9.11, with the tags that it leaves out.
const LOW_LATENCY: &str = "#EXTM3U
#EXT-X-TARGETDURATION:4
#EXT-X-VERSION:6
#EXT-X-PART-INF:PART-TARGET=2.00004
#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=6.1,CAN-SKIP-UNTIL=24
#EXT-X-MEDIA-SEQUENCE:270
#EXT-X-MAP:URI=\"init.mp4\"
#EXT-X-PROGRAM-DATE-TIME:2026-05-01T10:00:00.000Z
#EXTINF:4.00008,
fileSequence270.mp4
#EXT-X-PART:DURATION=2.00004,INDEPENDENT=YES,URI=\"filePart271.0.mp4\"
#EXT-X-PART:DURATION=2.00004,URI=\"filePart271.1.mp4\"
#EXTINF:4.00008,
fileSequence271.mp4
#EXT-X-DISCONTINUITY
#EXT-X-PART:DURATION=2.00004,INDEPENDENT=YES,URI=\"midRoll272.0.mp4\"
#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"midRoll272.1.mp4\"
#EXT-X-RENDITION-REPORT:URI=\"/1M/LL-HLS.m3u8\",LAST-MSN=274,LAST-PART=1
";

#[test]
fn a_playlist_with_low_latency_is_read_whole() {
    let playlist = media(LOW_LATENCY);
    assert_eq!(
        playlist.part_target,
        Some(Duration::from_nanos(2_000_040_000))
    );
    assert_eq!(
        (playlist.first_listed(), playlist.next_sequence()),
        (270, 272)
    );
    assert_eq!(playlist.last_part(), Some(Position::new(272, 0)));
    assert_eq!(playlist.next_position(), Position::new(272, 1));
    assert!(playlist.has(Position::new(271, 99)) && playlist.has(Position::new(272, 0)));
    assert!(!playlist.has(Position::new(272, 1)) && playlist.can_block());
    assert_eq!(playlist.parts(271).len(), 2);
    assert!(playlist.open.is_discontinuity && !playlist.segments[1].is_discontinuity);
    let map = playlist.segments[0].map.as_ref().expect("a map");
    assert_eq!((map.uri.as_str(), map.line), ("init.mp4", 7));
    assert_eq!(playlist.hints[0].uri, "midRoll272.1.mp4");
    assert_eq!(playlist.reports[0].last_sequence, Some(274));
    let dates: Vec<_> = playlist
        .dates()
        .into_iter()
        .flatten()
        .map(|it| it.to_string())
        .collect();
    assert_eq!(
        dates,
        [
            "2026-05-01T10:00:00.000Z",
            "2026-05-01T10:00:04.000Z",
            "2026-05-01T10:00:08.000Z"
        ]
    );
    assert_eq!(playlist.text.line(Tag::PartInf), Some(4));
}

#[test]
fn byte_ranges_continue_within_one_resource() {
    let playlist = media(
        "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-PART-INF:PART-TARGET=1\n\
         #EXTINF:4,\n#EXT-X-BYTERANGE:100@50\na.mp4\n#EXTINF:4,\n#EXT-X-BYTERANGE:20\na.mp4\n\
         #EXT-X-PART:DURATION=1,URI=\"b.mp4\",BYTERANGE=\"7@0\"\n\
         #EXT-X-PART:DURATION=1,URI=\"b.mp4\",BYTERANGE=\"8\"\n",
    );
    let range = |length, offset| Some(ByteRange { length, offset });
    assert_eq!(playlist.segments[0].byte_range, range(100, 50));
    assert_eq!(playlist.segments[1].byte_range, range(20, 150));
    assert_eq!(playlist.open.parts[1].byte_range, range(8, 7));
}

#[test]
fn a_multivariant_playlist_is_read_whole() {
    let text = "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-DEFINE:NAME=\"host\",VALUE=\"https://h\"\n\
        #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"English\",DEFAULT=YES,AUTOSELECT=YES,URI=\"a.m3u8\"\n\
        #EXT-X-STREAM-INF:BANDWIDTH=1280000,CODECS=\"avc1.4d401e,mp4a.40.2\",RESOLUTION=640x360,FRAME-RATE=29.970,AUDIO=\"a\"\n\
        {$host}/low.m3u8\n\
        #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=86000,URI=\"low/iframe.m3u8\"\n";
    let reading = read_text(text);
    assert!(reading.faults.is_empty(), "{:?}", reading.faults);
    let Playlist::Multivariant(playlist) = reading.playlist else {
        panic!("it has variants");
    };
    let variant = &playlist.variants[0];
    assert_eq!(variant.uri, "https://h/low.m3u8");
    assert_eq!(
        (variant.bandwidth, variant.resolution),
        (1_280_000, Some((640, 360)))
    );
    assert_eq!(variant.audio.as_deref(), Some("a"));
    assert!(playlist.renditions[0].is_default && playlist.text.has_variables);
    assert_eq!(playlist.i_frame_variants[0].bandwidth, 86_000);
}

#[test]
fn what_is_no_playlist_is_refused_with_its_line() {
    let cases: [(&[u8], &str); 5] = [
        (
            b"",
            "line 1: the first line is '' and must be #EXTM3U (§4.4.1.1)",
        ),
        (
            b"<html>\n",
            "line 1: the first line is '<html>' and must be #EXTM3U (§4.4.1.1)",
        ),
        (
            b"#EXTM3U\n#EXTINF:1,\n\xff\n",
            "line 3: the playlist is not UTF-8 (§4.1)",
        ),
        (
            b"#EXTM3U\n#EXTINF:1,\na\n#EXT-X-STREAM-INF:BANDWIDTH=1\nb\n",
            "line 2: EXTINF is for media playlists, and EXT-X-STREAM-INF of line 4 for multivariant playlists (§4.4.6)",
        ),
        (
            &[b'x'; BYTES_MAX + 1],
            "the playlist has 4194305 bytes, and more than 4194304 are not read (§4.1)",
        ),
    ];
    for (bytes, wanted) in cases {
        let fault = read(bytes, Surroundings::default()).expect_err(wanted);
        assert_eq!(fault.to_string(), wanted);
    }
}

#[test]
fn faults_name_line_and_section_and_reading_goes_on() {
    let text = "#EXTM3U\n#EXT-X-TARGETDURATION:0\n#EXT-X-TARGETDURATION:4\n\
        a.mp4\n#EXTINF:x,\nb.mp4\n#EXT-X-MEDIA-SEQUENCE:3\n#EXTINF:4\n c.mp4\n\
        #EXT-X-PART:DURATION=1,URI=\"d\"\n#EXT-X-DISCONTINUITY\n#EXT-X-PLAYLIST-TYPE:LIVE\n\
        #EXT-X-KEY:METHOD=NONE,URI=\"k\"\n#EXT-X-BYTERANGE:5\ne.mp4\n#EXTINF:3,\n";
    let found = faults(text);
    let wanted = [
        "line 2: the target duration is 0 and must be 1 at least (§4.4.3.1)",
        "line 3: EXT-X-TARGETDURATION stands twice (§4.4.3.1)",
        "line 4: the segment 'a.mp4' has no EXTINF (§4.4.4.1)",
        "line 5: EXTINF has 'x' and must have a number of seconds (§4.4.4.1)",
        "line 7: EXT-X-MEDIA-SEQUENCE stands behind a segment (§4.4.3.2)",
        "line 8: EXTINF lacks the comma behind its duration (§4.4.4.1)",
        "line 9: the line begins or ends with a blank (§4.1)",
        "line 11: EXT-X-DISCONTINUITY stands behind the first EXT-X-PART of its segment (§4.4.4.9)",
        "line 12: EXT-X-PLAYLIST-TYPE is 'LIVE' and must be EVENT or VOD (§4.4.3.5)",
        "line 13: EXT-X-KEY stands behind the first EXT-X-PART of its segment (§4.4.4.9)",
        "line 13: METHOD=NONE has other attributes (§4.4.4.4)",
        "line 15: the segment 'e.mp4' has no EXTINF (§4.4.4.1)",
        "line 15: EXT-X-BYTERANGE has no offset, and the segment before is not of this resource (§4.4.4.2)",
        "line 16: EXTINF has no URI behind it (§4.4.4.1)",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn unknown_tags_attributes_and_comments_are_ignored() {
    let plain = media("#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\na\n");
    let decorated = media(
        "#EXTM3U\r\n#EXT-X-TARGETDURATION:4\r\n\r\n# a comment\r\n#EXT-X-NEW:A=B\r\n#EXTINF:4,\r\na\r\n",
    );
    assert_eq!(without_lines(decorated), without_lines(plain));
}

#[test]
fn variables_come_from_the_surroundings() {
    let text = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-DEFINE:IMPORT=\"host\"\n\
        #EXT-X-DEFINE:QUERYPARAM=\"token\"\n#EXTINF:4,\n{$host}/a?t={$token}\n";
    let variables = BTreeMap::from([("host".to_owned(), "https://h".to_owned())]);
    let query = [("token".to_owned(), "s3cret".to_owned())];
    let surroundings = Surroundings {
        variables: Some(&variables),
        query: &query,
    };
    let reading = read(text.as_bytes(), surroundings).expect("a playlist");
    assert!(reading.faults.is_empty(), "{:?}", reading.faults);
    let Playlist::Media(playlist) = reading.playlist else {
        panic!("it has a segment");
    };
    assert_eq!(playlist.segments[0].uri, "https://h/a?t=s3cret");
    assert_eq!(
        faults(text).len(),
        4,
        "without them, each is missed where it is declared and used"
    );
}

#[test]
fn a_delta_update_is_completed_from_the_playlist_before() {
    let segments = |range: std::ops::Range<u32>| -> String {
        range.map(|it| format!("#EXTINF:4,\ns{it}.mp4\n")).collect()
    };
    let head = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-VERSION:9\n";
    let map = "#EXT-X-MAP:URI=\"init.mp4\"\n";
    let known = media(&format!(
        "{head}#EXT-X-MEDIA-SEQUENCE:10\n{map}{}",
        segments(10..20)
    ));
    let skip = "#EXT-X-SKIP:SKIPPED-SEGMENTS=7\n";
    let delta = media(&format!(
        "{head}#EXT-X-MEDIA-SEQUENCE:11\n{skip}{}",
        segments(18..21)
    ));
    let full = media(&format!(
        "{head}#EXT-X-MEDIA-SEQUENCE:11\n{map}{}",
        segments(11..21)
    ));
    let whole = delta.completed_from(&known).expect("nothing is missing");
    let named = |it: &MediaPlaylist| -> Vec<String> {
        it.segments.iter().map(|it| it.uri.clone()).collect()
    };
    assert_eq!(named(&whole), named(&full));
    assert!(
        whole.segments.iter().all(|it| it.map.is_some()),
        "the map still applies"
    );
    let late = media(&format!(
        "{head}#EXT-X-MEDIA-SEQUENCE:13\n{map}{}",
        segments(13..20)
    ));
    assert_eq!(
        delta.completed_from(&late),
        None,
        "two skipped segments are unknown"
    );
}

#[test]
fn a_hostile_playlist_stays_small() {
    let text = format!(
        "#EXTM3U\n#EXT-X-TARGETDURATION:4\n{}",
        "x\n".repeat(ITEMS_MAX + 10)
    );
    let reading = read_text(&text);
    let Playlist::Media(playlist) = reading.playlist else {
        panic!("it has a target duration");
    };
    assert!(playlist.segments.len() <= ITEMS_MAX);
    assert_eq!(reading.faults.len(), 100);
}

/// The playlist without numbers of lines, which a made one does not have.
pub(super) fn without_lines(mut playlist: MediaPlaylist) -> MediaPlaylist {
    let map = |map: &mut Option<Arc<Map>>| {
        if let Some(it) = map {
            Arc::make_mut(it).line = 0;
        }
    };
    for segment in &mut playlist.segments {
        segment.line = 0;
        map(&mut segment.map);
        segment.parts.iter_mut().for_each(|it| it.line = 0);
    }
    map(&mut playlist.open.map);
    playlist.open.parts.iter_mut().for_each(|it| it.line = 0);
    playlist.hints.iter_mut().for_each(|it| it.line = 0);
    playlist.text.has_fractions = false;
    playlist.text.forget_lines();
    playlist
}
