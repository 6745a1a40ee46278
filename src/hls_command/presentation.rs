//! A presentation: the playlist that the user named, and the media playlists that it leads to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use glassline_client::hls::Fetcher;
use glassline_hls::judge::{
    Directive, Finding, Findings, Member, Severity, judge_media, judge_members, judge_multivariant,
};
use glassline_hls::reader::{
    MediaPlaylist, MultivariantPlaylist, Playlist, Position, RenditionKind,
};
use parking_lot::Mutex;
use url::Url;

use super::load::{PATIENCE, Variables, load};

/// Most media playlists that are followed.
const MEMBERS_MAX: usize = 8;

/// The playlists of a check, and what was found so far.
#[derive(Debug)]
pub(super) struct Presentation {
    /// Findings of the playlist that the user named, if it is multivariant, and of all playlists together.
    pub(super) findings: Mutex<Findings>,
    variables: Option<Variables>,
    members: Vec<MediaMember>,
    /// Media playlists that are not followed, because there are too many.
    left_out: usize,
    /// Positions of the last parts that were seen, by address.
    seen: Mutex<BTreeMap<String, Position>>,
    is_multivariant: bool,
}

/// A media playlist of a check.
#[derive(Debug)]
pub(super) struct MediaMember {
    /// URI in the multivariant playlist, or the address that the user named.
    pub(super) name: String,
    pub(super) url: Url,
    pub(super) is_subtitles: bool,
    /// The first load.
    pub(super) first: MediaPlaylist,
    pub(super) first_at: Instant,
    pub(super) findings: Mutex<Findings>,
    pub(super) counts: Mutex<Counts>,
}

/// How much of a playlist was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) loads: u64,
    pub(super) segments: u64,
    pub(super) parts: u64,
}

/// A finding with the playlist that it is about.
#[derive(Debug)]
pub(super) struct Placed {
    /// Name of the media playlist; `None` for the presentation.
    pub(super) playlist: Option<String>,
    pub(super) finding: Finding,
}

impl Presentation {
    /// Loads all playlists once, and judges them. The error is a sentence for the user.
    pub(super) fn load(fetcher: &Fetcher, url: &Url) -> Result<Self, String> {
        let mut findings = Findings::default();
        let loaded = load(
            fetcher,
            url,
            Directive::default(),
            PATIENCE,
            None,
            &mut findings,
        )?;
        let (at, base) = (loaded.at, loaded.url);
        let shown = glassline_client::hls::shown(url);
        let mut presentation = Self {
            findings: Mutex::default(),
            variables: None,
            members: Vec::new(),
            left_out: 0,
            seen: Mutex::default(),
            is_multivariant: false,
        };
        match loaded.playlist {
            None => {
                let problem = loaded.problem.unwrap_or_default();
                return Err(format!("{shown} is no playlist: {problem}"));
            }
            Some(Playlist::Media(first)) => {
                judge_media(&first, &mut findings);
                presentation.members.push(MediaMember {
                    name: shown,
                    url: url.clone(),
                    is_subtitles: false,
                    first,
                    first_at: at,
                    findings: Mutex::new(findings),
                    counts: Mutex::default(),
                });
            }
            Some(Playlist::Multivariant(playlist)) => {
                presentation.is_multivariant = true;
                judge_multivariant(&playlist, &mut findings);
                presentation.findings = Mutex::new(findings);
                presentation.load_members(fetcher, &base, &playlist)?;
            }
        }
        Ok(presentation)
    }

    fn load_members(
        &mut self,
        fetcher: &Fetcher,
        base: &Url,
        playlist: &MultivariantPlaylist,
    ) -> Result<(), String> {
        let variants = playlist.variants.iter().map(|it| (&it.uri, false));
        let renditions = playlist
            .renditions
            .iter()
            .filter_map(|it| Some((it.uri.as_ref()?, it.kind == RenditionKind::Subtitles)));
        let mut known = BTreeSet::new();
        let all: Vec<_> = variants
            .chain(renditions)
            .filter(|(uri, _)| known.insert((*uri).clone()))
            .collect();
        self.left_out = all.len().saturating_sub(MEMBERS_MAX);
        self.variables = Some(playlist.variables.clone());
        for (uri, is_subtitles) in all.into_iter().take(MEMBERS_MAX) {
            let url = base
                .join(uri)
                .map_err(|error| format!("the URI '{uri}' of a media playlist: {error}"))?;
            let mut findings = Findings::default();
            let loaded = load(
                fetcher,
                &url,
                Directive::default(),
                PATIENCE,
                self.variables.as_ref(),
                &mut findings,
            )?;
            let Some(first) = loaded.media() else {
                let problem = loaded
                    .problem
                    .unwrap_or_else(|| "it is a multivariant playlist".to_owned());
                return Err(format!(
                    "the media playlist {}: {problem}",
                    glassline_client::hls::shown(&url)
                ));
            };
            judge_media(first, &mut findings);
            self.members.push(MediaMember {
                // A signature in the query is nothing for a report.
                name: uri.split('?').next().unwrap_or_default().to_owned(),
                is_subtitles,
                first: first.clone(),
                first_at: loaded.at,
                findings: Mutex::new(findings),
                counts: Mutex::default(),
                url,
            });
        }
        let members: Vec<_> = self
            .members
            .iter()
            .map(|it| Member {
                name: &it.name,
                playlist: &it.first,
                is_subtitles: it.is_subtitles,
            })
            .collect();
        judge_members(
            &members,
            playlist.has_independent_segments,
            &mut self.findings.lock(),
        );
        Ok(())
    }

    pub(super) fn members(&self) -> &[MediaMember] {
        &self.members
    }

    pub(super) const fn is_multivariant(&self) -> bool {
        self.is_multivariant
    }

    pub(super) const fn left_out(&self) -> usize {
        self.left_out
    }

    pub(super) const fn variables(&self) -> Option<&Variables> {
        self.variables.as_ref()
    }

    /// Notes how far a media playlist was seen.
    pub(super) fn note(&self, url: &Url, position: Position) {
        let mut seen = self.seen.lock();
        let before = seen.entry(key(url)).or_default();
        *before = position.max(*before);
    }

    /// How far another media playlist was seen.
    pub(super) fn seen(&self, url: &Url) -> Option<Position> {
        self.seen.lock().get(&key(url)).copied()
    }

    /// All findings; errors come first.
    pub(super) fn into_findings(self) -> Vec<Placed> {
        let of_all = self.findings.into_inner();
        let placed = |playlist: Option<&String>, findings: Findings| -> Vec<Placed> {
            let each = findings.into_sorted().into_iter();
            let each = each.map(|finding| Placed {
                playlist: playlist.cloned(),
                finding,
            });
            each.collect()
        };
        let mut all = placed(None, of_all);
        for member in self.members {
            let findings = member.findings.into_inner();
            all.extend(placed(Some(&member.name), findings));
        }
        all.sort_by_key(|it| std::cmp::Reverse(it.finding.rule.severity));
        all
    }
}

/// Whether any of these findings is an error.
pub(super) fn has_errors(findings: &[Placed]) -> bool {
    findings
        .iter()
        .any(|it| it.finding.rule.severity == Severity::Error)
}

/// An address without its query, since delivery directives and signatures are in the query.
fn key(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}
