//! Streams and datagrams that the other end should refuse: in an established session, whatever
//! they hold.
//!
//! Tests of robustness need a peer that is authentic and hostile. Nothing else calls this.

use super::session::Session;

/// Direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// A unidirectional stream, which carries a group or a setup message.
    Data,
    /// A bidirectional stream, which carries a request. Its answers are not read.
    Request,
}

/// A stream whose bytes nobody looks at before they are sent. It is finished when this value is
/// dropped.
#[derive(Debug)]
pub struct UncheckedStream {
    send: noq::SendStream,
    /// Kept, so that the peer is not told that its answers are unwanted.
    _answers: Option<noq::RecvStream>,
}

impl Session {
    /// Opens a stream, as soon as the peer allows one more; `None` once the session has ended.
    pub async fn open_unchecked(&self, kind: StreamKind) -> Option<UncheckedStream> {
        let (send, answers) = match kind {
            StreamKind::Data => (self.link.open_uni().await.ok()?, None),
            StreamKind::Request => {
                let (send, answers) = self.link.open_bi().await.ok()?;
                (send, Some(answers))
            }
        };
        Some(UncheckedStream {
            send,
            _answers: answers,
        })
    }

    /// Sends a datagram; false once the session has ended.
    pub fn send_unchecked_datagram(&self, payload: &[u8]) -> bool {
        self.link.send_datagram(payload).is_ok()
    }

    /// Returns whether the connection is over.
    pub fn is_over(&self) -> bool {
        self.link.connection.close_reason().is_some()
    }
}

impl UncheckedStream {
    /// Writes `bytes`, as soon as the peer takes them; false if it refuses the stream.
    pub async fn write(&mut self, bytes: &[u8]) -> bool {
        self.send.write_all(bytes).await.is_ok()
    }

    /// Ends the stream in the middle of what it carries.
    pub fn reset(mut self, code: u32) {
        // The peer may have stopped the stream.
        let _ = self.send.reset(code.into());
    }
}
