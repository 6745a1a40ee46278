//! RTSP: any stream, cut anywhere, gives the same items; messages that parse are
//! written and parsed again to the same; headers and descriptions likewise; and a
//! client that hears anything ends at most once.

use std::time::{Duration, Instant};

use glassline_media::{NtpTime, TrackIndex};
use glassline_rtsp::auth::{Authorization, Challenge};
use glassline_rtsp::client::{Client, Config, Event, RequestedTransport};
use glassline_rtsp::interleaved::{Demultiplexer, Item, Reader};
use glassline_rtsp::message::{Limits, Message, Parsed, parse};
use glassline_rtsp::mikey::Keys;
use glassline_rtsp::range::Range;
use glassline_rtsp::sdp::Description;
use glassline_rtsp::session::Session;
use glassline_rtsp::transport::Transport;
use glassline_rtsp::{Headers, rtp_info};

pub(crate) fn run(bytes: &[u8]) {
    // The first byte says where to cut.
    let Some((&cut, bytes)) = bytes.split_first() else {
        return;
    };
    let cut = usize::from(cut).max(1);
    // Without garbage to pass over: where that ends depends on what is there yet.
    let whole = items(bytes, bytes.len().max(1));
    let pieces = items(bytes, cut);
    assert_eq!(whole.0, pieces.0, "cut every {cut} bytes");
    assert_eq!(whole.1, pieces.1, "cut every {cut} bytes");
    for message in whole.0.iter().flatten() {
        read_headers(message.headers());
    }
    if let Ok(mut description) = Description::parse(bytes) {
        description.resolve("rtsp://host/stream");
        let chosen = description.choose(|_| true);
        assert!(chosen.tracks.len() <= 2);
        for (track, media) in description.back_channels() {
            assert_eq!(&description.tracks[track.get()], media);
        }
        assert!(
            description
                .tracks
                .iter()
                .all(|media| media.control.is_some())
        );
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let mut headers = Headers::new();
        for name in [
            "Transport",
            "Range",
            "RTP-Info",
            "Session",
            "WWW-Authenticate",
            "KeyMgmt",
        ] {
            headers.push(name, text);
        }
        headers.push("Authorization", text);
        read_headers(&headers);
    }
    listen(bytes, cut);
}

/// The items that a reader makes of the stream, a frame as channel and payload, and whether it could
/// follow to the end.
type Items = (Vec<Result<Message, (u8, Vec<u8>)>>, bool);

fn items(bytes: &[u8], cut: usize) -> Items {
    let mut reader = Reader::new(Demultiplexer::new(Limits::default(), 0));
    let mut items = Vec::new();
    for piece in bytes.chunks(cut) {
        let read = reader.push(piece, |item| {
            items.push(match item {
                Item::Message(message) => Ok(message),
                Item::Frame { channel, payload } => Err((channel, payload.to_vec())),
            });
        });
        if read.is_err() {
            return (items, false);
        }
    }
    for message in items.iter().flatten() {
        let mut written = Vec::new();
        message.write(&mut written);
        let Ok(Parsed::Message(again, consumed)) = parse(&written, &Limits::default()) else {
            // Replacement characters are longer than what they replace.
            assert!(written.len() > 4096, "cannot read what we wrote");
            continue;
        };
        assert_eq!(consumed, written.len());
        let mut rewritten = Vec::new();
        again.write(&mut rewritten);
        assert_eq!(rewritten, written);
    }
    (items, true)
}

fn read_headers(headers: &Headers) {
    for text in headers.get_all("Transport") {
        for transport in Transport::parse_list(text) {
            assert_eq!(Transport::parse_list(&transport.to_string()), [transport]);
        }
    }
    for text in headers.get_all("Range") {
        if let Some(range) = Range::parse(text) {
            assert_eq!(Range::parse(&range.to_string()), Some(range));
        }
    }
    headers.get_all("RTP-Info").for_each(|text| {
        rtp_info::parse(text);
    });
    for text in headers.get_all("Session") {
        if let Some(session) = Session::parse(text) {
            assert_eq!(Session::parse(&session.to_string()), Some(session));
        }
    }
    for challenge in Challenge::parse_all(headers) {
        let mut again = Headers::new();
        again.push("WWW-Authenticate", &challenge.to_string());
        assert_eq!(Challenge::parse_all(&again).len(), 1);
    }
    for text in headers.get_all("KeyMgmt") {
        if let Some(Ok(keys)) = Keys::from_header(text) {
            let again = keys.to_base64(NtpTime(0), &[0; 16]);
            assert_eq!(Keys::from_base64(&again), Ok(keys));
        }
    }
    for text in headers.get_all("Authorization") {
        if let Some(authorization) = Authorization::parse(text) {
            Authorization::parse(&authorization.to_string()).expect("we wrote it");
        }
    }
}

fn listen(bytes: &[u8], cut: usize) {
    let url = "rtsp://user:password@host/stream".parse().expect("a URL");
    let mut client = Client::new(Config::new(url, [7; 32]));
    let mut now = Instant::now();
    client.start(now);
    let mut ends = 0;
    for piece in bytes.chunks(cut.max(16)) {
        client.handle_data(now, piece, |frame| assert!(frame.payload.len() <= 65_535));
        while let Some(event) = client.poll_event() {
            match event {
                Event::Described(description) => {
                    let udp = RequestedTransport::Udp { ports: (2, 3) };
                    let transports = [RequestedTransport::Interleaved, udp].into_iter().cycle();
                    let tracks = TrackIndex::first(description.tracks.len());
                    let tracks: Vec<_> = tracks.zip(transports).collect();
                    client.set_up(now, &tracks);
                }
                Event::Closed(_) => ends += 1,
                _ => {}
            }
        }
        now += Duration::from_secs(1);
        if client.poll_timeout().is_some_and(|at| at <= now) {
            client.handle_timeout(now);
        }
        client.advance(client.output().len() / 2);
        if client.may_reopen() {
            client.reopen(now);
        }
    }
    assert!(ends <= 1);
}
