use super::*;
use crate::message::tests::any_message;
use crate::message::{Response, Status};
use proptest::prelude::*;

/// An item that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Frame(u8, Vec<u8>),
    Message(Message),
}

impl Owned {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Frame(channel, payload) => assert!(write_frame(out, *channel, payload)),
            Self::Message(message) => message.write(out),
        }
    }
}

fn take(items: &mut Vec<Owned>) -> impl FnMut(Item<'_>) {
    |item| {
        items.push(match item {
            Item::Frame { channel, payload } => Owned::Frame(channel, payload.to_vec()),
            Item::Message(message) => Owned::Message(message),
        });
    }
}

fn reader(garbage_bytes_max: usize) -> Reader {
    Reader::new(Demultiplexer::new(Limits::default(), garbage_bytes_max))
}

fn ok() -> Owned {
    Owned::Message(Message::Response(Response::new(Status::OK)))
}

fn bytes_of(items: &[Owned]) -> Vec<u8> {
    let mut bytes = Vec::new();
    items.iter().for_each(|item| item.write(&mut bytes));
    bytes
}

#[test]
fn frames_before_between_and_behind_messages() {
    let items = [
        Owned::Frame(0, b"$RTSP/1.0 200 OK\r\n\r\n".to_vec()),
        ok(),
        Owned::Frame(255, Vec::new()),
        Owned::Frame(1, vec![b'$'; 65_535]),
        ok(),
    ];
    let mut seen = Vec::new();
    let mut reader = reader(0);
    reader
        .push(&bytes_of(&items), take(&mut seen))
        .expect("a stream");
    assert_eq!(seen, items);
    assert_eq!((reader.pending(), reader.demultiplexer().skipped()), (0, 0));
    assert!(!write_frame(&mut Vec::new(), 0, &[0; 65_536]));
}

#[test]
fn empty_lines_between_messages_are_no_garbage() {
    let mut bytes = b"\r\n\n\r\n".to_vec();
    bytes.extend(bytes_of(&[ok()]));
    bytes.extend(b"\r\n");
    let mut seen = Vec::new();
    reader(0).push(&bytes, take(&mut seen)).expect("a stream");
    assert_eq!(seen, [ok()]);
}

#[test]
fn a_server_sees_garbage_at_its_first_byte() {
    for garbage in [
        &b"\x16\x03\x01\x02\x00"[..],
        b"hello\r\n",
        b"*\r\n",
        b"GET / FTP/1\r\n",
        b"PLAY\0",
    ] {
        let error = reader(0)
            .push(garbage, |_| panic!("no item"))
            .expect_err("garbage");
        assert!(
            matches!(error, Error::Garbage { first, .. } if first == garbage[0]),
            "{error}"
        );
    }
    let error = reader(0)
        .push(b"OPTIONS x y RTSP/x\r\n\r\n", |_| {})
        .expect_err("no version");
    assert!(
        matches!(error, Error::Message(ParseError::StartLine(_))),
        "{error}"
    );
}

/// The stream of a server that drops bytes which the socket did not accept.
#[test]
fn a_cut_frame_costs_its_neighbour_and_no_more() {
    let frame = |n: u8| Owned::Frame(0, vec![n; 500]);
    let mut bytes = bytes_of(&[frame(1)]);
    bytes.truncate(200);
    bytes.extend(bytes_of(&[frame(2), frame(3), frame(4), ok(), frame(5)]));
    let mut seen = Vec::new();
    let mut reader = reader(2000);
    reader.demultiplexer().set_channel_max(1);
    reader.push(&bytes, take(&mut seen)).expect("it comes back");
    assert_eq!(seen[seen.len() - 4..], [frame(3), frame(4), ok(), frame(5)]);
    assert!(reader.demultiplexer().skipped() > 0);
}

#[test]
fn a_frame_out_of_step_must_be_of_a_channel_in_use() {
    let mut bytes = vec![0xff];
    bytes.extend(bytes_of(&[
        Owned::Frame(9, vec![1; 9]),
        Owned::Frame(1, vec![2; 3]),
    ]));
    let mut seen = Vec::new();
    let mut reader = reader(100);
    reader.demultiplexer().set_channel_max(1);
    reader.push(&bytes, take(&mut seen)).expect("it comes back");
    assert_eq!(seen, [Owned::Frame(1, vec![2; 3])]);
    assert_eq!(reader.demultiplexer().skipped(), 1 + 4 + 9);
}

#[test]
fn endless_garbage_is_given_up() {
    let mut reader = reader(1000);
    let mut pushed = 0;
    let error = loop {
        match reader.push(&[0x80; 64], |_| panic!("no item")) {
            Ok(()) => pushed += 64,
            Err(error) => break error,
        }
        assert!(pushed <= 1000 && reader.pending() == 0);
    };
    let text = error.to_string();
    assert!(
        text.starts_with("1024 bytes") && text.ends_with("0x80"),
        "{text}"
    );
}

#[test]
fn an_endless_head_is_given_up() {
    let mut reader = reader(1 << 20);
    reader
        .push(b"RTSP/1.0 200 OK\r\n", |_| {})
        .expect("a beginning");
    let error = (0..100_000).find_map(|_| reader.push(b"A: b\r\n", |_| {}).err());
    assert_eq!(
        error,
        Some(Error::Message(ParseError::HeadTooLong { max: 16 << 10 }))
    );
}

fn any_item() -> impl Strategy<Value = Owned> {
    let frame = (any::<u8>(), prop::collection::vec(any::<u8>(), 0..100));
    prop_oneof![
        frame.prop_map(|(channel, payload)| Owned::Frame(channel, payload)),
        any_message().prop_map(Owned::Message),
    ]
}

proptest! {
    #[test]
    fn where_the_stream_is_cut_does_not_matter(
        items in prop::collection::vec(any_item(), 0..8), cuts in prop::collection::vec(1usize..80, 1..40),
    ) {
        let bytes = bytes_of(&items);
        let mut reader = reader(0);
        let (mut seen, mut rest) = (Vec::new(), bytes.as_slice());
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, behind) = rest.split_at((*cut).min(rest.len()));
            reader.push(piece, take(&mut seen)).expect("we wrote it");
            rest = behind;
        }
        prop_assert_eq!(seen, items.clone());
        prop_assert_eq!(reader.pending(), 0);
        // The same holds byte by byte.
        let (mut reader, mut seen) = (self::reader(0), Vec::new());
        for byte in &bytes {
            reader.push(&[*byte], take(&mut seen)).expect("we wrote it");
        }
        prop_assert_eq!(seen, items);
    }

    #[test]
    fn no_bytes_panic_or_pile_up(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20), garbage_max in 0usize..3000) {
        let mut reader = reader(garbage_max);
        for piece in pieces {
            if reader.push(&piece, |_| {}).is_err() {
                break;
            }
            prop_assert!(reader.pending() <= HEADER_BYTES + 65_535);
        }
    }
}

#[test]
fn garbage_is_skipped_up_to_its_bound_and_counted_from_the_last_item_on() {
    let mut reader = reader(64);
    let mut seen = Vec::new();
    for _ in 0..3 {
        reader
            .push(&[0x80; 64], take(&mut seen))
            .expect("just the bound");
        reader
            .push(&bytes_of(&[ok()]), take(&mut seen))
            .expect("an item");
    }
    assert_eq!(seen, [ok(), ok(), ok()]);
    let error = reader.push(&[0x80; 65], |_| panic!("no item"));
    let error = error.expect_err("one byte too many");
    assert!(
        matches!(
            error,
            Error::Garbage {
                bytes: 65,
                first: 0x80
            }
        ),
        "{error}"
    );
}
