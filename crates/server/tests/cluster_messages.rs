//! Messages beside a stream that one server pulls from another: from the publisher to viewers of the
//! other server, and back.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use glassline_config::{Config, DataAccess};
use glassline_sctp::Reliability;
use glassline_sctp::channel::{ChannelId, ClosedBy, Event, Init, Message};

use crate::cluster::{Path, node_with};
use crate::data::{got, open, send, until};
use crate::peer::{Peer, SOON};
use crate::running::Running;
use crate::source::{Film, Source};

/// Longest time in ms that a message may wait, which no machine is too slow for.
const PATIENT_MS: u64 = 600_000;

fn patient(config: &mut Config) {
    config.webrtc.data.viewers = DataAccess::Write;
    config.webrtc.data.queue_ms = PATIENT_MS;
}

/// A server called `name` with data channels that pulls from `origins`.
fn node(name: &str, origins: &[&Running]) -> Running {
    let origins: Vec<_> = origins.iter().map(|it| (it.quic(), *it)).collect();
    node_with(name, &origins, patient)
}

/// A publisher of messages beside the stream of `running`, with its channels for telemetry and commands.
fn publisher(running: &Running) -> (Peer<'_>, ChannelId) {
    let mut publisher = Peer::data_publisher(running).expect("answered");
    let telemetry = open(&mut publisher, "telemetry", Reliability::Reliable);
    open(&mut publisher, "commands", Reliability::Reliable);
    (publisher, telemetry)
}

/// A viewer with a channel for commands, which opens none for telemetry.
fn viewer(running: &Running) -> (Peer<'_>, ChannelId) {
    let mut viewer = Peer::with_data(running);
    viewer.await_media();
    let commands = open(&mut viewer, "commands", Reliability::Reliable);
    (viewer, commands)
}

fn text(text: &str) -> Message {
    Message::text(text)
}

/// Sends `word` from the second peer, and waits until the first one has it: from then on messages pass.
fn connect(peers: &mut [&mut Peer<'_>], commands: ChannelId, word: &str) {
    send(peers[1], commands, text(word)).expect("open");
    let arrived = until(peers, |peers| got(peers[0]).contains(&text(word)));
    assert!(arrived, "{:?}", got(peers[0]));
}

/// Messages that are dropped by a server, between servers and by data channels.
fn dropped(running: &Running) -> u64 {
    running.total("cluster_messages_dropped_total") + running.total("data_messages_dropped_total")
}

#[test]
fn messages_cross_one_and_two_servers_in_order_and_viewers_answer() {
    let origin = node("origin", &[]);
    let _source = Source::start(&origin.stream(), Film::default());
    let middle = node("middle", &[&origin]);
    let edge = node("edge", &[&middle]);
    let (mut publisher, telemetry) = publisher(&origin);
    let (mut near, near_commands) = viewer(&middle);
    let (mut far, far_commands) = viewer(&edge);
    connect(&mut [&mut publisher, &mut near], near_commands, "near");
    connect(&mut [&mut publisher, &mut far], far_commands, "far");
    let large = Message::binary((0..200_000).map(|at| at as u8).collect::<Vec<_>>());
    let mut wanted = vec![
        text("speed 3 m/s"),
        large,
        text(""),
        Message::binary(vec![]),
    ];
    wanted.extend((0..300).map(|number| text(&number.to_string())));
    for message in wanted.clone() {
        send(&mut publisher, telemetry, message).expect("open");
    }
    let mut all = [&mut publisher, &mut near, &mut far];
    let complete = until(&mut all, |all| {
        all[1..].iter().all(|it| got(it).len() >= wanted.len())
    });
    assert!(
        complete,
        "{:?}",
        all[1..].iter().map(|it| got(it).len()).collect::<Vec<_>>()
    );
    for viewer in &all[1..] {
        assert!(got(viewer) == wanted, "the same, in order");
    }
    for number in 0..50 {
        send(all[2], far_commands, text(&format!("turn {number}"))).expect("open");
    }
    let answered = until(&mut all, |all| got(all[0]).len() >= 52);
    assert!(answered, "{:?}", got(all[0]));
    let turns: Vec<_> = (0..50).map(|it| text(&format!("turn {it}"))).collect();
    assert_eq!(got(all[0])[2..], turns);
    let count = wanted.len() as u64;
    for (server, sent, received) in [
        (&origin, count, 52),
        (&middle, count + 52, count + 51),
        (&edge, 51, count),
    ] {
        let total = |name: &str| server.total(name);
        assert_eq!(total("cluster_messages_sent_total"), sent);
        assert_eq!(total("cluster_messages_received_total"), received);
        assert_eq!(dropped(server), 0);
    }
}

#[test]
fn a_channel_at_another_server_has_the_publishers_parameters_and_closes_with_it() {
    let origin = node("origin", &[]);
    let _source = Source::start(&origin.stream(), Film::default());
    let edge = node("edge", &[&origin]);
    let (mut publisher, _) = publisher(&origin);
    let wanted = Init {
        label: "pose".to_owned(),
        protocol: "cbor".to_owned(),
        ordered: false,
        reliability: Reliability::Limited { retransmissions: 2 },
        ..Init::default()
    };
    let channels = publisher.session.channels_mut().expect("data");
    let pose = channels.open(wanted.clone(), Instant::now()).expect("room");
    let (mut viewer, commands) = viewer(&edge);
    let mut all = [&mut publisher, &mut viewer];
    connect(&mut all, commands, "here");
    send(all[0], pose, text("1 2 3")).expect("open");
    assert!(until(&mut all, |all| got(all[1]) == [text("1 2 3")]));
    let ours = all[1].said.iter().find_map(|event| match event {
        Event::Opened {
            channel,
            by_peer: true,
        } => Some(*channel),
        _ => None,
    });
    let ours = ours.expect("the server opened one");
    let channels = all[1].session.channels_mut().expect("data");
    assert_eq!(channels.info(ours).expect("open").init, wanted);
    let channels = all[0].session.channels_mut().expect("data");
    channels.close(pose, Instant::now());
    let closes = |event: &Event| matches!(event, Event::Closed { channel, by: ClosedBy::Peer } if *channel == ours);
    assert!(
        until(&mut all, |all| all[1].said.iter().any(closes)),
        "{:?}",
        all[1].said
    );
}

#[test]
fn a_pull_for_viewers_without_data_channels_brings_no_messages() {
    let origin = node("origin", &[]);
    let _source = Source::start(&origin.stream(), Film::default());
    let edge = node("edge", &[&origin]);
    let (mut publisher, telemetry) = publisher(&origin);
    let mut deaf = Peer::of_stream(&edge, crate::running::STREAM).expect("answered");
    deaf.await_media();
    for number in 0..20 {
        send(&mut publisher, telemetry, text(&number.to_string())).expect("open");
    }
    until(&mut [&mut publisher, &mut deaf], |_| {
        origin.total("data_messages_received_total") == 20
    });
    assert_eq!(origin.total("cluster_messages_sent_total"), 0);
    // With the first viewer that takes messages they come, and with its end they end.
    let (mut viewer, commands) = viewer(&edge);
    connect(&mut [&mut publisher, &mut viewer], commands, "here");
    send(&mut publisher, telemetry, text("now")).expect("open");
    let mut all = [&mut publisher, &mut deaf, &mut viewer];
    assert!(until(&mut all, |all| got(all[2]) == [text("now")]));
    assert_eq!(origin.total("cluster_messages_sent_total"), 1);
    viewer.delete();
    let totals = || {
        [
            "data_messages_received_total",
            "cluster_messages_sent_total",
        ]
        .map(|it| origin.total(it))
    };
    let end = Instant::now() + SOON;
    loop {
        let [received, sent] = totals();
        send(&mut publisher, telemetry, text("later")).expect("open");
        let peers = &mut [&mut publisher, &mut deaf];
        assert!(until(peers, |_| totals()[0] > received));
        publisher.run_for(Duration::from_millis(50));
        if totals()[1] == sent {
            break;
        }
        assert!(
            Instant::now() < end,
            "messages go on though nobody needs them"
        );
    }
}

/// The servers `lost`, by a path that can be cut, and `other` have the stream, and `edge` pulls it.
fn two_origins<'a>(lost: &'a Running, other: &'a Running) -> (Running, Path) {
    let path = Path::to(lost.quic());
    let origins: [(SocketAddr, &Running); 2] = [(path.address, lost), (other.quic(), other)];
    (node_with("edge", &origins, patient), path)
}

#[test]
fn viewers_get_the_messages_of_the_publisher_at_the_next_server_and_nothing_twice() {
    let (lost, other) = (node("lost", &[]), node("other", &[]));
    let _sources = [&lost, &other].map(|it| Source::start(&it.stream(), Film::default()));
    let (edge, path) = two_origins(&lost, &other);
    let (mut first, first_telemetry) = publisher(&lost);
    let (mut second, second_telemetry) = publisher(&other);
    let (mut viewer, commands) = viewer(&edge);
    connect(&mut [&mut first, &mut viewer], commands, "here");
    for number in 0..20 {
        let [one, two] = ["first", "second"].map(|who| text(&format!("{who} {number}")));
        send(&mut first, first_telemetry, one).expect("open");
        send(&mut second, second_telemetry, two).expect("open");
    }
    let mut all = [&mut first, &mut viewer, &mut second];
    assert!(until(&mut all, |all| got(all[1]).len() == 20));
    path.cut();
    let mut number = 20;
    let end = Instant::now() + SOON;
    while got(all[1]).len() < 120 {
        assert!(Instant::now() < end, "{:?}", got(all[1]));
        for (place, channel, who) in [
            (0, first_telemetry, "first"),
            (2, second_telemetry, "second"),
        ] {
            send(all[place], channel, text(&format!("{who} {number}"))).expect("open");
        }
        number += 1;
        for peer in &mut all {
            peer.run_for(Duration::from_millis(2));
        }
    }
    let received = got(all[1]);
    let words: Vec<(&str, u64)> = received
        .iter()
        .filter_map(|it| it.as_text()?.split_once(' '))
        .map(|(who, number)| (who, number.parse().expect("a number")))
        .collect();
    let change = words.iter().position(|(who, _)| *who == "second");
    let (of_first, of_second) = words.split_at(change.expect("the second one is heard"));
    assert!(of_first.iter().all(|(who, _)| *who == "first"));
    assert!(
        of_second.iter().all(|(who, _)| *who == "second"),
        "never mixed: {words:?}"
    );
    for numbers in [of_first, of_second] {
        assert!(
            numbers.windows(2).all(|pair| pair[0].1 + 1 == pair[1].1),
            "{words:?}"
        );
    }
    let [_, viewer, second] = all;
    connect(&mut [second, viewer], commands, "still here");
}
