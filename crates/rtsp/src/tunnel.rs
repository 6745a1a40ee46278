//! RTSP over HTTP as QuickTime tunnels it. The response to a GET is the stream from server to
//! client; the body of a POST on a second connection is the stream from client to server, in
//! base64. Both requests have the same `x-sessioncookie`.
//!
//! Source: "Tunnelling RTSP and RTP through HTTP", Apple, as live555, GStreamer and ffmpeg
//! implement it.

use thiserror::Error;

use crate::message::{Method, Request};

/// Content type of the tunneled stream.
pub const CONTENT_TYPE: &str = "application/x-rtsp-tunnelled";

/// Longest cookie in bytes; those of the players have 22 to 32.
const COOKIE_BYTES_MAX: usize = 256;

/// A byte that is not base64. The peer is at fault; close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("byte {byte:#04x} is not base64")]
pub struct NotBase64 {
    /// The first such byte.
    pub byte: u8,
}

/// Decodes base64 that arrives in pieces cut anywhere.
///
/// Clients encode each message on its own, so padding occurs in the middle of the stream; some
/// clients break lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoder {
    /// Bits that do not make a byte yet, the latest one lowest.
    bits: u32,
    /// Number of valid bits: 0, 2, 4 or 6.
    count: u8,
}

impl Decoder {
    /// Decodes the next piece, and appends the bytes to `out`.
    pub fn decode(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), NotBase64> {
        out.reserve(piece.len() / 4 * 3 + 3);
        for &byte in piece {
            let value = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'\r' | b'\n' | b' ' | b'\t' => continue,
                // Padding drops the bits that make no byte; the next character begins a new
                // group.
                b'=' => {
                    *self = Self::default();
                    continue;
                }
                _ => return Err(NotBase64 { byte }),
            };
            self.bits = self.bits << 6 | u32::from(value);
            self.count += 6;
            if let Some(left) = self.count.checked_sub(8) {
                out.push((self.bits >> left).to_le_bytes()[0]);
                self.bits &= (1 << left) - 1;
                self.count = left;
            }
        }
        Ok(())
    }
}

/// The direction of a tunnel that an HTTP request opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TunnelRequest {
    /// The direction from server to client.
    Get {
        /// Cookie that joins both directions.
        cookie: String,
    },
    /// The direction from client to server.
    Post {
        /// Cookie that joins both directions.
        cookie: String,
    },
}

impl TunnelRequest {
    /// Reads an HTTP request. The error says why the request opens no tunnel.
    pub fn read(request: &Request) -> Result<Self, &'static str> {
        let cookie = request.headers.get("x-sessioncookie").unwrap_or_default();
        if cookie.is_empty() {
            return Err("the request has no x-sessioncookie header, so it opens no tunnel");
        }
        if cookie.len() > COOKIE_BYTES_MAX {
            return Err("the x-sessioncookie header has more than 256 bytes");
        }
        let cookie = cookie.to_owned();
        match request.method {
            Method::Get => Ok(Self::Get { cookie }),
            Method::Post => Ok(Self::Post { cookie }),
            _ => Err("the method is neither GET nor POST"),
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    fn decode(pieces: &[&[u8]]) -> Result<Vec<u8>, NotBase64> {
        let (mut decoder, mut out) = (Decoder::default(), Vec::new());
        for piece in pieces {
            decoder.decode(piece, &mut out)?;
        }
        Ok(out)
    }

    #[test]
    fn padding_may_stand_in_the_middle() {
        assert_eq!(decode(&[b"Zg==Zm8=Zm9v"]), Ok(b"ffofoo".to_vec()));
        assert_eq!(decode(&[b"Zg=", b"=", b"\r\nZ m8="]), Ok(b"ffo".to_vec()));
        // Without padding where the stream goes on, it is one message.
        assert_eq!(decode(&[b"Zm9vYg"]), Ok(b"foob".to_vec()));
    }

    #[test]
    fn what_is_no_base64_is_named() {
        assert_eq!(decode(&[b"Zm9v$"]), Err(NotBase64 { byte: b'$' }));
        assert_eq!(
            decode(&[b"POST /x HTTP/1.1\r\n-"]),
            Err(NotBase64 { byte: b'.' })
        );
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            cut in 1usize..9,
        ) {
            let text: String = messages.iter().map(|message| STANDARD.encode(message)).collect();
            let pieces: Vec<_> = text.as_bytes().chunks(cut).collect();
            prop_assert_eq!(decode(&pieces), Ok(messages.concat()));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(out) = decode(&[&bytes]) {
                prop_assert!(out.len() <= bytes.len() / 4 * 3 + 3);
            }
        }
    }
}
