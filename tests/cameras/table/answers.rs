//! Cameras whose RTSP is otherwise: keep-alives, passwords, redirects, transports and ends.

use super::super::quirk::{Answer, CertificateOption, Quirk, Sound, Target};
use super::super::row::{BOTH, Ending, H264, PULLED, Row, TCP, UDP, row};

/// A session in which a keep-alive comes after less than a second.
const SHORT: Quirk = Quirk::SessionSeconds(2);

pub(crate) const ROWS: &[Row] = &[
    row("keep_alives_are_refused_with_454", "Thingino", "thingino-firmware#490")
        .does(
            "The camera answers each keep-alive with 454 (Session Not Found) and sends on.",
            &[Quirk::KeepAlive(Answer::Status(454)), Quirk::SessionSeconds(4)],
        )
        .seconds(6),
    row("keep_alives_have_no_answer", "Several makers", "ZLMediaKit#642, mediamtx#1739")
        .does(
            "The camera offers GET_PARAMETER, and answers no keep-alive.",
            &[Quirk::KeepAlive(Answer::None), Quirk::SessionSeconds(10)],
        )
        .seconds(12),
    row("keep_alives_need_a_fresh_login", "Axis", "SharpRTSP#126")
        .does(
            "The camera answers a keep-alive with 401 and a fresh nonce, which it does not call stale.",
            &[Quirk::KeepAlive(Answer::FreshNonce), Quirk::SessionSeconds(4)],
        )
        .seconds(6),
    row("keep_alives_are_refused_with_a_number_behind", "Several makers", "retina#133")
        .does(
            "The camera answers keep-alives with 400 and the CSeq of the request before.",
            &[Quirk::KeepAlive(Answer::BehindWith400), Quirk::SessionSeconds(4)],
        )
        .seconds(6),
    row("keep_alives_are_not_implemented", "Several makers", "after retina#133")
        .does(
            "The camera answers keep-alives with 501.",
            &[Quirk::KeepAlive(Answer::Status(501)), Quirk::SessionSeconds(4)],
        )
        .seconds(6),
    row("every_answer_has_a_number_behind", "Several makers", "frigate#1605")
        .does(
            "The camera numbers every response one too low.",
            &[Quirk::NumbersBehind, SHORT],
        )
        .seconds(4),
    row("the_number_must_come_first", "Recorders", "mediamtx#2887, datarhei/restreamer#55")
        .does(
            "The camera answers 400 where CSeq is not the first header.",
            &[Quirk::NumberFirst],
        )
        .not_by_ffmpeg(),
    row("the_number_must_come_first_of_a_login", "Recorders", "after mediamtx#2887")
        .does(
            "The camera answers 400 where CSeq is not the first header, and asks for a password.",
            &[Quirk::NumberFirst, Quirk::Password],
        )
        .not_by_ffmpeg(),
    row("a_password_of_signs", "Several makers", "mediamtx#2973, mediamtx#2069")
        .does(
            "The camera's password has signs that mean something in a URL; the URL escapes them.",
            &[Quirk::PasswordOfSigns],
        ),
    row("the_connection_is_closed_behind_the_challenge", "VStarcam", "retina#45")
        .does(
            "The camera closes the connection after its 401, and takes the answer in the next one.",
            &[Quirk::ClosesAfterChallenge],
        )
        .connections(3)
        .not_by_ffmpeg(),
    row("a_redirect_to_another_url", "Video platforms", "go2rtc#1881")
        .does(
            "The camera redirects DESCRIBE with 302 to another URL.",
            &[Quirk::Redirect(302, Target::Absolute)],
        )
        .connections(2),
    row("a_redirect_without_a_number", "Video platforms", "go2rtc#1881")
        .does(
            "The platform redirects DESCRIBE, and its response has no CSeq.",
            &[Quirk::Redirect(302, Target::Absolute), Quirk::RedirectUnnumbered],
        )
        .connections(2),
    row("a_permanent_redirect", "Video platforms", "go2rtc#1480")
        .does(
            "The camera redirects DESCRIBE with 301 to another URL.",
            &[Quirk::Redirect(301, Target::Absolute)],
        )
        .connections(2),
    row("a_redirect_to_a_path", "Video platforms", "after go2rtc#1881")
        .does(
            "The camera redirects DESCRIBE to a path without scheme and host.",
            &[Quirk::Redirect(302, Target::Relative)],
        )
        .connections(2)
        .not_by_ffmpeg(),
    row("a_redirect_with_a_login", "Video platforms", "after go2rtc#1881")
        .does(
            "The camera redirects DESCRIBE within its host, and asks for the password again.",
            &[Quirk::Redirect(302, Target::Absolute), Quirk::Password],
        )
        .connections(2)
        .not_by_ffmpeg(),
    row("a_redirect_to_itself", "Printers", "mediamtx#5236, go2rtc#565")
        .does(
            "The camera redirects DESCRIBE to the URL that was asked for, without an end.",
            &[Quirk::Redirect(302, Target::Itself)],
        )
        .by(TCP, H264)
        .told("redirect")
        .connections(30),
    row("media_stops_without_reports", "Arlo", "mediamtx#1403")
        .does(
            "The camera closes the connection after 10 s without an RTCP packet.",
            &[Quirk::NeedsReports(10)],
        )
        .seconds(13),
    row("the_camera_begins_anew", "Tapo", "go2rtc#1943")
        .does(
            "The camera restarts every three seconds, and its numbers and times begin at zero again.",
            &[Quirk::Restarts(3)],
        )
        .seconds(8)
        .connections(5)
        .freezes(4_500),
    row("a_session_is_deleted", "Several makers", "mediamtx#4377, mediamtx#63")
        .does(
            "The camera takes one client, and is not free again before TEARDOWN.",
            &[Quirk::OneSession],
        )
        .ended_by(Ending::Delete),
    row("a_session_gets_another_url", "Several makers", "after mediamtx#4377")
        .does(
            "The camera takes one client; the source gets another URL.",
            &[Quirk::OneSession],
        )
        .ended_by(Ending::Change),
    row("a_session_is_restarted", "Several makers", "after mediamtx#4377")
        .does(
            "The camera takes one client; the source is restarted.",
            &[Quirk::OneSession],
        )
        .ended_by(Ending::Restart),
    row("a_session_ends_with_the_server", "Several makers", "mediamtx#63")
        .does(
            "The camera takes one client; the server ends.",
            &[Quirk::OneSession],
        )
        .ended_by(Ending::Terminate),
    row("a_goodbye_has_no_answer", "Several makers", "after mediamtx#4377")
        .does(
            "The camera takes one client, and never answers TEARDOWN.",
            &[Quirk::OneSession, Quirk::SilentTeardown],
        )
        .ended_by(Ending::Delete),
    row("media_comes_from_another_address", "Several makers", "mediamtx#4362, mediamtx#691")
        .does(
            "The camera sends its datagrams from another address than that of RTSP.",
            &[Quirk::From("127.0.0.2")],
        )
        .by(UDP, BOTH),
    row("media_comes_from_an_address_that_is_named", "Several makers", "mediamtx#4362")
        .does(
            "The camera sends from another address, which its Transport names as source.",
            &[
                Quirk::From("127.0.0.2"),
                Quirk::Transport(
                    "RTP/AVP;unicast;source=127.0.0.2;client_port={client};server_port={server}",
                ),
            ],
        )
        .by(UDP, BOTH),
    row("the_source_number_comes_before_the_channels", "Several makers", "retina#120")
        .does(
            "The camera names the SSRC before the channels, and does not say unicast.",
            &[Quirk::Transport("RTP/AVP/TCP;ssrc=22222222;interleaved={channels}")],
        )
        .by(TCP, BOTH),
    row("the_source_number_has_a_prefix", "Several makers", "retina#138")
        .does(
            "The camera writes the SSRC as `0x6f7c`.",
            &[Quirk::Transport("RTP/AVP/TCP;unicast;ssrc=0x6f7c;interleaved={channels}")],
        )
        .by(TCP, BOTH),
    row("other_channels_are_answered", "Several makers", "rtsp-client-android#143")
        .does(
            "The camera sends on channels 2 and 3, whatever it is asked for.",
            &[Quirk::Transport("RTP/AVP/TCP;unicast;interleaved=2-3")],
        )
        .by(TCP, BOTH),
    row("the_lower_transport_is_missing", "Several makers", "after retina#120")
        .does(
            "The camera answers channels without naming TCP, which means UDP.",
            &[Quirk::Transport("RTP/AVP;unicast;interleaved={channels}")],
        )
        .by(TCP, BOTH)
        .not_by_ffmpeg(),
    row("no_transport_is_answered", "Several makers", "gortsplib#456")
        .does(
            "The camera answers SETUP without a Transport header.",
            &[Quirk::Transport("")],
        )
        .by(PULLED, BOTH)
        .not_by_ffmpeg(),
    row("no_ports_of_the_camera_are_answered", "Several makers", "smolrtsp#31")
        .does(
            "The camera does not name its own ports.",
            &[Quirk::Transport("RTP/AVP;unicast;client_port={client}")],
        )
        .by(UDP, BOTH),
    row("digest_in_two_lines_behind_basic", "Several makers", "after retina#45")
        .does(
            "The camera offers Basic, and Digest with MD5-sess and both qualities of protection.",
            &[Quirk::Challenges(&[
                "Basic realm=\"camera\"",
                "Digest realm=\"camera\", nonce=\"{nonce}\", algorithm=MD5-sess, qop=\"auth,auth-int\"",
            ])],
        )
        .by(PULLED, H264),
    row("digest_with_sha_256_in_front", "Several makers", "after retina#45")
        .does(
            "The camera offers Digest with SHA-256, with an unknown algorithm, and with MD5.",
            &[Quirk::Challenges(&[
                "Digest realm=\"camera\",nonce=\"{nonce}\",algorithm=SHA-512-256",
                "Digest realm=\"camera\",nonce=\"{nonce}\",algorithm=SHA-256,qop=\"auth\"",
                "Digest realm=\"camera\",nonce=\"{nonce}\",algorithm=\"MD5\",stale=FALSE",
            ])],
        )
        .by(TCP, H264),
    row("digest_for_the_body", "Several makers", "after retina#45")
        .does(
            "The camera offers Digest with the quality of protection `auth-int` alone.",
            &[Quirk::Challenges(&[
                "Digest qop=auth-int, opaque=\"\", nonce=\"{nonce}\", realm=\"camera\"",
            ])],
        )
        .by(TCP, H264),
    row("only_basic", "Several makers", "after go2rtc#1236")
        .does(
            "The camera offers Basic alone, without quotes.",
            &[Quirk::Challenges(&["basic realm=camera"])],
        )
        .by(TCP, H264),
    row("no_methods_are_listed", "Several makers", "after ZLMediaKit#642")
        .does(
            "The camera's response to OPTIONS lists no method, and only OPTIONS keeps the session alive.",
            &[Quirk::Public(""), Quirk::SessionSeconds(4)],
        )
        .seconds(6),
    row("the_timeout_is_zero", "Several makers", "after OvenMediaEngine#1419")
        .does(
            "The camera writes the timeout of its session as zero.",
            &[Quirk::SessionTail(";timeout=0")],
        ),
    row("the_timeout_has_spaces", "Several makers", "after OvenMediaEngine#1419")
        .does(
            "The camera writes the timeout of its session with spaces, a tab and a unit.",
            &[
                Quirk::SessionTail(" ;\tTimeout = 4 ; x=1"),
                Quirk::SessionSeconds(4),
            ],
        )
        .seconds(6),
    row("lengths_are_empty_or_negative", "Several makers", "after retina#133")
        .does(
            "The camera's responses without a body have an empty and a negative length.",
            &[Quirk::AlsoAnswered("Content-Length:\r\nContent-Length: -1\r\n")],
        ),
    row("lines_end_with_a_line_feed", "Several makers", "after retina#133")
        .does(
            "The camera ends the lines of its responses with a line feed alone.",
            &[Quirk::LineFeeds],
        ),
    row("a_range_is_refused", "Several makers", "after gortsplib#574")
        .does(
            "The camera refuses PLAY with a range (457), and plays without one.",
            &[Quirk::NoRanges],
        )
        .not_by_ffmpeg(),
    row("packets_come_before_the_answer", "Several makers", "after gortsplib#574")
        .does(
            "The camera sends its first frame before the response to PLAY, whose RTP-Info is unreadable.",
            &[Quirk::PacketsBeforeAnswer("url=;seq=x,rtptime")],
        )
        .by(PULLED, BOTH),
    row("the_camera_asks_for_options", "Several makers", "after retina#133")
        .does(
            "The camera asks the server for OPTIONS, once a second, with numbers of its own.",
            &[Quirk::Asks("OPTIONS")],
        ),
    row("the_camera_announces", "Several makers", "after retina#133")
        .does(
            "The camera announces its description anew, once a second.",
            &[Quirk::Asks("ANNOUNCE")],
        ),
    row("the_camera_sets_parameters", "Several makers", "after retina#133")
        .does(
            "The camera sets parameters of the server, once a second.",
            &[Quirk::Asks("SET_PARAMETER")],
        ),
    row("bytes_come_between_frames", "Several makers", "after curl#10808")
        .does(
            "The camera sends further bytes between its interleaved frames.",
            &[Quirk::BytesBetween(&[0, 0, b'R', b'T', 0xff, b'\r', b'\n'])],
        )
        .by(TCP, BOTH),
    row("channels_are_swapped", "Several makers", "after gortsplib#72")
        .does(
            "The camera sends RTP on the second channel of its track, and RTCP on the first.",
            &[Quirk::SwappedChannels],
        )
        .by(TCP, BOTH),
    row("one_pair_of_channels_is_answered_for_all", "Several makers", "after gortsplib#72")
        .does(
            "The camera answers the channels 0 and 1 for each track, and sends on those that were asked for.",
            &[
                Quirk::Sound(Sound::Alaw8),
                Quirk::Transport("RTP/AVP/TCP;unicast;interleaved=0-1"),
                Quirk::OnChannelsAsked,
            ],
        )
        .by(TCP, H264)
        .heard("PCMA"),
    row("immediate_feedback_is_answered", "Several makers", "after retina#120")
        .does(
            "The camera answers `RTP/AVPF` where it was asked for `RTP/AVP`.",
            &[Quirk::Transport("RTP/AVPF/TCP;unicast;interleaved={channels}")],
        )
        .by(TCP, H264),
    row("other_ports_of_the_client_are_answered", "Several makers", "after smolrtsp#31")
        .does(
            "The camera answers other ports of the client than those that it sends to.",
            &[Quirk::Transport("RTP/AVP;unicast;client_port=0-0;server_port={server}")],
        )
        .by(UDP, BOTH),
    row("its_ports_are_zero_and_reports_are_needed", "Arlo", "after mediamtx#1403")
        .does(
            "The camera names its ports as zero, and closes the connection after 10 s without RTCP.",
            &[
                Quirk::Transport("RTP/AVP;unicast;client_port={client};server_port=0-0"),
                Quirk::NeedsReports(10),
            ],
        )
        .by(UDP, H264)
        .seconds(13),
    row("a_redirect_to_another_host", "Video platforms", "after go2rtc#1881")
        .does(
            "The camera redirects DESCRIBE to another host, which asks for a password.",
            &[Quirk::Redirect(302, Target::OtherHost), Quirk::Password],
        )
        .by(TCP, H264)
        .told("go neither to another host")
        .connections(30),
    row("a_redirect_to_where_nobody_may_go", "Video platforms", "after go2rtc#1881")
        .does(
            "The camera, whose source came over the API, redirects DESCRIBE to a metadata service.",
            &[Quirk::Redirect(302, Target::Metadata)],
        )
        .by(TCP, H264)
        .told("is a metadata service of a cloud")
        .connections(30),
    row("within_tls_with_a_pin", "Printers", "mediamtx#5236")
        .does(
            "The camera speaks TLS, with a certificate that it signed itself and that is pinned.",
            &[Quirk::WithinTls(CertificateOption::Pin)],
        )
        .by(TCP, BOTH),
    row("within_tls_with_any_certificate", "Printers", "after mediamtx#5236")
        .does(
            "The camera speaks TLS, and the source takes any certificate (`insecure`).",
            &[Quirk::WithinTls(CertificateOption::Insecure)],
        )
        .by(TCP, H264),
    row("within_tls_without_a_pin", "Printers", "after mediamtx#5236")
        .does(
            "The camera speaks TLS, with a certificate that it signed itself.",
            &[Quirk::WithinTls(CertificateOption::None)],
        )
        .by(TCP, H264)
        .told("the camera's certificate is not trusted (")
        .played_by_ffmpeg()
        .connections(30),
    row("within_tls_with_another_pin", "Printers", "after mediamtx#5236")
        .does(
            "The camera speaks TLS, and another certificate is pinned.",
            &[Quirk::WithinTls(CertificateOption::WrongPin)],
        )
        .by(TCP, H264)
        .told("(it is not the pinned one)")
        .played_by_ffmpeg()
        .connections(30),
    row("the_timeout_is_a_day", "Several makers", "after go2rtc#2161")
        .does(
            "The camera's session lives for a day without a request.",
            &[Quirk::SessionSeconds(86_400)],
        ),
];
