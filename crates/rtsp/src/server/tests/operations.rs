//! Random operations: whatever a client does in whatever order, and whatever the
//! owner says, the connection's promises hold.

use proptest::prelude::*;

use super::*;

/// An operation of a client or of the owner.
#[derive(Clone, Debug)]
enum Operation {
    Ask {
        method: usize,
        uri: usize,
        transport: usize,
        named: bool,
    },
    Frame(u8),
    Garbage(Vec<u8>),
    Answer(usize),
    Wait(u32),
    Read(usize),
}

const METHODS: [&str; 11] = [
    "OPTIONS",
    "DESCRIBE",
    "SETUP",
    "SETUP",
    "SETUP",
    "PLAY",
    "PAUSE",
    "TEARDOWN",
    "ANNOUNCE",
    "RECORD",
    "GET_PARAMETER",
];
const URIS: [&str; 7] = [
    CAM,
    "rtsp://192.0.2.1:8554/cam/trackID=0",
    "rtsp://192.0.2.1:8554/cam/trackID=1",
    "rtsp://192.0.2.1:8554/new",
    "rtsp://192.0.2.1:8554/new/a",
    "rtsp://192.0.2.1:8554/new/b",
    "*",
];
const TRANSPORTS: [&str; 5] = [
    "RTP/AVP/TCP;unicast;interleaved=0-1",
    "RTP/AVP/TCP;unicast",
    "RTP/AVP;unicast;client_port=5000-5001",
    "RTP/AVP;multicast",
    "RTP/AVP/TCP;mode=record",
];
const NEW: &str =
    "v=0\r\nm=video 0 RTP/AVP 96\r\na=control:a\r\nm=audio 0 RTP/AVP 0\r\na=control:b\r\n";

fn operation() -> impl Strategy<Value = Operation> {
    let ask = (
        0..METHODS.len(),
        0..URIS.len(),
        0..TRANSPORTS.len(),
        any::<bool>(),
    );
    let ask = ask.prop_map(|(method, uri, transport, named)| Operation::Ask {
        method,
        uri,
        transport,
        named,
    });
    prop_oneof![
        20 => ask,
        4 => (0u8..6).prop_map(Operation::Frame),
        1 => prop::collection::vec(any::<u8>(), 0..9).prop_map(Operation::Garbage),
        14 => (0usize..10).prop_map(Operation::Answer),
        2 => (0u32..40_000).prop_map(Operation::Wait),
        4 => (0usize..4000).prop_map(Operation::Read),
    ]
}

/// Returns an answer of the owner, mostly a correct one.
fn answer(owner: &mut Owner, event: &Event, choice: usize) -> Option<(RequestId, Answer)> {
    let (id, right) = owner.answer(event)?;
    Some((
        id,
        match choice {
            6 => Answer::Refused(Refusal::Unauthorized),
            7 => Answer::Refused(Refusal::NotFound),
            8 => Answer::Recording,
            9 => Answer::Moved {
                location: "rtsp://192.0.2.2/cam".to_owned(),
            },
            _ => right,
        },
    ))
}

fn check(client: &ScriptedClient, waiting: usize) {
    let connection = &client.connection;
    let tracks = connection.tracks();
    assert_eq!(
        connection.state() == State::Init,
        connection.session().is_none()
    );
    assert!(connection.transmit().len() < 80_000);
    assert!(waiting <= 1, "one question at a time");
    let mut channels: Vec<u8> = Vec::new();
    for (index, set_up) in tracks.iter().enumerate() {
        assert!(
            tracks[..index]
                .iter()
                .all(|other| other.track != set_up.track),
            "{tracks:?}"
        );
        if let SelectedTransport::Interleaved {
            channels: (rtp, rtcp),
        } = set_up.transport
        {
            channels.extend([rtp, rtcp]);
        }
    }
    let count = channels.len();
    channels.sort_unstable();
    channels.dedup();
    assert_eq!(channels.len(), count, "a channel is of one track");
    if connection.is_closed() {
        assert_eq!(connection.poll_timeout(), None);
    }
}

/// Numbers of the responses in `bytes`, which must be nothing else.
fn answered(bytes: &[u8]) -> Vec<Option<u32>> {
    let mut reader = Reader::new(Demultiplexer::new(message::Limits::default(), 0));
    let mut numbers = Vec::new();
    let read = reader.push(bytes, |item| match item {
        Item::Message(Message::Response(response)) => numbers.push(response.headers.cseq()),
        other => panic!("{other:?}"),
    });
    assert_eq!(read, Ok(()));
    numbers
}

proptest! {
    #[test]
    fn promises_hold_whatever_happens(operations in prop::collection::vec(operation(), 1..120)) {
        let mut client = ScriptedClient::open();
        let mut open: Option<Event> = None;
        let mut sent = Vec::new();
        let (mut cseq, mut ends) = (0, 0);
        for operation in operations {
            match operation {
                Operation::Ask { method, uri, transport, named } => {
                    cseq += 1;
                    let start = format!("{} {}", METHODS[method], URIS[uri]);
                    let request = request(&client, cseq, &start, TRANSPORTS[transport], named);
                    client.feed_unanswered(request.as_bytes());
                }
                Operation::Frame(channel) => client.feed_unanswered(&[b'$', channel, 0, 1, 9]),
                Operation::Garbage(bytes) => client.feed_unanswered(&bytes),
                Operation::Answer(choice) => {
                    if let Some(event) = open.take()
                        && let Some((id, answer)) = answer(&mut client.owner, &event, choice)
                    {
                        client.connection.answer(client.now, id, answer);
                    }
                }
                Operation::Wait(ms) => {
                    client.now += MS * ms;
                    client.connection.handle_timeout(client.now);
                }
                Operation::Read(bytes) => {
                    let text = client.connection.transmit();
                    let bytes = bytes.min(text.len());
                    sent.extend_from_slice(&text[..bytes]);
                    client.connection.advance(bytes);
                }
            }
            let mut waiting = usize::from(open.is_some());
            while let Some(event) = client.connection.poll_event() {
                prop_assert_eq!(ends, 0, "{:?} after the end", event);
                match event {
                    Event::Closed(_) => {
                        ends += 1;
                        open = None;
                        waiting = 0;
                    }
                    Event::TearDown { .. } => {}
                    question => {
                        waiting += 1;
                        open = Some(question);
                    }
                }
            }
            check(&client, waiting);
        }
        prop_assert_eq!(ends == 1, client.connection.is_closed());
        sent.extend_from_slice(client.connection.transmit());
        let numbers = answered(&sent);
        let whole: Vec<u32> = numbers.iter().copied().flatten().collect();
        let in_order = whole.is_sorted_by(|one, next| one < next);
        prop_assert!(in_order, "once and in order: {:?}", whole);
        prop_assert!(numbers.len() - whole.len() <= 1, "one response without a request: {:?}", numbers);
        prop_assert!(whole.last().is_none_or(|&last| last <= cseq));
    }
}

fn request(
    client: &ScriptedClient,
    cseq: u32,
    start: &str,
    transport: &str,
    named: bool,
) -> String {
    let mut headers = format!("Transport: {transport}\r\nContent-Type: application/sdp");
    if let Some(id) = client.connection.session().filter(|_| named) {
        headers += &format!("\r\nSession: {id}");
    }
    let body = if start.starts_with("ANNOUNCE") {
        NEW
    } else {
        ""
    };
    written(cseq, start, &headers, body)
}
