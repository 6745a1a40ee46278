//! How the peer of a WebTransport session says that the session is over: a capsule (RFC 9297 §3.2)
//! on the CONNECT stream, within DATA frames (RFC 9114 §7.2.1).
//!
//! Only one kind of capsule has a meaning here. All others, and frames other than DATA, are skipped
//! without being kept, whatever length they claim.

use tokio::io::{AsyncRead, AsyncReadExt};
use web_transport_proto::{Frame, VarInt};

/// Type of the capsule CLOSE_WEBTRANSPORT_SESSION (draft-ietf-webtrans-http3 §6).
const CLOSE: u64 = 0x2843;

/// Most bytes of the reason in that capsule (draft-ietf-webtrans-http3 §6).
const REASON_BYTES_MAX: u64 = 1024;

/// Code and reason with which a peer closes a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Close {
    pub(super) code: u32,
    pub(super) reason: String,
}

/// Reads a CONNECT stream until the peer closes the session. Returns `None` if the stream ends
/// before, or if its contents are malformed: a close without a code or with a reason that is too
/// long or no UTF-8, a frame that is cut short.
pub(super) async fn read_close(stream: impl AsyncRead + Unpin) -> Option<Close> {
    let mut data = DataFrames { stream, left: 0 };
    loop {
        let (kind, length) = (data.varint().await?, data.varint().await?);
        if kind != CLOSE {
            data.skip(length).await?;
            continue;
        }
        let code = data.code(length).await?;
        let mut reason = Vec::new();
        for _ in 4..length {
            reason.push(data.byte().await?);
        }
        let reason = String::from_utf8(reason).ok()?;
        return Some(Close { code, reason });
    }
}

/// The bytes within the DATA frames of a stream.
struct DataFrames<S> {
    stream: S,
    /// Bytes of the present frame that are not read yet.
    left: u64,
}

impl<S: AsyncRead + Unpin> DataFrames<S> {
    /// Reads the code of a close whose capsule has `length` bytes.
    async fn code(&mut self, length: u64) -> Option<u32> {
        if !(4..=4 + REASON_BYTES_MAX).contains(&length) {
            return None;
        }
        let mut code = [0; 4];
        for byte in &mut code {
            *byte = self.byte().await?;
        }
        Some(u32::from_be_bytes(code))
    }

    /// Reads a variable-length integer (RFC 9000 §16).
    async fn varint(&mut self) -> Option<u64> {
        let first = self.byte().await?;
        let mut value = u64::from(first & 0x3f);
        for _ in 1..1 << (first >> 6) {
            value = value << 8 | u64::from(self.byte().await?);
        }
        Some(value)
    }

    async fn byte(&mut self) -> Option<u8> {
        self.next_frame().await?;
        let byte = self.stream.read_u8().await.ok()?;
        self.left -= 1;
        Some(byte)
    }

    async fn skip(&mut self, mut bytes: u64) -> Option<()> {
        while bytes > 0 {
            self.next_frame().await?;
            let skipped = bytes.min(self.left);
            skip(&mut self.stream, skipped).await?;
            bytes -= skipped;
            self.left -= skipped;
        }
        Some(())
    }

    /// Reads on to the next DATA frame that is not empty, if the present one is read.
    async fn next_frame(&mut self) -> Option<()> {
        while self.left == 0 {
            let kind = VarInt::read(&mut self.stream).await.ok()?;
            let length = VarInt::read(&mut self.stream).await.ok()?.into_inner();
            match Frame(kind) {
                Frame::DATA => self.left = length,
                _ => skip(&mut self.stream, length).await?,
            }
        }
        Some(())
    }
}

/// Reads and forgets `bytes` bytes; `None` if the stream ends before.
async fn skip(stream: &mut (impl AsyncRead + Unpin), bytes: u64) -> Option<()> {
    let mut skipped = stream.take(bytes);
    let read = tokio::io::copy(&mut skipped, &mut tokio::io::sink()).await;
    (read.ok()? == bytes).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use web_transport_proto::Capsule;

    fn varint(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let value = VarInt::from_u64(value).expect("below 2^62");
        value.encode(&mut out);
        out
    }

    fn frame(kind: Frame, payload: &[u8]) -> Vec<u8> {
        let length = varint(payload.len() as u64);
        [varint(kind.0.into_inner()), length, payload.to_vec()].concat()
    }

    fn close(code: u32, reason: &str) -> Vec<u8> {
        let (mut out, reason) = (Vec::new(), reason.to_owned());
        Capsule::CloseWebTransportSession { code, reason }.encode(&mut out);
        out
    }

    /// Reads a stream, and returns the number of bytes that are left of it, too.
    async fn read(stream: &[u8]) -> (Option<Close>, usize) {
        let mut rest = stream;
        let close = read_close(&mut rest).await;
        (close, rest.len())
    }

    #[tokio::test]
    async fn a_close_is_read_behind_capsules_and_frames_that_mean_nothing() {
        let expected = Close {
            code: 420,
            reason: "bye, Zoë".to_owned(),
        };
        let unknown = [varint(0x1234_5678), varint(100_000), vec![7; 100_000]].concat();
        let whole = [unknown, close(420, &expected.reason)].concat();
        for step in [1, 2, 3, 7, 1000, whole.len()] {
            let mut stream = frame(Frame::HEADERS, b"trailers");
            for piece in whole.chunks(step) {
                stream.extend(frame(Frame::DATA, &[]));
                stream.extend(frame(Frame::DATA, piece));
                stream.extend(frame(Frame(VarInt::from_u32(0x21)), b"grease"));
            }
            assert_eq!(read(&stream).await.0.as_ref(), Some(&expected), "{step}");
        }
    }

    #[tokio::test]
    async fn a_malformed_close_ends_the_session_and_keeps_nothing_of_what_follows() {
        let flood = frame(Frame::DATA, &[0; 50_000]).repeat(100);
        let short = (0..4).map(|length| [varint(CLOSE), vec![length]].concat());
        let long = close(1, &"x".repeat(1025));
        let (mut binary, last) = (close(1, "bye"), close(1, "bye").len() - 1);
        binary[last] = 0xff;
        for capsule in short.chain([long, binary]) {
            let stream = [frame(Frame::DATA, &capsule), flood.clone()].concat();
            let (close, left) = read(&stream).await;
            assert_eq!(close, None);
            assert!(left >= flood.len(), "{left} bytes were read on");
        }
    }

    #[tokio::test]
    async fn a_stream_that_ends_early_is_no_close() {
        let whole = frame(Frame::DATA, &close(7, "bye"));
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]).await.0, None, "{end}");
        }
        let endless = [varint(0), varint((1 << 62) - 1), vec![0x17; 64]].concat();
        assert_eq!(read(&endless).await.0, None);
    }
}
