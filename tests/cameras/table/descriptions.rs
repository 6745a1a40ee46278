//! Cameras whose session description is otherwise.

use super::super::quirk::{Quirk, Sound};
use super::super::row::{BOTH, EVERY_WAY, H264, PULLED, Row, TCP, Way, row};

/// Part of every description, behind which more lines of the video stand.
const VIDEO: &str = "m=video 0 RTP/AVP 96\r\n";

/// The way of cameras whose description alone matters.
const EITHER: &[Way] = &[Way::Tcp, Way::Record];

pub(crate) const ROWS: &[Row] = &[
    row("video_is_called_sendonly", "D-Link", "go2rtc#771")
        .does(
            "The camera calls the video that it sends `sendonly`.",
            &[Quirk::Described(VIDEO, "m=video 0 RTP/AVP 96\r\na=sendonly\r\n")],
        )
        .by(EVERY_WAY, BOTH),
    row("video_is_called_sendonly_beside_sound", "D-Link", "go2rtc#771")
        .does(
            "The camera calls its video `sendonly` and its sound `recvonly`.",
            &[
                Quirk::Sound(Sound::Alaw8),
                Quirk::Described(VIDEO, "m=video 0 RTP/AVP 96\r\na=sendonly\r\n"),
                Quirk::Described("m=audio 0 RTP/AVP 8\r\n", "m=audio 0 RTP/AVP 8\r\na=recvonly\r\n"),
            ],
        )
        .heard("PCMA"),
    row("all_is_called_sendonly", "D-Link", "after go2rtc#771")
        .does(
            "The camera calls the whole session `sendonly`.",
            &[Quirk::Described("t=0 0\r\n", "t=0 0\r\na=sendonly\r\n")],
        )
        .by(TCP, H264),
    row("the_back_channel_has_many_formats", "Dahua", "gortsplib#479")
        .does(
            "The camera offers a back channel with formats that have no parameters.",
            &[Quirk::AlsoDescribed(
                "m=audio 0 RTP/AVP 116 115 97 0 8\r\na=control:trackID=5\r\n\
                 a=rtpmap:116 MPEG4-GENERIC/64000\r\na=rtpmap:115 MPEG4-GENERIC/48000\r\n\
                 a=rtpmap:97 MPEG4-GENERIC/16000\r\na=rtpmap:0 PCMU/8000\r\n\
                 a=rtpmap:8 PCMA/8000\r\na=sendonly\r\n",
            )],
        )
        .by(TCP, H264),
    row("a_negative_port", "Tuya", "go2rtc#2316")
        .does(
            "The camera has a negative port in its `m=` line and binary bytes in its `c=` line.",
            &[
                Quirk::Described("m=video 0", "m=video -1353744643"),
                Quirk::Described("c=IN IP4 0.0.0.0", "c=IN IP4 '&\u{ff}\u{fe}"),
            ],
        )
        .by(EVERY_WAY, BOTH),
    row("an_origin_of_five_words", "Phone apps", "mediamtx#75")
        .does(
            "The app publishes with `o=-0 0 IN IP4 127.0.0.1`.",
            &[Quirk::Described("o=- 1 1 IN", "o=-0 0 IN")],
        )
        .by(EVERY_WAY, H264),
    row("an_origin_of_negative_number", "Several makers", "mediamtx#231")
        .does(
            "The camera has `o=-2208991488 2208991488` in its description.",
            &[Quirk::Described("o=- 1 1 IN", "o=-2208991488 2208991488 IN")],
        )
        .by(EITHER, H264),
    row("a_connection_line_that_ends_early", "Uniview", "mediamtx#5033")
        .does(
            "The camera has `c=IN` and a space in its description.",
            &[Quirk::Described("c=IN IP4 0.0.0.0", "c=IN ")],
        )
        .by(EITHER, H264),
    row("a_description_without_origin_and_time", "Recorders", "mediamtx#3583")
        .does(
            "The recorder's description has neither `o=` nor `t=`.",
            &[
                Quirk::Described("o=- 1 1 IN IP4 127.0.0.1\r\n", ""),
                Quirk::Described("t=0 0\r\n", ""),
            ],
        )
        .by(EITHER, H264),
    row("a_port_beyond_the_range", "Tuya", "after go2rtc#2316")
        .does(
            "The camera has the port 65536 in its `m=` line.",
            &[Quirk::Described("m=video 0", "m=video 65536")],
        )
        .by(EITHER, H264),
    row("a_port_that_is_no_number", "Tuya", "after go2rtc#2316")
        .does(
            "The camera has a dash for the port in its `m=` line.",
            &[Quirk::Described("m=video 0", "m=video -")],
        )
        .by(EITHER, H264),
    row("a_bad_line_of_another_track", "Tuya", "after go2rtc#2316")
        .does(
            "The camera describes a further track with a line that cannot be read.",
            &[Quirk::AlsoDescribed("m=application x RTP/AVP 98\r\na=control:trackID=9\r\n")],
        )
        .by(EITHER, H264),
    row("a_connection_line_without_address", "Several makers", "go2rtc#1663")
        .does(
            "The camera has `c=IN` alone and an `o=` line of three words.",
            &[
                Quirk::Described("c=IN IP4 0.0.0.0", "c=IN"),
                Quirk::Described("o=- 1 1 IN IP4 127.0.0.1", "o=- 1 1"),
            ],
        )
        .by(EITHER, H264),
    row("a_line_of_media_with_slashes", "Tapo", "androidx/media#1472, mediamtx#990")
        .does(
            "The camera describes a further track as `m=application/TP-LINK`.",
            &[Quirk::AlsoDescribed(
                "m=application/TP-LINK 0 RTP/AVP smart/1/90000\r\na=control:trackID=2\r\n",
            )],
        )
        .by(EITHER, H264),
    row("a_format_that_is_no_number", "Several makers", "rtsp-client-android#90")
        .does(
            "The camera describes sound as `RTP/AVP (null)` with an empty `a=rtpmap`.",
            &[Quirk::AlsoDescribed(
                "m=audio 0 RTP/AVP (null)\r\na=rtpmap\r\na=control:trackID=3\r\n",
            )],
        )
        .by(EITHER, H264),
    row("the_description_begins_with_media", "Several makers", "go2rtc#2245")
        .does(
            "The camera's description begins with `m=`.",
            &[Quirk::Described(
                "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=camera\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n\
                 a=control:*\r\na=range:npt=now-\r\n",
                "",
            )],
        )
        .by(TCP, H264),
    row("the_description_has_no_last_line_end", "Thingino", "thingino-firmware#1621")
        .does(
            "The camera's description ends without a line end.",
            &[Quirk::NoLastLineEnd],
        )
        .by(EITHER, H264),
    row("the_description_is_out_of_order", "Recorders", "SharpRTSP#119")
        .does(
            "The camera has the lines of its description in another order.",
            &[Quirk::Described(
                "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=camera\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n",
                "v=0\r\ni=camera\r\nt=0 0\r\nc=IN IP4 0.0.0.0\r\ns=camera\r\no=- 1 1 IN IP4 127.0.0.1\r\n",
            )],
        )
        .by(EITHER, H264),
    row("sets_are_not_described", "Hikvision", "SharpRTSPtoWebRTC#17, mediamtx#2348")
        .does(
            "The camera's description has no parameter sets.",
            &[Quirk::NoSetsDescribed],
        )
        .by(EVERY_WAY, BOTH),
    row("sets_are_described_only", "Several makers", "mediamtx#5861, Savant#709")
        .does(
            "The camera has parameter sets in its description only.",
            &[Quirk::NoSetsSent],
        )
        .by(EVERY_WAY, BOTH),
    row("sets_are_described_in_vain", "Several makers", "kerberos-io/agent#105")
        .does(
            "The camera has an empty list of parameter sets in its description.",
            &[
                Quirk::NoSetsDescribed,
                Quirk::Described("packetization-mode=1", "packetization-mode=1;sprop-parameter-sets="),
            ],
        ),
    row("sets_are_nowhere", "Several makers", "mediamtx#2348")
        .does(
            "The camera has parameter sets neither in its description nor between its frames.",
            &[Quirk::NoSetsDescribed, Quirk::NoSetsSent],
        )
        .by(TCP, BOTH)
        .told("parameter sets"),
    row("parameters_of_another_payload_type", "Hikvision", "gortsplib#658, gortsplib#479")
        .does(
            "The camera sends AAC as payload type 104, and its parameters are of 97.",
            &[Quirk::Sound(Sound::AacOfOtherType)],
        )
        .by(EVERY_WAY, H264)
        .heard("opus"),
    row("sound_of_aac", "Several makers", "after rtsp-client-android#143")
        .does("The camera sends AAC.", &[Quirk::Sound(Sound::Aac)])
        .by(EVERY_WAY, H264)
        .heard("opus"),
    row("sound_of_several_units_a_packet", "Several makers", "rtsp-client-android#143")
        .does(
            "The camera sends four access units of AAC in each packet.",
            &[Quirk::Sound(Sound::AacInFours)],
        )
        .by(EVERY_WAY, H264)
        .heard("opus"),
    row("sound_of_g711", "Several makers", "after mediamtx#2848")
        .does("The camera sends A-law at 8 kHz.", &[Quirk::Sound(Sound::Alaw8)])
        .by(EVERY_WAY, H264)
        .heard("PCMA"),
    row("sound_of_g711_at_16_khz", "Several makers", "mediamtx#2848")
        .does("The camera sends A-law at 16 kHz.", &[Quirk::Sound(Sound::Alaw16)])
        .by(EVERY_WAY, H264)
        .heard("opus"),
    row("sound_in_latm", "Several makers", "mediamtx#3590")
        .does(
            "The camera offers AAC as `MP4A-LATM` and calls the track `sendonly`.",
            &[Quirk::AlsoDescribed(
                "m=audio 0 RTP/AVP 40\r\na=rtpmap:40 MP4A-LATM/16000/1\r\n\
                 a=fmtp:40 profile-level-id=1;cpresent=0;config=400028103fc0\r\na=sendonly\r\n\
                 a=control:trackID=1\r\n",
            )],
        )
        .by(TCP, H264),
    row("the_control_begins_with_a_slash", "Verint", "go2rtc#1236")
        .does(
            "The camera begins the URL of its track with a slash, and knows none with two.",
            &[
                Quirk::Described("a=control:trackID=0", "a=control:/trackID=0"),
                Quirk::ExactUrls,
            ],
        )
        .by(PULLED, BOTH)
        .not_by_ffmpeg(),
    row("the_control_is_of_another_host", "Several makers", "after gortsplib#120")
        .does(
            "The camera's track has an absolute URL with another host and port.",
            &[Quirk::Described(
                "a=control:trackID=0",
                "a=control:rtsp://192.168.1.64:1554/Streaming/trackID=0",
            )],
        )
        .by(PULLED, H264),
    row("no_control_is_described", "VStarcam", "after retina#9")
        .does(
            "The camera's description has no URLs for the session and its track.",
            &[
                Quirk::Described("a=control:*\r\n", ""),
                Quirk::Described("a=control:trackID=0\r\n", ""),
            ],
        )
        .by(PULLED, BOTH),
    row("no_encoding_is_described", "Several makers", "after rtsp-client-android#90")
        .does(
            "The camera's description has no `a=rtpmap`, only parameters.",
            &[
                Quirk::Described("a=rtpmap:96 H264/90000\r\n", ""),
            ],
        )
        .by(PULLED, H264)
        .not_by_ffmpeg(),
    row("the_encoding_is_in_small_letters", "Several makers", "after rtsp-client-android#90")
        .does(
            "The camera writes its encoding in small letters, with spaces around its parts.",
            &[Quirk::Described("a=rtpmap:96 H264/90000", "a=rtpmap:96  h264/90000 ")],
        )
        .by(EVERY_WAY, H264),
    row("the_sets_are_garbage", "VStarcam", "retina#42")
        .does(
            "The camera's parameter sets in its description are no base64, and end in a comma.",
            &[Quirk::Described("sprop-parameter-sets=", "sprop-parameter-sets=6!,=,")],
        )
        .by(EVERY_WAY, H264),
    row("the_mode_is_interleaved", "Several makers", "after mediamtx#5846")
        .does(
            "The camera says that it interleaves NAL units, and does not.",
            &[Quirk::Described("packetization-mode=1", "packetization-mode=2")],
        )
        .by(EVERY_WAY, H264),
    row("units_are_as_large_as_they_are", "Several makers", "mediamtx#5846")
        .does(
            "The camera has no packetization mode, and sends each NAL unit in one packet.",
            &[
                Quirk::Described("packetization-mode=1", "packetization-mode=0"),
                Quirk::FragmentBytes(60_000),
            ],
        )
        .by(EITHER, H264),
    row("parameters_have_spaces", "Several makers", "after mediamtx#5846")
        .does(
            "The camera writes spaces around the signs of its parameters.",
            &[
                Quirk::Described("packetization-mode=1;", " packetization-mode = 1 ; "),
                Quirk::Described("sprop-parameter-sets=", "sprop-parameter-sets = "),
                Quirk::NoSetsSent,
            ],
        )
        .by(EITHER, H264)
        .not_by_ffmpeg(),
    row("the_description_ends_with_a_nul", "Several makers", "after thingino-firmware#1621")
        .does(
            "The camera's description ends with a NUL byte.",
            &[Quirk::AlsoDescribed("\0")],
        )
        .by(EITHER, H264),
    row("the_description_begins_with_a_mark", "Several makers", "after go2rtc#2245")
        .does(
            "The camera's description begins with a byte order mark.",
            &[Quirk::Described("v=0", "\u{ef}\u{bb}\u{bf}v=0")],
        )
        .by(EITHER, H264),
    row("the_description_has_empty_lines", "Several makers", "after go2rtc#2245")
        .does(
            "The camera's description has empty lines, and spaces at the ends of others.",
            &[
                Quirk::Described("v=0", "\r\nv=0 "),
                Quirk::Described("a=rtpmap:96 H264/90000", "\r\na=rtpmap:96\tH264/90000\t"),
                Quirk::Described("m=video 0 RTP/AVP 96", "m=video  0  RTP/AVP  96 "),
                Quirk::Described("a=control:trackID=0", "a=control: trackID=0 "),
            ],
        )
        .by(EITHER, H264),
    row("the_description_has_only_line_feeds", "Several makers", "after go2rtc#2245")
        .does(
            "The camera ends the lines of its description with a line feed alone.",
            &[Quirk::LineFeedsDescribed],
        )
        .by(EITHER, H264),
    row("attributes_are_in_capitals", "Several makers", "after rtsp-client-android#90")
        .does(
            "The camera writes the names of attributes in capitals.",
            &[
                Quirk::Described("a=rtpmap:96", "a=RTPMAP:96"),
                Quirk::Described("a=fmtp:96", "a=FMTP:96"),
                Quirk::Described("a=control:trackID", "a=Control:trackID"),
                Quirk::NoSetsSent,
            ],
        )
        .by(EITHER, H264)
        .not_by_ffmpeg(),
    row("the_media_is_in_capitals", "Several makers", "after rtsp-client-android#90")
        .does(
            "The camera writes the kind of its media with a capital letter.",
            &[Quirk::Described("m=video", "m=Video")],
        )
        .by(EITHER, H264)
        .not_by_ffmpeg(),
    row("the_bandwidth_is_nonsense", "Several makers", "after go2rtc#1663")
        .does(
            "The camera's bandwidths are no numbers, negative, and beyond all ranges.",
            &[Quirk::Described(
                VIDEO,
                "m=video 0 RTP/AVP 96\r\nb=AS:-1\r\nb=X\r\nb=AS:99999999999999999999\r\nb=\r\n",
            )],
        )
        .by(EITHER, H264),
    row("the_range_is_of_a_recording", "Recorders", "after gortsplib#574")
        .does(
            "The recorder describes the range of a recording by the clock.",
            &[Quirk::Described(
                "a=range:npt=now-",
                "a=range:clock=20261129T100000Z-20261129T110000Z",
            )],
        )
        .by(PULLED, H264),
    row("the_range_ends", "Recorders", "after gortsplib#574")
        .does(
            "The recorder describes a range that ends after a second, and sends on.",
            &[Quirk::Described("a=range:npt=now-", "a=range:npt=0-1.0")],
        )
        .by(PULLED, H264),
    row("a_second_video_is_described", "Several makers", "after gortsplib#479")
        .does(
            "The camera describes a second video in Motion JPEG, without `a=rtpmap`, and sends none.",
            &[Quirk::AlsoDescribed(
                "m=video 0 RTP/AVP 26\r\na=control:trackID=5\r\n",
            )],
        )
        .by(PULLED, BOTH)
        .not_by_ffmpeg(),
    row("a_second_video_of_the_codec_is_described", "Several makers", "after gortsplib#479")
        .does(
            "The camera describes its second stream in the same description, and sends none of it.",
            &[Quirk::AlsoDescribed(
                "m=video 0 RTP/AVP 97\r\na=rtpmap:97 H264/90000\r\na=control:trackID=5\r\n",
            )],
        )
        .by(PULLED, BOTH)
        .not_by_ffmpeg(),
    row("sound_of_a_static_type", "Several makers", "after rtsp-client-android#90")
        .does(
            "The camera describes A-law by its payload type alone, without `a=rtpmap`.",
            &[
                Quirk::Sound(Sound::Alaw8),
                Quirk::Described("a=rtpmap:8 PCMA/8000\r\n", ""),
            ],
        )
        .by(EVERY_WAY, H264)
        .heard("PCMA"),
    row("sound_of_unknown_codecs", "Several makers", "after gortsplib#479")
        .does(
            "The camera describes sound in G.726, G.722.1 and a codec of its own, and KLV metadata.",
            &[Quirk::AlsoDescribed(
                "m=audio 0 RTP/AVP 2\r\na=control:trackID=3\r\n\
                 m=audio 0 RTP/AVP 98\r\na=rtpmap:98 G7221/16000\r\na=control:trackID=4\r\n\
                 m=audio 0 RTP/AVP 99\r\na=rtpmap:99 X-CAMERA/0\r\na=control:trackID=5\r\n\
                 m=application 0 RTP/AVP 100\r\na=rtpmap:100 smpte336m/90000\r\n\
                 a=control:trackID=6\r\n",
            )],
        )
        .by(EITHER, H264),
    row("metadata_alone_is_described", "Several makers", "after androidx/media#1472")
        .does(
            "The camera describes a track of metadata, and nothing else.",
            &[
                Quirk::Described("m=video", "m=application"),
                Quirk::Described("H264/90000", "vnd.onvif.metadata/90000"),
            ],
        )
        .by(TCP, H264)
        .told("vnd.onvif.metadata")
        .connections(30),
    row("sound_is_described_thrice", "Several makers", "after gortsplib#479")
        .does(
            "The camera describes sound in G.726 and G.711, and metadata between them.",
            &[
                Quirk::Sound(Sound::Alaw8),
                Quirk::AlsoDescribed(
                    "m=application 0 RTP/AVP 107\r\na=rtpmap:107 vnd.onvif.metadata/90000\r\n\
                     a=control:trackID=2\r\nm=audio 0 RTP/AVP 98\r\na=rtpmap:98 G726-32/8000\r\n\
                     a=control:trackID=3\r\n",
                ),
            ],
        )
        .by(TCP, H264)
        .heard("PCMA"),
    row("another_payload_type_is_described", "Several makers", "after retina#79")
        .does(
            "The camera describes the payload type 97, and sends 96.",
            &[
                Quirk::Described("RTP/AVP 96", "RTP/AVP 97"),
                Quirk::Described("a=rtpmap:96", "a=rtpmap:97"),
                Quirk::Described("a=fmtp:96", "a=fmtp:97"),
            ],
        )
        .by(TCP, BOTH)
        .not_by_ffmpeg(),
    row("headers_of_aac_are_only_of_sizes", "Video platforms", "gortsplib#118")
        .does(
            "The platform sends AAC whose headers have sizes alone, and does not describe the lengths.",
            &[Quirk::Sound(Sound::AacOfSizes)],
        )
        .by(EVERY_WAY, H264)
        .heard("opus"),
    row("access_units_are_counted", "Several makers", "after gortsplib#118")
        .does(
            "The camera counts the access units of AAC in the indices of their headers.",
            &[Quirk::Sound(Sound::AacCounted)],
        )
        .by(EVERY_WAY, H264)
        .heard("opus"),
    row("access_units_have_headers_of_files", "Several makers", "after gortsplib#118")
        .does(
            "The camera leaves ADTS headers on the access units of AAC.",
            &[Quirk::Sound(Sound::AacOfFiles)],
        )
        .by(EVERY_WAY, H264)
        .heard("opus"),
    row("one_channel_is_described_as_two", "Several makers", "after gortsplib#118")
        .does(
            "The camera describes two channels of AAC, and sends one.",
            &[Quirk::Sound(Sound::AacOfTwoChannels)],
        )
        .by(EVERY_WAY, H264)
        .heard("opus"),
    row("sound_in_samples", "Several makers", "after mediamtx#2848")
        .does(
            "The camera sends 16-bit samples at 16 kHz.",
            &[Quirk::Sound(Sound::Linear16)],
        )
        .by(EVERY_WAY, H264)
        .heard("opus"),
    row("only_sound", "Several makers", "rtsp-client-android#143")
        .does(
            "The camera has no video, and sends four access units of AAC in each packet.",
            &[Quirk::NoVideo, Quirk::Sound(Sound::AacInFours)],
        )
        .by(PULLED, H264)
        .heard("opus"),
];
