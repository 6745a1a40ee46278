//! HTTP/2, frame by frame (RFC 9113 §4.1).

use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:status: 200` of HPACK's static table (RFC 7541 appendix A), indexed.
const STATUS_200: u8 = 0x88;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Begins a connection; `settings` are pairs of identifier and value.
fn preface(settings: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (name, value) in settings {
        payload.extend(name.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    let mut bytes = PREFACE.to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &payload));
    bytes
}

/// A request whose body follows unless `flags` say otherwise.
fn request(stream: u32, flags: u8, path: &str) -> Vec<u8> {
    let method = if flags & END_STREAM == 0 { 0x83 } else { 0x82 };
    // `:method` and `:scheme: https` indexed, `:authority` and `:path` as literals.
    let mut block = vec![method, 0x87, 0x01, 1, b'a', 0x04];
    block.push(u8::try_from(path.len()).expect("short"));
    block.extend(path.as_bytes());
    frame(HEADERS, flags | END_HEADERS, stream, &block)
}

fn cancel(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())
}

impl Served {
    fn http2(deadlines: Deadlines, settings: &[(u16, u32)]) -> Self {
        serve_version(Version::Http2, deadlines, &preface(settings))
    }

    fn send_frame(&mut self, bytes: &[u8]) {
        self.client.write_all(bytes).expect("it takes it");
    }

    /// Returns type, stream and payload of the next frame; `None` at the end.
    fn frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.client.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        self.client.read_exact(&mut payload).ok()?;
        Some((head[3], stream, payload))
    }

    /// Returns the next frame of this type, and its stream.
    fn frame_of(&mut self, kind: u8) -> Option<(u32, Vec<u8>)> {
        loop {
            match self.frame()? {
                (found, stream, payload) if found == kind => return Some((stream, payload)),
                _ => {}
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_http2_are_answered_side_by_side() {
    let mut served = Served::http2(NO_DEADLINES, &[]);
    let (late, soon) = (request(1, END_STREAM, "/late"), request(3, END_STREAM, "/"));
    served.send_frame(&[late, soon].concat());
    let (first, head) = served.frame_of(HEADERS).expect("an answer");
    assert_eq!(
        (first, head[0]),
        (3, STATUS_200),
        "the other one takes longer"
    );
    assert_eq!(served.frame_of(HEADERS).expect("an answer").0, 1);
    assert_eq!(
        served.frame_of(DATA).expect("a body"),
        (1, b"late".to_vec())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_canceled_requests_ends_the_connection() {
    let mut served = Served::http2(NO_DEADLINES, &[]);
    let mut flood = Vec::new();
    for stream in (1..4_000).step_by(2) {
        flood.extend(request(stream, END_STREAM, "/late"));
        flood.extend(cancel(stream));
    }
    // The server may end the connection before all of it is sent.
    let _ = served.client.write_all(&flood);
    let ended = tokio::time::timeout(PATIENCE, &mut served.task).await;
    ended.expect("it ends").expect("no panic");
    let mut open = 0;
    while served.activity.has_request() {
        open += 1;
        assert!(open < 1_000, "a request goes on without its connection");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_canceled_while_they_are_worked_on_end_the_connection_too() {
    const AT_ONCE: u32 = 60;
    let mut served = Served::http2(NO_DEADLINES, &[]);
    // Far more than are allowed in the time that this takes on a slow machine.
    for round in 0..20 {
        let first = round * 2 * (AT_ONCE + 1) + 1;
        let last = first + 2 * AT_ONCE;
        let canceled = (first..last).step_by(2);
        let mut begun: Vec<u8> = canceled
            .clone()
            .flat_map(|stream| request(stream, END_STREAM, "/never"))
            .collect();
        begun.extend(request(last, END_STREAM, "/"));
        // The answer to the last says that the server works on the others, too.
        if served.client.write_all(&begun).is_err() || served.frame_of(HEADERS).is_none() {
            break;
        }
        let cancels: Vec<u8> = canceled.flat_map(cancel).collect();
        if served.client.write_all(&cancels).is_err() {
            break;
        }
    }
    assert_eq!(served.closed().await, Closed::Cancels);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_a_closed_window_is_closed() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let deadlines = Deadlines {
        write: SOON,
        ..NO_DEADLINES
    };
    let mut served = Served::http2(deadlines, &[(INITIAL_WINDOW_SIZE, 0)]);
    served.send_frame(&request(1, END_STREAM, "/"));
    assert_eq!(served.closed().await, Closed::Stalled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_makes_room() {
    let mut served = Served::http2(NO_DEADLINES, &[]);
    served.send_frame(&request(1, 0, "/body"));
    let began = Instant::now();
    let rank = |served: &Served| served.activity.rank();
    let half_open = super::super::super::eviction_rank::EvictionRank::HalfOpen;
    while !served.activity.has_request() || rank(&served) != half_open {
        assert!(began.elapsed() < PATIENCE, "{:?}", rank(&served));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    served.send_frame(&frame(DATA, END_STREAM, 1, b"whole"));
    assert_eq!(served.frame_of(DATA).expect("a body").1, b"5");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_request_is_closed_at_the_header_deadline() {
    let deadlines = Deadlines {
        header: SOON,
        ..NO_DEADLINES
    };
    let served = Served::http2(deadlines, &[]);
    assert_eq!(served.closed().await, Closed::Header);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_client_is_told_that_the_connection_ends() {
    let deadlines = Deadlines {
        idle: SOON,
        ..NO_DEADLINES
    };
    let mut served = Served::http2(deadlines, &[]);
    served.send_frame(&request(1, END_STREAM, "/"));
    served.frame_of(HEADERS).expect("an answer");
    served.frame_of(GOAWAY).expect("a farewell");
    drop(served.client);
    assert_eq!(served.task.await.expect("no panic"), Closed::Idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_of_any_size_is_not_kept() {
    let mut served = Served::http2(NO_DEADLINES, &[]);
    let long = [vec![0x00, 1, b'x', 0x7f, 0x81, 0x7f], vec![b'a'; 16_000]].concat();
    let mut head = request(1, END_STREAM, "/");
    head[4] = END_STREAM;
    let mut flood = head;
    const CONTINUATION: u8 = 9;
    for _ in 0..64 {
        flood.extend(frame(CONTINUATION, 0, 1, &long));
    }
    // The server may end the connection before all of it is sent.
    let _ = served.client.write_all(&flood);
    while served.frame().is_some() {}
    assert!(!served.activity.has_request(), "it was answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_http2_ends_when_the_server_drains() {
    let mut between_two = Served::http2(NO_DEADLINES, &[]);
    between_two.send_frame(&request(1, END_STREAM, "/"));
    between_two.frame_of(HEADERS).expect("an answer");
    between_two.drain();
    let mut newcomer = Served::http2(NO_DEADLINES, &[]);
    newcomer.drain();
    newcomer.send_frame(&request(1, END_STREAM, "/late"));
    for served in [&mut between_two, &mut newcomer] {
        served.frame_of(GOAWAY).expect("a farewell");
    }
    newcomer.frame_of(HEADERS).expect("an answer");
}
