//! The page of cameras, from the table that the fake camera of the tests follows.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::hold;

use quirk::Quirk;
use row::{Row, Video, Viewer, Way};

#[path = "../../tests/cameras/quirk.rs"]
mod quirk;
#[expect(dead_code, reason = "tests have fields of their own in a row")]
#[path = "../../tests/cameras/row.rs"]
mod row;
#[path = "../../tests/cameras/table/mod.rs"]
mod table;

/// The makers that public trackers name, in the order of the page.
const MAKERS: &[&str] = &[
    "Hikvision",
    "Dahua",
    "Reolink",
    "Tapo",
    "Uniview",
    "Axis",
    "D-Link",
    "Tuya",
    "Arlo",
    "V380",
    "VStarcam",
    "Thingino",
    "Verint",
    "Recorders",
    "Video platforms",
    "Printers",
    "Phone apps",
    "OBS's RTSP plug-in",
    "Smart codecs",
    "Several makers",
];

#[test]
fn the_page_of_cameras_agrees() {
    let mut rows: BTreeMap<usize, Vec<&Row>> = BTreeMap::new();
    for row in table::rows().filter(|row| !row.maker.is_empty()) {
        let place = MAKERS.iter().position(|maker| *maker == row.maker);
        let place = place.unwrap_or_else(|| panic!("{} has no place on the page", row.maker));
        rows.entry(place).or_default().push(row);
    }
    let mut text = String::from(
        "| what it does | TCP | UDP | published | H.265 | viewer gets | FFmpeg | report |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (place, rows) in rows {
        let _ = writeln!(text, "| **{}** | | | | | | | |", MAKERS[place]);
        let mut above = String::new();
        for row in rows {
            let report = reported(row);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                does(row),
                tried(row, Way::Tcp),
                tried(row, Way::Udp),
                tried(row, Way::Record),
                h265(row),
                gets(row),
                if row.ffmpeg { "" } else { "no" },
                if report == above { "" } else { &report },
            );
            above = report;
        }
    }
    text.push('\n');
    hold("cameras.md", &text);
}

/// The habit of the camera, without its name.
fn does(row: &Row) -> String {
    let text = row.does;
    if let Some(rest) = text.strip_prefix("The camera's ") {
        return format!("Its {rest}");
    }
    let rest = text.strip_prefix("The camera ").unwrap_or(text);
    let mut letters = rest.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// The sign of a way by which a row is tried; empty for others.
fn tried(row: &Row, way: Way) -> &'static str {
    if row.ways.contains(&way) { "✓" } else { "" }
}

/// The sign of a row that is tried with H.265 too; H.264 alone goes without saying.
fn h265(row: &Row) -> &'static str {
    match row.codecs {
        [Video::H264] => "",
        [Video::H265] => "alone",
        _ => "✓",
    }
}

/// The reports that a row follows, in brackets where the row is a relative of what they say.
fn reported(row: &Row) -> String {
    match row.reports.strip_prefix("after ") {
        Some(relatives) => format!("({relatives})"),
        None => row.reports.to_owned(),
    }
}

/// The media that a viewer gets of a row, with the codec of sound in browsers; empty for the picture
/// alone.
fn gets(row: &Row) -> String {
    if let Viewer::Reason(words) = row.viewer {
        return format!("the reason: “{words}”");
    }
    let mut parts = Vec::new();
    if !row.has(Quirk::NoVideo) {
        parts.push("picture".to_owned());
    }
    if let Some(codec) = row.heard {
        let name = match codec {
            "opus" => "Opus",
            other => other,
        };
        parts.push(format!("sound ({name})"));
    }
    let mut text = parts.join(" and ");
    if row.encoded_again {
        text += match row.codecs.contains(&Video::H265) {
            true => ", but not in browsers",
            false => ", in browsers with `?transcode`",
        };
    }
    if row.freeze_ms > row::FREEZE_MS {
        text += ", with a pause while it restarts";
    }
    if row.late > 0 {
        let _ = write!(text, ", also {} s behind the keyframe", row.late);
    }
    if row.ending.is_some() {
        text += "; the camera gets TEARDOWN";
    }
    match text.as_str() {
        "picture" => String::new(),
        _ => text,
    }
}
