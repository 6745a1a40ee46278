//! What the known attributes say.

use std::fmt;

use glassline_media::Ssrc;

use crate::sdp::error::Reason;

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
    /// For audio; `None` means 1 there.
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

impl Group {
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
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

    pub(super) fn from_name(name: &str) -> Option<Self> {
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

    pub(super) fn parse(word: &str) -> Result<Self, Reason> {
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
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
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
    pub(super) fn parse(value: &str) -> Result<Option<Self>, Reason> {
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
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
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
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
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
    pub(super) fn parse(value: &str) -> Result<Self, Reason> {
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
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        Ok(Self {
            semantics: next_word(&mut words, "ssrc-group", "no semantics")?,
            ssrcs: words
                .map(|word| ssrc_number("ssrc-group", word))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl StreamId {
    pub(super) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Self, Reason> {
        Ok(Self {
            stream: next_word(&mut words, "msid", "no stream")?,
            track: words.next().map(str::to_owned),
        })
    }
}

pub(super) const fn problem(name: &'static str, problem: &'static str) -> Reason {
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
