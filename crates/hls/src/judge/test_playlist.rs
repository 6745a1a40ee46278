//! A good playlist with low latency, and changes of it.

use std::time::Duration;

use super::Findings;
use crate::reader::{MediaPlaylist, Playlist, Surroundings, read};

pub(crate) fn media(text: &str) -> MediaPlaylist {
    let reading = read(text.as_bytes(), Surroundings::default()).expect("a playlist");
    assert!(reading.faults.is_empty(), "{:?}", reading.faults);
    match reading.playlist {
        Playlist::Media(playlist) => playlist,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn names(findings: Findings) -> Vec<&'static str> {
    findings
        .into_sorted()
        .iter()
        .map(|it| it.rule.name)
        .collect()
}

/// Segments of two seconds, four parts each, of which the last `open` have no segment yet.
pub(super) fn live(first: u64, segments: u64, open: u64) -> String {
    live_with(first, segments, open, |line| line)
}

/// The playlist of [`live`], each line changed by `edit`; an empty line is left out.
pub(super) fn live_with(
    first: u64,
    segments: u64,
    open: u64,
    edit: impl Fn(String) -> String,
) -> String {
    let mut lines: Vec<String> = [
        "#EXTM3U",
        "#EXT-X-VERSION:6",
        "#EXT-X-TARGETDURATION:2",
        "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=12.0,PART-HOLD-BACK=1.5",
        "#EXT-X-PART-INF:PART-TARGET=0.5",
    ]
    .map(str::to_owned)
    .to_vec();
    lines.push(format!("#EXT-X-MEDIA-SEQUENCE:{first}"));
    lines.push("#EXT-X-MAP:URI=\"init.mp4\"".to_owned());
    let part = |sequence: u64, index: u64| {
        let independent = if index == 0 { ",INDEPENDENT=YES" } else { "" };
        format!("#EXT-X-PART:DURATION=0.5,URI=\"{sequence}.{index}.mp4\"{independent}")
    };
    let date = |sequence: u64| {
        let start = crate::reader::DateTime(1_777_000_000_000_000_000);
        let date = start.after(Duration::from_secs(2 * sequence));
        format!("#EXT-X-PROGRAM-DATE-TIME:{date}")
    };
    for sequence in first..first + segments {
        lines.push(date(sequence));
        if sequence + 3 >= first + segments {
            lines.extend((0..4).map(|it| part(sequence, it)));
        }
        lines.push("#EXTINF:2.0,".to_owned());
        lines.push(format!("{sequence}.mp4"));
    }
    let next = first + segments;
    if open > 0 {
        lines.push(date(next));
    }
    lines.extend((0..open).map(|it| part(next, it)));
    lines.push(format!(
        "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"{next}.{open}.mp4\""
    ));
    let lines: Vec<String> = lines
        .into_iter()
        .map(edit)
        .filter(|it| !it.is_empty())
        .collect();
    lines.join("\n") + "\n"
}
