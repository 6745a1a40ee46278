use super::*;

#[test]
fn one_end_connects_and_both_hear_of_it() {
    let config = Config::default();
    let mut world = World::new(&config, Conditions::delayed(MS * 10), 1);
    world.a.association.connect(world.now());
    world.run_for(MS * 100);
    for side in [&world.a, &world.b] {
        assert_eq!(
            side.events,
            [Event::Connected {
                outgoing: u16::MAX,
                incoming: u16::MAX
            }]
        );
        let report = side.association.report();
        assert!(report.interleaving && report.zero_checksum, "{report:?}");
        assert_eq!(report.rtt, Some(MS * 20));
    }
}

#[test]
fn both_connect_at_once_whatever_is_lost() {
    for seed in 0..40 {
        let lossy = Conditions::delayed(MS * 10).with_loss(glassline_sim::Loss::Random(0.2));
        let config = Config {
            max_init_retransmissions: None,
            ..Config::default()
        };
        let mut world = World::new(&config, lossy, seed).connected();
        world.a.bulk = None;
        let now = world.now();
        let hello = Bytes::from_static(b"hello");
        for side in [&mut world.a, &mut world.b] {
            side.association
                .send(7, 51, hello.clone(), SendOptions::default(), now)
                .expect("open");
        }
        let both = world.run_until(MS * 30_000, |world| {
            world.a.messages.len() == 1 && world.b.messages.len() == 1
        });
        assert!(both, "seed {seed}");
    }
}

#[test]
fn nobody_answers() {
    let deaf = Conditions::default().with_loss(glassline_sim::Loss::Random(1.0));
    let mut world = World::new(&Config::default(), deaf, 3);
    world.a.association.connect(world.now());
    world.run_for(Duration::from_secs(120));
    assert_eq!(world.a.events, [Event::Closed(CloseReason::ConnectTimeout)]);
    assert_eq!(world.a.association.poll_timeout(), None);
}

#[test]
fn what_was_handed_over_arrives_before_the_end() {
    let lossy = Conditions::delayed(MS * 10).with_loss(glassline_sim::Loss::Random(0.05));
    let mut world = World::new(&Config::default(), lossy, 4).connected();
    let now = world.now();
    for number in 0..20 {
        world
            .a
            .association
            .send(1, 53, numbered(number, 30_000), SendOptions::default(), now)
            .expect("room");
    }
    world.a.association.close(now);
    assert_eq!(
        world
            .a
            .association
            .send(1, 53, numbered(0, 4), SendOptions::default(), now),
        Err(crate::SendError::Closed)
    );
    world.run_for(Duration::from_secs(20));
    assert_eq!(world.b.messages.len(), 20);
    for side in [&world.a, &world.b] {
        assert_eq!(
            side.events.last(),
            Some(&Event::Closed(CloseReason::Shutdown))
        );
        assert_eq!(side.association.report().state, State::Closed);
    }
}

#[test]
fn an_abort_is_heard_of() {
    let mut world = World::new(&Config::default(), Conditions::delayed(MS), 5).connected();
    world.a.association.abort(world.now());
    world.run_for(MS * 10);
    assert_eq!(
        world.a.events.last(),
        Some(&Event::Closed(CloseReason::Aborted))
    );
    assert_eq!(
        world.b.events.last(),
        Some(&Event::Closed(CloseReason::AbortedByPeer {
            cause: Some(12),
            text: String::new()
        }))
    );
}

#[test]
fn a_peer_that_vanishes_is_given_up() {
    let config = Config {
        max_retransmissions: Some(4),
        ..Config::default()
    };
    let mut world = World::new(&config, Conditions::delayed(MS), 6).connected();
    let deaf = Conditions::default().with_loss(glassline_sim::Loss::Random(1.0));
    world.network.link_mut(End::A).set_conditions(deaf);
    let now = world.now();
    world
        .a
        .association
        .send(0, 51, numbered(1, 100), SendOptions::default(), now)
        .expect("open");
    world.run_for(Duration::from_secs(120));
    assert_eq!(
        world.a.events.last(),
        Some(&Event::Closed(CloseReason::PeerUnreachable))
    );
    // The other end, with nothing to send, notices by its heartbeats.
    world.run_for(Duration::from_secs(600));
    assert_eq!(
        world.b.events.last(),
        Some(&Event::Closed(CloseReason::PeerUnreachable))
    );
}

#[test]
fn a_peer_that_lost_its_state_begins_anew() {
    let config = Config::default();
    let mut world = World::new(&config, Conditions::delayed(MS * 5), 7).connected();
    let now = world.now();
    world
        .b
        .association
        .send(3, 51, numbered(1, 100), SendOptions::default(), now)
        .expect("open");
    world.run_for(MS * 100);
    world.a.association = Association::new(config, secrets(99), world.now());
    world.a.association.connect(world.now());
    world.run_for(MS * 100);
    assert!(
        world.b.events.contains(&Event::Restarted),
        "{:?}",
        world.b.events
    );
    let now = world.now();
    for (side, number) in [(&mut world.a, 10), (&mut world.b, 11)] {
        side.association
            .send(3, 51, numbered(number, 100), SendOptions::default(), now)
            .expect("open again");
    }
    world.run_for(MS * 100);
    assert_eq!(number_of(&world.b.messages.back().expect("one").2), 10);
    assert_eq!(number_of(&world.a.messages.back().expect("one").2), 11);
}

#[test]
fn packets_of_others_change_nothing() {
    let mut world = World::new(&Config::default(), Conditions::delayed(MS), 8).connected();
    let mut out = [0; 2048];
    let now = world.now();
    world
        .a
        .association
        .send(0, 51, numbered(1, 100), SendOptions::default(), now)
        .expect("open");
    let len = world
        .a
        .association
        .poll_transmit(now, &mut out)
        .expect("data");
    let mut forged = out[..len].to_vec();
    forged[4] ^= 1;
    assert_eq!(
        world.b.association.handle_packet(&forged, now),
        Err(crate::Dropped::Tag)
    );
    let mut damaged = out[..len].to_vec();
    damaged[8] = 1;
    assert_eq!(
        world.b.association.handle_packet(&damaged, now),
        Err(crate::Dropped::Checksum)
    );
    let mut elsewhere = out[..len].to_vec();
    elsewhere[3] ^= 1;
    assert!(matches!(
        world.b.association.handle_packet(&elsewhere, now),
        Err(crate::Dropped::Port { .. })
    ));
    assert_eq!(world.b.association.poll_event(), None);
}

#[test]
fn a_cookie_that_is_too_old_is_refused_and_asked_for_again() {
    let now = Instant::now();
    let config = Config::default();
    let mut a = Association::new(config.clone(), secrets(1), now);
    let mut b = Association::new(config.clone(), secrets(2), now);
    let mut out = [0; 2048];
    a.connect(now);
    let init = a.poll_transmit(now, &mut out).expect("INIT");
    b.handle_packet(&out[..init], now).expect("answered");
    let ack = b.poll_transmit(now, &mut out).expect("INIT ACK");
    a.handle_packet(&out[..ack], now).expect("taken");
    let echo = a.poll_transmit(now, &mut out).expect("COOKIE ECHO");
    let late = now + config.cookie_life + MS;
    assert_eq!(
        b.handle_packet(&out[..echo], late),
        Err(crate::Dropped::StaleCookie)
    );
    assert_eq!(b.report().state, State::Closed);
    let error = b.poll_transmit(late, &mut out).expect("ERROR");
    a.handle_packet(&out[..error], late).expect("taken");
    assert_eq!(a.report().state, State::CookieWait);
    // The handshake starts again, and this time the cookie is in time.
    for _ in 0..2 {
        let len = a.poll_transmit(late, &mut out).expect("INIT, COOKIE ECHO");
        b.handle_packet(&out[..len], late).expect("taken");
        let len = b
            .poll_transmit(late, &mut out)
            .expect("INIT ACK, COOKIE ACK");
        a.handle_packet(&out[..len], late).expect("taken");
    }
    assert_eq!(a.report().state, State::Established);
    assert_eq!(b.report().state, State::Established);
}

#[test]
fn an_idle_association_is_small() {
    let size = size_of::<Association>();
    assert!(size < 4096, "{size}");
}
