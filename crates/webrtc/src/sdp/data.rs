//! The `m=application` line of data channels (RFC 8841), and its syntax before that RFC.

use crate::TransportAddress;

use super::attribute::{Attribute, Setup};
use super::attributes::Attributes;
use super::credentials::IceCredentials;
use super::description::MediaDescription;
use super::fingerprint::Fingerprint;
use super::transport::{default_destination, push_candidates, push_transport};

/// The statements of one end about its SCTP association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataParameters {
    /// Port (`a=sctp-port`), usually 5000.
    pub port: u16,
    /// Largest message that this end accepts in bytes (`a=max-message-size`), zero for no
    /// limit. `None` if it is not stated, which means 64 KiB (RFC 8841 §6.1).
    pub max_message_size: Option<u64>,
}

/// An `m=` line for data channels on which both ends agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedData {
    /// Index of the `m=` line.
    pub line: usize,
    /// Identification tag of the `m=` line.
    pub mid: String,
    /// Parameters of the peer.
    pub remote: DataParameters,
    /// Whether the line has the syntax before RFC 8841: `DTLS/SCTP 5000`.
    pub(super) legacy: bool,
}

/// Protocol of the `m=` line (RFC 8841 §4).
const PROTOCOL: &str = "UDP/DTLS/SCTP";
/// Format of the `m=` line: the application protocol over SCTP.
const FORMAT: &str = "webrtc-datachannel";
/// Protocol in draft-ietf-mmusic-sctp-sdp up to version 14, in which the port is the format and
/// `a=sctpmap` states the application protocol. Chromium before 2019 and appliances write it.
const LEGACY_PROTOCOL: &str = "DTLS/SCTP";
/// Port of an `m=` line without `a=sctp-port`. RFC 8841 §5.2 requires the attribute, but no
/// other port is in use.
const PORT_UNSTATED: u16 = 5000;

/// Parses the section with index `line`, if it is for data channels and not rejected.
pub(super) fn of(line: usize, media: &MediaDescription) -> Option<AgreedData> {
    if media.kind != "application" || media.is_rejected() {
        return None;
    }
    let legacy = media.protocol == LEGACY_PROTOCOL;
    let port = if legacy {
        let port = media.formats.first()?;
        let maps = format!("{port} {FORMAT}");
        let map = value(&media.attributes, "sctpmap")?;
        map.starts_with(&maps).then(|| port.parse().ok())??
    } else {
        if media.protocol != PROTOCOL || media.formats.first()? != FORMAT {
            return None;
        }
        match value(&media.attributes, "sctp-port") {
            Some(port) => port.parse().ok()?,
            None => PORT_UNSTATED,
        }
    };
    let size = value(&media.attributes, "max-message-size").or_else(|| {
        // In the old syntax the size is in `a=fmtp`.
        let parameters = value(&media.attributes, "fmtp")?;
        Some(parameters.split_once("max-message-size=")?.1)
    });
    // Port 0 closes the association (RFC 8841 §5.2).
    (port != 0).then_some(())?;
    Some(AgreedData {
        line,
        mid: media.attributes.mid().unwrap_or_default().to_owned(),
        remote: DataParameters {
            port,
            max_message_size: size.and_then(|size| size.parse().ok()),
        },
        legacy,
    })
}

fn value<'a>(attributes: &'a Attributes, wanted: &str) -> Option<&'a str> {
    attributes.0.iter().find_map(|attribute| match attribute {
        Attribute::Other { name, value } if name == wanted => value.as_deref().map(str::trim),
        _ => None,
    })
}

/// The statements of a section for data channels beside its parameters.
pub(super) struct Section<'a> {
    pub(super) mid: Option<String>,
    pub(super) credentials: &'a IceCredentials,
    pub(super) fingerprint: &'a Fingerprint,
    pub(super) setup: Setup,
    pub(super) trickle: bool,
    pub(super) candidates: &'a [TransportAddress],
    /// Whether this section contains the candidates.
    pub(super) carries_transport: bool,
    pub(super) legacy: bool,
}

/// Creates a section for data channels.
pub(super) fn section(parameters: &DataParameters, section: Section<'_>) -> MediaDescription {
    let (destination, connection) = default_destination(section.candidates);
    let mut attributes = Attributes::default();
    attributes.0.extend(section.mid.map(Attribute::Mid));
    push_transport(
        &mut attributes,
        section.credentials,
        section.fingerprint,
        section.setup,
    );
    if section.trickle {
        attributes.push(Attribute::IceOptions(vec!["trickle".to_owned()]));
    }
    let port = parameters.port.to_string();
    if section.legacy {
        let streams = u16::MAX;
        push(
            &mut attributes,
            "sctpmap",
            format!("{port} {FORMAT} {streams}"),
        );
    } else {
        push(&mut attributes, "sctp-port", port.clone());
    }
    if let Some(bytes) = parameters.max_message_size {
        push(&mut attributes, "max-message-size", bytes.to_string());
    }
    if section.carries_transport {
        push_candidates(&mut attributes, section.candidates);
    }
    let (protocol, format) = if section.legacy {
        (LEGACY_PROTOCOL, port)
    } else {
        (PROTOCOL, FORMAT.to_owned())
    };
    MediaDescription {
        kind: "application".to_owned(),
        port: destination,
        port_count: None,
        protocol: protocol.to_owned(),
        formats: vec![format],
        lines: vec![('c', connection)],
        attributes,
    }
}

fn push(attributes: &mut Attributes, name: &str, value: String) {
    attributes.push(Attribute::Other {
        name: name.to_owned(),
        value: Some(value),
    });
}
