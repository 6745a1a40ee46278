//! Cameras whose packets are otherwise.

use super::super::quirk::Quirk;
use super::super::row::{BOTH, EVERY_WAY, Film, H264, PULLED, Row, UDP, Video, Way, row};

pub(crate) const ROWS: &[Row] = &[
    row(
        "every_slice_has_the_marker",
        "OBS's RTSP plug-in",
        "obs-rtspserver#199",
    )
    .does(
        "The plug-in marks the end of a frame at every NAL unit of frames in four slices.",
        &[Quirk::MarkerAtEveryNal],
    )
    .films(Film::Sliced)
    .by(EVERY_WAY, BOTH),
    row(
        "frames_have_slices",
        "OBS's RTSP plug-in",
        "after obs-rtspserver#199",
    )
    .does("The plug-in sends frames in four slices.", &[])
    .films(Film::Sliced)
    .by(EVERY_WAY, BOTH),
    row(
        "every_set_has_the_marker",
        "OBS's RTSP plug-in",
        "after obs-rtspserver#199",
    )
    .does(
        "The plug-in marks the end of a frame at every NAL unit, parameter sets included.",
        &[Quirk::MarkerAtEveryNal],
    )
    .by(EVERY_WAY, BOTH),
    row(
        "start_codes_within_a_unit",
        "V380",
        "retina#68, gortsplib#199",
    )
    .does(
        "The camera puts parameter sets and keyframe into one NAL unit, with start codes.",
        &[Quirk::StartCodesWithin],
    )
    .by(EVERY_WAY, BOTH),
    row("start_codes_only_within_a_unit", "V380", "after retina#68")
        .does(
            "The camera does so, and its description has no parameter sets.",
            &[Quirk::StartCodesWithin, Quirk::NoSetsDescribed],
        )
        .by(EVERY_WAY, BOTH),
    row(
        "stray_packets_of_source_zero",
        "Several makers",
        "gortsplib#480, retina#79",
    )
    .does(
        "The camera sends packets of SSRC 0 between those of its stream.",
        &[Quirk::StrayPacket],
    )
    .by(EVERY_WAY, BOTH),
    row(
        "packets_of_another_payload_type",
        "Several makers",
        "gortsplib#480",
    )
    .does(
        "The camera sends a packet of private data behind each frame, in the same numbers.",
        &[Quirk::OtherPayloadType],
    )
    .by(EVERY_WAY, BOTH),
    row("reports_among_media", "Several makers", "gortsplib#480")
        .does(
            "The camera sends its sender reports where RTP belongs.",
            &[Quirk::ReportsAmongMedia],
        )
        .by(EVERY_WAY, BOTH),
    row("padding_of_zero_bytes", "Several makers", "pion/rtp#274")
        .does(
            "The camera sets the padding bit with a count of zero.",
            &[Quirk::PaddingOfZero],
        )
        .by(EVERY_WAY, BOTH),
    row(
        "frames_refresh_without_keyframes",
        "Several makers",
        "w3c/webcodecs#650, mediamtx#5943",
    )
    .does("The camera has recovery points in place of keyframes.", &[])
    .films(Film::IntraRefresh)
    .by(EVERY_WAY, H264)
    .encoded_again(),
    row(
        "frames_refresh_without_recovery_points",
        "Several makers",
        "after mediamtx#5943",
    )
    .does(
        "The camera has parameter sets in place of keyframes, and no recovery points.",
        &[Quirk::NoMessages],
    )
    .films(Film::IntraRefresh)
    .by(EVERY_WAY, H264)
    .encoded_again()
    .not_by_ffmpeg(),
    row(
        "frames_of_h265_refresh_without_recovery_points",
        "Several makers",
        "after mediamtx#5943",
    )
    .does(
        "The camera sends H.265 with parameter sets in place of keyframes.",
        &[],
    )
    .films(Film::IntraRefresh)
    .by(EVERY_WAY, &[Video::H265])
    .encoded_again(),
    row(
        "keyframes_are_half_a_minute_apart",
        "Smart codecs",
        "mediamtx#1763",
    )
    .does(
        "The camera sends a keyframe in 30 s while little moves.",
        &[],
    )
    .films(Film::LongGroups)
    .by(EVERY_WAY, BOTH),
    row(
        "a_keyframe_is_made_for_who_comes_late",
        "Smart codecs",
        "mediamtx#1763",
    )
    .does(
        "The camera sends a keyframe in 30 s, and one more when it is asked.",
        &[Quirk::HeedsRequests],
    )
    .films(Film::LongGroups)
    .by(PULLED, BOTH)
    .seen_after(6),
    row("times_step_back", "Several makers", "retina#64")
        .does(
            "The camera stamps every 20th frame 300 ms in the past.",
            &[Quirk::StepsBack],
        )
        .by(EVERY_WAY, BOTH),
    row("a_new_source_at_each_keyframe", "Uniview", "gortsplib#687")
        .does(
            "The camera begins a new SSRC with new sequence numbers at each keyframe.",
            &[Quirk::NewSourceAtKeyframes],
        )
        .by(EVERY_WAY, BOTH),
    row("sets_belong_to_the_frame_before", "Reolink", "retina#13")
        .does(
            "The camera gives parameter sets a marker and the timestamp of the frame before.",
            &[Quirk::SetsOfFramesBefore],
        )
        .by(EVERY_WAY, BOTH),
    row("bytes_behind_the_sets", "Reolink", "retina#102")
        .does(
            "The camera's sequence parameter set has further bytes behind its end.",
            &[Quirk::BehindSets(&[0x80])],
        )
        .by(EVERY_WAY, BOTH),
    row("frames_are_stamped_hours_off", "Recorders", "mediamtx#6255")
        .does(
            "The camera stamps a frame every two seconds hours in the past.",
            &[Quirk::StampedHoursOff],
        )
        .by(EVERY_WAY, BOTH),
    row(
        "b_frames_in_the_first_second",
        "Several makers",
        "mediamtx#5808, mediamtx#3091",
    )
    .does(
        "The camera sends B-frames for a second, and none later.",
        &[],
    )
    .films(Film::BFramesAtFirst)
    .by(EVERY_WAY, H264)
    .seconds(7),
    row(
        "fragments_are_whole",
        "Several makers",
        "retina#131, gortsplib#649",
    )
    .does(
        "The camera sets start and end bit in one fragmentation unit.",
        &[Quirk::WholeFragments],
    )
    .by(EVERY_WAY, BOTH),
    row("the_reserved_bit_is_set", "Several makers", "retina#109")
        .does(
            "The camera sets the reserved bit of its fragmentation units.",
            &[Quirk::ReservedBit],
        )
        .by(EVERY_WAY, H264),
    row(
        "fragments_are_tiny",
        "Several makers",
        "OvenMediaEngine#2032",
    )
    .does(
        "The camera sends even its parameter sets in fragments of 20 bytes.",
        &[Quirk::FragmentBytes(20)],
    )
    .by(EVERY_WAY, BOTH),
    row("numbers_begin_again", "Several makers", "gortsplib#750")
        .does(
            "The camera begins its sequence numbers again at each keyframe.",
            &[Quirk::NumbersBeginAgain],
        )
        .by(&[Way::Tcp, Way::Record], BOTH),
    row("stamps_leap", "Recorders", "after mediamtx#6255")
        .does(
            "The recorder's timestamps go on three hours later every two seconds.",
            &[Quirk::StampsLeap],
        )
        .by(EVERY_WAY, BOTH),
    row("stamps_wrap", "Several makers", "after mediamtx#6255")
        .does(
            "The camera's timestamps begin a second before they wrap.",
            &[Quirk::StampsWrap],
        )
        .by(EVERY_WAY, BOTH),
    row(
        "packets_come_twice",
        "Several makers",
        "after gortsplib#480",
    )
    .does("The camera sends every packet twice.", &[Quirk::Twice])
    .by(EVERY_WAY, BOTH),
    row(
        "packets_overtake_each_other",
        "Several makers",
        "after gortsplib#480",
    )
    .does(
        "The camera's packets overtake each other.",
        &[Quirk::Overtaking],
    )
    .by(UDP, BOTH),
    row(
        "no_packet_has_a_marker",
        "Several makers",
        "after obs-rtspserver#199",
    )
    .does("The camera sets no marker.", &[Quirk::NoMarkers])
    .by(EVERY_WAY, BOTH),
    row(
        "every_packet_has_a_marker",
        "Several makers",
        "after obs-rtspserver#199",
    )
    .does(
        "The camera sets the marker of every packet.",
        &[Quirk::OnlyMarkers],
    )
    .by(EVERY_WAY, BOTH),
    row("headers_are_full", "Several makers", "after pion/rtp#274")
        .does(
            "The camera's packets have a contributing source, a header extension and padding.",
            &[Quirk::FullHeaders],
        )
        .by(EVERY_WAY, BOTH),
    row(
        "the_stream_says_goodbye",
        "Several makers",
        "after gortsplib#480",
    )
    .does(
        "The camera says goodbye by RTCP, once a second, and sends on.",
        &[Quirk::SaysBye],
    )
    .by(EVERY_WAY, BOTH)
    .not_by_ffmpeg(),
    row(
        "sets_are_aggregated",
        "Several makers",
        "after rtsp-client-android#93",
    )
    .does(
        "The camera sends its parameter sets in one aggregate.",
        &[Quirk::AggregatedSets(&[])],
    )
    .by(EVERY_WAY, BOTH),
    row(
        "aggregates_are_padded",
        "Several makers",
        "after rtsp-client-android#93",
    )
    .does(
        "The camera's aggregates have a unit without bytes, and a further byte.",
        &[Quirk::AggregatedSets(&[0, 0, 0])],
    )
    .by(EVERY_WAY, BOTH),
    row("units_have_order_numbers", "Several makers", "SharpRTSP#94")
        .does(
            "The camera's payloads have decoding order numbers (DONL).",
            &[
                Quirk::OrderNumbers,
                Quirk::AggregatedSets(&[]),
                Quirk::Described("profile-id=1", "profile-id=1;sprop-max-don-diff=1"),
            ],
        )
        .by(EVERY_WAY, &[Video::H265]),
    row("start_codes_in_front", "Several makers", "RtspServer#72")
        .does(
            "The camera leaves a start code in front of each NAL unit.",
            &[Quirk::StartCodesInFront],
        )
        .by(EVERY_WAY, H264),
    row(
        "start_codes_in_front_of_h265",
        "Several makers",
        "RtspServer#72",
    )
    .does(
        "The camera leaves a start code in front of each NAL unit of H.265.",
        &[Quirk::StartCodesInFront],
    )
    .by(EVERY_WAY, &[Video::H265])
    .not_by_ffmpeg(),
    row("units_of_unknown_types", "VStarcam", "RtspClientSharp#33")
        .does(
            "The camera sends a NAL unit of type 31 in front of each frame.",
            &[Quirk::UnitInFront(&[0x1f, 1, 2, 3])],
        )
        .by(EVERY_WAY, H264),
    row(
        "delimiters_in_front",
        "Several makers",
        "after obs-rtspserver#199",
    )
    .does(
        "The camera sends a delimiter in front of each frame, in a packet of its own.",
        &[Quirk::UnitInFront(&[0x09, 0xf0])],
    )
    .by(EVERY_WAY, H264),
    row(
        "messages_behind_frames",
        "Several makers",
        "after retina#13",
    )
    .does(
        "The camera sends a message (SEI) behind each frame, which has the marker.",
        &[Quirk::UnitBehind(&[0x06, 0x05, 0x01, 0x80, 0x80])],
    )
    .by(EVERY_WAY, H264),
    row(
        "the_sequence_ends_behind_each_frame",
        "Several makers",
        "after retina#13",
    )
    .does(
        "The camera ends the sequence behind each frame, with a NAL unit of two bytes.",
        &[Quirk::UnitBehind(&[0x48, 0x01])],
    )
    .by(EVERY_WAY, &[Video::H265]),
    row(
        "fragments_never_end",
        "Several makers",
        "after gortsplib#649",
    )
    .does(
        "The camera sets the end bit of no fragment.",
        &[Quirk::EndlessFragments],
    )
    .by(EVERY_WAY, BOTH),
];
