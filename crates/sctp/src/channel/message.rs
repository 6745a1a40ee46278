use bytes::Bytes;

/// Payload protocol identifiers of data channels (RFC 8831 §8).
pub mod ppid {
    /// Payload protocol identifier of a DCEP message.
    pub const CONTROL: u32 = 50;
    /// A text message, or the last part of one.
    pub const STRING: u32 = 51;
    /// A part of a binary message that is not its last (deprecated).
    pub const BINARY_PARTIAL: u32 = 52;
    /// A binary message, or the last part of one.
    pub const BINARY: u32 = 53;
    /// A part of a text message that is not its last (deprecated).
    pub const STRING_PARTIAL: u32 = 54;
    /// A text message without bytes; one zero byte stands for it.
    pub const STRING_EMPTY: u32 = 56;
    /// A binary message without bytes; one zero byte stands for it.
    pub const BINARY_EMPTY: u32 = 57;
}

/// A message of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whether the message is text or binary.
    pub kind: Kind,
    /// Content of the message. The content of a received text is always valid UTF-8.
    pub data: Bytes,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The message is UTF-8 text.
    Text,
    /// The message is arbitrary bytes.
    Binary,
}

impl Message {
    /// Returns a text message.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            kind: Kind::Text,
            data: Bytes::from(text.into()),
        }
    }

    /// Returns a binary message.
    pub fn binary(data: impl Into<Bytes>) -> Self {
        Self {
            kind: Kind::Binary,
            data: data.into(),
        }
    }

    /// Returns the text; `None` for a binary message, or for a text that is not UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        match self.kind {
            Kind::Text => std::str::from_utf8(&self.data).ok(),
            Kind::Binary => None,
        }
    }

    /// Returns the payload protocol identifier and the bytes that SCTP carries. SCTP has no
    /// empty messages: one zero byte stands for those (RFC 8831 §6.6).
    pub(super) fn into_wire(self) -> (u32, Bytes) {
        match (self.kind, self.data.is_empty()) {
            (Kind::Text, false) => (ppid::STRING, self.data),
            (Kind::Text, true) => (ppid::STRING_EMPTY, Bytes::from_static(&[0])),
            (Kind::Binary, false) => (ppid::BINARY, self.data),
            (Kind::Binary, true) => (ppid::BINARY_EMPTY, Bytes::from_static(&[0])),
        }
    }
}

/// The kind of an SCTP message by its payload protocol identifier.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PayloadKind {
    /// A message of the channel protocol itself (DCEP, RFC 8832).
    Control,
    /// A whole message, or the last part of one.
    Last(Kind),
    /// A part of a message that is not its last.
    Partial(Kind),
    /// A message without bytes.
    Empty(Kind),
}

impl PayloadKind {
    /// Returns the meaning of an identifier; `None` if data channels do not define it.
    pub(super) fn from_ppid(ppid: u32) -> Option<Self> {
        Some(match ppid {
            ppid::CONTROL => Self::Control,
            ppid::STRING => Self::Last(Kind::Text),
            ppid::BINARY => Self::Last(Kind::Binary),
            ppid::STRING_PARTIAL => Self::Partial(Kind::Text),
            ppid::BINARY_PARTIAL => Self::Partial(Kind::Binary),
            ppid::STRING_EMPTY => Self::Empty(Kind::Text),
            ppid::BINARY_EMPTY => Self::Empty(Kind::Binary),
            _ => return None,
        })
    }
}

/// Makes a message of received bytes. Invalid UTF-8 in a text becomes U+FFFD, as in a
/// browser.
pub(super) fn decode_message(kind: Kind, data: Bytes) -> Message {
    if kind == Kind::Text
        && let Err(_not_utf8) = std::str::from_utf8(&data)
    {
        return Message::text(String::from_utf8_lossy(&data).into_owned());
    }
    Message { kind, data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_messages_travel_as_one_byte() {
        assert_eq!(Message::text("").into_wire().0, ppid::STRING_EMPTY);
        let (ppid, bytes) = Message::binary(Vec::new()).into_wire();
        assert_eq!((ppid, bytes.len()), (ppid::BINARY_EMPTY, 1));
        assert_eq!(
            PayloadKind::from_ppid(ppid),
            Some(PayloadKind::Empty(Kind::Binary))
        );
    }

    #[test]
    fn what_is_no_text_becomes_one() {
        let message = decode_message(Kind::Text, Bytes::from_static(b"a\xffb"));
        assert_eq!(message.as_text(), Some("a\u{fffd}b"));
        let message = decode_message(Kind::Binary, Bytes::from_static(b"a\xffb"));
        assert_eq!(message.as_text(), None);
        assert_eq!(message.data.as_ref(), b"a\xffb");
    }
}
