use super::super::*;
use super::{ANSWERS, CHROMIUM, OFFERS, SAFARI};

const MINIMAL: &str = "v=0\no=- 1 1 IN IP4 0.0.0.0\ns=-\nt=0 0\n";

fn error(text: &str) -> (usize, Reason) {
    let error = SessionDescription::parse(text).expect_err("must not parse");
    (error.line, error.reason)
}

#[test]
fn real_descriptions_come_back_as_written() {
    for (name, text) in OFFERS.into_iter().chain(ANSWERS) {
        let parsed = SessionDescription::parse(text).unwrap_or_else(|it| panic!("{name}: {it}"));
        let written = parsed.to_string();
        assert_eq!(
            SessionDescription::parse(&written).as_ref(),
            Ok(&parsed),
            "{name}"
        );
        let crlf = text.replace('\n', "\r\n");
        assert_eq!(SessionDescription::parse(&crlf), Ok(parsed), "{name}");
    }
}

/// Nothing is lost or reordered if the peer already writes the usual form.
#[test]
fn chromium_is_rewritten_byte_for_byte() {
    let parsed = SessionDescription::parse(CHROMIUM).expect("a real offer");
    assert_eq!(parsed.to_string(), CHROMIUM.replace('\n', "\r\n"));
}

#[test]
fn attributes_are_typed() {
    let offer = SessionDescription::parse(SAFARI).expect("an offer");
    let audio = &offer.media[0].attributes;
    assert_eq!(
        offer.bundle_of("1"),
        Some(&["0".to_owned(), "1".to_owned()][..])
    );
    assert_eq!(audio.mid(), Some("0"));
    assert_eq!(offer.direction(0), Direction::RecvOnly);
    assert_eq!(
        audio.credentials().map(|it| it.ufrag),
        Some("Xh2c".to_owned())
    );
    assert_eq!(audio.setup(), Some(Setup::ActPass));
    assert!(audio.has_ice_option("trickle"));
    assert_eq!(audio.rtpmap(111).map(|it| it.channels), Some(Some(2)));
    assert_eq!(
        audio.fmtp(111).and_then(|it| it.get("MinPTime")),
        Some("10")
    );
    assert!(audio.has_feedback(111, "transport-cc"));
    assert!(!audio.has_feedback(111, "nack"));
    assert!(audio.has(&Attribute::RtcpMux));
    let fingerprints: Vec<_> = audio.fingerprints().collect();
    assert_eq!(fingerprints[0].algorithm, HashAlgorithm::Sha256);
    assert_eq!(fingerprints[0].digest[..2], [0x0e, 0x7a]);

    let candidates: Vec<_> = audio.candidates().collect();
    assert!(matches!(&candidates[0].address, Address::Name(name) if name.ends_with(".local")));
    assert_eq!(candidates[0].socket_addr(), None);
    assert_eq!(candidates[1].kind, CandidateKind::ServerReflexive);
    assert_eq!(
        candidates[1].socket_addr(),
        Some("198.51.100.23:58719".parse().expect("an address"))
    );
    assert!(candidates[1].related.is_some());
    assert_eq!(candidates[2].protocol, Protocol::Tcp);
    assert_eq!(candidates[2].extension("tcptype"), Some("active"));
}

#[test]
fn a_session_level_direction_and_wildcard_feedback_hold_for_all() {
    let text = format!("{MINIMAL}a=inactive\nm=video 9 RTP/AVP 96\na=rtcp-fb:* nack  pli\n");
    let parsed = SessionDescription::parse(&text).expect("valid");
    assert_eq!(parsed.direction(0), Direction::Inactive);
    assert!(parsed.media[0].attributes.has_feedback(96, "nack pli"));
    assert_eq!(parsed.direction(7), Direction::Inactive);
}

#[test]
fn ssrcs_groups_and_stream_ids_are_read() {
    let text = format!(
        "{MINIMAL}m=video 9 UDP/TLS/RTP/SAVPF 96 97\na=msid:s v\na=ssrc-group:FID 7 8\n\
         a=ssrc:7 cname:a:b c\na=ssrc:8 cname\na=extmap:3/sendonly uri:x y  z\n"
    );
    let parsed = SessionDescription::parse(&text).expect("valid");
    let attributes = &parsed.media[0].attributes;
    let group = attributes.ssrc_groups().next().expect("a group");
    assert_eq!(
        group.ssrcs.iter().map(|it| it.0).collect::<Vec<_>>(),
        [7, 8]
    );
    let values: Vec<_> = attributes.ssrcs().map(|it| it.value.as_deref()).collect();
    assert_eq!(values, [Some("a:b c"), None]);
    assert_eq!(
        attributes.msid().and_then(|it| it.track.as_deref()),
        Some("v")
    );
    let map = attributes.extension_maps().next().expect("an extension");
    assert_eq!((map.id, map.direction), (3, Some(Direction::SendOnly)));
    assert_eq!(map.parameters, "y z");
}

#[test]
fn old_data_channel_syntax_passes_through() {
    let section = "m=application 9 DTLS/SCTP 5000\na=sctpmap:5000 webrtc-datachannel 1024\n\
                   a=fmtp:webrtc-datachannel max-message-size=100000\n";
    let parsed = SessionDescription::parse(&format!("{MINIMAL}{section}")).expect("valid");
    assert_eq!(parsed.media[0].to_string(), section.replace('\n', "\r\n"));
}

#[test]
fn lines_are_written_in_the_order_of_the_rfc() {
    let text = "v=0\no=- 1 1 IN IP4 0.0.0.0\ns=-\na=x\nt=0 0\nb=AS:9\ni=info\n\
                m=video 9 RTP/AVP 96\nb=AS:1\nc=IN IP4 0.0.0.0\n";
    let parsed = SessionDescription::parse(text).expect("order is not insisted on");
    assert_eq!(
        parsed.to_string().replace("\r\n", "\n"),
        "v=0\no=- 1 1 IN IP4 0.0.0.0\ns=-\ni=info\nb=AS:9\nt=0 0\na=x\n\
         m=video 9 RTP/AVP 96\nc=IN IP4 0.0.0.0\nb=AS:1\n"
    );
}

#[test]
fn the_offending_line_is_named() {
    let attribute = |name, line: &str| {
        let (number, reason) = error(&format!("{MINIMAL}m=video 9 RTP/AVP 96\na=mid:0\n{line}\n"));
        assert_eq!(number, 7, "{line}: {reason}");
        assert!(
            matches!(reason, Reason::Attribute { name: it, .. } if it == name),
            "{line}: {reason}"
        );
    };
    for line in [
        "a=candidate:1 1 udp 1 1.2.3.4 99999 typ host",
        "a=candidate:1 0 udp 1 1.2.3.4 9 typ host",
        "a=candidate:1 1 udp 1 1.2.3.4 9 host",
        "a=candidate:1 1 udp 4294967296 1.2.3.4 9 typ host",
        "a=candidate",
    ] {
        attribute("candidate", line);
    }
    attribute("ice-ufrag", "a=ice-ufrag:abc");
    attribute("ice-ufrag", "a=ice-ufrag:ab:cd");
    attribute("ice-pwd", "a=ice-pwd:tooshort");
    attribute("fingerprint", "a=fingerprint:sha-256 AA:BB");
    attribute("fingerprint", "a=fingerprint:sha-1 AA:B");
    attribute("setup", "a=setup:both");
    attribute("rtpmap", "a=rtpmap:128 H264/90000");
    attribute("rtpmap", "a=rtpmap:96 H264/0");
    attribute("rtpmap", "a=rtpmap:96 H264");
    attribute("fmtp", "a=fmtp:300 x=1");
    attribute("rtcp-fb", "a=rtcp-fb:96");
    attribute("extmap", "a=extmap:0 uri");
    attribute("extmap", "a=extmap:1/both uri");
    attribute("ssrc", "a=ssrc:4294967296 cname:x");
    attribute("ssrc-group", "a=ssrc-group:FID x");
    attribute("mid", "a=mid:");
}

#[test]
fn broken_lines_are_named() {
    assert_eq!(error(""), (1, Reason::NotALine));
    assert_eq!(error("o=x\n"), (1, Reason::Expected('v')));
    assert_eq!(error("v=0\n"), (2, Reason::Expected('o')));
    assert_eq!(error("v=1\n"), (1, Reason::Version));
    assert_eq!(
        error("v=0\no=- 1 1 IN IP4 0.0.0.0\ns=-\nm=audio 9 RTP/AVP 0\n"),
        (4, Reason::Expected('t'))
    );
    let after = |line: &str| error(&format!("{MINIMAL}{line}\na=y\n"));
    assert_eq!(after("no line"), (5, Reason::NotALine));
    assert_eq!(after(""), (5, Reason::NotALine));
    assert_eq!(after("A=x"), (5, Reason::NotALine));
    assert_eq!(after("x=1"), (5, Reason::UnknownType('x')));
    assert_eq!(after("v=0"), (5, Reason::Misplaced('v')));
    assert_eq!(after("a=x\0"), (5, Reason::ControlCharacter));
    assert_eq!(after("a=x\ra=y"), (5, Reason::ControlCharacter));
    for line in [
        "m=video 9 RTP/AVP",
        "m=video x RTP/AVP 96",
        "m=video 9 RTP/AVP 128",
    ] {
        assert!(
            matches!(after(line), (5, Reason::Field { kind: 'm', .. })),
            "{line}"
        );
    }
    let twice = "m=video 9 RTP/AVP 96\na=mid:0\nm=audio 9 RTP/AVP 0\na=x\na=mid:0\n";
    assert_eq!(
        error(&format!("{MINIMAL}{twice}")),
        (9, Reason::DuplicateMid)
    );
}

#[test]
fn size_lines_sections_and_attributes_are_bounded() {
    let with = |line: &str, count: usize| format!("{MINIMAL}{}", line.repeat(count));
    let media = "m=audio 9 RTP/AVP 0\n";
    assert!(SessionDescription::parse(&with(media, MEDIA_MAX)).is_ok());
    assert_eq!(
        error(&with(media, MEDIA_MAX + 1)),
        (4 + MEDIA_MAX + 1, Reason::TooManyMedia)
    );
    // `t=` counts as a line of the section.
    assert!(SessionDescription::parse(&with("a=x\n", ATTRIBUTES_MAX - 1)).is_ok());
    assert_eq!(
        error(&with("a=x\n", ATTRIBUTES_MAX)),
        (3 + ATTRIBUTES_MAX + 1, Reason::TooManyAttributes)
    );
    assert_eq!(
        error(&with("a=x\n", LINES_MAX)),
        (LINES_MAX + 1, Reason::TooManyLines)
    );
    let line = format!("a={}\n", "x".repeat(1021));
    let (number, reason) = error(&with(&line, BYTES_MAX / 1024 + 1));
    assert_eq!((number, reason), (4 + BYTES_MAX / 1024, Reason::TooLarge));
}

#[test]
fn passwords_are_not_printed() {
    let shown = format!("{:?}", super::credentials());
    assert!(
        shown.contains("sErV") && !shown.contains("aPassword"),
        "{shown}"
    );
}

/// RFC 8840 §9 and RFC 9725 §4.3 contain these forms.
#[test]
fn fragments_are_read_and_written() {
    let text = "a=ice-ufrag:EsAw\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\n\
        m=audio 9 RTP/AVP 0\na=mid:0\n\
        a=candidate:1387637174 1 udp 2122260223 192.0.2.1 61764 typ host generation 0 ufrag EsAw network-id 1\n\
        a=candidate:3471623853 1 udp 2122194687 198.51.100.2 61765 typ host generation 0 ufrag EsAw network-id 2\n\
        a=end-of-candidates\n";
    let fragment = Fragment::parse(text).expect("a fragment");
    assert_eq!(
        fragment.credentials().map(|it| it.ufrag),
        Some("EsAw".to_owned())
    );
    let mids: Vec<_> = fragment.candidates().map(|(mid, _)| mid).collect();
    assert_eq!(mids, [Some("0"), Some("0")]);
    assert!(fragment.end_of_candidates());
    assert_eq!(fragment.to_string().replace("\r\n", "\n"), text);

    let bare = "a=ice-ufrag:EsAw\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\na=mid:0\n\
                a=candidate:1 1 udp 1 192.0.2.1 61764 typ host\n";
    let fragment = Fragment::parse(bare).expect("a fragment without m=");
    assert_eq!(
        fragment.candidates().next().and_then(|(mid, _)| mid),
        Some("0")
    );
    assert!(!fragment.end_of_candidates());

    let wrong = Fragment::parse("a=mid:0\na=candidate:1 1 udp\n").expect_err("cut short");
    assert_eq!(wrong.line, 2);
    assert!(Fragment::parse("").is_err());
}

#[test]
fn a_trickled_fragment_points_to_its_section() {
    let offer = SessionDescription::parse(CHROMIUM).expect("a real offer");
    let address = super::udp("192.0.2.1:4000");
    let candidate = Candidate::host(address, 0);
    let written = Fragment::trickle(&offer.media[1], &super::credentials(), &[candidate], true);
    let read = Fragment::parse(&written.to_string()).expect("a fragment");
    assert_eq!(read, written);
    let (mid, candidate) = read.candidates().next().expect("one");
    assert_eq!(
        (mid, candidate.socket_addr()),
        (Some("1"), Some(address.socket))
    );
    assert!(read.end_of_candidates());
}

#[test]
fn an_ice_restart_is_answered_with_new_credentials() {
    let request = "a=group:BUNDLE 0 1\na=ice-ufrag:ysXw\na=ice-pwd:vw5LmwG4y/e6dPP/zAP9Gp5k\n\
                   m=audio 9 UDP/TLS/RTP/SAVPF 111\na=mid:0\n";
    let request = Fragment::parse(request).expect("a fragment");
    let address = super::udp("192.0.2.7:8189");
    let body = restart_fragment(&request, &super::credentials(), &[address]);
    assert_eq!(
        body.replace("\r\n", "\n"),
        "a=ice-lite\na=group:BUNDLE 0 1\nm=audio 9 UDP/TLS/RTP/SAVPF 111\na=mid:0\n\
         a=ice-ufrag:sErV\na=ice-pwd:aPasswordOfTwentyTwoCh\n\
         a=candidate:1 1 udp 2130706431 192.0.2.7 8189 typ host\na=end-of-candidates\n"
    );
    let bare = Fragment::parse("a=ice-ufrag:ysXw\n").expect("a fragment");
    let body = restart_fragment(&bare, &super::credentials(), &[address]);
    let read = Fragment::parse(&body).expect("a fragment");
    assert_eq!(read.credentials(), Some(super::credentials()));
}
