//! The compatibility version that the features of a playlist need (§8).

use super::finding::Findings;
use super::rules;
use crate::reader::{MediaPlaylist, MultivariantPlaylist, RenditionKind, Tag, TextFacts};

/// A feature, and the version that it needs.
struct Need {
    version: u64,
    feature: &'static str,
    line: Option<usize>,
}

pub(super) fn judge_media(playlist: &MediaPlaylist, findings: &mut Findings) {
    let text = &playlist.text;
    let mut needs = of_both(text);
    let mut need = |version, feature, is_there: bool, tag| {
        if is_there {
            needs.push(Need {
                version,
                feature,
                line: text.line(tag),
            });
        }
    };
    let keys = || playlist.segments.iter().flat_map(|it| it.keys.iter());
    need(
        2,
        "the IV of EXT-X-KEY",
        keys().any(|it| it.iv.is_some()),
        Tag::Key,
    );
    need(
        3,
        "durations with fractions",
        text.has_fractions,
        Tag::ExtInf,
    );
    need(
        4,
        "EXT-X-BYTERANGE",
        text.line(Tag::ByteRange).is_some(),
        Tag::ByteRange,
    );
    need(
        4,
        "EXT-X-I-FRAMES-ONLY",
        playlist.has_i_frames_only,
        Tag::IFramesOnly,
    );
    let has_format = |it: &crate::reader::Key| {
        it.method == "SAMPLE-AES" || it.format != "identity" || it.format_versions.is_some()
    };
    need(
        5,
        "SAMPLE-AES or KEYFORMAT of EXT-X-KEY",
        keys().any(has_format),
        Tag::Key,
    );
    let has_map = text.line(Tag::Map).is_some();
    need(
        5,
        "EXT-X-MAP",
        has_map && playlist.has_i_frames_only,
        Tag::Map,
    );
    need(
        6,
        "EXT-X-MAP",
        has_map && !playlist.has_i_frames_only,
        Tag::Map,
    );
    if let Some(skip) = &playlist.skip {
        need(9, "EXT-X-SKIP", true, Tag::Skip);
        let skips_ranges = skip.removed_date_ranges.is_some();
        need(
            10,
            "EXT-X-SKIP without date ranges",
            skips_ranges,
            Tag::Skip,
        );
    }
    compare(playlist.version, &needs, text, true, findings);
}

pub(super) fn judge_multivariant(playlist: &MultivariantPlaylist, findings: &mut Findings) {
    let mut needs = of_both(&playlist.text);
    for rendition in &playlist.renditions {
        let Some(id) = &rendition.instream_id else {
            continue;
        };
        let (version, feature) = match rendition.kind {
            RenditionKind::ClosedCaptions if id.starts_with("SERVICE") => {
                (7, "SERVICE of INSTREAM-ID")
            }
            RenditionKind::ClosedCaptions => continue,
            _ => (13, "INSTREAM-ID of other renditions than closed captions"),
        };
        needs.push(Need {
            version,
            feature,
            line: Some(rendition.line),
        });
    }
    compare(playlist.version, &needs, &playlist.text, false, findings);
}

fn of_both(text: &TextFacts) -> Vec<Need> {
    let need = |version, feature, is_there: bool, tag| {
        is_there.then(|| Need {
            version,
            feature,
            line: text.line(tag),
        })
    };
    let needs = [
        need(8, "a variable", text.has_variables, Tag::Define),
        need(
            11,
            "QUERYPARAM of EXT-X-DEFINE",
            text.has_query_variables,
            Tag::Define,
        ),
        need(
            12,
            "an attribute that begins with REQ-",
            text.has_required_attributes,
            Tag::StreamInf,
        ),
    ];
    needs.into_iter().flatten().collect()
}

/// Compares the version with what the features need. A multivariant playlist may have version 4 and more
/// for the sake of its media (§8); servers give it that of their media playlists.
fn compare(
    version: Option<u64>,
    needs: &[Need],
    text: &TextFacts,
    is_media: bool,
    findings: &mut Findings,
) {
    let given = version.unwrap_or(1);
    for need in needs.iter().filter(|it| it.version > given) {
        let Need {
            version, feature, ..
        } = need;
        let line = need.line.unwrap_or(0);
        let what = format!("{feature} needs version {version}, and the playlist says {given}");
        findings.add(&rules::VERSION_TOO_LOW, line, what);
    }
    let needed = needs.iter().map(|it| it.version).max().unwrap_or(1);
    // Low latency needs no version by §8; Apple's examples have 6 with it, and servers 9 for delta updates.
    let allowed = needed.max(if text.line(Tag::ServerControl).is_some() {
        9
    } else {
        1
    });
    if is_media && given > allowed {
        let line = text.line(Tag::Version).unwrap_or(0);
        let what = format!("the playlist says version {given}, and its tags need {needed}");
        findings.add(&rules::VERSION_TOO_HIGH, line, what);
    }
}
