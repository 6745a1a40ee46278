//! Nominations that follow each other: which pair media takes, and when.

use glassline_sim::Loss;

use super::hijack::Scene;
use super::*;

const SECOND: ([u8; 4], u16) = ([198, 51, 100, 7], 5000);

/// A client that the server has seen at a second address and that answered a check there. Its first
/// address is the path.
fn with_two_addresses() -> (Scene, [SocketAddr; 2]) {
    let mut scene = Scene::connected(Setup::default());
    let (first, second) = (scene.pair.client.address, SocketAddr::from(SECOND));
    scene.pair.client.address = second;
    let check = scene.check(None, false);
    assert_eq!(scene.forge(second, check), None);
    scene.run_for(ms(51));
    scene.pair.client.address = first;
    let now = scene.pair.now();
    assert!(scene.pair.server.is_proven(second, now));
    // Media and reports flow, and no nomination is recent.
    scene.stream(ms(2000));
    assert_eq!(scene.pair.server.peer(), Some(first.into()));
    (scene, [first, second])
}

fn nominate(scene: &mut Scene, address: SocketAddr) {
    let check = scene.check(None, true);
    assert_eq!(scene.forge(address, check), None);
}

fn peer(scene: &Scene) -> SocketAddr {
    scene.pair.server.peer().expect("connected").socket
}

/// Changes of the path so far.
fn changes(scene: &Scene) -> usize {
    let events = scene.pair.server.events.iter();
    let changes = events.filter(|(_, event)| matches!(event, Event::AddressChanged { .. }));
    changes.count()
}

#[test]
fn a_nomination_soon_after_another_is_followed_when_that_is_not_repeated() {
    let (mut scene, [first, second]) = with_two_addresses();
    nominate(&mut scene, first);
    scene.run_for(ms(100));
    // Nothing comes from the client itself, which would decide sooner.
    let dead = Conditions::default().with_loss(Loss::Random(1.0));
    scene.pair.network.set_conditions(&dead);
    nominate(&mut scene, second);
    assert_eq!(peer(&scene), first, "the path is kept for a while");
    scene.run_for(ms(790));
    assert_eq!(peer(&scene), first);
    scene.run_for(ms(20));
    assert_eq!(peer(&scene), second, "nothing else was nominated for 0.9 s");
}

#[test]
fn a_nomination_soon_after_another_is_followed_where_the_peer_sends() {
    let (mut scene, [first, second]) = with_two_addresses();
    nominate(&mut scene, first);
    scene.run_for(ms(50));
    nominate(&mut scene, second);
    assert_eq!(peer(&scene), first);
    // The client uses the second pair from now on: its reports come from there.
    scene.pair.client.address = second;
    let before = scene.pair.now();
    while peer(&scene) == first {
        scene.stream(ms(20));
        let took = scene.pair.now() - before;
        assert!(took < ms(500), "{took:?}");
    }
    scene.stream(ms(1000));
    assert_eq!(peer(&scene), second);
}

#[test]
fn pairs_that_are_nominated_in_turn_make_no_media_jump() {
    let (mut scene, [first, second]) = with_two_addresses();
    let before = changes(&scene);
    for _ in 0..60 {
        nominate(&mut scene, first);
        scene.stream(ms(20));
        nominate(&mut scene, second);
        scene.stream(ms(20));
    }
    nominate(&mut scene, first);
    assert_eq!((peer(&scene), changes(&scene)), (first, before));
    scene.nothing_was_lost();
}

#[test]
fn a_nomination_of_an_unproven_address_waits_for_the_proof_and_for_the_hold() {
    let (mut scene, [first, _]) = with_two_addresses();
    nominate(&mut scene, first);
    let third: SocketAddr = "198.51.100.8:6000".parse().expect("an address");
    scene.run_for(ms(500));
    nominate(&mut scene, third);
    // Nobody answers there.
    scene.run_for(ms(3000));
    assert_eq!(peer(&scene), first);
    scene.nothing_was_lost();
}
