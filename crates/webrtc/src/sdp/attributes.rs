use glassline_media::Ssrc;

use super::attribute::{
    Attribute, Direction, ExtensionMap, FormatParameters, Group, RtpMap, Setup, SsrcAttribute,
    SsrcGroup, StreamId,
};
use super::candidate::Candidate;
use super::credentials::IceCredentials;
use super::fingerprint::Fingerprint;

/// The `a=` lines of one section in their order, with typed access.
///
/// Where an attribute that may stand once is repeated, the first counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub Vec<Attribute>);

/// The first value of one variant, or all of them.
macro_rules! first {
    ($self:ident, $pattern:pat => $value:expr) => {
        $self.0.iter().find_map(|attribute| match attribute {
            $pattern => Some($value),
            _ => None,
        })
    };
}
macro_rules! all {
    ($self:ident, $pattern:pat => $value:expr) => {
        $self.0.iter().filter_map(|attribute| match attribute {
            $pattern => Some($value),
            _ => None,
        })
    };
}

impl Attributes {
    /// Appends one.
    pub fn push(&mut self, attribute: Attribute) {
        self.0.push(attribute);
    }

    /// The groups of `m=` lines with these semantics, `BUNDLE` for instance.
    pub fn groups(&self, semantics: &str) -> impl Iterator<Item = &Group> {
        all!(self, Attribute::Group(group) => group)
            .filter(move |group| group.semantics.eq_ignore_ascii_case(semantics))
    }

    /// The identification tag.
    pub fn mid(&self) -> Option<&str> {
        first!(self, Attribute::Mid(mid) => mid.as_str())
    }

    /// The direction, if this section says one.
    pub fn direction(&self) -> Option<Direction> {
        first!(self, Attribute::Direction(direction) => *direction)
    }

    /// User name fragment and password, if both stand here.
    pub fn credentials(&self) -> Option<IceCredentials> {
        Some(IceCredentials {
            ufrag: first!(self, Attribute::IceUfrag(ufrag) => ufrag.clone())?,
            pwd: first!(self, Attribute::IcePwd(pwd) => pwd.clone())?,
        })
    }

    /// True if `option` is among the ICE options, such as `trickle`.
    pub fn has_ice_option(&self, option: &str) -> bool {
        all!(self, Attribute::IceOptions(options) => options)
            .flatten()
            .any(|it| it == option)
    }

    /// The candidates in their order.
    pub fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        all!(self, Attribute::Candidate(candidate) => candidate)
    }

    /// The certificate's fingerprints, one per hash function.
    pub fn fingerprints(&self) -> impl Iterator<Item = &Fingerprint> {
        all!(self, Attribute::Fingerprint(fingerprint) => fingerprint)
    }

    /// Who opens the DTLS connection.
    pub fn setup(&self) -> Option<Setup> {
        first!(self, Attribute::Setup(setup) => *setup)
    }

    /// What a payload type means.
    pub fn rtpmap(&self, payload_type: u8) -> Option<&RtpMap> {
        all!(self, Attribute::RtpMap(map) => map).find(|map| map.payload_type == payload_type)
    }

    /// The parameters of a payload type.
    pub fn fmtp(&self, payload_type: u8) -> Option<&FormatParameters> {
        all!(self, Attribute::FormatParameters(parameters) => parameters)
            .find(|parameters| parameters.payload_type == payload_type)
    }

    /// True if feedback of this kind (`nack pli`) is offered for a payload type.
    pub fn has_feedback(&self, payload_type: u8, kind: &str) -> bool {
        all!(self, Attribute::RtcpFeedback(feedback) => feedback).any(|feedback| {
            feedback.payload_type.is_none_or(|it| it == payload_type)
                && feedback.kind.eq_ignore_ascii_case(kind)
        })
    }

    /// The header extensions.
    pub fn extension_maps(&self) -> impl Iterator<Item = &ExtensionMap> {
        all!(self, Attribute::ExtensionMap(map) => map)
    }

    /// What is said of RTP sources.
    pub fn ssrcs(&self) -> impl Iterator<Item = &SsrcAttribute> {
        all!(self, Attribute::Ssrc(ssrc) => ssrc)
    }

    /// The groups of RTP sources.
    pub fn ssrc_groups(&self) -> impl Iterator<Item = &SsrcGroup> {
        all!(self, Attribute::SsrcGroup(group) => group)
    }

    /// The MediaStream and track.
    pub fn stream_id(&self) -> Option<&StreamId> {
        first!(self, Attribute::StreamId(id) => id)
    }

    /// True if this very attribute stands here; for those without a value.
    pub fn has(&self, attribute: &Attribute) -> bool {
        self.0.contains(attribute)
    }

    /// The parameters of a payload type's `a=fmtp`; empty without one.
    pub(super) fn parameters(&self, payload_type: u8) -> String {
        let fmtp = self.fmtp(payload_type);
        fmtp.map_or_else(String::new, |it| it.parameters.clone())
    }

    /// The RTP source that is announced, and the source of its retransmissions
    /// (RFC 4588 §8.8 with RFC 5576's FID).
    pub(super) fn sources(&self) -> (Option<Ssrc>, Option<Ssrc>) {
        let mut groups = self.ssrc_groups();
        match groups.find(|group| group.semantics == "FID") {
            Some(group) => (group.ssrcs.first().copied(), group.ssrcs.get(1).copied()),
            None => (self.ssrcs().next().map(|it| it.ssrc), None),
        }
    }
}
