//! Data channels of a session: with media, without media, and with a peer that has none.

use glassline_sctp as sctp;
use glassline_sim::{Case, Loss};
use sctp::channel::{ChannelId, Event as ChannelEvent, Init, Kind, Message, SendError};

use super::*;
use crate::dtls::{Cipher, CipherChoice};
use crate::srtp;

fn both(cipher: CipherChoice) -> Setup {
    let data = DataConfig {
        cipher,
        ..DataConfig::default()
    };
    Setup {
        server_data: Some(data.clone()),
        client_data: Some(data),
        ..Setup::default()
    }
}

fn data_alone() -> Setup {
    Setup {
        tracks: Vec::new(),
        receive: Kinds::NONE,
        ..both(CipherChoice::default())
    }
}

fn connected_with(events: &[(Duration, Event)]) -> Option<Option<srtp::Profile>> {
    events.iter().find_map(|(_, event)| match event {
        Event::Connected { profile } => Some(*profile),
        _ => None,
    })
}

/// Opens a channel at the client; both ends then have it.
fn open(pair: &mut Pair, init: Init) -> (ChannelId, ChannelId) {
    let now = pair.now();
    let ours = pair.client.channels_mut().expect("data").open(init, now);
    let ours = ours.expect("room for one");
    pair.run_for(ms(300));
    let opened = |events: &[ChannelEvent]| {
        events.iter().rev().find_map(|event| match event {
            ChannelEvent::Opened { channel, .. } => Some(*channel),
            _ => None,
        })
    };
    assert_eq!(opened(&pair.client.channel_events), Some(ours));
    let theirs = opened(&pair.server.channel_events).expect("opened at the server");
    (ours, theirs)
}

fn messages(events: &[ChannelEvent]) -> Vec<Message> {
    let messages = events.iter().filter_map(|event| match event {
        ChannelEvent::Message { message, .. } => Some(message.clone()),
        _ => None,
    });
    messages.collect()
}

#[test]
fn every_cipher_can_be_forced_by_either_end() {
    for cipher in Cipher::ALL {
        for forced in [End::A, End::B] {
            let mut setup = both(CipherChoice::default());
            let data = match forced {
                End::A => &mut setup.server_data,
                End::B => &mut setup.client_data,
            };
            data.as_mut().expect("data").cipher = CipherChoice::Only(cipher);
            let mut pair = Pair::connected(setup);
            assert_eq!(pair.server.cipher(), Some(cipher));
            assert_eq!(pair.client.cipher(), Some(cipher));
        }
    }
}

#[test]
fn data_alone_connects_without_srtp() {
    let pair = Pair::connected(data_alone());
    assert_eq!(connected_with(&pair.server.events), Some(None));
    assert_eq!(connected_with(&pair.client.events), Some(None));
    assert!(pair.server.senders().is_empty() && pair.client.receivers().is_empty());
}

#[test]
fn an_end_that_wants_no_data_gets_media_alone() {
    for (server, client) in [(true, false), (false, true)] {
        let mut setup = both(CipherChoice::default());
        setup.server_data = setup.server_data.filter(|_| server);
        setup.client_data = setup.client_data.filter(|_| client);
        let mut pair = Pair::connected(setup);
        assert!(pair.server.channels().is_none() && pair.client.channels().is_none());
        assert_eq!(pair.server.cipher(), None);
        pair.send(0, 1, true, b"payload");
        pair.run_for(ms(100));
        assert_eq!(pair.client.received.len(), 1);
    }
}

#[test]
fn messages_cross_beside_media() {
    let mut pair = Pair::connected(both(CipherChoice::default()));
    let (ours, theirs) = open(&mut pair, Init::default());
    let now = pair.now();
    let texts = ["", "to the server", "ö"];
    for text in texts {
        let channels = pair.client.channels_mut().expect("data");
        channels.send(ours, Message::text(text), now).expect("open");
        let channels = pair.server.channels_mut().expect("data");
        let back = Message::binary(text.as_bytes().to_vec());
        channels.send(theirs, back, now).expect("open");
    }
    pair.stream(1, 2);
    pair.run_for(ms(200));
    assert_eq!(pair.client.received.len(), 60 + 50);
    let got = messages(&pair.server.channel_events);
    assert_eq!(got, texts.map(Message::text));
    let got = messages(&pair.client.channel_events);
    assert!(got.iter().all(|message| message.kind == Kind::Binary));
    assert_eq!(got.len(), 3);
    let counts = pair.server.data_counts().expect("data");
    assert_eq!((counts.records.forged, counts.refused), (0, 0));
}

/// Sends a megabyte each way: batches of equal size, everything once and in order.
#[test]
fn bulk_crosses_in_batches_whatever_is_lost() {
    let lossy = |share| Conditions::delayed(ms(10)).with_loss(Loss::Random(share));
    let cases = [("nothing is lost", 0.0), ("2 % are lost", 0.02)];
    for (description, share) in cases {
        let case = Case {
            description,
            path: lossy(share),
            seed: 1,
            expected: 16_u8,
        };
        let mut pair = Pair::connected(Setup {
            conditions: case.path.clone(),
            seed: case.seed,
            ..data_alone()
        });
        let (ours, theirs) = open(&mut pair, Init::default());
        let sent: Vec<Vec<u8>> = (0..case.expected)
            .map(|number| vec![number; 65_000])
            .collect();
        let now = pair.now();
        for payload in &sent {
            let channels = pair.client.channels_mut().expect("data");
            let message = Message::binary(payload.clone());
            channels.send(ours, message.clone(), now).expect("room");
            let channels = pair.server.channels_mut().expect("data");
            channels.send(theirs, message, now).expect("room");
        }
        pair.run_for(ms(20_000));
        for events in [&pair.server.channel_events, &pair.client.channel_events] {
            let got = messages(events);
            let got: Vec<&[u8]> = got.iter().map(|message| &message.data[..]).collect();
            assert!(got == sent, "{case}: {} messages came", got.len());
        }
    }
}

#[test]
fn a_goodbye_closes_the_peers_channels_and_session() {
    let mut pair = Pair::connected(data_alone());
    open(&mut pair, Init::default());
    let now = pair.now();
    pair.client.close(now);
    pair.run_for(ms(100));
    let ended = |event: &ChannelEvent| matches!(event, ChannelEvent::Ended(_));
    assert!(pair.server.channel_events.iter().any(ended));
    assert!(pair.server.is_closed());
    let over = Event::Closed(CloseReason::Peer);
    assert!(pair.server.events.iter().any(|(_, event)| *event == over));
}

#[test]
fn nothing_is_taken_for_a_peer_that_has_vanished() {
    let mut pair = Pair::connected(data_alone());
    let (ours, _) = open(&mut pair, Init::default());
    let nothing = Conditions::delayed(ms(10)).with_loss(Loss::Random(1.0));
    for end in [End::A, End::B] {
        pair.network.link_mut(end).set_conditions(nothing.clone());
    }
    pair.run_for(ms(60_000));
    let over = Event::Closed(CloseReason::Vanished);
    assert!(pair.client.events.iter().any(|(_, event)| *event == over));
    let gone = ChannelEvent::Ended(sctp::CloseReason::Disconnected);
    assert!(pair.client.channel_events.contains(&gone));
    let now = pair.now();
    let channels = pair.client.channels_mut().expect("data");
    let refused = channels.send(ours, Message::text("lost"), now);
    assert_eq!(refused, Err(SendError::NoSuchChannel));
}

#[test]
fn an_idle_peer_stays_connected() {
    let mut pair = Pair::connected(data_alone());
    let (ours, _) = open(&mut pair, Init::default());
    pair.run_for(ms(120_000));
    let now = pair.now();
    let channels = pair.client.channels_mut().expect("data");
    channels
        .send(ours, Message::text("still"), now)
        .expect("open");
    pair.run_for(ms(200));
    assert_eq!(
        messages(&pair.server.channel_events),
        [Message::text("still")]
    );
}

/// The requirement of a segmented send: equal datagrams, of which the last may be shorter.
#[test]
fn bulk_leaves_in_batches_of_equal_datagrams() {
    let mut pair = Pair::connected(data_alone());
    let (ours, _) = open(&mut pair, Init::default());
    let now = pair.now();
    for _ in 0..8 {
        let channels = pair.client.channels_mut().expect("data");
        let message = Message::binary(vec![7; 60_000]);
        channels.send(ours, message, now).expect("room");
    }
    pair.client.batches.clear();
    pair.run_for(ms(3_000));
    assert_eq!(messages(&pair.server.channel_events).len(), 8);
    for &(segment, bytes) in &pair.client.batches {
        assert!((1..=65_000).contains(&bytes) && bytes.div_ceil(segment) <= 64);
    }
    // Although sending is paced, most datagrams are sent in batches.
    let datagrams = pair.client.batches.iter();
    let datagrams: usize = datagrams
        .map(|(segment, bytes)| bytes.div_ceil(*segment))
        .sum();
    let batches = pair.client.batches.len();
    assert!(
        batches * 2 < datagrams,
        "{datagrams} datagrams in {batches} batches"
    );
}
