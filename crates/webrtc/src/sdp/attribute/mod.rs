mod values;

use std::fmt;

use crate::sdp::candidate::Candidate;
use crate::sdp::error::Reason;
use crate::sdp::fingerprint::Fingerprint;

use values::problem;
pub use values::{
    Direction, ExtensionMap, FormatParameters, Group, Msid, RtcpFeedback, RtpMap, Setup,
    SsrcAttribute, SsrcGroup,
};

/// One `a=` line. Attributes on which the session does not act are kept as
/// [`Attribute::Other`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attribute {
    /// `group`: media sections that belong together, such as a bundle (RFC 5888 §5).
    Group(Group),
    /// `mid`: identification of a media section (RFC 5888 §4).
    Mid(String),
    /// `sendrecv`, `sendonly`, `recvonly`, `inactive` (RFC 8866 §6.7).
    Direction(Direction),
    /// `ice-ufrag`, 4 to 256 characters (RFC 8839 §5.4).
    IceUfrag(String),
    /// `ice-pwd`, 22 to 256 characters (RFC 8839 §5.4).
    IcePwd(String),
    /// `ice-options` (RFC 8839 §5.6).
    IceOptions(Vec<String>),
    /// `ice-lite` (RFC 8839 §5.3).
    IceLite,
    /// `candidate` (RFC 8839 §5.1).
    Candidate(Candidate),
    /// `end-of-candidates` (RFC 8840 §8.2).
    EndOfCandidates,
    /// `fingerprint` (RFC 8122 §5).
    Fingerprint(Fingerprint),
    /// `setup` (RFC 4145 §4).
    Setup(Setup),
    /// `rtpmap` (RFC 8866 §6.6).
    RtpMap(RtpMap),
    /// `fmtp` of an RTP payload type (RFC 8866 §6.15).
    FormatParameters(FormatParameters),
    /// `rtcp-fb` (RFC 4585 §4.2).
    RtcpFeedback(RtcpFeedback),
    /// `extmap` (RFC 8285 §5).
    ExtensionMap(ExtensionMap),
    /// `extmap-allow-mixed`: packets with header extensions of either form (RFC 8285 §6).
    ExtensionMapMixed,
    /// `ssrc` (RFC 5576 §4.1).
    Ssrc(SsrcAttribute),
    /// `ssrc-group` (RFC 5576 §4.2).
    SsrcGroup(SsrcGroup),
    /// `msid` (RFC 8830 §2).
    Msid(Msid),
    /// `rtcp-mux` (RFC 5761 §5.1.1).
    RtcpMux,
    /// `rtcp-rsize` (RFC 5506 §5.1).
    RtcpReducedSize,
    /// `bundle-only` (RFC 9143 §6).
    BundleOnly,
    /// Any other attribute, verbatim.
    Other {
        /// Name: the text before the first colon.
        name: String,
        /// Value: the text behind it; `None` without a colon.
        value: Option<String>,
    },
}

impl Attribute {
    /// Parses the text behind `a=`.
    pub(super) fn parse(body: &str) -> Result<Self, Reason> {
        let (name, value) = match body.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        let words = || value.unwrap_or_default().split_whitespace();
        Ok(match name {
            "group" => Self::Group(Group::parse(words())?),
            "mid" => Self::Mid(one_word("mid", value)?),
            "sendrecv" => Self::Direction(Direction::SendRecv),
            "sendonly" => Self::Direction(Direction::SendOnly),
            "recvonly" => Self::Direction(Direction::RecvOnly),
            "inactive" => Self::Direction(Direction::Inactive),
            "ice-ufrag" => Self::IceUfrag(ice_secret("ice-ufrag", value, 4)?),
            "ice-pwd" => Self::IcePwd(ice_secret("ice-pwd", value, 22)?),
            "ice-options" => Self::IceOptions(words().map(str::to_owned).collect()),
            "ice-lite" => Self::IceLite,
            "candidate" => Self::Candidate(Candidate::parse(value.unwrap_or_default())?),
            "end-of-candidates" => Self::EndOfCandidates,
            "fingerprint" => Self::Fingerprint(Fingerprint::parse(value.unwrap_or_default())?),
            "setup" => Self::Setup(Setup::parse(value.unwrap_or_default().trim())?),
            "rtpmap" => Self::RtpMap(RtpMap::parse(words())?),
            "fmtp" => match FormatParameters::parse(value.unwrap_or_default())? {
                Some(parameters) => Self::FormatParameters(parameters),
                None => Self::other(name, value)?,
            },
            "rtcp-fb" => Self::RtcpFeedback(RtcpFeedback::parse(words())?),
            "extmap" => Self::ExtensionMap(ExtensionMap::parse(words())?),
            "extmap-allow-mixed" => Self::ExtensionMapMixed,
            "ssrc" => Self::Ssrc(SsrcAttribute::parse(value.unwrap_or_default())?),
            "ssrc-group" => Self::SsrcGroup(SsrcGroup::parse(words())?),
            "msid" => Self::Msid(Msid::parse(words())?),
            "rtcp-mux" => Self::RtcpMux,
            "rtcp-rsize" => Self::RtcpReducedSize,
            "bundle-only" => Self::BundleOnly,
            _ => Self::other(name, value)?,
        })
    }

    fn other(name: &str, value: Option<&str>) -> Result<Self, Reason> {
        if name.is_empty() {
            return Err(Reason::Field {
                kind: 'a',
                problem: "an attribute begins with its name",
            });
        }
        Ok(Self::Other {
            name: name.to_owned(),
            value: value.map(str::to_owned),
        })
    }
}

impl fmt::Display for Attribute {
    /// Writes the text behind `a=`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => {
                write!(f, "group:{}", group.semantics)?;
                group.mids.iter().try_for_each(|mid| write!(f, " {mid}"))
            }
            Self::Mid(mid) => write!(f, "mid:{mid}"),
            Self::Direction(direction) => f.write_str(direction.as_str()),
            Self::IceUfrag(ufrag) => write!(f, "ice-ufrag:{ufrag}"),
            Self::IcePwd(pwd) => write!(f, "ice-pwd:{pwd}"),
            Self::IceOptions(options) => write!(f, "ice-options:{}", options.join(" ")),
            Self::IceLite => f.write_str("ice-lite"),
            Self::Candidate(candidate) => write!(f, "candidate:{candidate}"),
            Self::EndOfCandidates => f.write_str("end-of-candidates"),
            Self::Fingerprint(fingerprint) => write!(f, "fingerprint:{fingerprint}"),
            Self::Setup(setup) => write!(f, "setup:{}", setup.as_str()),
            Self::RtpMap(map) => write!(f, "rtpmap:{map}"),
            Self::FormatParameters(it) => write!(f, "fmtp:{} {}", it.payload_type, it.parameters),
            Self::RtcpFeedback(feedback) => write!(f, "rtcp-fb:{feedback}"),
            Self::ExtensionMap(map) => write!(f, "extmap:{map}"),
            Self::ExtensionMapMixed => f.write_str("extmap-allow-mixed"),
            Self::Ssrc(it) => {
                write!(f, "ssrc:{} {}", it.ssrc.0, it.name)?;
                it.value.iter().try_for_each(|value| write!(f, ":{value}"))
            }
            Self::SsrcGroup(group) => {
                write!(f, "ssrc-group:{}", group.semantics)?;
                let mut ssrcs = group.ssrcs.iter();
                ssrcs.try_for_each(|ssrc| write!(f, " {}", ssrc.0))
            }
            Self::Msid(id) => {
                write!(f, "msid:{}", id.stream)?;
                id.track.iter().try_for_each(|track| write!(f, " {track}"))
            }
            Self::RtcpMux => f.write_str("rtcp-mux"),
            Self::RtcpReducedSize => f.write_str("rtcp-rsize"),
            Self::BundleOnly => f.write_str("bundle-only"),
            Self::Other { name, value } => {
                f.write_str(name)?;
                value.iter().try_for_each(|value| write!(f, ":{value}"))
            }
        }
    }
}

fn one_word(name: &'static str, value: Option<&str>) -> Result<String, Reason> {
    let mut words = value.unwrap_or_default().split_whitespace();
    match (words.next(), words.next()) {
        (Some(word), None) => Ok(word.to_owned()),
        _ => Err(problem(name, "expected one word")),
    }
}

/// Parses an ICE user fragment or password. RFC 8839 allows letters, digits, `+` and `/`;
/// others are in use and do no harm, except for the colon, which separates the two names in a
/// STUN USERNAME.
fn ice_secret(name: &'static str, value: Option<&str>, chars_min: usize) -> Result<String, Reason> {
    let word = value.unwrap_or_default().trim();
    if !(chars_min..=256).contains(&word.len()) {
        let bounds = if chars_min == 4 {
            "expected 4 to 256 characters"
        } else {
            "expected 22 to 256 characters"
        };
        return Err(problem(name, bounds));
    }
    if !word
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b':')
    {
        return Err(problem(name, "expected letters, digits, `+` and `/`"));
    }
    Ok(word.to_owned())
}
