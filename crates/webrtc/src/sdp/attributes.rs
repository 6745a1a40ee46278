use glassline_media::Ssrc;

use super::attribute::{
    Attribute, Direction, ExtensionMap, FormatParameters, Group, Msid, RtpMap, Setup,
    SsrcAttribute, SsrcGroup,
};
use super::candidate::Candidate;
use super::credentials::IceCredentials;
use super::fingerprint::Fingerprint;

/// The `a=` lines of one section in their order, with typed access.
///
/// If an attribute that may occur once is repeated, the first one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub Vec<Attribute>);

/// Returns the first value of one variant.
macro_rules! first {
    ($self:ident, $pattern:pat => $value:expr) => {
        $self.0.iter().find_map(|attribute| match attribute {
            $pattern => Some($value),
            _ => None,
        })
    };
}
/// Iterates over the values of one variant.
macro_rules! all {
    ($self:ident, $pattern:pat => $value:expr) => {
        $self.0.iter().filter_map(|attribute| match attribute {
            $pattern => Some($value),
            _ => None,
        })
    };
}

impl Attributes {
    /// Appends an attribute to the section.
    pub fn push(&mut self, attribute: Attribute) {
        self.0.push(attribute);
    }

    /// Returns the groups of `m=` lines with these semantics, for example `BUNDLE`.
    pub fn groups(&self, semantics: &str) -> impl Iterator<Item = &Group> {
        all!(self, Attribute::Group(group) => group)
            .filter(move |group| group.semantics.eq_ignore_ascii_case(semantics))
    }

    /// Returns the identification tag.
    pub fn mid(&self) -> Option<&str> {
        first!(self, Attribute::Mid(mid) => mid.as_str())
    }

    /// Returns the direction, if this section states one.
    pub fn direction(&self) -> Option<Direction> {
        first!(self, Attribute::Direction(direction) => *direction)
    }

    /// Returns user fragment and password, if both are in this section.
    pub fn credentials(&self) -> Option<IceCredentials> {
        Some(IceCredentials {
            ufrag: first!(self, Attribute::IceUfrag(ufrag) => ufrag.clone())?,
            pwd: first!(self, Attribute::IcePwd(pwd) => pwd.clone())?,
        })
    }

    /// Returns whether `option` is among the ICE options, for example `trickle`.
    pub fn has_ice_option(&self, option: &str) -> bool {
        all!(self, Attribute::IceOptions(options) => options)
            .flatten()
            .any(|it| it == option)
    }

    /// Returns the candidates in their order.
    pub fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        all!(self, Attribute::Candidate(candidate) => candidate)
    }

    /// Returns the fingerprints of the certificate, one per hash function.
    pub fn fingerprints(&self) -> impl Iterator<Item = &Fingerprint> {
        all!(self, Attribute::Fingerprint(fingerprint) => fingerprint)
    }

    /// Returns the role in the DTLS handshake.
    pub fn setup(&self) -> Option<Setup> {
        first!(self, Attribute::Setup(setup) => *setup)
    }

    /// Returns the codec of a payload type.
    pub fn rtpmap(&self, payload_type: u8) -> Option<&RtpMap> {
        all!(self, Attribute::RtpMap(map) => map).find(|map| map.payload_type == payload_type)
    }

    /// Returns the format parameters of a payload type.
    pub fn fmtp(&self, payload_type: u8) -> Option<&FormatParameters> {
        all!(self, Attribute::FormatParameters(parameters) => parameters)
            .find(|parameters| parameters.payload_type == payload_type)
    }

    /// Returns whether feedback of this kind (for example `nack pli`) is stated for a payload
    /// type.
    pub fn has_feedback(&self, payload_type: u8, kind: &str) -> bool {
        all!(self, Attribute::RtcpFeedback(feedback) => feedback).any(|feedback| {
            feedback.payload_type.is_none_or(|it| it == payload_type)
                && feedback.kind.eq_ignore_ascii_case(kind)
        })
    }

    /// Returns the header extensions.
    pub fn extension_maps(&self) -> impl Iterator<Item = &ExtensionMap> {
        all!(self, Attribute::ExtensionMap(map) => map)
    }

    /// Returns the attributes of RTP sources.
    pub fn ssrcs(&self) -> impl Iterator<Item = &SsrcAttribute> {
        all!(self, Attribute::Ssrc(ssrc) => ssrc)
    }

    /// Returns the groups of RTP sources.
    pub fn ssrc_groups(&self) -> impl Iterator<Item = &SsrcGroup> {
        all!(self, Attribute::SsrcGroup(group) => group)
    }

    /// Returns the MediaStream and its track.
    pub fn msid(&self) -> Option<&Msid> {
        first!(self, Attribute::Msid(id) => id)
    }

    /// Returns whether the section has exactly this attribute; for attributes without a value.
    pub fn has(&self, attribute: &Attribute) -> bool {
        self.0.contains(attribute)
    }

    /// Returns the format parameters of a payload type as text; empty if there are none.
    pub(super) fn parameters(&self, payload_type: u8) -> String {
        let fmtp = self.fmtp(payload_type);
        fmtp.map_or_else(String::new, |it| it.parameters.clone())
    }

    /// Returns the announced SSRC, and the SSRC of its retransmissions (RFC 4588 §8.8 with RFC
    /// 5576's FID).
    pub(super) fn sources(&self) -> (Option<Ssrc>, Option<Ssrc>) {
        let mut groups = self.ssrc_groups();
        match groups.find(|group| group.semantics == "FID") {
            Some(group) => (group.ssrcs.first().copied(), group.ssrcs.get(1).copied()),
            None => (self.ssrcs().next().map(|it| it.ssrc), None),
        }
    }
}
