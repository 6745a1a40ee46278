//! The `m=application` line of data channels (RFC 8841), and the form before it.

use std::net::SocketAddr;

use super::attribute::{Attribute, Setup};
use super::attributes::Attributes;
use super::credentials::IceCredentials;
use super::description::MediaDescription;
use super::fingerprint::Fingerprint;
use super::transport::{default_destination, push_candidates, push_transport};

/// What one end says of its SCTP association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataParameters {
    /// `a=sctp-port`; 5000 by custom.
    pub port: u16,
    /// `a=max-message-size` in bytes: what this end takes, zero for anything. `None`
    /// where nothing is said, which means 64 KiB (RFC 8841 §6.1).
    pub max_message_size: Option<u64>,
}

/// An `m=` line for data channels that both ends agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedData {
    /// Which `m=` line, from 0.
    pub line: usize,
    /// Its tag.
    pub mid: String,
    /// The peer's end.
    pub remote: DataParameters,
    /// It is written as before RFC 8841: `DTLS/SCTP 5000`.
    pub(super) old: bool,
}

const PROTOCOL: &str = "UDP/DTLS/SCTP";
const FORMAT: &str = "webrtc-datachannel";
/// draft-ietf-mmusic-sctp-sdp up to 14: the port is the format, and `a=sctpmap`
/// says what runs over it. Chromium before 2019 and appliances write it.
const OLD_PROTOCOL: &str = "DTLS/SCTP";
/// What an `m=` line without `a=sctp-port` means, by custom: RFC 8841 §5.2 wants
/// the attribute, but there is no other port in use.
const PORT_UNSTATED: u16 = 5000;

/// Reads the `line`-th section if it is for data channels and not turned down.
pub(super) fn of(line: usize, media: &MediaDescription) -> Option<AgreedData> {
    if media.kind != "application" || media.is_rejected() {
        return None;
    }
    let old = media.protocol == OLD_PROTOCOL;
    let port = if old {
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
        // Beside the old form it stood here.
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
        old,
    })
}

fn value<'a>(attributes: &'a Attributes, wanted: &str) -> Option<&'a str> {
    attributes.0.iter().find_map(|attribute| match attribute {
        Attribute::Other { name, value } if name == wanted => value.as_deref().map(str::trim),
        _ => None,
    })
}

/// What a section for data channels says beside its parameters.
pub(super) struct Section<'a> {
    pub(super) mid: Option<String>,
    pub(super) credentials: &'a IceCredentials,
    pub(super) fingerprint: &'a Fingerprint,
    pub(super) setup: Setup,
    pub(super) trickle: bool,
    pub(super) candidates: &'a [SocketAddr],
    /// The candidates stand in this section.
    pub(super) carries_transport: bool,
    pub(super) old: bool,
}

/// Writes a section for data channels.
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
    if section.old {
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
    let (protocol, format) = if section.old {
        (OLD_PROTOCOL, port)
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
