use bytes::Bytes;

/// Payload protocol identifiers of data channels (RFC 8831 §8).
pub mod ppid {
    /// DCEP.
    pub const CONTROL: u32 = 50;
    /// Text.
    pub const STRING: u32 = 51;
    /// A part of binary data that more follows (deprecated).
    pub const BINARY_PARTIAL: u32 = 52;
    /// Binary data, or the last part of it.
    pub const BINARY: u32 = 53;
    /// A part of a text that more follows (deprecated).
    pub const STRING_PARTIAL: u32 = 54;
    /// An empty text.
    pub const STRING_EMPTY: u32 = 56;
    /// Binary data of no bytes.
    pub const BINARY_EMPTY: u32 = 57;
}

/// What goes over a channel in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which of the two it is.
    pub kind: Kind,
    /// The bytes; UTF-8 in a text that was received.
    pub data: Bytes,
}

/// The two kinds of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Anything.
    Binary,
}

impl Message {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            kind: Kind::Text,
            data: Bytes::from(text.into()),
        }
    }

    /// Bytes.
    pub fn binary(data: impl Into<Bytes>) -> Self {
        Self {
            kind: Kind::Binary,
            data: data.into(),
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self.kind {
            Kind::Text => std::str::from_utf8(&self.data).ok(),
            Kind::Binary => None,
        }
    }

    /// The identifier and bytes that SCTP carries. It has no empty messages: one zero
    /// byte stands for those (RFC 8831 §6.6).
    pub(super) fn into_wire(self) -> (u32, Bytes) {
        match (self.kind, self.data.is_empty()) {
            (Kind::Text, false) => (ppid::STRING, self.data),
            (Kind::Text, true) => (ppid::STRING_EMPTY, Bytes::from_static(&[0])),
            (Kind::Binary, false) => (ppid::BINARY, self.data),
            (Kind::Binary, true) => (ppid::BINARY_EMPTY, Bytes::from_static(&[0])),
        }
    }
}

/// What an SCTP message is to a channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Control,
    /// With what came before it, a message.
    Last(Kind),
    /// More follows.
    Part(Kind),
    Empty(Kind),
}

impl Piece {
    pub(super) fn of(ppid: u32) -> Option<Self> {
        Some(match ppid {
            ppid::CONTROL => Self::Control,
            ppid::STRING => Self::Last(Kind::Text),
            ppid::BINARY => Self::Last(Kind::Binary),
            ppid::STRING_PARTIAL => Self::Part(Kind::Text),
            ppid::BINARY_PARTIAL => Self::Part(Kind::Binary),
            ppid::STRING_EMPTY => Self::Empty(Kind::Text),
            ppid::BINARY_EMPTY => Self::Empty(Kind::Binary),
            _ => return None,
        })
    }
}

/// A text's bytes are made UTF-8, as a browser does: with U+FFFD for what is not.
pub(super) fn received(kind: Kind, data: Bytes) -> Message {
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
        assert_eq!(Piece::of(ppid), Some(Piece::Empty(Kind::Binary)));
    }

    #[test]
    fn what_is_no_text_becomes_one() {
        let message = received(Kind::Text, Bytes::from_static(b"a\xffb"));
        assert_eq!(message.as_text(), Some("a\u{fffd}b"));
        let message = received(Kind::Binary, Bytes::from_static(b"a\xffb"));
        assert_eq!(message.as_text(), None);
        assert_eq!(message.data.as_ref(), b"a\xffb");
    }
}
