//! Datagrams with forged sources, sent by somebody who has a session of its own.

use std::time::{Duration, Instant};

use crate::peer::{Peer, SOON, socket};
use crate::running::Running;
use crate::source::{Film, Source};

/// Somebody who knows a viewer's address makes a session, and sends its checks with that address
/// as the source. The viewer's media goes on, and so do its requests.
#[test]
fn a_viewer_keeps_its_address_when_another_session_claims_it() {
    let running = Running::start(2);
    let _source = Source::start(&running.stream(), Film::default());
    let mut viewer = Peer::joined(&running);
    let attacker = Peer::answered(&running);
    for nominate in [false, true].repeat(10) {
        attacker.check_from(&viewer.socket, nominate);
        let before = viewer.received.len();
        let goes_on = viewer.run_until(SOON, |it| it.received.len() > before + 5);
        assert!(goes_on, "the viewer's media stopped");
    }
    viewer.loss = 0.3;
    viewer.run_for(Duration::from_millis(500));
    viewer.loss = 0.0;
    let repaired = viewer.run_until(SOON, |it| it.received.iter().any(|it| it.repaired));
    assert!(repaired, "the viewer's requests go to its session");
    viewer.session.close(Instant::now());
    viewer.drain();
}

/// A viewer's session names another address as its own: media stays with the viewer.
#[test]
fn a_nomination_from_an_address_that_answers_nothing_moves_no_media() {
    let running = Running::start(2);
    let _source = Source::start(&running.stream(), Film::default());
    let mut viewer = Peer::joined(&running);
    // The path was confirmed by the handshake: let the hold pass.
    viewer.run_for(Duration::from_millis(950));
    let victims: Vec<_> = (0..4).map(|_| socket()).collect();
    for victim in &victims {
        viewer.check_from(victim, true);
        let before = viewer.received.len();
        let goes_on = viewer.run_until(SOON, |it| it.received.len() > before + 30);
        assert!(goes_on, "the viewer's media stopped");
    }
    for victim in &victims {
        victim.set_nonblocking(true).expect("a socket option");
        let mut buffer = [0; 2048];
        while let Ok((bytes, _)) = victim.recv_from(&mut buffer) {
            assert!(buffer[0] < 4, "{bytes} bytes of something else than STUN");
        }
    }
    assert_eq!(running.total("viewer_moves_total"), 0);
}
