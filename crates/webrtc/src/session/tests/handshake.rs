use glassline_sim::Loss;

use super::*;
use crate::dtls::Flight;
use crate::srtp::Profile;
use crate::srtp::Role;

fn closed(events: &[(Duration, Event)]) -> Option<(Duration, CloseReason)> {
    events.iter().find_map(|(at, event)| match event {
        Event::Closed(reason) => Some((*at, *reason)),
        _ => None,
    })
}

fn connected(events: &[(Duration, Event)]) -> Option<(Duration, Profile)> {
    events.iter().find_map(|(at, event)| match event {
        Event::Connected {
            profile: Some(profile),
        } => Some((*at, *profile)),
        _ => None,
    })
}

#[test]
fn a_session_can_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Session>();
}

#[test]
fn connects_in_a_few_round_trips() {
    let mut pair = Pair::new(Setup::default());
    pair.run_for(ms(1000));
    for events in [&pair.server.events, &pair.client.events] {
        let (at, profile) = connected(events).expect("connected");
        assert_eq!(profile, Profile::AeadAes256Gcm);
        // One round trip for ICE, two for DTLS, and the interval of the checks.
        assert!(at < ms(250), "took {at:?}");
    }
    assert_eq!([&pair.server.dropped, &pair.client.dropped], [&[]; 2]);
    let tracks: Vec<_> = pair
        .server
        .senders()
        .iter()
        .map(|it| it.track.get())
        .collect();
    assert_eq!(tracks, [0, 1]);
    assert!(pair.server.senders()[0].rtx.is_some());
    let kinds: Vec<_> = pair
        .client
        .receivers()
        .iter()
        .map(Receiver::codec)
        .collect();
    assert_eq!(kinds, [Codec::H264, Codec::Opus]);
}

#[test]
fn connects_under_heavy_loss() {
    for seed in 0..20 {
        let mut pair = Pair::new(Setup {
            conditions: Conditions::delayed(ms(25)).with_loss(Loss::Random(0.2)),
            seed,
            ..Setup::default()
        });
        pair.run_for(ms(9_900));
        let both = pair.server.is_connected() && pair.client.is_connected();
        assert!(both, "seed {seed}: {:?}", pair.client.events);
    }
}

#[test]
fn half_open_sessions_end_by_themselves() {
    let mut pair = Pair::new(Setup {
        conditions: Conditions::default().with_loss(Loss::Random(1.0)),
        ..Setup::default()
    });
    pair.run_for(ms(11_000));
    for events in [&pair.server.events, &pair.client.events] {
        assert_eq!(
            closed(events),
            Some((ms(10_000), CloseReason::HandshakeTimeout))
        );
    }
    assert_eq!(pair.server.poll_timeout(), None);
    assert!(pair.server.is_closed());
}

#[test]
fn a_server_with_another_certificate_is_refused() {
    let mut pair = Pair::new(Setup {
        server: STRANGER.clone(),
        edit_answer: |answer| {
            let actual = STRANGER.fingerprint().to_string();
            assert!(answer.contains(&actual));
            answer.replace(&actual, &SERVER.fingerprint().to_string())
        },
        ..Setup::default()
    });
    pair.run_for(ms(2_000));
    let (_, reason) = closed(&pair.client.events).expect("closed");
    assert_eq!(reason, CloseReason::WrongFingerprint);
    assert_eq!(connected(&pair.client.events), None);
    assert_eq!(connected(&pair.server.events), None);
}

#[test]
fn a_client_with_another_certificate_is_refused() {
    let mut pair = Pair::new(Setup {
        edit_offer: |offer| {
            offer.replace(
                &CLIENT.fingerprint().to_string(),
                &STRANGER.fingerprint().to_string(),
            )
        },
        ..Setup::default()
    });
    pair.run_for(ms(2_000));
    let (_, reason) = closed(&pair.server.events).expect("closed");
    assert_eq!(reason, CloseReason::WrongFingerprint);
    assert_eq!(connected(&pair.server.events), None);
    let (now, mut out) = (pair.now(), [0; 200]);
    assert_eq!(
        pair.server
            .seal(SenderIndex(0), 0, true, b"x", now, &mut out),
        None
    );
}

/// Servers on other stacks often are the DTLS client.
#[test]
fn a_client_lets_an_active_server_begin() {
    let mut pair = Pair::new(Setup {
        edit_answer: |answer| answer.replace("a=setup:passive", "a=setup:active"),
        ..Setup::default()
    });
    let fingerprints = vec![CLIENT.fingerprint().clone()];
    let now = pair.now();
    let active = Association::new(&SERVER, Role::Client, fingerprints, None, now);
    pair.server.dtls = Some(active);
    pair.run_for(ms(1000));
    let (at, profile) = connected(&pair.client.events).expect("connected");
    assert_eq!(profile, Profile::AeadAes256Gcm);
    assert!(at < ms(300), "took {at:?}");
    pair.stream(1, 2);
    pair.run_for(ms(100));
    assert_eq!(pair.client.received.len(), 60 + 50);
}

#[test]
fn either_end_says_goodbye() {
    let mut pair = Pair::connected(Setup::default());
    let now = pair.now();
    pair.server.close(now);
    pair.run_for(ms(100));
    let (_, reason) = closed(&pair.server.events).expect("closed");
    assert_eq!(reason, CloseReason::Local);
    let (_, reason) = closed(&pair.client.events).expect("closed");
    assert_eq!(reason, CloseReason::Peer);

    let mut pair = Pair::connected(Setup::default());
    let now = pair.now();
    pair.client.close(now);
    pair.run_for(ms(100));
    let (_, reason) = closed(&pair.server.events).expect("closed");
    assert_eq!(reason, CloseReason::Peer);
}

#[test]
fn a_peer_that_vanishes_is_noticed() {
    let mut pair = Pair::connected(Setup::default());
    let dead = Conditions::default().with_loss(Loss::Random(1.0));
    pair.network.set_conditions(&dead);
    pair.run_for(ms(25_000));
    for events in [&pair.server.events, &pair.client.events] {
        let (at, reason) = closed(events).expect("closed");
        assert_eq!(reason, CloseReason::Vanished);
        assert!(at > ms(10_000), "gone after {at:?} already");
    }
}

#[test]
fn an_idle_session_lives_on() {
    let mut pair = Pair::connected(Setup::default());
    pair.run_for(ms(120_000));
    assert!(pair.server.is_connected() && pair.client.is_connected());
}

#[test]
fn a_session_lives_on_where_half_of_the_requests_are_lost() {
    let mut pair = Pair::connected(Setup::default());
    let lossy = Conditions::default().with_loss(Loss::Random(0.5));
    pair.network.set_conditions(&lossy);
    pair.run_for(ms(600_000));
    assert_eq!(closed(&pair.server.events), None);
}

#[test]
fn media_follows_a_client_to_its_new_address() {
    let mut pair = Pair::connected(Setup::default());
    let moved: SocketAddr = "198.51.100.7:5000".parse().expect("an address");
    pair.client.address = moved;
    pair.run_for(ms(5_000));
    let changes: Vec<_> = pair
        .server
        .events
        .iter()
        .filter(|(_, event)| matches!(event, Event::AddressChanged { .. }))
        .map(|(_, event)| event.clone())
        .collect();
    assert_eq!(changes, [Event::AddressChanged { peer: moved.into() }]);
    assert_eq!(pair.server.peer(), Some(moved.into()));
    pair.send(0, 1, true, b"payload");
    pair.run_for(ms(100));
    assert_eq!(pair.client.received.len(), 1);
}

#[test]
fn ice_restarts_while_media_flows() {
    let mut pair = Pair::connected(Setup::default());
    let credentials = |name: &str| IceCredentials {
        ufrag: format!("{name}New"),
        pwd: format!("{name}0123456789abcdef012345"),
    };
    let now = pair.now();
    let (server, client) = (credentials("server"), credentials("client"));
    pair.server.restart_ice(server.clone(), client.clone(), now);
    pair.client.restart_ice(client, server.clone(), now);
    let address = sdp::Candidate::host(pair.server.address.into(), 0);
    pair.client.add_remote_candidate(&address, now);
    pair.send(0, 1, true, b"during");
    pair.run_for(ms(40_000));
    assert!(pair.server.is_connected() && pair.client.is_connected());
    assert_eq!(pair.server.local_credentials(), &server);
    pair.send(0, 2, true, b"after");
    pair.run_for(ms(100));
    let payloads: Vec<_> = pair
        .client
        .received
        .iter()
        .map(|it| it.payload.clone())
        .collect();
    assert_eq!(payloads, [b"during".to_vec(), b"after".to_vec()]);
}

#[test]
fn the_report_of_a_connection_tells_how_far_it_came() {
    let lost = || Conditions::default().with_loss(Loss::Random(1.0));
    let mut silent = Pair::new(Setup {
        conditions: lost(),
        ..Setup::default()
    });
    silent.run_for(ms(11_000));
    let nothing = ConnectionReport {
        candidates: vec![silent.server.address.into()],
        stated: silent.server.connection_report().stated,
        heard: silent.server.connection_report().heard,
        ..ConnectionReport::default()
    };
    assert_eq!(silent.server.connection_report(), nothing);
    assert!(nothing.stated.reach(silent.client.address.into()));

    // The client is cut off once the server has answered its hello.
    let mut cut = Pair::new(Setup::default());
    let latest_sent = |pair: &Pair| pair.server.connection_report().handshake.latest_sent;
    while latest_sent(&cut) != Some(Flight::ServerHello) {
        assert!(!cut.server.is_closed(), "no ServerHello");
        cut.run_for(ms(5));
    }
    cut.network.set_conditions(&lost());
    cut.run_for(ms(11_000));
    let (_, reason) = closed(&cut.server.events).expect("closed");
    assert_eq!(reason, CloseReason::HandshakeTimeout);
    let report = cut.server.connection_report();
    assert_eq!(report.sources, [cut.client.address.into()]);
    assert!(report.checks > 0 && report.own_checks > 0 && report.own_checks_answered > 0);
    let trace = report.handshake;
    assert_eq!(trace.latest_received, Some(Flight::ClientHello));
    assert!(trace.sent > 1 && trace.largest_bytes > 300, "{trace:?}");

    let pair = Pair::connected(Setup::default());
    let trace = pair.server.connection_report().handshake;
    assert_eq!(trace.latest_received, Some(Flight::ClientKeyExchange));
    assert_eq!((trace.alert, trace.failure), (None, None));
}
