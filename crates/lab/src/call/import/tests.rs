use glassline_voice::DuplicateReason;
use proptest::prelude::*;

use super::*;
use crate::call::table::Table;

fn read(files: &[(&str, &str)]) -> Report {
    let mut importer = Importer::new();
    for (name, text) in files {
        importer.read(name, text.as_bytes()).expect(name);
    }
    importer.finish()
}

fn table(report: &Report, stage: Stage) -> &Table {
    report
        .table(stage)
        .unwrap_or_else(|| panic!("no table of {stage}"))
}

/// Rows of a table as values and counts.
fn rows(report: &Report, stage: Stage) -> Vec<(String, u64)> {
    let rows = table(report, stage).rows.iter();
    rows.filter(|it| it.1 > 0)
        .map(|it| (it.0.to_string(), it.1))
        .collect()
}

fn row(value: &str, count: u64) -> (String, u64) {
    (value.to_owned(), count)
}

/// Log of a sending process. Packets 960 and 1920 are in flight at the same time, 2880 is sent
/// twice, 3840 never.
const SPEAKING: &str = "\
[000:001] (audio_device_buffer.cc:242): Recording delay:10
[000:002] (audio_device_buffer.cc:242): Recording delay: 35
(audio_device_buffer.cc:242): Recording delay:10\r
(channel_send.cc:901): Audio encoding delay:0
(channel_send.cc:901): Audio encoding delay:1000
(rtp_sender.cc:77): Send packet:960
(channel_send.cc:901): Audio encoding delay:600
(channel_send.cc:901): Audio encoding delay:0
(rtp_sender.cc:77): Send packet:1920
(task_queue_paced_sender.cc:131): EnqueuePackets:960,100
(task_queue_paced_sender.cc:131): EnqueuePackets:1920,101
(rtp_sender_egress.cc:274): SendPacketToNetwork:960,65535
(rtp_sender_egress.cc:274): SendPacketToNetwork:1920,0
(media_channel.cc:185): SendRtp:65535,101
(media_channel.cc:185): SendRtp:0,142
EnqueuePackets:2880,160 SendPacketToNetwork:2880,1 SendRtp:1,160
SendRtp:1,230
SendRtp:77,230
EnqueuePackets:3840,180
";

/// Log of a receiving process.
const LISTENING: &str = "\
Packet received:1920,147,0
Packet received:960,301,0
Packet received:960,309,0
Packet received:5000,310,0
Audio packet waiting time ms:60
Audio packet waiting time ms:310
Playout delay:9
Playout delay:501
Decoding delay:50000
Resampling delay:0
";

#[test]
fn packets_in_flight_at_once_are_joined_by_their_numbers() {
    let report = read(&[("a.log", SPEAKING), ("b.log", LISTENING)]);
    assert_eq!(report.malformed, 0, "{:?}", report.notes);
    assert_eq!(
        rows(&report, Stage::Send),
        [row("0", 1), row("1", 1), row("41", 1)]
    );
    let send = table(&report, Stage::Send);
    assert_eq!(
        (send.unmatched, send.lost),
        (1, 1),
        "77 is unknown, 3840 never left"
    );
    let wanted = [row("(0-5]", 1), row("(100-...]", 1)];
    assert_eq!(rows(&report, Stage::Network), wanted);
    let network = table(&report, Stage::Network);
    assert_eq!((network.unmatched, network.lost), (1, 1), "5000 and 2880");
    let copies: Vec<_> = report
        .copies
        .iter()
        .map(|it| (it.kind, it.after_max_ms))
        .collect();
    let wanted = [
        (DuplicateReason::Duplicate, Some(8.0)),
        (DuplicateReason::Retransmission, Some(70.0)),
    ];
    assert_eq!(copies, wanted);
    assert_eq!(report.source, "a.log, b.log");
}

#[test]
fn the_listeners_log_may_come_first_or_be_the_same() {
    let report = read(&[("a.log", SPEAKING), ("b.log", LISTENING)]);
    let other = read(&[("b.log", LISTENING), ("a.log", SPEAKING)]);
    assert_eq!(other.stages, report.stages);
    let both = SPEAKING.to_owned() + LISTENING;
    assert_eq!(read(&[("call.log", &both)]).stages, report.stages);
}

#[test]
fn no_value_is_too_large_for_the_denominator() {
    let report = read(&[("a.log", SPEAKING), ("b.log", LISTENING)]);
    let wanted = [row("10", 2), row("35", 1)];
    assert_eq!(rows(&report, Stage::CaptureInterval), wanted);
    assert_eq!(
        rows(&report, Stage::PlayoutInterval),
        [row("9", 1), row("501", 1)]
    );
    assert_eq!(rows(&report, Stage::Mixer), [row("50000", 1)]);
    assert_eq!(rows(&report, Stage::Resample), [row("0", 1)]);
    assert_eq!(
        rows(&report, Stage::JitterBuffer),
        [row("60", 1), row("310", 1)]
    );
}

#[test]
fn encoding_counts_where_it_made_a_packet_or_took_long() {
    let report = read(&[("a.log", SPEAKING)]);
    // 0 (the first task) is left out; 1000, 600 (a long task) and 0 (the second) count.
    assert_eq!(rows(&report, Stage::Encode), [row("0", 2), row("1000", 1)]);
}

#[test]
fn one_end_alone_has_no_network_and_says_why() {
    let report = read(&[("a.log", SPEAKING)]);
    assert!(report.table(Stage::Network).is_none());
    let notes = report.notes.join("\n");
    assert!(notes.contains("give the other end's log"), "{notes}");
}

#[test]
fn malformed_lines_are_counted_and_named() {
    let log = "Recording delay:ten\nRecording delay:10\nSendRtp:\nSendRtp:70000,1\n\
               EnqueuePackets:-1,1\nPlayout delay:12.5\nRecording delay:99999999999999999999\n\
               Decoding delay:7x\n\u{0}\u{1}SendRtp:1,2,3\nTrySendRtp:9,9\nRtpSender::SendRtp::Send\n";
    let log = format!("padding\n{}\n{log}", "x".repeat(600));
    let report = read(&[("x.log", &log)]);
    assert_eq!(report.malformed, 7, "{:?}", report.notes);
    assert!(
        report.notes[0].starts_with("x.log:3: "),
        "{:?}",
        report.notes
    );
    assert!(report.notes[0].contains("not 'ten'"), "{:?}", report.notes);
    assert!(report.notes.iter().any(|it| it == "2 more were malformed"));
    assert_eq!(rows(&report, Stage::CaptureInterval), [row("10", 1)]);
    assert_eq!(table(&report, Stage::Send).unmatched, 1);
}

#[test]
fn a_line_without_end_costs_no_more_than_its_bound() {
    let log = format!(
        "Recording delay:10 {}\nRecording delay:11\n",
        "y".repeat(1 << 20)
    );
    let report = read(&[("long.log", &log)]);
    assert_eq!(
        rows(&report, Stage::CaptureInterval),
        [row("10", 1), row("11", 1)]
    );
    assert!(report.notes[0].contains("long.log:1: longer than 64 KiB"));
}

#[test]
fn what_is_neither_is_refused_with_what_to_do() {
    let refused = |bytes: &[u8]| {
        let read = Importer::new().read("f", bytes);
        read.expect_err("refused").to_string()
    };
    assert!(refused(b"").contains("in 0 lines"));
    assert!(refused(b"hello\nworld\n").contains("neither a marker"));
    assert!(refused(b"{\"traceEvents\":[]}").contains("nor an event"));
    assert!(refused(b"\x1f\x8b\x08").contains("gunzip f"));
    assert!(refused(b"\x0a\x00\x00\x12").contains("traceconv json"));
}

/// Two packets of a call as Chromium 156 writes them; one in the older form with a begin and an
/// end.
const TRACE: &str = r#"{"traceEvents":[
{"args":{"name":"Renderer \"{[\" "},"cat":"__metadata","name":"process_name","ph":"M","pid":1,"tid":0,"ts":0},
{"args":{},"cat":"webrtc","dur":27,"name":"AudioSendStream::SendAudioData","ph":"X","pid":1,"tid":2,"ts":1000},
{"args":{},"cat":"webrtc","dur":23,"name":"ChannelSend::ProcessAndEncodeAudio","ph":"X","pid":1,"tid":2,"ts":1003},
{"args":{},"cat":"webrtc","dur":3,"name":"AudioEncoder::Encode","ph":"X","pid":1,"tid":3,"ts":1053},
{"args":{},"cat":"webrtc","dur":23.5,"name":"ChannelSend::ProcessAndEncodeAudio","ph":"X","pid":1,"tid":2,"ts":11003},
{"args":{},"cat":"webrtc","dur":27,"name":"AudioSendStream::SendAudioData","ph":"X","pid":1,"tid":2,"ts":11000},
{"args":{},"cat":"webrtc","name":"AudioEncoder::Encode","ph":"B","pid":1,"tid":3,"ts":11103},
{"args":{},"cat":"webrtc","name":"Inner","ph":"B","pid":1,"tid":3,"ts":11104},
{"ph":"E","pid":1,"tid":3,"ts":11105},
{"ph":"E","pid":1,"tid":3,"ts":11803},
{"args":{"rtp_timestamp":4294967295,"sequence_number":0},"cat":"disabled-by-default-webrtc","dur":9,"name":"TaskQueuePacedSender::EnqueuePackets::Loop","ph":"X","pid":1,"tid":4,"ts":12003},
{"args":{"rtp_timestamp":4294967295,"sequence_number":7},"cat":"disabled-by-default-webrtc","dur":289,"name":"PacketRouter::SendPacket","ph":"X","pid":1,"tid":4,"ts":12013},
{"args":{},"cat":"webrtc","dur":264,"name":"BaseChannel::SendPacket","ph":"X","pid":1,"tid":4,"ts":12024},
{"args":{},"cat":"webrtc","dur":64,"name":"BaseChannel::SendPacket","ph":"X","pid":1,"tid":4,"ts":12500},
{"args":{},"cat":"webrtc","dur":68,"name":"RtpTransport::OnReadPacket","ph":"X","pid":1,"tid":4,"ts":12600},
{"args":{},"cat":"webrtc","dur":19,"name":"NetEqImpl::InsertPacket","ph":"X","pid":1,"tid":4,"ts":12640},
{"args":{},"cat":"webrtc","dur":30,"name":"RtpTransport::OnReadPacket","ph":"X","pid":1,"tid":4,"ts":12700},
{"args":{},"cat":"webrtc","dur":117,"name":"AudioTransportImpl::PullRenderData","ph":"X","pid":1,"tid":5,"ts":20000},
{"args":{},"cat":"webrtc","dur":80,"name":"AudioMixerImpl::Mix","ph":"X","pid":1,"tid":5,"ts":20009},
{"args":{},"cat":"webrtc","dur":1026,"name":"Resample","ph":"X","pid":1,"tid":5,"ts":20090},
{"args":{},"cat":"webrtc","dur":23,"name":"NetEqImpl::GetAudio","ph":"X","pid":1,"tid":5,"ts":20011},
{"args":{},"cat":"webrtc","dur":117,"name":"AudioTransportImpl::PullRenderData","ph":"X","pid":1,"tid":5,"ts":29999},
{"name":"AudioMixerImpl::Mix","ph":7},
{"args":{},"cat":"webrtc","name":"PacketRouter::SendPacket","ph":"X","ts":1},
{"args":{},"cat":"webrtc","dur":1,"name":"Resample","ph":"X","pid":1,"tid":5,"ts":30000"#;

#[test]
fn chromiums_spans_become_the_same_tables() {
    let report = read(&[("t.json", TRACE)]);
    assert_eq!(report.malformed, 3, "{:?}", report.notes);
    assert!(
        report.notes[0].starts_with("t.json:24: "),
        "{:?}",
        report.notes
    );
    assert!(report.notes[2].contains("t.json:26: the file ends within"));
    let ms = |stage| table(&report, stage).max_ms.expect("measured");
    let counts = |stage| table(&report, stage).count;
    let wanted = [
        (Stage::CaptureInterval, 1, 10.0),
        (Stage::EncodeQueue, 1, 0.1),
        (Stage::EncodeOperation, 1, 0.7),
        (Stage::Encode, 1, 0.8),
        (Stage::SendEnqueue, 1, 0.2),
        (Stage::SendPace, 1, 0.01),
        (Stage::SendHandOver, 1, 0.011),
        (Stage::SendSocket, 1, 0.264),
        (Stage::Send, 1, 0.485),
        (Stage::Open, 1, 0.059),
        (Stage::PlayoutInterval, 1, 9.999),
        (Stage::Mixer, 1, 0.08),
        (Stage::Decode, 1, 0.023),
        (Stage::Resample, 1, 1.026),
    ];
    for (stage, count, max_ms) in wanted {
        assert_eq!((counts(stage), ms(stage)), (count, max_ms), "{stage}");
    }
    assert_eq!(report.stages.len(), wanted.len());
    assert_eq!(rows(&report, Stage::Resample), [row("1000", 1)]);
    assert!(
        report
            .notes
            .iter()
            .any(|it| it.contains("no jitter_buffer table"))
    );
}

#[test]
fn a_bare_list_of_events_is_a_trace_and_a_bracketed_log_is_none() {
    let list = TRACE.strip_prefix("{\"traceEvents\":").expect("as above");
    assert_eq!(read(&[("t", list)]).stages, read(&[("t", TRACE)]).stages);
    let metadata = format!(
        "{{\"metadata\":{{\"a\":[{{\"name\":\"Resample\"}}]}},{}",
        &TRACE[1..]
    );
    assert_eq!(
        read(&[("t", &metadata)]).stages,
        read(&[("t", TRACE)]).stages
    );
    assert_eq!(
        detect(b"[000:042] [1234] (x.cc:1): SendRtp:1,2"),
        Format::Markers
    );
    assert_eq!(detect(b"\n [ \n {\"name\""), Format::Trace);
}

#[test]
fn an_event_without_end_costs_no_more_than_its_bound() {
    let long = format!(
        "[{{\"name\":\"Resample\",\"ph\":\"X\",\"cat\":\"{}\",\"dur\":2}},\n{{\"name\":\"Resample\",\"ph\":\"X\",\"dur\":2000}}]",
        "z".repeat(3 << 20)
    );
    let report = read(&[("t", &long)]);
    assert_eq!(rows(&report, Stage::Resample), [row("2000", 1)]);
    assert!(
        report.notes[0].contains("t:1: an event longer"),
        "{:?}",
        report.notes
    );
}

proptest! {
    /// Lines of several packets in any order: each packet is joined as long as its own three
    /// lines are in order.
    #[test]
    fn interleaving_loses_no_packet(order in proptest::collection::vec(0usize..8, 0..200)) {
        let mut steps = [0; 8];
        let mut log = String::from("Recording delay:10\n");
        for packet in order {
            let line = match steps[packet] {
                0 => format!("EnqueuePackets:{packet},1000"),
                1 => format!("SendPacketToNetwork:{packet},{packet}"),
                2 => format!("SendRtp:{packet},{}", 1000 + packet),
                _ => continue,
            };
            steps[packet] += 1;
            log += &format!("(x.cc:7): {line}\n");
        }
        let report = read(&[("a.log", &log)]);
        let sent = steps.iter().filter(|it| **it == 3).count() as u64;
        let begun = steps.iter().filter(|it| **it > 0).count() as u64;
        let found = report.table(Stage::Send).map_or((0, 0), |it| (it.count, it.lost));
        prop_assert_eq!(found, (sent, begun - sent));
    }

    #[test]
    fn any_bytes_are_read_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..300), begin in 0usize..4) {
        let begins: [&[u8]; 4] = [b"", b"[{\"ph\":\"X\",\"name\":\"Resample\"},", b"{\"traceEvents\":[{", b"SendRtp:"];
        let all = [begins[begin], &bytes].concat();
        let mut importer = Importer::new();
        if importer.read("f", all.as_slice()).is_ok() {
            let report = importer.finish();
            prop_assert!(report.to_json().contains("stages"));
        }
    }
}
