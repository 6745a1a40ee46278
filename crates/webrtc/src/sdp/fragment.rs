use crate::TransportAddress;
use std::fmt;

use super::attribute::{Attribute, Group};
use super::attributes::Attributes;
use super::candidate::Candidate;
use super::credentials::IceCredentials;
use super::description::{MediaDescription, Section, read_media};
use super::error::Error;
use super::lines::lines;
use super::transport::{push_candidates, push_credentials};

/// A fragment of a description with candidates or new ICE credentials, the body of type
/// `application/trickle-ice-sdpfrag` (RFC 8840 §9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Attributes before the first `m=` line. Some senders put everything here.
    pub attributes: Attributes,
    /// Sections of the description. Their `m=` lines only identify sections; formats have no
    /// meaning.
    pub media: Vec<MediaDescription>,
}

impl Fragment {
    /// Parses a fragment, with the limits of a whole description.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let lines = lines(text)?;
        let mut rest = lines.as_slice();
        let session = Section::read(&mut rest, "")?;
        Ok(Self {
            attributes: session.attributes,
            media: read_media(rest)?,
        })
    }

    /// Creates a fragment with candidates for the section `media` of an offer.
    ///
    /// `end`: no more candidates will follow.
    pub fn trickle(
        media: &MediaDescription,
        credentials: &IceCredentials,
        candidates: &[Candidate],
        end: bool,
    ) -> Self {
        let mut attributes = Attributes::default();
        push_credentials(&mut attributes, credentials);
        let mut section = pointer(media);
        let candidates = candidates.iter().cloned();
        let all = candidates.map(Attribute::Candidate);
        section.attributes.0.extend(all);
        if end {
            section.attributes.push(Attribute::EndOfCandidates);
        }
        Self {
            attributes,
            media: vec![section],
        }
    }

    /// Returns the ICE credentials to which the fragment belongs or, if they are new, with
    /// which it restarts ICE.
    pub fn credentials(&self) -> Option<IceCredentials> {
        self.sections().find_map(Attributes::credentials)
    }

    /// Returns the candidates, each with the identification tag of its section.
    pub fn candidates(&self) -> impl Iterator<Item = (Option<&str>, &Candidate)> {
        self.sections().flat_map(|section| {
            let mid = section.mid();
            section.candidates().map(move |candidate| (mid, candidate))
        })
    }

    /// Returns whether no more candidates will follow.
    pub fn end_of_candidates(&self) -> bool {
        self.sections()
            .any(|section| section.has(&Attribute::EndOfCandidates))
    }

    fn sections(&self) -> impl Iterator<Item = &Attributes> {
        let media = self.media.iter().map(|media| &media.attributes);
        std::iter::once(&self.attributes).chain(media)
    }
}

impl fmt::Display for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for attribute in &self.attributes.0 {
            write!(f, "a={attribute}\r\n")?;
        }
        self.media.iter().try_for_each(|media| media.fmt(f))
    }
}

/// Returns the body that answers an ICE restart: our new credentials and all candidates (RFC
/// 9725 §4.3.3; the WHEP draft specifies the same).
pub fn restart_fragment(
    request: &Fragment,
    credentials: &IceCredentials,
    candidates: &[TransportAddress],
) -> String {
    let mut session = Attributes::default();
    session.push(Attribute::IceLite);
    let groups = request.attributes.groups("BUNDLE").cloned();
    session
        .0
        .extend(groups.map(|group: Group| Attribute::Group(group)));
    let target = request.media.first().map(pointer);
    let mut media: Vec<MediaDescription> = target.into_iter().collect();
    let section = match media.first_mut() {
        Some(section) => &mut section.attributes,
        None => &mut session,
    };
    push_credentials(section, credentials);
    push_candidates(section, candidates);
    Fragment {
        attributes: session,
        media,
    }
    .to_string()
}

/// Creates an `m=` line that only identifies a section.
fn pointer(media: &MediaDescription) -> MediaDescription {
    let mut attributes = Attributes::default();
    let mid = media.attributes.mid().map(str::to_owned);
    attributes.0.extend(mid.map(Attribute::Mid));
    MediaDescription {
        kind: media.kind.clone(),
        port: 9,
        port_count: None,
        protocol: media.protocol.clone(),
        formats: media.formats.iter().take(1).cloned().collect(),
        lines: Vec::new(),
        attributes,
    }
}
