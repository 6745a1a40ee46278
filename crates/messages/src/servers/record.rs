//! One message or event between servers: a header of fixed length, then what belongs to it.
//!
//! ```text
//! kind │ broker │ number │ waited │ length │ reliability │ value │ priority │ label │ protocol │ message
//!   1  │   8    │   8    │   4    │   4    │      1      │   4   │    2     │ 2 + … │  2 + …   │ the rest
//! └────────────── header ────────────────┘ └──────── parameters of the channel ───────┘
//! ```
//!
//! Integers are big-endian. `broker` and `number` are those of the broker that the message was posted to
//! first ([`FirstNumber`]), `waited` the time in ms that the message has waited at servers. `length`
//! counts the bytes behind the header. The bit 0x10 of `reliability` says that the channel is ordered;
//! `value` is a number of retransmissions, or a lifetime in ms. A closed channel has parameters without a
//! message, other events have neither.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use glassline_sctp::Reliability;
use glassline_sctp::channel::{Init, Kind, Message};

use crate::{FirstNumber, PostedContent};

/// Length of a header in bytes.
pub(super) const HEADER_BYTES: usize = 25;

/// Most bytes of a label and a protocol together, as of all channels of a peer.
const NAMES_BYTES_MAX: usize = 4 << 10;

/// Most bytes of a channel's parameters.
pub(super) const PARAMETERS_BYTES_MAX: usize = 11 + NAMES_BYTES_MAX;

/// Most bytes behind a header: no server can be configured to take a larger message.
pub(super) const BODY_BYTES_MAX: usize = PARAMETERS_BYTES_MAX + (16 << 20);

const ORDERED: u8 = 0x10;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// A message that was left out on purpose, on a channel that may lose messages.
    LeftOut,
    Text,
    Binary,
    /// The publisher closed a channel.
    Closed,
    /// Another session is the publisher.
    TakenOver,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: RecordKind,
    pub(super) first: FirstNumber,
    /// Time that the message has waited at servers.
    pub(super) waited: Duration,
    /// Bytes that follow.
    pub(super) length: usize,
}

/// The reason why bytes are no record. The other server is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RecordError {
    #[error("a record between servers has the unknown kind {0}")]
    Kind(u8),
    #[error("a record between servers has {0} bytes, more than {BODY_BYTES_MAX}")]
    Long(u32),
    #[error("a record between servers ends within the parameters of its channel")]
    Short,
    #[error("a record between servers has the unknown reliability {0}")]
    Reliability(u8),
    #[error("a channel's label and protocol have {0} bytes, more than {NAMES_BYTES_MAX}")]
    Names(usize),
    #[error("a text, label or protocol between servers is no UTF-8")]
    Text,
    #[error("a record between servers has {0} bytes where none belong")]
    Surplus(usize),
}

impl RecordKind {
    const ALL: [Self; 5] = [
        Self::LeftOut,
        Self::Text,
        Self::Binary,
        Self::Closed,
        Self::TakenOver,
    ];

    const fn of(content: &PostedContent) -> Self {
        match content {
            PostedContent::Message { message, .. } => match message.kind {
                Kind::Text => Self::Text,
                Kind::Binary => Self::Binary,
            },
            PostedContent::Closed(_) => Self::Closed,
            PostedContent::TakenOver => Self::TakenOver,
        }
    }
}

impl Header {
    /// Reads a header.
    pub(super) fn parse(header: &[u8; HEADER_BYTES]) -> Result<Self, RecordError> {
        let mut rest = &header[..];
        let kind = rest.get_u8();
        let found = RecordKind::ALL.get(usize::from(kind));
        let kind = *found.ok_or(RecordError::Kind(kind))?;
        let (broker, number) = (rest.get_u64(), rest.get_u64());
        let waited = Duration::from_millis(rest.get_u32().into());
        let length = rest.get_u32();
        let fits = usize::try_from(length).ok();
        let fits = fits.filter(|length| *length <= BODY_BYTES_MAX);
        Ok(Self {
            kind,
            first: FirstNumber { broker, number },
            waited,
            length: fits.ok_or(RecordError::Long(length))?,
        })
    }

    fn write(&self, out: &mut BytesMut) {
        // The order of the kinds is that of their numbers.
        out.put_u8(self.kind as u8);
        out.put_u64(self.first.broker);
        out.put_u64(self.first.number);
        out.put_u32(u32::try_from(self.waited.as_millis()).unwrap_or(u32::MAX));
        out.put_u32(u32::try_from(self.length).unwrap_or(u32::MAX));
    }
}

/// Returns the record of `content`, whose message is shared; `None` if no server would take it.
pub(super) fn write(
    first: FirstNumber,
    content: &PostedContent,
    waited: Duration,
) -> Option<[Bytes; 2]> {
    let (channel, data) = match content {
        PostedContent::Message { channel, message } => (Some(channel), message.data.clone()),
        PostedContent::Closed(channel) => (Some(channel), Bytes::new()),
        PostedContent::TakenOver => (None, Bytes::new()),
    };
    let names = channel.map_or(0, |it| it.label.len() + it.protocol.len());
    let parameters = channel.map_or(0, |_| 11 + names);
    if names > NAMES_BYTES_MAX || parameters + data.len() > BODY_BYTES_MAX {
        return None;
    }
    let mut out = BytesMut::with_capacity(HEADER_BYTES + parameters);
    let header = Header {
        kind: RecordKind::of(content),
        first,
        waited,
        length: parameters + data.len(),
    };
    header.write(&mut out);
    if let Some(channel) = channel {
        write_parameters(channel, &mut out);
    }
    Some([out.freeze(), data])
}

/// Returns the record that stands for a message that was left out.
pub(super) fn left_out(first: FirstNumber) -> Bytes {
    let mut out = BytesMut::with_capacity(HEADER_BYTES);
    let header = Header {
        kind: RecordKind::LeftOut,
        first,
        waited: Duration::ZERO,
        length: 0,
    };
    header.write(&mut out);
    out.freeze()
}

/// Reads what follows a header of `kind`; `None` for a message that was left out.
pub(super) fn content(
    kind: RecordKind,
    mut body: Bytes,
) -> Result<Option<PostedContent>, RecordError> {
    let message = |kind, body: &mut Bytes| {
        let channel = Arc::new(read_parameters(body)?);
        if kind == Kind::Text && std::str::from_utf8(body).is_err() {
            return Err(RecordError::Text);
        }
        let data = std::mem::take(body);
        let message = Message { kind, data };
        Ok(PostedContent::Message { channel, message })
    };
    let content = match kind {
        RecordKind::LeftOut => None,
        RecordKind::Text => Some(message(Kind::Text, &mut body)?),
        RecordKind::Binary => Some(message(Kind::Binary, &mut body)?),
        RecordKind::Closed => Some(PostedContent::Closed(Arc::new(read_parameters(&mut body)?))),
        RecordKind::TakenOver => Some(PostedContent::TakenOver),
    };
    match body.len() {
        0 => Ok(content),
        surplus => Err(RecordError::Surplus(surplus)),
    }
}

fn write_parameters(channel: &Init, out: &mut BytesMut) {
    let ordered = if channel.ordered { ORDERED } else { 0 };
    let (kind, value) = match channel.reliability {
        Reliability::Limited { retransmissions } => (1, retransmissions),
        Reliability::Timed { lifetime } => {
            (2, u32::try_from(lifetime.as_millis()).unwrap_or(u32::MAX))
        }
        _ => (0, 0),
    };
    out.put_u8(kind | ordered);
    out.put_u32(value);
    out.put_u16(channel.priority);
    for name in [&channel.label, &channel.protocol] {
        // The caller has compared both with a limit.
        out.put_u16(u16::try_from(name.len()).unwrap_or(u16::MAX));
        out.put_slice(name.as_bytes());
    }
}

fn read_parameters(body: &mut Bytes) -> Result<Init, RecordError> {
    let short = |_| RecordError::Short;
    let kind = body.try_get_u8().map_err(short)?;
    let value = body.try_get_u32().map_err(short)?;
    let priority = body.try_get_u16().map_err(short)?;
    let reliability = match kind & !ORDERED {
        0 => Reliability::Reliable,
        1 => Reliability::Limited {
            retransmissions: value,
        },
        2 => Reliability::Timed {
            lifetime: Duration::from_millis(value.into()),
        },
        other => return Err(RecordError::Reliability(other)),
    };
    let mut name = || {
        let length = usize::from(body.try_get_u16().map_err(short)?);
        if length > body.len() {
            return Err(RecordError::Short);
        }
        let name = String::from_utf8(body.split_to(length).into());
        name.map_err(|_| RecordError::Text)
    };
    let (label, protocol) = (name()?, name()?);
    let names = label.len() + protocol.len();
    if names > NAMES_BYTES_MAX {
        return Err(RecordError::Names(names));
    }
    Ok(Init {
        label,
        protocol,
        ordered: kind & ORDERED != 0,
        reliability,
        negotiated: None,
        priority,
    })
}

/// Reads a record as another server does. What is read is written again, and read as the same.
#[cfg(any(test, fuzzing))]
pub fn fuzz_record(bytes: &[u8]) {
    let Some((header, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return;
    };
    let Ok(header) = Header::parse(header) else {
        return;
    };
    let Ok(Some(read)) = content(header.kind, Bytes::copy_from_slice(body)) else {
        return;
    };
    assert!(read.bytes() <= crate::MESSAGE_OVERHEAD_BYTES + body.len());
    let Some([head, data]) = write(header.first, &read, header.waited) else {
        return;
    };
    let again = [&head[..], &data[..]].concat();
    let (head, rest) = again
        .split_first_chunk::<HEADER_BYTES>()
        .expect("the header was written");
    let head = Header::parse(head).expect("the header is valid");
    assert_eq!(
        (head.kind, head.first, head.waited),
        (header.kind, header.first, header.waited)
    );
    assert_eq!(head.length, rest.len());
    let reread = content(head.kind, Bytes::copy_from_slice(rest));
    assert_eq!(
        format!("{reread:?}"),
        format!("{:?}", Ok::<_, RecordError>(Some(read)))
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn channel(label: &str, protocol: &str) -> Init {
        Init {
            label: label.to_owned(),
            protocol: protocol.to_owned(),
            ..Init::default()
        }
    }

    fn there_and_back(first: FirstNumber, posted: &PostedContent) -> (Header, PostedContent) {
        let written = write(first, posted, Duration::from_millis(1234)).expect("small enough");
        let whole = written.concat();
        let (header, body) = whole.split_first_chunk::<HEADER_BYTES>().expect("a header");
        let header = Header::parse(header).expect("a header");
        assert_eq!(header.length, body.len());
        let read = content(header.kind, Bytes::copy_from_slice(body));
        (header, read.expect("a record").expect("something"))
    }

    #[test]
    fn events_and_parameters_of_channels_pass() {
        let first = FirstNumber {
            broker: u64::MAX,
            number: 7,
        };
        for reliability in [
            Reliability::Reliable,
            Reliability::Limited { retransmissions: 0 },
            Reliability::Limited {
                retransmissions: u32::MAX,
            },
            Reliability::Timed {
                lifetime: Duration::from_millis(250),
            },
        ] {
            for ordered in [true, false] {
                let closed = Arc::new(Init {
                    ordered,
                    reliability,
                    priority: 1024,
                    ..channel("telemetry", "cbor")
                });
                let posted = PostedContent::Closed(Arc::clone(&closed));
                let (header, read) = there_and_back(first, &posted);
                assert_eq!(header.first, first);
                assert_eq!(header.waited, Duration::from_millis(1234));
                assert!(matches!(read, PostedContent::Closed(it) if it == closed));
            }
        }
        let (_, read) = there_and_back(first, &PostedContent::TakenOver);
        assert!(matches!(read, PostedContent::TakenOver));
        let left_out = left_out(first);
        let header: &[u8; HEADER_BYTES] = left_out[..].try_into().expect("only a header");
        let header = Header::parse(header).expect("a header");
        assert_eq!((header.kind, header.length), (RecordKind::LeftOut, 0));
    }

    #[test]
    fn what_is_too_long_is_not_written_and_not_read() {
        let first = FirstNumber {
            broker: 1,
            number: 0,
        };
        let data = vec![0; BODY_BYTES_MAX];
        let large = PostedContent::Message {
            channel: Arc::default(),
            message: Message::binary(data),
        };
        assert!(write(first, &large, Duration::ZERO).is_none());
        let named = PostedContent::Closed(Arc::new(channel(&"n".repeat(NAMES_BYTES_MAX), "x")));
        assert!(write(first, &named, Duration::ZERO).is_none());
        let mut header = [0; HEADER_BYTES];
        header[21..].copy_from_slice(&[0xff; 4]);
        assert_eq!(Header::parse(&header), Err(RecordError::Long(u32::MAX)));
        header[0] = 5;
        assert_eq!(Header::parse(&header), Err(RecordError::Kind(5)));
    }

    #[test]
    fn the_seeds_of_the_fuzz_target_are_records() {
        let seeds: [&[u8]; 5] = [
            include_bytes!("../../../../fuzz/seeds/server_messages/left_out"),
            include_bytes!("../../../../fuzz/seeds/server_messages/text"),
            include_bytes!("../../../../fuzz/seeds/server_messages/binary"),
            include_bytes!("../../../../fuzz/seeds/server_messages/closed"),
            include_bytes!("../../../../fuzz/seeds/server_messages/taken_over"),
        ];
        for (seed, kind) in seeds.into_iter().zip(RecordKind::ALL) {
            let (header, body) = seed.split_first_chunk().expect("a header");
            let header = Header::parse(header).expect("a header");
            assert_eq!((header.kind, header.length), (kind, body.len()));
            content(kind, Bytes::from_static(body)).expect("a record");
            fuzz_record(seed);
        }
    }

    #[test]
    fn damage_of_a_body_is_named() {
        let text = |body: &[u8]| content(RecordKind::Text, Bytes::copy_from_slice(body)).err();
        let mut good = BytesMut::new();
        write_parameters(&channel("a", "b"), &mut good);
        for end in 0..good.len() {
            assert_eq!(text(&good[..end]), Some(RecordError::Short), "{end}");
        }
        assert_eq!(text(&good), None);
        assert_eq!(
            text(&[&good[..], &[0xff]].concat()),
            Some(RecordError::Text)
        );
        let closed = content(RecordKind::Closed, Bytes::from([&good[..], b"x"].concat()));
        assert_eq!(closed.err(), Some(RecordError::Surplus(1)));
        good[0] = 3;
        assert_eq!(text(&good), Some(RecordError::Reliability(3)));
        let mut long = BytesMut::new();
        write_parameters(&channel(&"n".repeat(NAMES_BYTES_MAX), "x"), &mut long);
        assert_eq!(text(&long), Some(RecordError::Names(NAMES_BYTES_MAX + 1)));
    }

    proptest! {
        #[test]
        fn messages_pass_as_they_are(
            label in ".{0,20}",
            protocol in ".{0,20}",
            text in ".{0,300}",
            is_text: bool,
            broker: u64,
            number: u64,
        ) {
            let first = FirstNumber { broker, number };
            let sent = match is_text {
                true => Message::text(text),
                false => Message::binary(text.into_bytes()),
            };
            let init = Arc::new(channel(&label, &protocol));
            let posted = PostedContent::Message { channel: Arc::clone(&init), message: sent.clone() };
            let (header, read) = there_and_back(first, &posted);
            prop_assert_eq!(header.first, first);
            let same = matches!(read, PostedContent::Message { channel, message } if channel == init && message == sent);
            prop_assert!(same);
        }

        #[test]
        fn records_of_strangers_do_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 0u8..6) {
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if let Some(length) = bytes.get_mut(21..25) {
                length.copy_from_slice(&[0; 4]);
            }
            fuzz_record(&bytes);
        }
    }
}
