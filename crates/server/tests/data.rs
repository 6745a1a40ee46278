//! Data channels next to a stream, through the server: from the publisher of messages to the
//! viewers and back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glassline_config::{DataAccess, Secret};
use glassline_sctp::Reliability;
use glassline_sctp::channel::{ChannelId, Event, Init, Message, SendError};

use crate::peer::{Peer, SDP, SOON};
use crate::running::Running;
use crate::source::{Film, Source};

/// Longest time in ms that a message may wait, which no machine is too slow for.
const PATIENT_MS: u64 = 600_000;

fn running(shards: usize, access: DataAccess) -> Running {
    Running::with(shards, |config| {
        config.webrtc.data.viewers = access;
        config.webrtc.data.queue_ms = PATIENT_MS;
    })
}

/// Opens a channel and waits until it and its association are established.
pub(crate) fn open(peer: &mut Peer<'_>, label: &str, reliability: Reliability) -> ChannelId {
    let init = Init {
        label: label.to_owned(),
        reliability,
        ..Init::default()
    };
    let channels = peer.session.channels_mut().expect("data was agreed on");
    let channel = channels.open(init, Instant::now()).expect("room");
    let opened = |peer: &Peer<'_>| {
        let is =
            |event: &Event| matches!(event, Event::Opened { channel: it, .. } if *it == channel);
        peer.said.iter().any(is)
    };
    assert!(peer.run_until(SOON, opened), "{:?}", peer.events);
    channel
}

pub(crate) fn send(
    peer: &mut Peer<'_>,
    channel: ChannelId,
    message: Message,
) -> Result<(), SendError> {
    let channels = peer.session.channels_mut().expect("data");
    let sent = channels.send(channel, message, Instant::now());
    peer.drain();
    sent
}

pub(crate) fn got(peer: &Peer<'_>) -> Vec<Message> {
    let messages = peer.said.iter().filter_map(|event| match event {
        Event::Message { message, .. } => Some(message.clone()),
        _ => None,
    });
    messages.collect()
}

/// Runs all peers in turns until `done`.
pub(crate) fn until(
    peers: &mut [&mut Peer<'_>],
    mut done: impl FnMut(&[&mut Peer<'_>]) -> bool,
) -> bool {
    let end = Instant::now() + SOON;
    while Instant::now() < end {
        for peer in &mut *peers {
            peer.run_for(Duration::from_millis(2));
        }
        if done(peers) {
            return true;
        }
    }
    false
}

#[test]
fn messages_cross_between_the_publisher_and_viewers_of_all_shards() {
    let running = running(2, DataAccess::Write);
    let _source = Source::start(&running.stream(), Film::default());
    let mut publisher = Peer::data_publisher(&running).expect("answered");
    let telemetry = open(&mut publisher, "telemetry", Reliability::Reliable);
    let commands = open(&mut publisher, "commands", Reliability::Reliable);
    let mut viewers = [(); 4].map(|()| Peer::with_data(&running));
    for viewer in &mut viewers {
        viewer.await_media();
        open(viewer, "telemetry", Reliability::Reliable);
    }
    let frame = Message::binary((0..200_000).map(|at| at as u8).collect::<Vec<_>>());
    let wanted = [Message::text("speed 3 m/s"), frame, Message::text("")];
    for message in wanted.clone() {
        send(&mut publisher, telemetry, message).expect("open");
    }
    let [a, b, c, d] = &mut viewers;
    let mut all = [&mut publisher, a, b, c, d];
    let complete = until(&mut all, |all| {
        all[1..]
            .iter()
            .all(|viewer| got(viewer).len() == wanted.len())
    });
    assert!(complete, "not everybody got everything");
    for viewer in &all[1..] {
        assert!(got(viewer) == wanted, "the same, in order");
    }
    // Two of them answer; one of them on a channel that the publisher has not.
    let up = open(all[1], "commands", Reliability::Reliable);
    let nowhere = open(all[2], "elsewhere", Reliability::Reliable);
    send(all[1], up, Message::text("stop")).expect("open");
    send(all[2], nowhere, Message::text("lost")).expect("open");
    let received = until(&mut all, |all| {
        got(all[0]).len() == 1 && running.total("data_messages_dropped_total") == 1
    });
    assert!(received, "{:?}", all[0].said);
    assert_eq!(got(all[0]), [Message::text("stop")]);
    let on =
        |event: &Event| matches!(event, Event::Message { channel, .. } if *channel == commands);
    assert!(all[0].said.iter().any(on));
    let mut listed = Vec::new();
    let shown = until(&mut all, |_| {
        let json = running.admin("/api/v1/webrtc/viewers").json();
        listed = json["viewers"].as_array().expect("a list").clone();
        let has_got = |it: &serde_json::Value| it["data"]["messages_sent"] == 3;
        listed.len() == 4 && listed.iter().all(has_got)
    });
    assert!(shown, "{listed:?}");
    let publishers = running.admin("/api/v1/webrtc/data-publishers").json();
    assert_eq!(publishers["publishers"][0]["stream"], "cam", "{publishers}");
    let stream = running.get("/api/v1/streams/cam").json();
    assert_eq!(stream["viewers"], 4, "who publishes is no viewer");
    let sent = || running.total("data_messages_sent_total");
    assert!(until(&mut all, |_| sent() == 4 * 3 + 1), "{}", sent());
}

#[test]
fn media_and_messages_flow_beside_each_other_for_who_joins_later_and_after_a_reconnect() {
    let running = running(1, DataAccess::Read);
    let _source = Source::start(&running.stream(), Film::default());
    let mut publisher = Peer::data_publisher(&running).expect("answered");
    let once = Reliability::Limited { retransmissions: 0 };
    let telemetry = open(&mut publisher, "telemetry", once);
    send(&mut publisher, telemetry, Message::text("before")).expect("open");
    publisher.run_for(Duration::from_millis(100));
    let mut viewer = Peer::with_data(&running);
    viewer.await_media();
    let stands = |peer: &Peer<'_>| peer.said.contains(&Event::Connected);
    assert!(viewer.run_until(SOON, stands), "no association");
    viewer.run_for(Duration::from_millis(100));
    send(&mut publisher, telemetry, Message::text("now")).expect("open");
    assert!(until(&mut [&mut publisher, &mut viewer], |all| {
        !got(all[1]).is_empty()
    }));
    assert_eq!(got(&viewer), [Message::text("now")], "the past is over");
    let opened = viewer.said.iter().find_map(|event| match event {
        Event::Opened {
            channel,
            by_peer: true,
        } => Some(*channel),
        _ => None,
    });
    let channels = viewer.session.channels().expect("data");
    let like = channels.info(opened.expect("by the server")).expect("open");
    assert_eq!(
        (like.init.label.as_str(), like.init.reliability),
        ("telemetry", once)
    );

    // It comes back while its former session still stands, as after a change of network.
    let mut again = Peer::data_publisher(&running).expect("answered");
    let fresh = open(&mut again, "telemetry", once);
    send(&mut again, fresh, Message::text("I am back")).expect("open");
    let received = until(&mut [&mut publisher, &mut again, &mut viewer], |all| {
        got(all[2]).len() == 2 && !all[0].session.is_connected()
    });
    assert!(received, "{:?} {:?}", got(&viewer), publisher.events);
    assert_eq!(got(&viewer)[1], Message::text("I am back"));
    let opened = |event: &&Event| matches!(event, Event::Opened { .. });
    assert_eq!(
        viewer.said.iter().filter(opened).count(),
        1,
        "the same channel"
    );
    let frames = viewer.received.len();
    assert!(
        viewer.run_until(SOON, |peer| peer.received.len() > frames + 20),
        "media goes on"
    );
    drop(again);
}

#[test]
fn a_message_larger_than_announced_is_refused_and_ends_nothing_but_its_sender() {
    let running = Running::with(1, |config| {
        config.webrtc.data.viewers = DataAccess::Read;
        config.webrtc.data.message_kib = 32;
    });
    let _source = Source::start(&running.stream(), Film::default());
    let mut publisher = Peer::data_publisher(&running).expect("answered");
    let telemetry = open(&mut publisher, "telemetry", Reliability::Reliable);
    let mut viewer = Peer::with_data(&running);
    viewer.await_media();
    open(&mut viewer, "telemetry", Reliability::Reliable);
    let large = Message::binary(vec![1; 33 << 10]);
    let refused = send(&mut publisher, telemetry, large.clone());
    let limit = 32 << 10;
    assert!(
        matches!(refused, Err(SendError::TooLarge { limit: it, .. }) if it == limit),
        "{refused:?}"
    );
    // A publisher that exceeds the limit is cut off.
    let channels = publisher.session.channels_mut().expect("data");
    channels.set_peer_max_message_size(Some(0));
    send(&mut publisher, telemetry, large).expect("sent all the same");
    let ended = |all: &[&mut Peer<'_>]| {
        let is = |event: &Event| matches!(event, Event::Ended(_));
        all[0].said.iter().any(is)
    };
    assert!(
        until(&mut [&mut publisher, &mut viewer], ended),
        "{:?}",
        publisher.said
    );
    let frames = viewer.received.len();
    assert!(viewer.run_until(SOON, |peer| peer.received.len() > frames + 20));
    assert!(got(&viewer).is_empty());
    let mut again = Peer::data_publisher(&running).expect("answered");
    let telemetry = open(&mut again, "telemetry", Reliability::Reliable);
    send(&mut again, telemetry, Message::text("small")).expect("open");
    assert!(until(&mut [&mut again, &mut viewer], |all| !got(all[1])
        .is_empty()));
}

#[test]
fn a_viewer_that_takes_nothing_loses_its_channel_and_delays_nobody() {
    let running = Running::with(1, |config| {
        config.webrtc.data.viewers = DataAccess::Read;
        config.webrtc.data.queue_kib = 256;
        config.webrtc.data.queue_ms = PATIENT_MS;
    });
    let _source = Source::start(&running.stream(), Film::default());
    let mut publisher = Peer::data_publisher(&running).expect("answered");
    let log = open(&mut publisher, "log", Reliability::Reliable);
    let mut viewers = [(); 2].map(|()| Peer::with_data(&running));
    for viewer in &mut viewers {
        viewer.await_media();
        open(viewer, "log", Reliability::Reliable);
    }
    let [silent, listening] = &mut viewers;
    // More than its window, what is handed over and its queue hold together.
    for number in 1..=200 {
        send(&mut publisher, log, Message::binary(vec![0; 20_000])).expect("open");
        let arrived = until(&mut [&mut publisher, listening], |all| {
            got(all[1]).len() == number
        });
        assert!(arrived, "message {number}");
    }
    let counted = until(&mut [&mut publisher, listening], |_| {
        running.total("data_channels_closed_slow_total") == 1
            && running.total("data_messages_dropped_total") > 0
    });
    assert!(counted, "the channel of the silent viewer is closed");
    let closed = |peer: &Peer<'_>| {
        let is = |event: &Event| matches!(event, Event::Closed { .. });
        peer.said.iter().any(is)
    };
    // The server may have paused for the longest time between two repetitions, 10 s.
    assert!(silent.run_until(4 * SOON, closed), "it is told");
    assert!(got(silent).len() < 200);
    assert!(got(listening).len() == 200 && !closed(listening));
}

#[test]
fn messages_alone_need_no_media() {
    let running = running(1, DataAccess::Write);
    let mut publisher = Peer::data_publisher(&running).expect("answered");
    let telemetry = open(&mut publisher, "telemetry", Reliability::Reliable);
    let refused = Peer::of_stream(&running, "cam").err();
    refused.expect("there is nothing to be seen").problem(409);
    let mut viewer = Peer::with_data_alone(&running);
    let commands = open(&mut viewer, "telemetry", Reliability::Reliable);
    send(&mut viewer, commands, Message::text("slower")).expect("open");
    send(&mut publisher, telemetry, Message::text("speed 3 m/s")).expect("open");
    let both = until(&mut [&mut publisher, &mut viewer], |all| {
        all.iter().all(|peer| !got(peer).is_empty())
    });
    assert!(both, "{:?} {:?}", publisher.said, viewer.said);
    assert_eq!(got(&publisher), [Message::text("slower")]);
    assert_eq!(got(&viewer), [Message::text("speed 3 m/s")]);
}

#[test]
fn without_the_setting_there_are_no_channels() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let mut viewer = Peer::with_data(&running);
    assert!(viewer.session.channels().is_none());
    viewer.await_media();
    let refused = Peer::data_publisher(&running).err().expect("refused");
    let problem = refused.problem(404);
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(detail.contains("webrtc.data.viewers"), "{detail}");
}

#[test]
fn publishing_messages_takes_the_right_to_publish() {
    let running = Running::with(1, |config| {
        config.webrtc.data.viewers = DataAccess::Read;
        config.auth.publish_token = Secret::new("swordfish-1234").ok();
    });
    let post = |path: &str, more: &[(&str, &str)]| {
        running.request("POST", path, &[&[SDP], more].concat(), "v=0\r\n")
    };
    post("/cam/whip", &[]).problem(401);
    post("/cam/whip?token=wrong", &[]).problem(401);
    let bearer = ("Authorization", "Bearer swordfish-1234");
    // The request passes the check of rights and is refused for its content.
    post("/cam/whip", &[bearer]).problem(400);
    post("/cam/whip?token=swordfish-1234", &[]).problem(400);
    let open = self::running(1, DataAccess::Read);
    let from_page = |origin| {
        let headers = [SDP, ("Origin", origin)];
        open.request("POST", "/cam/whip", &headers, "v=0\r\n")
    };
    from_page("https://elsewhere.example").problem(403);
    from_page("null").problem(403);
    // A name that resolves to this address need not be the server's own.
    from_page("http://test").problem(403);
    let by_hand = open.request("POST", "/cam/whip", &[SDP], "v=0\r\n");
    by_hand.problem(400);
}

#[test]
fn an_offer_with_media_is_not_answered_without_it() {
    let running = running(1, DataAccess::Read);
    let offer = "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n\
        m=video 9 UDP/TLS/RTP/SAVPF 96\r\nc=IN IP4 0.0.0.0\r\na=sendonly\r\n";
    let refused = running.request("POST", "/cam/whip", &[SDP], offer);
    let problem = refused.problem(422);
    assert!(
        problem["detail"]
            .as_str()
            .expect("text")
            .contains("no codec in common")
    );
    assert!(running.hub().stream("cam").is_none(), "nothing was made");
}

/// Sends the numbers from 0 up, one every few milliseconds, until `ends` is set.
fn count_up(publisher: &mut Peer<'_>, log: ChannelId, ends: &AtomicBool) -> u32 {
    let mut number = 0u32;
    while !ends.load(Ordering::Relaxed) {
        let message = Message::binary(number.to_be_bytes().to_vec());
        send(publisher, log, message).expect("open");
        number += 1;
        publisher.run_for(Duration::from_millis(5));
    }
    publisher.run_for(Duration::from_millis(200));
    number
}

/// Fewer than three of them lead to another of four shards once in half a billion runs.
const MOVES_TRIED_MAX: usize = 20;

#[test]
fn a_viewer_that_moves_between_shards_misses_nothing_on_a_channel_that_stays() {
    let running = running(4, DataAccess::Read);
    let _source = Source::start(&running.stream(), Film::default());
    let mut publisher = Peer::data_publisher(&running).expect("answered");
    let log = open(&mut publisher, "log", Reliability::Reliable);
    let mut viewer = Peer::with_data(&running);
    viewer.await_media();
    let ends = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let counting = scope.spawn(|| count_up(&mut publisher, log, &ends));
        // One port in four leads back to the same shard.
        for _ in 0..MOVES_TRIED_MAX {
            if running.total("viewer_moves_total") >= 3 {
                break;
            }
            // The path was confirmed by the last move: let the hold pass.
            viewer.run_for(Duration::from_millis(950));
            viewer.change_port();
            assert!(viewer.nominate(SOON), "no media at the new address");
        }
        viewer.run_for(Duration::from_millis(500));
        ends.store(true, Ordering::Relaxed);
        counting.join().expect("no panic")
    });
    assert!(running.total("viewer_moves_total") >= 3);
    let last = |peer: &Peer<'_>| got(peer).last().map(number_in) == Some(sent - 1);
    assert!(viewer.run_until(SOON, last), "{:?}", got(&viewer).last());
    // On each channel one after the other; between two, where one was closed, a gap.
    let mut before: HashMap<ChannelId, u32> = HashMap::new();
    for event in &viewer.said {
        if let Event::Message { channel, message } = event {
            let number = number_in(message);
            let expected = before.insert(*channel, number).map(|before| before + 1);
            assert!(
                expected.is_none_or(|it| it == number),
                "{expected:?}: {number}"
            );
        }
    }
    let closed = running.total("data_channels_closed_slow_total");
    assert!(before.len() as u64 <= closed + 1);
}

fn number_in(message: &Message) -> u32 {
    let bytes = message.data.as_ref().try_into();
    u32::from_be_bytes(bytes.expect("four bytes"))
}
