//! RTSP over HTTP: base64 cut anywhere decodes to the same bytes, and a tunnel that
//! carries anything ends at most once.

use std::sync::Arc;
use std::time::Instant;

use glassline_rtsp::server::{Answer, Config, Connection, Endpoints, Event, Refusal};
use glassline_rtsp::tunnel::Decoder;

pub(crate) fn run(bytes: &[u8]) {
    let Some((&cut, bytes)) = bytes.split_first() else {
        return;
    };
    let cut = usize::from(cut).max(1);
    let whole = decoded(bytes, bytes.len().max(1));
    assert_eq!(decoded(bytes, cut), whole, "cut every {cut} bytes");
    assert!(whole.0.len() <= bytes.len() / 4 * 3 + 3);

    // As the first bytes of a connection, as what comes behind a GET, and as what
    // the other connection of a tunnel brings.
    open(&[], bytes, cut, false);
    let get = b"GET / HTTP/1.0\r\nx-sessioncookie: 1\r\n\r\n";
    open(get, bytes, cut, false);
    open(get, bytes, cut, true);
}

/// The decoded bytes, and whether all of the input is base64.
fn decoded(bytes: &[u8], cut: usize) -> (Vec<u8>, bool) {
    let (mut decoder, mut out) = (Decoder::default(), Vec::new());
    for piece in bytes.chunks(cut) {
        if decoder.decode(piece, &mut out).is_err() {
            return (out, false);
        }
    }
    (out, true)
}

fn open(first: &[u8], bytes: &[u8], cut: usize, tunnelled: bool) {
    let now = Instant::now();
    let endpoints = Endpoints {
        peer: ([192, 0, 2, 7], 4000).into(),
        local: ([192, 0, 2, 1], 8554).into(),
        secure: false,
    };
    let mut connection = Connection::new(Arc::new(Config::default()), endpoints, [7; 32], now);
    connection.handle_data(now, first, |_| {});
    let mut ends = 0;
    for piece in bytes.chunks(cut) {
        if tunnelled {
            connection.handle_tunnel_data(now, piece, |_| {});
        } else {
            connection.handle_data(now, piece, |_| {});
        }
        while let Some(event) = connection.poll_event() {
            assert_eq!(ends, 0, "{event:?} after the end");
            match event {
                Event::Closed(_) => ends += 1,
                Event::Authorize { id, .. } => {
                    let refused = Answer::Refused(Refusal::Unauthorized);
                    connection.answer(now, id, refused);
                }
                Event::TunnelPost { cookie, rest } => {
                    assert!(!cookie.is_empty() && rest.len() <= bytes.len());
                }
                Event::TunnelGet { cookie } => assert!(!cookie.is_empty()),
                _ => {}
            }
        }
        connection.advance(connection.transmit().len());
    }
}
