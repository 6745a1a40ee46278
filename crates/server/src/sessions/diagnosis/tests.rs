//! Sentences for what may have happened.

use glassline_webrtc::{Flight, HandshakeTrace};

use super::*;

/// A server that offers `candidate` to a client that came from `client`.
struct Scene {
    report: ConnectionReport,
    client: &'static str,
    local: &'static str,
    surroundings: Surroundings,
    closed: Option<CloseReason>,
    is_evicted: bool,
    view: Option<ClientView>,
}

fn udp(address: &str) -> TransportAddress {
    TransportAddress::udp(address.parse().expect("an address"))
}

impl Scene {
    fn new(candidate: &str, client: &'static str) -> Self {
        Self {
            report: ConnectionReport {
                candidates: vec![udp(candidate)],
                ..ConnectionReport::default()
            },
            client,
            local: "192.0.2.1:8889",
            surroundings: Surroundings::default(),
            closed: None,
            is_evicted: false,
            view: None,
        }
    }

    fn after_checks(mut self, checks: u32, own: u32, answered: u32) -> Self {
        self.report.checks = checks;
        self.report.sources = vec![udp(SOMEBODY)];
        self.report.own_checks = own;
        self.report.own_checks_answered = answered;
        self
    }

    fn with_trace(mut self, trace: HandshakeTrace) -> Self {
        self.report.handshake = trace;
        self
    }

    fn told(mut self, json: &str) -> Self {
        self.view = Some(serde_json::from_str(json).expect("a report"));
        self
    }

    fn diagnose(&self) -> Diagnosis {
        let addresses = ConnectionAddresses {
            peer: self.client.parse().expect("an address"),
            local: self.local.parse().expect("an address"),
        };
        let evidence = Evidence {
            report: &self.report,
            addresses,
            surroundings: self.surroundings,
            waited: Duration::from_secs(10),
            closed: self.closed,
            is_evicted: self.is_evicted,
            client: self.view.as_ref(),
        };
        evidence.diagnose()
    }

    #[track_caller]
    fn says(&self, stage: Stage, reason: &str, remedy: &str) {
        let found = self.diagnose();
        assert_eq!(found.stage, stage, "{found:?}");
        assert!(found.reason.contains(reason), "{found:?}");
        let known = found.remedy.as_deref().unwrap_or_default();
        assert!(known.contains(remedy), "{found:?}");
    }
}

const CONTAINER: &str = "172.17.0.2:8189";
const PUBLIC: &str = "203.0.113.9:8189";
const SOMEBODY: &str = "198.51.100.7:5000";
const NEIGHBOR: &str = "192.168.1.5:5000";

#[test]
fn addresses_that_cannot_be_reached_are_named_with_their_kind() {
    let container = Scene::new(CONTAINER, NEIGHBOR)
        .told(r#"{"gathered": 2, "pairs": [{"address": "172.17.0.2", "port": 8189, "sent": 12}]}"#);
    let found = container.diagnose();
    assert_eq!(
        found.reason,
        "the client sent 12 connectivity checks to 172.17.0.2:8189 by UDP, and none arrived at the server: \
         this is the container's address"
    );
    let remedy =
        "set media.advertise to the address of the container's host, and publish UDP port 8189";
    assert_eq!(found.remedy.as_deref(), Some(remedy));

    let mut contained = Scene::new("10.1.2.3:8189", NEIGHBOR);
    contained.says(
        Stage::Ice,
        "no connectivity check arrived within 10 s at 10.1.2.3:8189",
        "UDP port 8189",
    );
    contained.surroundings.is_contained = true;
    contained.says(Stage::Ice, "the container's address", "set media.advertise");

    // The page was opened there: the address is right, and the port is blocked.
    let reached = contained.told(r#"{"host": "10.1.2.3", "pairs": []}"#);
    let found = reached.diagnose();
    assert!(!found.reason.contains("container"), "{found:?}");
    reached.says(
        Stage::Ice,
        "10.1.2.3:8189",
        "this port alone is blocked, or not published",
    );
    let mut advertised =
        Scene::new("192.168.1.2:8189", NEIGHBOR).told(r#"{"host": "192.168.1.2"}"#);
    advertised.surroundings.is_advertised = true;
    advertised.says(Stage::Ice, "192.168.1.2:8189", "this port alone is blocked");

    // An address that is offered for both protocols is named once.
    let tcp = TransportAddress::tcp(udp(CONTAINER).socket);
    let mut both = Scene::new(CONTAINER, NEIGHBOR);
    both.report.candidates.push(tcp);
    both.says(
        Stage::Ice,
        "at 172.17.0.2:8189 by UDP and TCP: this is the container's",
        "publish UDP and TCP port 8189",
    );

    let private = Scene::new("192.168.1.2:8189", SOMEBODY);
    private.says(
        Stage::Ice,
        "a private address",
        "the public address, and forward UDP port 8189",
    );
    let loopback = Scene::new("127.0.0.1:8189", NEIGHBOR);
    loopback.says(Stage::Ice, "a loopback address", "set media.advertise");
    let v4_only = Scene::new(PUBLIC, "[2001:db8::1]:5000");
    v4_only.says(Stage::Ice, "other version of IP", "an IPv6 address");
}

#[test]
fn an_address_that_may_be_right_leaves_the_firewall() {
    let mut same = Scene::new("192.0.2.1:8189", SOMEBODY);
    same.says(
        Stage::Ice,
        "no connectivity check arrived",
        "this port alone is blocked",
    );
    same.local = "192.168.1.2:8889";
    same.says(Stage::Ice, "192.0.2.1:8189", "set media.advertise to it");
    same.surroundings.is_advertised = true;
    same.says(
        Stage::Ice,
        "no connectivity check arrived",
        "media.advertise is the address",
    );
    // What was configured is not called a container's.
    let mut advertised = Scene::new(CONTAINER, NEIGHBOR);
    advertised.surroundings.is_advertised = true;
    advertised.says(
        Stage::Ice,
        "172.17.0.2:8189 by UDP",
        "media.advertise is the address",
    );
}

#[test]
fn what_a_client_reports_is_believed_only_where_it_can_be_true() {
    let elsewhere = r#"{"pairs": [{"address": "9.9.9.9", "port": 1, "sent": 12}, {"sent": 4294967295}, {"sent": 7}]}"#;
    let found = Scene::new(PUBLIC, SOMEBODY).told(elsewhere).diagnose();
    assert!(
        found.reason.starts_with("the client sent 4294967295 "),
        "{found:?}"
    );
    let other =
        r#"{"pairs": [{"address": "203.0.113.9", "port": 8189, "sent": 9, "answered": 3}]}"#;
    let other = Scene::new(PUBLIC, SOMEBODY).told(other);
    other.says(Stage::Ice, "another server answered 3", "leads elsewhere");
    let alone = Scene::new(PUBLIC, SOMEBODY).told(r#"{"gathered": 0}"#);
    alone.says(Stage::Ice, "no network of its own", "besides loopback");
    for wrong in [
        r#"{"pairs": [{"sent": "many"}]}"#,
        r#"{"gathered": -1}"#,
        "[]x",
    ] {
        assert!(
            serde_json::from_str::<ClientView>(wrong).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn checks_that_arrived_tell_which_direction_fails() {
    let one_way = Scene::new(PUBLIC, SOMEBODY).after_checks(14, 6, 0);
    one_way.says(
        Stage::Ice,
        "14 connectivity checks arrived from 198.51.100.7, but none of the 6 checks",
        "out through every firewall",
    );
    let both = Scene::new(PUBLIC, SOMEBODY).after_checks(14, 1, 1);
    both.says(
        Stage::Handshake,
        "sent no ClientHello within 10 s",
        "a=setup:passive",
    );
    let mut passive = Scene::new(PUBLIC, SOMEBODY).after_checks(14, 1, 1);
    passive.report.is_dtls_client = true;
    passive.says(
        Stage::Handshake,
        "no answer to our ClientHello",
        "a=setup:passive",
    );
}

#[test]
fn handshakes_tell_the_flight_that_got_no_answer() {
    let scene = |trace| {
        Scene::new(PUBLIC, SOMEBODY)
            .after_checks(3, 1, 1)
            .with_trace(trace)
    };
    let hello = HandshakeTrace {
        received: 2,
        sent: 6,
        largest_bytes: 1_100,
        latest_received: Some(Flight::ClientHello),
        latest_sent: Some(Flight::ServerHello),
        ..HandshakeTrace::default()
    };
    scene(hello.clone()).says(
        Stage::Handshake,
        "DTLS: no answer to our ServerHello within 10 s; it was sent in 6 datagrams of at most 1100 bytes",
        "MTU",
    );
    let partly = HandshakeTrace {
        latest_received: Some(Flight::ClientKeyExchange),
        ..hello.clone()
    };
    scene(partly).says(Stage::Handshake, "only in part", "MTU");
    let alert = HandshakeTrace {
        alert: Some(42),
        failure: Some("security error".into()),
        ..hello.clone()
    };
    scene(alert).says(
        Stage::Handshake,
        "the alert 42 (bad_certificate)",
        "certificate",
    );
    let failure = HandshakeTrace {
        failure: Some("no mutually acceptable cipher suite".into()),
        ..hello
    };
    scene(failure.clone()).says(
        Stage::Handshake,
        "no mutually acceptable cipher suite",
        "DTLS 1.2",
    );
    let mut wrong = scene(failure);
    wrong.closed = Some(CloseReason::WrongFingerprint);
    wrong.says(
        Stage::Handshake,
        "does not match the fingerprint",
        "intercepts",
    );
}

#[test]
fn srtp_profiles_that_do_not_match_are_told_by_name() {
    let mut scene = Scene::new(PUBLIC, SOMEBODY).after_checks(3, 1, 1);
    scene.closed = Some(CloseReason::NoSrtpProfile);
    scene.says(Stage::Handshake, "no SRTP profile", "AES");
    let mut says = |offered: &[u16], reason| {
        scene.report.handshake.srtp_offered = Some(offered.into());
        scene.says(Stage::Handshake, reason, "SRTP_AES128_CM_SHA1_80");
    };
    says(&[], "ClientHello has no SRTP profile (use_srtp), so that");
    says(
        &[2, 5],
        "besides SRTP_AES128_CM_SHA1_32, SRTP_NULL_SHA1_80, and",
    );
    says(&[2, 5, 6, 9, 10, 11], "AES_128_GCM and 2 more, and");
    says(
        &[0x1234],
        "besides 0x1234, and the server has none of these",
    );
    scene.report.is_dtls_client = true;
    scene.says(Stage::Handshake, "chose no SRTP profile", "AES");
}

#[test]
fn a_lost_client_is_told_from_one_that_answers_nothing() {
    let s = Duration::from_secs;
    let gone = lost(Some(udp(SOMEBODY)), s(80), s(20));
    assert_eq!(gone.stage, Stage::Connected);
    let reason = "connected for 60 s, and lost: for 20 s no sign of life (connectivity check or media) came \
                  from the client at 198.51.100.7:5000";
    assert_eq!(gone.reason, reason);
    let at_once = lost(Some(udp(SOMEBODY)), Duration::from_millis(20_400), s(20));
    let begins = "connected, and lost within a second of its offer: for 20 s no sign of life";
    assert!(at_once.reason.starts_with(begins), "{at_once:?}");
    let deaf = lost(Some(udp(SOMEBODY)), s(80), s(3));
    assert!(
        deaf.reason.contains("still sends, but answered none"),
        "{deaf:?}"
    );
    let remedy = deaf.remedy.unwrap_or_default();
    assert!(remedy.contains("out through every firewall"), "{remedy}");
}

#[test]
fn an_evicted_session_tells_how_far_it_came() {
    let mut scene = Scene::new(PUBLIC, SOMEBODY);
    scene.is_evicted = true;
    scene.says(
        Stage::Server,
        "needed the place of this one",
        "limits.half_open_per_address",
    );
    scene.says(Stage::Server, "no connectivity check arrived", "limits");
}
