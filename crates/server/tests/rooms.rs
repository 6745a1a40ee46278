//! Rooms of voice calls: joining, hearing others, leaving.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use glassline_media::{Codec, Kind, Track};
use glassline_rtp::red::{self, Repeat};
use glassline_sctp::Reliability;
use glassline_sctp::channel::{ChannelId, Message};
use glassline_webrtc::{DataConfig, Kinds, OpusOptions, Redundancy, SKIP_MAX, SenderIndex};
use serde_json::Value;

use crate::data::{got, open, send, until};
use crate::peer::{Peer, PeerOffer, ReceivedPacket, SDP, SOON, live, socket};
use crate::running::{Response, Running};

/// One packet's time at 48 kHz: 10 ms.
const STEP: u32 = 480;

fn voice() -> (Vec<Track>, Kinds) {
    (vec![Track::audio(Codec::Opus, 1)], Kinds::NONE)
}

pub(crate) fn join<'a>(
    running: &'a Running,
    room: &str,
    headers: &[(&str, &str)],
) -> Result<Peer<'a>, Response> {
    let path = format!("/call/{room}");
    Peer::asking(running, &path, headers, socket(), voice(), str::to_owned)
}

/// Joins a room and waits until the session has keys.
pub(crate) fn joined<'a>(running: &'a Running, room: &str) -> Peer<'a> {
    let mut peer = join(running, room, &[]).expect("answered");
    assert!(peer.run_until(SOON, Peer::is_connected));
    peer
}

pub(crate) fn others(peer: &Peer<'_>, since: Option<u64>) -> Value {
    let since = since.map_or_else(String::new, |it| format!("?since={it}"));
    let response = peer.running.get(&format!("{}{since}", peer.location));
    assert_eq!(response.status, 200, "{}", response.body);
    response.json()
}

/// Waits until each leg has got `count` packets of audio.
fn await_packets(legs: &mut [Peer<'_>], count: usize) {
    let end = Instant::now() + SOON;
    while legs.iter().any(|leg| leg.of(Kind::Audio).count() < count) {
        let counts = legs.iter().map(|leg| leg.of(Kind::Audio).count());
        assert!(Instant::now() < end, "{:?}", counts.collect::<Vec<_>>());
        live(legs, Duration::from_millis(10));
    }
}

fn ids(list: &Value) -> Vec<String> {
    let list = list["others"].as_array().expect("a list");
    let ids = list.iter().map(|it| it["id"].as_str().expect("an id"));
    ids.map(str::to_owned).collect()
}

pub(crate) fn you(peer: &Peer<'_>) -> String {
    others(peer, None)["you"]
        .as_str()
        .expect("an id")
        .to_owned()
}

/// Opens a leg on which `peer` receives the voice of `id`.
pub(crate) fn open_leg<'a>(peer: &Peer<'a>, id: &str) -> Result<Peer<'a>, Response> {
    let path = format!("{}/hear/{id}", peer.location);
    let audio = (Vec::new(), Kinds::AUDIO);
    Peer::asking(peer.running, &path, &[], socket(), audio, str::to_owned)
}

pub(crate) fn hearing<'a>(peer: &Peer<'a>, id: &str) -> Peer<'a> {
    let mut leg = open_leg(peer, id).expect("answered");
    assert!(leg.run_until(SOON, Peer::is_connected));
    leg
}

fn payloads(peer: &Peer<'_>) -> Vec<String> {
    let received = peer.of(Kind::Audio);
    let text = received.map(|it| String::from_utf8_lossy(&it.payload).into_owned());
    text.collect()
}

#[test]
fn three_participants_hear_each_other_and_not_themselves() {
    let running = Running::start(2);
    let mut talkers = [0; 3].map(|_| joined(&running, "team"));
    let names = talkers.each_ref().map(you);
    for (at, talker) in talkers.iter().enumerate() {
        let mut all = ids(&others(talker, None));
        all.push(names[at].clone());
        all.sort_unstable();
        let mut wanted = names.to_vec();
        wanted.sort_unstable();
        assert_eq!(all, wanted, "each sees the two others");
        open_leg(talker, &names[at])
            .err()
            .expect("oneself")
            .problem(404);
    }
    let mut legs: Vec<Peer<'_>> = Vec::new();
    for (at, talker) in talkers.iter().enumerate() {
        for (id, _) in names.iter().zip(0..).filter(|(_, it)| *it != at) {
            legs.push(hearing(talker, id));
        }
    }
    for packet in 0..20u32 {
        for (at, talker) in talkers.iter_mut().enumerate() {
            assert!(talker.say(packet * STEP, format!("{at}: {packet}").as_bytes()));
        }
        live(&mut legs, Duration::from_millis(10));
    }
    await_packets(&mut legs, 20);
    let received = [[1, 2], [0, 2], [0, 1]].concat();
    for (leg, from) in legs.iter().zip(received) {
        let wanted: Vec<String> = (0..20).map(|it| format!("{from}: {it}")).collect();
        assert_eq!(payloads(leg), wanted);
        let times: Vec<u32> = leg.of(Kind::Audio).map(|it| it.timestamp).collect();
        let said = (0..20).map(|it| it * STEP);
        assert_eq!(times, said.collect::<Vec<_>>(), "under their own times");
    }
    assert_eq!(running.total("voice_packets_total"), 60);
    assert_eq!(running.total("voice_refused_total"), 0);
    assert_eq!(running.sessions(), (9, 0));
    assert_eq!(running.total("rooms"), 1);
    assert_eq!(running.total("room_participants"), 3);
    let overview = running.admin("/api/v1/overview").json();
    assert_eq!(overview["rooms"]["participants"], 3);
    let viewers = &overview["viewers"]["count"]["webrtc"];
    assert_eq!(viewers, 0, "participants are no viewers");
}

#[test]
fn losses_on_the_way_in_are_losses_on_the_way_out() {
    let running = Running::start(1);
    let mut talker = joined(&running, "team");
    let listener = joined(&running, "team");
    let mut leg = hearing(&listener, &you(&talker));
    for packet in 0..30u32 {
        let lost = match packet {
            10 => 3,
            // No loss is as long, so this is another beginning.
            20 => SKIP_MAX + 1,
            _ => 0,
        };
        for _ in 0..lost / 500 {
            assert!(talker.session.skip(SenderIndex(0), 500));
        }
        assert!(talker.session.skip(SenderIndex(0), lost % 500));
        assert!(talker.say(packet * STEP, &[7]));
        leg.run_for(Duration::from_millis(5));
    }
    assert!(leg.run_until(SOON, |it| it.received.len() == 30));
    let sequences: Vec<u64> = leg.of(Kind::Audio).map(|it| it.sequence).collect();
    let steps: Vec<u64> = sequences.windows(2).map(|it| it[1] - it[0]).collect();
    assert_eq!(steps[9], 4, "{steps:?}");
    assert_eq!(steps.iter().filter(|it| **it == 1).count(), 28, "{steps:?}");
}

/// Returns an offer that prefers redundant audio.
fn redundant(asked: impl Into<PeerOffer>) -> PeerOffer {
    PeerOffer {
        opus: OpusOptions {
            redundancy: Redundancy::Always,
            ..OpusOptions::default()
        },
        ..asked.into()
    }
}

#[test]
fn copies_mend_each_way_by_itself() {
    let running = Running::start(2);
    let asked = redundant(voice());
    let path = "/call/team";
    let talker = Peer::asking(&running, path, &[], socket(), asked, str::to_owned);
    let mut talker = talker.expect("answered");
    assert!(talker.run_until(SOON, Peer::is_connected));
    assert!(
        talker.session.set_redundant(SenderIndex(0), true),
        "the server takes RED"
    );
    let mut plain_talker = joined(&running, "team");
    assert!(
        !plain_talker.session.set_redundant(SenderIndex(0), true),
        "not offered"
    );

    let listener = joined(&running, "team");
    let plain = hearing(&listener, &you(&talker));
    let copied = |id: &str| {
        let path = format!("{}/hear/{id}", listener.location);
        let asked = redundant((Vec::new(), Kinds::AUDIO));
        let leg = Peer::asking(&running, &path, &[], socket(), asked, str::to_owned);
        let mut leg = leg.expect("answered");
        assert!(leg.run_until(SOON, Peer::is_connected));
        leg
    };
    let mut lossy = copied(&you(&talker));
    lossy.loss = 0.3;
    let mut legs = [plain, lossy, copied(&you(&plain_talker))];
    let name = |packet: u32| format!("packet {packet}").into_bytes();
    for packet in 0..60u32 {
        let time = packet * STEP;
        if packet % 4 == 3 {
            // Lost on the way in.
            assert!(talker.session.skip(SenderIndex(0), 1));
        } else {
            let before = packet.checked_sub(1).map(name).unwrap_or_default();
            let before = [Repeat {
                offset: STEP,
                payload: &before,
            }];
            let mut payload = Vec::new();
            red::write(111, &before, &name(packet), &mut payload);
            assert!(talker.say(time, &payload));
        }
        assert!(plain_talker.say(time, &name(packet)));
        live(&mut legs, Duration::from_millis(10));
    }
    await_packets(&mut legs[..1], 59);
    await_packets(&mut legs[2..], 60);
    live(&mut legs, Duration::from_millis(100));
    // The last is lost for good, since nothing came after it.
    let said: Vec<Vec<u8>> = (0..59).map(name).collect();
    let [plain, lossy, of_plain] = &legs;
    let primaries: Vec<_> = plain.of(Kind::Audio).map(|it| &it.payload).collect();
    assert_eq!(primaries, said.iter().collect::<Vec<_>>());
    let steps: Vec<u64> = plain.of(Kind::Audio).map(|it| it.sequence).collect();
    assert!(steps.windows(2).all(|it| it[1] - it[0] == 1), "{steps:?}");
    assert_eq!(running.total("voice_recovered_total"), 14);

    let blocks = |it: &ReceivedPacket| -> Vec<(u32, Vec<u8>)> {
        let blocks = red::blocks(&it.payload).expect("RED");
        let blocks = blocks.iter();
        let named = blocks.map(|block| (it.timestamp - block.offset, block.payload.to_vec()));
        named.collect()
    };
    // On the lossy path only packets that were lost together with the next are missing.
    let received: BTreeMap<u32, Vec<u8>> = lossy.of(Kind::Audio).flat_map(blocks).collect();
    let wanted = |packet: u32| said.get(packet as usize);
    assert!(
        received
            .iter()
            .all(|(at, it)| wanted(at / STEP) == Some(it))
    );
    let arrived: BTreeSet<u32> = lossy
        .of(Kind::Audio)
        .map(|it| it.timestamp / STEP)
        .collect();
    assert!((30..55).contains(&arrived.len()), "lossy: {arrived:?}");
    for packet in 0..58 {
        let is_there = arrived.contains(&packet) || arrived.contains(&(packet + 1));
        assert_eq!(
            received.contains_key(&(packet * STEP)),
            is_there,
            "{packet}"
        );
    }
    // A participant that sends no copies is received with copies.
    let received: Vec<_> = of_plain.of(Kind::Audio).map(blocks).collect();
    assert_eq!(received.len(), 60);
    assert!(received[1..].iter().all(|blocks| blocks.len() == 2));
    assert_eq!(received[7][0], (6 * STEP, name(6)));
}

/// Opens a leg on which `peer` receives the voice of `id`, with data channels, one of them open.
fn leg_with_channel<'a>(peer: &Peer<'a>, id: &str) -> (Peer<'a>, ChannelId) {
    let path = format!("{}/hear/{id}", peer.location);
    let asked = PeerOffer {
        receive: Kinds::AUDIO,
        data: Some(DataConfig::default()),
        ..PeerOffer::default()
    };
    let leg = Peer::asking(peer.running, &path, &[], socket(), asked, str::to_owned);
    let mut leg = leg.expect("answered");
    let channel = open(&mut leg, "stamps", Reliability::Reliable);
    (leg, channel)
}

#[test]
fn what_two_tell_each_other_nobody_else_hears_and_is_bounded() {
    // Messages next to streams are independent of this, and turned off.
    let running = Running::start(2);
    let talkers = [0; 3].map(|_| joined(&running, "team"));
    let [ann, bob, _] = talkers.each_ref().map(you);
    let (mut ann_to_bob, to_bob) = leg_with_channel(&talkers[0], &bob);
    let (mut bob_to_ann, to_ann) = leg_with_channel(&talkers[1], &ann);
    let (mut eve_to_ann, _) = leg_with_channel(&talkers[2], &ann);
    let text = |text: &'static [u8]| Message::binary(text.to_vec());
    // A message for a participant whose channel is not open yet is dropped, so the participant that
    // opened its channel last sends first: what it sent arrives after its channel is open.
    send(&mut bob_to_ann, to_ann, text(b"to ann")).expect("room");
    let mut legs = [&mut ann_to_bob, &mut bob_to_ann, &mut eve_to_ann];
    assert!(until(&mut legs, |legs| got(legs[0]).len() == 1));
    send(legs[0], to_bob, text(b"to bob")).expect("room");
    assert!(until(&mut legs, |legs| got(legs[1]).len() == 1));
    let all = legs.map(|leg| got(leg).iter().map(|it| it.data.to_vec()).collect());
    let all: [Vec<Vec<u8>>; 3] = all;
    assert_eq!(
        all,
        [vec![b"to ann".to_vec()], vec![b"to bob".to_vec()], vec![]]
    );

    // A leg that fails is dialled again, and continues while the other participant is there.
    assert_eq!(bob_to_ann.delete().status, 200);
    let (mut again, to_ann) = leg_with_channel(&talkers[1], &ann);
    send(&mut again, to_ann, text(b"again")).expect("room");
    let mut legs = [&mut ann_to_bob, &mut again];
    assert!(until(&mut legs, |legs| got(legs[0]).len() == 2));
    send(legs[0], to_bob, text(b"still here")).expect("room");
    assert!(until(&mut legs, |legs| got(legs[1]).len() == 1));

    // Messages beyond the limit are dropped and counted.
    let too_long = Message::binary(vec![0; 3 << 10]);
    assert!(send(&mut again, to_ann, too_long).is_err(), "as was agreed");
    for _ in 0..400 {
        send(&mut again, to_ann, text(b"flood")).expect("room");
    }
    let dropped = || running.total("data_messages_dropped_total");
    let mut legs = [&mut ann_to_bob, &mut again];
    assert!(until(&mut legs, |legs| {
        (got(legs[0]).len() - 2) as u64 + dropped() == 400
    }));
    let passed = got(&ann_to_bob).len() - 2;
    assert!((90..400).contains(&passed), "{passed}");
}

#[test]
fn who_waits_is_told_of_who_comes_and_who_goes() {
    let running = Running::start(2);
    let first = joined(&running, "team");
    let alone = others(&first, None);
    assert_eq!(ids(&alone), [""; 0]);
    let version = |list: &Value| list["version"].as_u64().expect("a number");
    let second = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| others(&first, Some(version(&alone))));
        std::thread::sleep(Duration::from_millis(100));
        let second = joined(&running, "team?name=Ann%20B.");
        let told = waiting.join().expect("an answer");
        assert_eq!(told["others"][0]["name"], "Ann B.");
        assert_eq!(ids(&told), [you(&second)]);
        second
    });
    let both = others(&first, None);
    let leg = hearing(&first, &you(&second));
    assert_eq!(second.delete().status, 200);
    let gone = others(&first, Some(version(&both)));
    assert_eq!(ids(&gone), [""; 0]);
    second.delete().problem(404);
    running.get(&second.location).problem(404);
    // Its listeners may still end their legs properly, and then the stream is removed.
    assert_eq!(leg.delete().status, 200);
    let end = Instant::now() + SOON;
    let streams = || running.get("/api/v1/streams").json();
    while streams()["streams"].as_array().map(Vec::len) != Some(1) {
        assert!(Instant::now() < end, "{}", streams());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn who_never_arrives_is_gone_after_its_time() {
    let running = Running::with(1, |config| config.limits.handshake_s = 1);
    let first = joined(&running, "team");
    let silent = join(&running, "team", &[]).expect("answered");
    let both = others(&first, None);
    assert_eq!(ids(&both).len(), 1);
    let told = others(&first, both["version"].as_u64());
    assert_eq!(ids(&told), [""; 0]);
    running.get(&silent.location).problem(404);
}

#[test]
fn rooms_and_places_are_bounded_and_who_finds_none_is_told() {
    let running = Running::with(1, |config| {
        config.limits.rooms = 1;
        config.limits.room_participants = 2;
    });
    let first = join(&running, "team", &[]).expect("answered");
    let _second = join(&running, "team", &[]).expect("answered");
    let refused = join(&running, "team", &[]).err().expect("full");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let problem = refused.problem(503);
    assert_eq!(problem["title"], "Room full");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("limits.room_participants"), "{detail}");
    let problem = join(&running, "other", &[]).err().expect("one room");
    let detail = problem.problem(503)["detail"].to_string();
    assert!(detail.contains("limits.rooms"), "{detail}");
    assert_eq!(first.delete().status, 200);
    join(&running, "team", &[]).expect("a place is free again");
}

#[test]
fn offers_and_names_that_do_not_fit_are_refused() {
    let running = Running::start(1);
    let problem = |room: &str, status: u16| {
        let refused = join(&running, room, &[]).err().expect("refused");
        refused.problem(status)["detail"].to_string()
    };
    assert!(problem("a~b", 400).contains("use letters"));
    assert!(problem(&"x".repeat(65), 400).contains("1 to 64"));
    assert!(problem(&format!("a?name={}", "x".repeat(41)), 400).contains("40 characters"));
    let path = "/call/team";
    let audio = (Vec::new(), Kinds::AUDIO);
    let silent = Peer::asking(&running, path, &[], socket(), audio, str::to_owned);
    let detail = silent.err().expect("it says nothing").problem(400)["detail"].to_string();
    assert!(detail.contains("no m= line sends audio"), "{detail}");
    let tone = (vec![Track::audio(Codec::Pcmu, 1)], Kinds::NONE);
    let tone = Peer::asking(&running, path, &[], socket(), tone, str::to_owned);
    let detail = tone.err().expect("not Opus").problem(422)["detail"].to_string();
    assert!(detail.contains("Opus"), "{detail}");
    let plain = running.request("POST", path, &[("Content-Type", "text/plain")], "v=0");
    plain.problem(415);
    running.request("POST", path, &[SDP], "v=1").problem(400);
    let peer = joined(&running, "team");
    open_leg(&peer, "abababababab")
        .err()
        .expect("nobody")
        .problem(404);
    running.get("/call/other/nobody").problem(404);
    let other = peer.location.replace("team", "other");
    running.get(&other).problem(404);
    assert_eq!(running.sessions(), (1, 0), "those refused hold nothing");
}
