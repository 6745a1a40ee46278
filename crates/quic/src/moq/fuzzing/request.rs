use std::net::SocketAddr;

use web_transport_proto::Frame;

use super::input::Input;
use super::message;

/// The fields of a CONNECT request, as they were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentRequest {
    /// Value of `Origin`; `None` if the field was left out.
    pub origin: Option<String>,
    /// Host and port of the server that the request names.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// List of versions of MoQ (RFC 8941 §3.1).
    pub protocols: String,
}

impl SentRequest {
    /// Reads which fields a request has, for a server at `server`.
    pub(super) fn read(input: &mut Input<'_>, server: SocketAddr) -> Self {
        let here = server.to_string();
        let own = format!("https://{here}");
        let localhost = format!("localhost:{}", server.port());
        let versions = [
            "\"moq-lite-06\"",
            "\"moq-lite-05\", \"moq-lite-06\"",
            "\"moq-lite-05\"",
            "\"moq-lite-04\"",
        ];
        let origin = input.text(&[
            "",
            &own,
            "https://site.example",
            "https://evil.example",
            "null",
        ]);
        let hosts = [
            &here,
            "evil.example:4443",
            &localhost,
            "127.0.0.1:1@evil.example",
        ];
        Self {
            origin: (!origin.is_empty()).then_some(origin),
            authority: input.text(&hosts),
            path: input.text(&["/", "/?token=show", "/room?token=wrong", "/demo?jwt=show"]),
            protocols: input.text(&versions),
        }
    }

    /// Returns the HEADERS frame of the request.
    pub(super) fn frame(&self) -> Vec<u8> {
        let mut fields = vec![
            (":method", "CONNECT"),
            (":scheme", "https"),
            (":protocol", "webtransport"),
            (":authority", &self.authority),
            (":path", &self.path),
            ("wt-available-protocols", &self.protocols),
        ];
        fields.extend(self.origin.as_deref().map(|origin| ("origin", origin)));
        // No field of the dynamic table is used (RFC 9204 §4.5.1).
        let mut section = vec![0, 0];
        for (name, value) in fields {
            // A field with a literal name (RFC 9204 §4.5.6).
            integer(0x20, 3, name.len(), &mut section);
            section.extend_from_slice(name.as_bytes());
            integer(0, 7, value.len(), &mut section);
            section.extend_from_slice(value.as_bytes());
        }
        let mut frame = Vec::new();
        Frame::HEADERS.encode(&mut frame);
        frame.extend(message(&section));
        frame
    }
}

/// Encodes an integer behind the `flags` of its first byte, which has `bits` bits for it (RFC 7541
/// §5.1).
fn integer(flags: u8, bits: u32, value: usize, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if value < most {
        out.push(flags | u8::try_from(value).unwrap_or(0));
        return;
    }
    out.push(flags | u8::try_from(most).unwrap_or(0));
    let mut rest = value - most;
    while rest >= 128 {
        out.push(u8::try_from(rest % 128).unwrap_or(0) | 128);
        rest /= 128;
    }
    out.push(u8::try_from(rest).unwrap_or(0));
}
