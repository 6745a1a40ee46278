use std::fmt;

use glassline_media::Ssrc;

use super::candidate::Candidate;
use super::error::Reason;
use super::fingerprint::Fingerprint;

/// One `a=` line. What the session does not act on is kept as [`Attribute::Other`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attribute {
    /// `group` (RFC 5888).
    Group(Group),
    /// `mid` (RFC 5888).
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
    /// `ssrc` (RFC 5576 §4.1).
    Ssrc(SsrcAttribute),
    /// `ssrc-group` (RFC 5576 §4.2).
    SsrcGroup(SsrcGroup),
    /// `msid` (RFC 8830 §2).
    StreamId(StreamId),
    /// `rtcp-mux` (RFC 5761 §5.1.1).
    RtcpMux,
    /// `rtcp-rsize` (RFC 5506 §5.1).
    RtcpReducedSize,
    /// `bundle-only` (RFC 9143 §6).
    BundleOnly,
    /// Any other attribute, verbatim.
    Other {
        /// Before the first colon.
        name: String,
        /// After it; `None` without a colon.
        value: Option<String>,
    },
}

/// `m=` lines that belong together (RFC 5888); `BUNDLE` shares one transport (RFC 9143).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// `BUNDLE`, `LS`, …
    pub semantics: String,
    /// The tags of its members; the first of a bundle carries the transport.
    pub mids: Vec<String>,
}

/// Who sends (RFC 8866 §6.7), from the writer's view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Both ways, also what holds when nothing is said.
    #[default]
    SendRecv,
    /// The writer sends.
    SendOnly,
    /// The writer receives.
    RecvOnly,
    /// Nobody sends.
    Inactive,
}

/// Who opens the DTLS connection (RFC 4145 §4, RFC 8842 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// The writer is the DTLS client.
    Active,
    /// The writer is the DTLS server.
    Passive,
    /// The writer lets the answerer choose.
    ActPass,
    /// Not now.
    HoldConn,
}

/// What a payload type means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtpMap {
    /// 0..=127.
    pub payload_type: u8,
    /// As written; compared without case.
    pub encoding: String,
    /// RTP timestamp ticks per second.
    pub clock_rate: u32,
    /// For sound; `None` means 1 there.
    pub channels: Option<u8>,
}

/// Parameters of a payload type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatParameters {
    /// 0..=127.
    pub payload_type: u8,
    /// All parameters as written, `name=value` with semicolons for most formats.
    pub parameters: String,
}

/// A kind of RTCP feedback that the writer understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtcpFeedback {
    /// 0..=127, `None` for `*`: every payload type of the `m=` line.
    pub payload_type: Option<u8>,
    /// `nack`, `nack pli`, `ccm fir`, `transport-cc`, …, single-spaced.
    pub kind: String,
}

/// The number of an RTP header extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionMap {
    /// 1..=14 fits the one-byte form, up to 255 the two-byte form; 4096 up are placeholders.
    pub id: u16,
    /// Who uses it; `None` follows the `m=` line.
    pub direction: Option<Direction>,
    /// What it is.
    pub uri: String,
    /// The rest of the line, single-spaced; mostly empty.
    pub parameters: String,
}

/// What is said of one RTP source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsrcAttribute {
    /// The source.
    pub ssrc: Ssrc,
    /// `cname`, `msid`, …
    pub name: String,
    /// After the colon; `None` without one.
    pub value: Option<String>,
}

/// RTP sources that belong together; `FID` names a source and its retransmissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsrcGroup {
    /// `FID`, `SIM`, `FEC-FR`, …
    pub semantics: String,
    /// In the order of the semantics.
    pub ssrcs: Vec<Ssrc>,
}

/// The MediaStream and track that an `m=` line carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamId {
    /// The stream, `-` for none.
    pub stream: String,
    /// The track.
    pub track: Option<String>,
}

impl Attribute {
    /// Reads what follows `a=`.
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
            "ssrc" => Self::Ssrc(SsrcAttribute::parse(value.unwrap_or_default())?),
            "ssrc-group" => Self::SsrcGroup(SsrcGroup::parse(words())?),
            "msid" => Self::StreamId(StreamId::parse(words())?),
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
    /// What follows `a=`.
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
            Self::Ssrc(it) => {
                write!(f, "ssrc:{} {}", it.ssrc.0, it.name)?;
                it.value.iter().try_for_each(|value| write!(f, ":{value}"))
            }
            Self::SsrcGroup(group) => {
                write!(f, "ssrc-group:{}", group.semantics)?;
                let mut ssrcs = group.ssrcs.iter();
                ssrcs.try_for_each(|ssrc| write!(f, " {}", ssrc.0))
            }
            Self::StreamId(id) => {
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

impl Group {
    fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        Ok(Self {
            semantics: next_word(&mut words, "group", "no semantics")?,
            mids: words.map(str::to_owned).collect(),
        })
    }
}

impl Direction {
    /// The word of SDP.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SendRecv => "sendrecv",
            Self::SendOnly => "sendonly",
            Self::RecvOnly => "recvonly",
            Self::Inactive => "inactive",
        }
    }

    /// The writer is ready to receive.
    pub const fn receives(self) -> bool {
        matches!(self, Self::SendRecv | Self::RecvOnly)
    }

    /// The writer sends.
    pub const fn sends(self) -> bool {
        matches!(self, Self::SendRecv | Self::SendOnly)
    }

    fn from_name(name: &str) -> Option<Self> {
        [
            Self::SendRecv,
            Self::SendOnly,
            Self::RecvOnly,
            Self::Inactive,
        ]
        .into_iter()
        .find(|direction| direction.as_str() == name)
    }
}

impl Setup {
    /// The word of SDP.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Passive => "passive",
            Self::ActPass => "actpass",
            Self::HoldConn => "holdconn",
        }
    }

    fn parse(word: &str) -> Result<Self, Reason> {
        [Self::Active, Self::Passive, Self::ActPass, Self::HoldConn]
            .into_iter()
            .find(|setup| setup.as_str() == word)
            .ok_or(problem(
                "setup",
                "not one of active, passive, actpass, holdconn",
            ))
    }
}

impl RtpMap {
    fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        let payload_type = payload_type("rtpmap", words.next())?;
        let codec = words.next().ok_or(problem("rtpmap", "no encoding"))?;
        let mut parts = codec.split('/');
        let encoding = parts.next().unwrap_or_default().to_owned();
        let clock_rate = parts
            .next()
            .and_then(|rate| rate.parse().ok())
            .filter(|&rate| rate > 0)
            .ok_or(problem("rtpmap", "expected NAME/CLOCK with a clock in Hz"))?;
        let channels = match parts.next() {
            Some(count) => Some(
                count
                    .parse()
                    .map_err(|_| problem("rtpmap", "the channels are not 0..=255"))?,
            ),
            None => None,
        };
        if encoding.is_empty() {
            return Err(problem("rtpmap", "no encoding"));
        }
        Ok(Self {
            payload_type,
            encoding,
            clock_rate,
            channels,
        })
    }
}

impl fmt::Display for RtpMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, rate) = (&self.encoding, self.clock_rate);
        write!(f, "{} {name}/{rate}", self.payload_type)?;
        self.channels.iter().try_for_each(|it| write!(f, "/{it}"))
    }
}

impl FormatParameters {
    /// `None` where the format is no payload type, as in data channels' old syntax.
    fn parse(value: &str) -> Result<Option<Self>, Reason> {
        let value = value.trim();
        let (format, parameters) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
        if !format.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        Ok(Some(Self {
            payload_type: payload_type("fmtp", Some(format))?,
            parameters: parameters.trim().to_owned(),
        }))
    }

    /// The `name=value` pairs; a value is empty where there is no `=`.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters
            .split(';')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (name.trim(), value.trim()))
            .filter(|(name, _)| !name.is_empty())
    }

    /// The value of a parameter, whose name is compared without case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

impl RtcpFeedback {
    fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        let payload_type = match words.next() {
            Some("*") => None,
            word => Some(payload_type("rtcp-fb", word)?),
        };
        let kind = words.collect::<Vec<_>>().join(" ");
        if kind.is_empty() {
            return Err(problem("rtcp-fb", "no kind of feedback"));
        }
        Ok(Self { payload_type, kind })
    }
}

impl fmt::Display for RtcpFeedback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.payload_type {
            Some(payload_type) => write!(f, "{payload_type} {}", self.kind),
            None => write!(f, "* {}", self.kind),
        }
    }
}

impl ExtensionMap {
    fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        let entry = words.next().ok_or(problem("extmap", "no number"))?;
        let (id, direction) = match entry.split_once('/') {
            Some((id, word)) => {
                let direction = Direction::from_name(word)
                    .ok_or(problem("extmap", "the direction is not known"))?;
                (id, Some(direction))
            }
            None => (entry, None),
        };
        Ok(Self {
            id: id
                .parse()
                .ok()
                .filter(|&id| id > 0)
                .ok_or(problem("extmap", "the number is not 1..=65535"))?,
            direction,
            uri: next_word(&mut words, "extmap", "no URI")?,
            parameters: words.collect::<Vec<_>>().join(" "),
        })
    }
}

impl fmt::Display for ExtensionMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        if let Some(direction) = self.direction {
            write!(f, "/{}", direction.as_str())?;
        }
        write!(f, " {}", self.uri)?;
        if !self.parameters.is_empty() {
            write!(f, " {}", self.parameters)?;
        }
        Ok(())
    }
}

impl SsrcAttribute {
    fn parse(value: &str) -> Result<Self, Reason> {
        let value = value.trim();
        let (ssrc, rest) = value
            .split_once(char::is_whitespace)
            .ok_or(problem("ssrc", "expected a number and an attribute"))?;
        let rest = rest.trim_start();
        let (name, value) = match rest.split_once(':') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (rest, None),
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(problem("ssrc", "expected a number and an attribute"));
        }
        Ok(Self {
            ssrc: ssrc_number("ssrc", ssrc)?,
            name: name.to_owned(),
            value,
        })
    }
}

impl SsrcGroup {
    fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        Ok(Self {
            semantics: next_word(&mut words, "ssrc-group", "no semantics")?,
            ssrcs: words
                .map(|word| ssrc_number("ssrc-group", word))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl StreamId {
    fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        Ok(Self {
            stream: next_word(&mut words, "msid", "no stream")?,
            track: words.next().map(str::to_owned),
        })
    }
}

const fn problem(name: &'static str, problem: &'static str) -> Reason {
    Reason::Attribute { name, problem }
}

fn next_word<'a>(
    words: &mut impl Iterator<Item = &'a str>,
    name: &'static str,
    missing: &'static str,
) -> Result<String, Reason> {
    words
        .next()
        .map(str::to_owned)
        .ok_or(problem(name, missing))
}

fn one_word(name: &'static str, value: Option<&str>) -> Result<String, Reason> {
    let mut words = value.unwrap_or_default().split_whitespace();
    match (words.next(), words.next()) {
        (Some(word), None) => Ok(word.to_owned()),
        _ => Err(problem(name, "expected one word")),
    }
}

/// RFC 8839 allows letters, digits, `+` and `/`; others are in use and do no harm,
/// except the colon, which separates the two names in a STUN USERNAME.
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

fn payload_type(name: &'static str, word: Option<&str>) -> Result<u8, Reason> {
    word.and_then(|word| word.parse().ok())
        .filter(|&number| number < 128)
        .ok_or(problem(name, "the payload type is not 0..=127"))
}

fn ssrc_number(name: &'static str, word: &str) -> Result<Ssrc, Reason> {
    word.parse()
        .map(Ssrc)
        .map_err(|_| problem(name, "the source is not a 32-bit number"))
}
