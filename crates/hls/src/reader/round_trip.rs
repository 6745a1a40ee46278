//! Playlists that were made, written and read again.

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::tests::{media, without_lines};
use super::*;

/// Writes a playlist as a server would.
fn written(playlist: &MediaPlaylist) -> String {
    let seconds = |it: Duration| format!("{}.{:09}", it.as_secs(), it.subsec_nanos());
    let range = |it: &ByteRange| format!("{}@{}", it.length, it.offset);
    let mut text = "#EXTM3U\n".to_owned();
    let mut line = |it: String| text += &(it + "\n");
    if let Some(version) = playlist.version {
        line(format!("#EXT-X-VERSION:{version}"));
    }
    let target = playlist.target_duration.expect("it was made").as_secs();
    line(format!("#EXT-X-TARGETDURATION:{target}"));
    line(format!("#EXT-X-MEDIA-SEQUENCE:{}", playlist.media_sequence));
    line(format!(
        "#EXT-X-DISCONTINUITY-SEQUENCE:{}",
        playlist.discontinuity_sequence
    ));
    if let Some(target) = playlist.part_target {
        line(format!("#EXT-X-PART-INF:PART-TARGET={}", seconds(target)));
    }
    let part = |it: &Part| {
        let mut tag = format!(
            "#EXT-X-PART:DURATION={},URI=\"{}\"",
            seconds(it.duration),
            it.uri
        );
        if let Some(it) = &it.byte_range {
            tag += &format!(",BYTERANGE=\"{}\"", range(it));
        }
        tag + if it.is_independent {
            ",INDEPENDENT=YES"
        } else {
            ""
        } + if it.is_gap { ",GAP=YES" } else { "" }
    };
    let mut map = None;
    for segment in &playlist.segments {
        if segment.is_discontinuity {
            line("#EXT-X-DISCONTINUITY".to_owned());
        }
        if segment.map != map {
            map.clone_from(&segment.map);
            let it = map.as_ref().expect("maps only begin");
            let range = it
                .byte_range
                .map_or_else(String::new, |it| format!(",BYTERANGE=\"{}\"", range(&it)));
            line(format!("#EXT-X-MAP:URI=\"{}\"{range}", it.uri));
        }
        if let Some(date) = segment.date_time {
            line(format!("#EXT-X-PROGRAM-DATE-TIME:{date}"));
        }
        segment.parts.iter().for_each(|it| line(part(it)));
        if segment.is_gap {
            line("#EXT-X-GAP".to_owned());
        }
        if let Some(it) = &segment.byte_range {
            line(format!("#EXT-X-BYTERANGE:{}", range(it)));
        }
        line(format!(
            "#EXTINF:{},{}",
            seconds(segment.duration),
            segment.title.as_deref().unwrap_or("")
        ));
        line(segment.uri.clone());
    }
    playlist.open.parts.iter().for_each(|it| line(part(it)));
    for hint in &playlist.hints {
        let kind = if hint.kind == HintKind::Part {
            "PART"
        } else {
            "MAP"
        };
        let length = hint
            .length
            .map_or_else(String::new, |it| format!(",BYTERANGE-LENGTH={it}"));
        line(format!(
            "#EXT-X-PRELOAD-HINT:TYPE={kind},URI=\"{}\",BYTERANGE-START={}{length}",
            hint.uri, hint.start
        ));
    }
    if playlist.is_ended {
        line("#EXT-X-ENDLIST".to_owned());
    }
    text
}

fn a_duration() -> impl Strategy<Value = Duration> {
    (0..20_u64, 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos))
}

fn a_range() -> impl Strategy<Value = Option<ByteRange>> {
    option::of(
        (any::<u32>(), any::<u32>()).prop_map(|(length, offset)| ByteRange {
            length: length.into(),
            offset: offset.into(),
        }),
    )
}

fn a_part() -> impl Strategy<Value = Part> {
    (
        "[a-z]{1,8}[.]mp4",
        a_duration(),
        any::<bool>(),
        a_range(),
        any::<bool>(),
    )
        .prop_map(|(uri, duration, is_independent, byte_range, is_gap)| Part {
            uri,
            duration,
            is_independent,
            byte_range,
            is_gap,
            line: 0,
        })
}

fn a_segment() -> impl Strategy<Value = Segment> {
    let flags = (any::<bool>(), any::<bool>());
    let date = option::of((0..4_000_000_000_000_i64).prop_map(|it| DateTime(it * 1_000_000)));
    (
        "[a-z0-9/]{1,12}",
        a_duration(),
        option::of("[a-z]{1,5}"),
        a_range(),
        flags,
        date,
        vec(a_part(), 0..4),
    )
        .prop_map(
            |(uri, duration, title, byte_range, (is_discontinuity, is_gap), date_time, parts)| {
                Segment {
                    uri,
                    duration,
                    title,
                    byte_range,
                    is_discontinuity,
                    date_time,
                    is_gap,
                    parts,
                    ..Segment::default()
                }
            },
        )
}

fn a_playlist() -> impl Strategy<Value = MediaPlaylist> {
    let numbers = (option::of(1..14_u64), 1..30_u64, any::<u32>(), any::<u32>());
    let hint = (
        any::<bool>(),
        "[a-z]{1,8}",
        any::<u32>(),
        option::of(any::<u32>()),
    )
        .prop_map(|(is_part, uri, start, length)| PreloadHint {
            kind: if is_part {
                HintKind::Part
            } else {
                HintKind::Map
            },
            uri,
            start: start.into(),
            length: length.map(u64::from),
            line: 0,
        });
    let map = ("[a-z]{1,8}", a_range(), 0..6_usize);
    let open = vec(a_part(), 0..4);
    (
        numbers,
        vec(a_segment(), 0..6),
        option::of(a_duration()),
        vec(hint, 0..3),
        map,
        open,
        any::<bool>(),
    )
        .prop_map(
            |(
                (version, target, sequence, discontinuity),
                mut segments,
                part_target,
                hints,
                map,
                parts,
                is_ended,
            )| {
                let (uri, byte_range, from) = map;
                let map = Arc::new(Map {
                    uri,
                    byte_range,
                    line: 0,
                });
                let mapped = segments.iter_mut().skip(from);
                mapped.for_each(|it| it.map = Some(Arc::clone(&map)));
                let open = OpenSegment {
                    parts,
                    map: segments.last().and_then(|it| it.map.clone()),
                    ..OpenSegment::default()
                };
                MediaPlaylist {
                    version,
                    target_duration: Some(Duration::from_secs(target)),
                    media_sequence: sequence.into(),
                    discontinuity_sequence: discontinuity.into(),
                    segments,
                    part_target,
                    hints,
                    open,
                    is_ended,
                    ..MediaPlaylist::default()
                }
            },
        )
}

proptest! {
    #[test]
    fn a_written_playlist_is_read_as_it_was(playlist in a_playlist()) {
        let text = written(&playlist);
        prop_assert_eq!(without_lines(media(&text)), playlist, "{}", text);
    }

    #[test]
    fn any_text_is_read_without_a_panic(lines in vec("(#EXT-X-[A-Z-]{1,12}:)?[ -~]{0,40}", 0..30)) {
        let text = format!("#EXTM3U\n{}", lines.join("\n"));
        if let Ok(reading) = read(text.as_bytes(), Surroundings::default()) {
            prop_assert!(reading.faults.iter().all(|it| it.line <= lines.len() + 1));
        }
    }

    #[test]
    fn a_broken_tag_is_a_fault_and_no_panic(
        value in "[ -~]{0,30}",
        tag in proptest::sample::select(vec!["EXTINF", "EXT-X-PART", "EXT-X-MAP", "EXT-X-KEY", "EXT-X-SKIP",
            "EXT-X-DATERANGE", "EXT-X-BYTERANGE", "EXT-X-PRELOAD-HINT", "EXT-X-DEFINE", "EXT-X-START"]),
    ) {
        let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n#{tag}:{value}\nx\n");
        let _ = read(text.as_bytes(), Surroundings::default());
    }
}
