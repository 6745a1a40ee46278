//! Rules over a multivariant playlist, and over the media playlists that it names.

use std::collections::BTreeMap;

use super::finding::Findings;
use super::{rules, version};
use crate::reader::{MediaPlaylist, MultivariantPlaylist, Rendition, RenditionKind, Tag, Variant};

/// Judges a multivariant playlist by itself.
pub fn judge_multivariant(playlist: &MultivariantPlaylist, findings: &mut Findings) {
    version::judge_multivariant(playlist, findings);
    if playlist.variants.is_empty() {
        findings.add(&rules::NO_VARIANTS, 0, "the playlist names no variant");
    }
    for variant in &playlist.variants {
        groups(variant, playlist, findings);
        if variant.codecs.is_none() {
            findings.add(&rules::NO_CODECS, variant.line, "the variant has no CODECS");
        }
    }
    captions(playlist, findings);
    let scored = playlist.variants.iter().filter(|it| it.has_score).count();
    if let (true, Some(other)) = (
        scored > 0,
        playlist.variants.iter().find(|it| !it.has_score),
    ) {
        findings.add(
            &rules::SCORE_MISSING,
            other.line,
            "the variant has no SCORE, and others have one",
        );
    }
    renditions(playlist, findings);
}

fn groups(variant: &Variant, playlist: &MultivariantPlaylist, findings: &mut Findings) {
    let captions = match &variant.closed_captions {
        Some(crate::reader::ClosedCaptions::Group(group)) => Some(group),
        _ => None,
    };
    let named = [
        (RenditionKind::Audio, variant.audio.as_ref()),
        (RenditionKind::Video, variant.video.as_ref()),
        (RenditionKind::Subtitles, variant.subtitles.as_ref()),
        (RenditionKind::ClosedCaptions, captions),
    ];
    for (kind, group) in named {
        let Some(group) = group else {
            continue;
        };
        let is_member = |it: &Rendition| it.kind == kind && it.group == *group;
        if !playlist.renditions.iter().any(is_member) {
            let what = format!("no EXT-X-MEDIA of type {kind:?} has the group '{group}'");
            findings.add(&rules::GROUP_UNKNOWN, variant.line, what);
        }
    }
}

fn captions(playlist: &MultivariantPlaylist, findings: &mut Findings) {
    let has_none = |it: &&Variant| it.closed_captions == Some(crate::reader::ClosedCaptions::None);
    let with_none = playlist.variants.iter().filter(has_none).count();
    if with_none > 0
        && let Some(other) = playlist.variants.iter().find(|it| !has_none(it))
    {
        let what = "the variant lacks CLOSED-CAPTIONS=NONE, which others have";
        findings.add(&rules::CLOSED_CAPTIONS_MIXED, other.line, what);
    }
}

fn renditions(playlist: &MultivariantPlaylist, findings: &mut Findings) {
    let mut names = BTreeMap::new();
    let mut defaults = BTreeMap::new();
    for rendition in &playlist.renditions {
        let Rendition {
            kind,
            group,
            name,
            line,
            ..
        } = rendition;
        if names.insert((*kind, group, name), *line).is_some() {
            let what = format!("two renditions of the group '{group}' are called '{name}'");
            findings.add(&rules::NAMES_EQUAL, *line, what);
        }
        if rendition.is_default && defaults.insert((*kind, group), *line).is_some() {
            let what = format!("the group '{group}' has a second rendition with DEFAULT=YES");
            findings.add(&rules::DEFAULTS_TWO, *line, what);
        }
        if rendition.is_default && rendition.is_autoselected == Some(false) {
            findings.add(
                &rules::DEFAULT_NOT_AUTOSELECTED,
                *line,
                "DEFAULT is YES and AUTOSELECT is NO",
            );
        }
        match (kind, &rendition.uri) {
            (RenditionKind::Subtitles, None) => {
                findings.add(&rules::RENDITION_URI, *line, "subtitles have no URI");
            }
            (RenditionKind::ClosedCaptions, Some(_)) => {
                findings.add(&rules::RENDITION_URI, *line, "closed captions have a URI");
            }
            _ => {}
        }
        if *kind == RenditionKind::ClosedCaptions
            && !is_caption_id(rendition.instream_id.as_deref())
        {
            let what = format!(
                "INSTREAM-ID of '{name}' is {:?}",
                rendition.instream_id.as_deref().unwrap_or("")
            );
            findings.add(&rules::INSTREAM_ID, *line, what);
        }
        if *kind == RenditionKind::Audio && rendition.channels.is_none() {
            let what = format!("the audio rendition '{name}' has no CHANNELS");
            findings.add(&rules::NO_CHANNELS, *line, what);
        }
    }
}

fn is_caption_id(id: Option<&str>) -> bool {
    let Some(id) = id else {
        return false;
    };
    let service = id
        .strip_prefix("SERVICE")
        .and_then(|it| it.parse::<u32>().ok());
    matches!(id, "CC1" | "CC2" | "CC3" | "CC4") || service.is_some_and(|it| (1..=63).contains(&it))
}

/// A media playlist of a multivariant playlist.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Name of the playlist in findings: its URI in the multivariant playlist.
    pub name: &'a str,
    /// The playlist itself.
    pub playlist: &'a MediaPlaylist,
    /// Whether the playlist is of subtitles, which may have another target duration.
    pub is_subtitles: bool,
}

/// Judges the media playlists of one presentation beside each other (§6.2.4). `has_independence`: whether
/// the multivariant playlist says that segments are independent.
pub fn judge_members(members: &[Member<'_>], has_independence: bool, findings: &mut Findings) {
    let Some(first) = members.iter().find(|it| !it.is_subtitles) else {
        return;
    };
    for member in members {
        let (name, playlist) = (member.name, member.playlist);
        let may_differ =
            (member.is_subtitles || playlist.has_i_frames_only) && playlist.kind.is_some();
        if playlist.target_duration != first.playlist.target_duration && !may_differ {
            let what = format!(
                "the target duration of {name} is {:?}, and that of {} is {:?}",
                playlist.target_duration.unwrap_or_default(),
                first.name,
                first.playlist.target_duration.unwrap_or_default()
            );
            findings.add(&rules::TARGETS_DIFFER, 0, what);
        }
        if playlist.server_control != first.playlist.server_control {
            let what = format!(
                "EXT-X-SERVER-CONTROL of {name} is not that of {}",
                first.name
            );
            findings.add(&rules::CONTROL_DIFFERS, 0, what);
        }
        if playlist.kind != first.playlist.kind {
            let what = format!(
                "EXT-X-PLAYLIST-TYPE of {name} is not that of {}",
                first.name
            );
            findings.add(&rules::TYPES_DIFFER, 0, what);
        }
        let has_dates = |it: &MediaPlaylist| it.text.line(Tag::ProgramDateTime).is_some();
        if has_dates(playlist) != has_dates(first.playlist) {
            let what = format!("of {name} and {}, only one has dates", first.name);
            findings.add(&rules::DATES_IN_SOME, 0, what);
        }
        if has_independence && playlist.has_independent_segments {
            let what = format!(
                "EXT-X-INDEPENDENT-SEGMENTS stands in {name} and in the multivariant playlist"
            );
            findings.add(&rules::INDEPENDENCE_TWICE, 0, what);
        }
    }
}
