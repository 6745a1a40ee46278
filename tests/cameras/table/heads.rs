//! Cameras that write the heads of their responses otherwise.

use super::super::quirk::Quirk;
use super::super::row::{BOTH, H264, PULLED, Row, TCP, UDP, row};

/// A response of 200 without its headers.
const GRANTED: &str = "RTSP/1.0 200 Answer\r\n";

pub(crate) const ROWS: &[Row] = &[
    row(
        "names_of_headers_are_in_small_letters",
        "Several makers",
        "after retina#133",
    )
    .does(
        "The camera writes the names of headers in small letters.",
        &[
            Quirk::Answered("CSeq:", "cseq:"),
            Quirk::Answered("Session:", "session:"),
            Quirk::Answered("Transport:", "transport:"),
            Quirk::Answered("Content-Length:", "content-length:"),
            Quirk::Answered("Content-Base:", "content-base:"),
        ],
    ),
    row("headers_are_folded", "Several makers", "after retina#133")
        .does(
            "The camera continues the values of headers on a second line.",
            &[
                Quirk::Answered("Transport: ", "Transport:\r\n "),
                Quirk::Answered("Session: ", "Session: \r\n\t"),
            ],
        )
        .not_by_ffmpeg(),
    row(
        "headers_have_no_spaces",
        "Several makers",
        "after retina#133",
    )
    .does(
        "The camera leaves out the spaces behind the names of headers, or writes them in front.",
        &[
            Quirk::Answered("CSeq: ", "CSeq:"),
            Quirk::Answered("Session: ", "Session : "),
            Quirk::Answered("Content-Length: ", "Content-Length:\t "),
        ],
    ),
    row(
        "empty_lines_come_before_responses",
        "Several makers",
        "after curl#10808",
    )
    .does(
        "The camera sends empty lines in front of its responses.",
        &[Quirk::Answered(GRANTED, "\r\n\r\nRTSP/1.0 200 Answer\r\n")],
    )
    .by(PULLED, BOTH)
    .not_by_ffmpeg(),
    row(
        "a_status_has_no_reason",
        "Several makers",
        "after retina#133",
    )
    .does(
        "The camera's status lines have no reason phrase.",
        &[Quirk::Answered(GRANTED, "RTSP/1.0 200\r\n")],
    ),
    row(
        "a_status_has_other_spaces",
        "Several makers",
        "after retina#133",
    )
    .does(
        "The camera's status lines have two spaces, and the protocol's name in small letters.",
        &[Quirk::Answered(GRANTED, "rtsp/1.0  200  OK \r\n")],
    )
    .not_by_ffmpeg(),
    row(
        "a_header_is_no_header",
        "Several makers",
        "after retina#133",
    )
    .does(
        "The camera's responses have a line without a colon.",
        &[Quirk::Answered(
            GRANTED,
            "RTSP/1.0 200 Answer\r\nServer camera\r\n",
        )],
    ),
    row(
        "the_base_is_the_location",
        "Several makers",
        "after gortsplib#120",
    )
    .does(
        "The camera names the base of its tracks as `Content-Location`.",
        &[Quirk::Answered("Content-Base:", "Content-Location:")],
    ),
    row(
        "no_base_is_answered",
        "Several makers",
        "after gortsplib#120",
    )
    .does(
        "The camera names no base of its tracks.",
        &[Quirk::Answered("Content-Base:", "X-Base:")],
    ),
    row(
        "the_base_is_a_path",
        "Several makers",
        "after gortsplib#120",
    )
    .does(
        "The camera names the base of its tracks as a path.",
        &[Quirk::Answered(
            "Content-Base: rtsp:",
            "Content-Base: /live/ \r\nX-Base: ",
        )],
    ),
    row(
        "the_base_is_of_another_host",
        "Several makers",
        "after gortsplib#120",
    )
    .does(
        "The camera names a base with its address behind a router.",
        &[Quirk::Answered(
            "Content-Base: rtsp://",
            "Content-Base: rtsp://192.168.1.64:554/",
        )],
    ),
    row("the_base_is_empty", "Several makers", "after gortsplib#120")
        .does(
            "The camera's base of its tracks is empty.",
            &[Quirk::Answered(
                "Content-Base: ",
                "Content-Base:\r\nX-Base: ",
            )],
        )
        .not_by_ffmpeg(),
    row(
        "the_kind_of_the_body_has_parameters",
        "Several makers",
        "after retina#133",
    )
    .does(
        "The camera calls its description `Application/SDP; charset=utf-8`.",
        &[Quirk::Answered(
            "application/sdp",
            "Application/SDP; charset=utf-8",
        )],
    ),
    row(
        "the_kind_of_the_body_is_missing",
        "Several makers",
        "after retina#133",
    )
    .does(
        "The camera's description has no Content-Type.",
        &[Quirk::Answered("Content-Type:", "X-Type:")],
    ),
    row(
        "no_session_is_answered",
        "Several makers",
        "after gortsplib#456",
    )
    .does(
        "The camera's responses name no session.",
        &[Quirk::Answered("Session:", "X-Session:")],
    ),
    row(
        "the_transport_is_in_capitals",
        "Several makers",
        "after retina#120",
    )
    .does(
        "The camera writes its Transport in capitals, with further parameters.",
        &[Quirk::Transport(
            "rtp/avp/tcp;UNICAST;INTERLEAVED={channels};MODE=\"PLAY\";x-a=\"1;2\";ssrc=",
        )],
    )
    .by(TCP, BOTH),
    row(
        "several_transports_are_answered",
        "Several makers",
        "after retina#120",
    )
    .does(
        "The camera answers a second Transport behind the granted one.",
        &[Quirk::Transport(
            "RTP/AVP/TCP;unicast;interleaved={channels},RTP/AVP;multicast;port=5000-5001;ttl=1",
        )],
    )
    .by(TCP, H264)
    .not_by_ffmpeg(),
    row(
        "the_transport_has_spaces",
        "Several makers",
        "after retina#120",
    )
    .does(
        "The camera writes spaces between the parameters of its Transport.",
        &[Quirk::Transport(
            " RTP/AVP ; unicast ; client_port = {client} ; server_port = {server} ; ",
        )],
    )
    .by(UDP, H264),
    row(
        "one_port_is_answered",
        "Several makers",
        "after smolrtsp#31",
    )
    .does(
        "The camera answers one channel in place of a pair.",
        &[Quirk::Transport("RTP/AVP/TCP;unicast;interleaved=0")],
    )
    .by(TCP, H264),
    row("the_realm_has_signs", "Several makers", "after retina#45")
        .does(
            "The camera's realm has escaped quotes, a comma, a backslash and letters beyond ASCII.",
            &[Quirk::Challenges(&[
                "Digest realm=\"IP \\\"Kamera\\\", T\u{fc}r \\\\ 1\", nonce=\"{nonce}\"",
            ])],
        )
        .by(PULLED, H264)
        .not_by_ffmpeg(),
    row("the_realm_is_empty", "Several makers", "after retina#45")
        .does(
            "The camera's realm is empty, and its first challenge is stale.",
            &[Quirk::Challenges(&[
                "Digest realm=\"\",nonce=\"{nonce}\", stale=true,",
            ])],
        )
        .by(TCP, H264),
    row(
        "both_schemes_are_in_one_line",
        "Several makers",
        "after retina#45",
    )
    .does(
        "The camera offers Basic and Digest in one line.",
        &[Quirk::Challenges(&[
            "Basic realm=\"camera\", Digest realm=\"camera\", nonce=\"{nonce}\", qop=\"auth\"",
        ])],
    )
    .by(TCP, H264),
    row(
        "an_unknown_scheme_is_offered",
        "Several makers",
        "after retina#45",
    )
    .does(
        "The camera offers a scheme that nobody knows, and Digest.",
        &[Quirk::Challenges(&[
            "X-Token",
            "Bearer realm=\"camera\", error=\"none\"",
            "DIGEST REALM=\"camera\" , NONCE=\"{nonce}\" , x=y",
        ])],
    )
    .by(TCP, H264)
    .not_by_ffmpeg(),
];
