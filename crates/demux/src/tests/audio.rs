use super::*;

#[test]
fn packets_lie_where_they_are_played() {
    let file = ogg_opus(1, &packets(120), 50, 312, 120 * 960);
    let demuxer = audio(&file, &ONCE).expect("good audio");
    assert_eq!(demuxer.warnings(), []);
    assert_eq!(demuxer.tracks()[0].channels, 2);
    assert_eq!(demuxer.duration(), Duration::from_nanos(2_393_500_000));
    let frames = all(demuxer);
    // Packet 0 begins 6.5 ms before the track does.
    assert_eq!(
        frames.iter().map(number).collect::<Vec<_>>(),
        (1..120).collect::<Vec<_>>()
    );
    assert_eq!(frames[0].time, MediaTime::from_ticks(648, 48_000));
    assert!(
        frames
            .iter()
            .all(|frame| frame.duration == Duration::from_millis(20))
    );
}

#[test]
fn without_pre_skip_nothing_is_left_out() {
    let file = ogg_opus(1, &packets(10), 3, 0, 9600);
    assert_eq!(all(audio(&file, &ONCE).expect("good audio")).len(), 10);
    // 80 ms of pre-skip, as opusenc writes it: four packets only prepare the decoder.
    let file = ogg_opus(1, &packets(10), 3, 3840, 9600);
    let frames = all(audio(&file, &ONCE).expect("good audio"));
    assert_eq!((number(&frames[0]), frames[0].time), (4, MediaTime::ZERO));
}

#[test]
fn the_end_is_trimmed_to_the_granule_position() {
    for (end, count, last_ms) in [(9600, 10, 20), (9599, 10, 19), (8640, 9, 20), (8641, 10, 0)] {
        let file = ogg_opus(1, &packets(10), 100, 0, end);
        let frames = all(audio(&file, &ONCE).expect("good audio"));
        assert_eq!(frames.len(), count, "{end}");
        assert_eq!(frames[count - 1].duration.as_millis(), last_ms, "{end}");
    }
}

#[test]
fn a_stream_that_begins_late_begins_at_zero() {
    let mut file = ogg_opus(1, &packets(20), 5, 0, 19_200);
    // Granule positions of a stream cut out of a longer one.
    let pages: Vec<usize> = (0..file.len() - 4)
        .filter(|&at| &file[at..at + 4] == b"OggS")
        .collect();
    for &page in &pages[2..] {
        let at = page + 6..page + 14;
        let granule = u64::from_le_bytes(file[at.clone()].try_into().expect("8")) + 1_000_000;
        file[at].copy_from_slice(&granule.to_le_bytes());
    }
    fix_checksums(&mut file);
    let demuxer = audio(&file, &ONCE).expect("good audio");
    assert_eq!(demuxer.duration(), Duration::from_millis(400));
    assert_eq!(all(demuxer)[0].time, MediaTime::ZERO);
}

#[test]
fn chained_streams_follow_each_other() {
    let first = ogg_opus(1, &packets(10), 4, 312, 9600);
    for serial in [1, 2] {
        let second = ogg_opus(serial, &packets(10), 4, 312, 9600);
        let file = [first.clone(), second].concat();
        let demuxer = audio(&file, &ONCE).expect("good audio");
        assert_eq!(demuxer.warnings(), []);
        let frames = all(demuxer);
        let numbers: Vec<_> = frames.iter().map(number).collect();
        assert_eq!(numbers, (1..10).chain(1..10).collect::<Vec<_>>());
        let ticks = |index: usize| frames[index].time.ticks(48_000);
        // 9288 samples of the first are heard; its last packet covers all of them.
        assert_eq!((ticks(8), ticks(9)), (9288 - 960, 9288 + 960 - 312));
    }
}

#[test]
fn a_packet_may_run_over_pages() {
    let mut long = opus_packet(1);
    long.resize(60_000, 7);
    let mut longer = opus_packet(2);
    longer.resize(61_000, 8);
    let list = [opus_packet(0), long.clone(), longer.clone(), opus_packet(3)];
    let frames = all(audio(&ogg_opus(1, &list, 9, 0, 3840), &ONCE).expect("good audio"));
    let data: Vec<_> = frames.iter().map(|frame| frame.data.to_vec()).collect();
    assert_eq!(data, list);
    longer.resize(61_441, 8);
    let list = [opus_packet(0), longer];
    let error = failure(audio(&ogg_opus(1, &list, 9, 0, 1920), &ONCE));
    assert!(matches!(error.reason, Reason::OpusPacket(_)), "{error}");
}

#[test]
fn a_file_that_ends_within_a_page_ends_with_the_page_before() {
    let file = ogg_opus(1, &packets(100), 10, 312, 96_000);
    let last = file
        .windows(4)
        .rposition(|at| at == b"OggS")
        .expect("a page");
    for cut in [last + 4, last + 27, last + 30, file.len() - 1] {
        let demuxer = audio(&file[..cut], &ONCE).expect("good pages before");
        assert_eq!(reasons(&demuxer), [WarningReason::Truncated]);
        assert_eq!(demuxer.warnings()[0].offset, Some(last as u64));
        assert_eq!(all(demuxer).len(), 89);
    }
    // A file that is cut between pages only ends earlier.
    let demuxer = audio(&file[..last], &ONCE).expect("good pages");
    assert_eq!(reasons(&demuxer), []);
    for cut in [4, 20, 40, 60] {
        let error = failure(audio(&file[..cut], &ONCE));
        assert!(matches!(error.reason, Reason::TruncatedPage), "{error}");
        assert!(error.to_string().starts_with("a.ogg, byte "), "{error}");
    }
}

#[test]
fn a_damaged_page_is_skipped_and_counted() {
    let file = ogg_opus(1, &packets(100), 10, 312, 96_000);
    let starts = |bytes: &[u8]| -> Vec<usize> {
        let places = bytes.windows(4).enumerate();
        let places = places.filter(|(_, at)| *at == b"OggS");
        places.map(|(place, _)| place).collect()
    };
    let pages = starts(&file);
    assert_eq!(pages.len(), 12, "two of headers, ten of ten packets");
    // Everywhere: in the capture pattern, the sequence, the checksum, the lacing and the body.
    for at in [0, 3, 4, 5, 7, 14, 18, 22, 26, 27, 30, 40, 60] {
        let mut bytes = file.clone();
        bytes[pages[5] + at] ^= 0x81;
        bytes[pages[8] + 50] ^= 1;
        let demuxer = audio(&bytes, &ONCE).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        let told = reasons(&demuxer);
        let counted = told.iter().any(|reason| match reason {
            WarningReason::DamagedPages(count) => (1..=2).contains(count),
            _ => false,
        });
        assert!(counted, "byte {at}: {told:?}");
        let frames = all(demuxer);
        assert_eq!(frames.len(), 79, "byte {at}");
        // The rest keeps its time: silence stands for what is missing.
        assert_eq!(frames.last().expect("some").time.nanos() / 1_000_000, 1_973);
    }
    let headers = &file[..pages[2]];
    for at in [pages[0] + 40, pages[1] + 40] {
        let mut bytes = file.clone();
        bytes[at] ^= 1;
        let error = failure(audio(&bytes, &ONCE));
        assert!(
            matches!(error.reason, Reason::PageChecksum { .. }),
            "{error}"
        );
    }
    let noise = [headers, &b"OggS".repeat(100_000)].concat();
    assert!(audio(&noise, &ONCE).is_err());
}

#[test]
fn damage_is_named_with_its_place() {
    let file = ogg_opus(1, &packets(100), 10, 312, 96_000);
    let page = file
        .windows(4)
        .rposition(|at| at == b"OggS")
        .expect("a page");
    let mut flipped = file.clone();
    flipped[page + 60] ^= 1;
    let demuxer = audio(&flipped, &ONCE).expect("good pages before");
    assert_eq!(demuxer.warnings()[0].offset, Some(page as u64));
    let appended = [&file[..], b"TAG of another program that is long enough"].concat();
    let demuxer = audio(&appended, &ONCE).expect("good audio before the tag");
    assert_eq!(reasons(&demuxer), [WarningReason::Skipped(42)]);
    assert_eq!(all(demuxer).len(), 99);
    let head = file
        .windows(4)
        .position(|at| at == b"Opus")
        .expect("a head");
    let without_data = &file[..head + 19];
    assert!(matches!(
        failure(audio(without_data, &ONCE)).reason,
        Reason::NoAudio
    ));
}

#[test]
fn a_lost_page_leaves_silence() {
    let file = ogg_opus(1, &packets(100), 10, 0, 96_000);
    let pages: Vec<usize> = (0..file.len() - 4)
        .filter(|&at| &file[at..at + 4] == b"OggS")
        .collect();
    let holed = [&file[..pages[5]], &file[pages[6]..]].concat();
    let demuxer = audio(&holed, &ONCE).expect("good audio around the hole");
    assert_eq!(reasons(&demuxer), [WarningReason::MissingPages]);
    let frames = all(demuxer);
    assert_eq!(frames.len(), 90);
    for frame in frames {
        assert_eq!(frame.time.ticks(48_000), number(&frame) as i64 * 960);
    }
}

#[test]
fn a_senseless_position_after_a_lost_page_is_not_believed() {
    let file = ogg_opus(1, &packets(30), 10, 0, 28_800);
    let pages: Vec<usize> = (0..file.len() - 4)
        .filter(|&at| &file[at..at + 4] == b"OggS")
        .collect();
    let mut holed = [&file[..pages[3]], &file[pages[4]..]].concat();
    holed[pages[3] + 6..pages[3] + 14].copy_from_slice(&(i64::MAX - 5).to_le_bytes());
    fix_checksums(&mut holed);
    let demuxer = audio(&holed, &ONCE).expect("good audio around the hole");
    assert_eq!(demuxer.duration(), Duration::from_millis(400));
}

#[test]
fn other_codecs_are_refused_by_name() {
    use ogg::writing::{PacketWriteEndInfo as End, PacketWriter};
    let mut writer = PacketWriter::new(Vec::new());
    let speex = b"Speex   1.2".to_vec();
    writer
        .write_packet(speex, 7, End::EndPage, 0)
        .expect("memory");
    writer
        .write_packet(b"data".to_vec(), 7, End::EndStream, 9)
        .expect("memory");
    let speex = writer.into_inner();
    let error = failure(audio(&speex, &ONCE));
    assert!(
        matches!(error.reason, Reason::OggCoding("Speex")),
        "{error}"
    );
    assert_eq!(error.offset, Some(0));
    // Beside a stream of Opus, the one of Speex is ignored.
    let file = ogg_opus(1, &packets(4), 4, 0, 3840);
    let second = speex
        .windows(4)
        .rposition(|at| at == b"OggS")
        .expect("two pages");
    let mixed = [&speex[..second], &file[..], &speex[second..]].concat();
    let demuxer = audio(&mixed, &ONCE).expect("the Opus stream");
    assert_eq!(reasons(&demuxer), [WarningReason::OtherStream("Speex")]);
    assert_eq!(all(demuxer).len(), 4);
}

#[test]
fn surround_is_described_by_its_streams() {
    use ogg::writing::{PacketWriteEndInfo as End, PacketWriter};
    let file = |family: u8| {
        let mut head = opus_head(6, 312);
        head[18] = family;
        head.extend([4, 2, 0, 4, 1, 2, 3, 5]);
        let mut writer = PacketWriter::new(Vec::new());
        let tags = b"OpusTags\0\0\0\0\0\0\0\0".to_vec();
        for (packet, granule) in [(head, 0), (tags, 0), (packets(1).remove(0), 960)] {
            let written = writer.write_packet(packet, 7, End::EndPage, granule);
            written.expect("memory");
        }
        writer.into_inner()
    };
    let demuxer = audio(&file(1), &ONCE).expect("5.1");
    let track = &demuxer.tracks()[0];
    assert_eq!((track.codec, track.channels), (Codec::MultiOpus, 6));
    assert_eq!(
        track.format_parameters,
        "num_streams=4;coupled_streams=2;channel_mapping=0,4,1,2,3,5"
    );
    // Channels without loudspeakers.
    let error = failure(audio(&file(255), &ONCE));
    assert!(
        matches!(error.reason, Reason::OpusMapping { family: 255, .. }),
        "{error}"
    );
}

#[test]
fn audio_alone_loops_on_its_own_length() {
    // One second as encoders write it: one more packet, trimmed to the length.
    let file = ogg_opus(1, &packets(51), 10, 312, 48_312);
    let mut demuxer = audio(&file, &Options::default()).expect("good audio");
    assert_eq!(demuxer.duration(), Duration::from_secs(1));
    let frames = take(&mut demuxer, 149);
    let numbers: Vec<_> = frames.iter().map(number).collect();
    let expected: Vec<_> = (1..50).chain(0..50).chain(0..50).collect();
    assert_eq!(numbers, expected);
    let ticks: Vec<_> = frames
        .iter()
        .map(|frame| frame.time.ticks(48_000))
        .collect();
    assert!(ticks.windows(2).all(|pair| pair[1] - pair[0] == 960));
}

proptest! {
    #[test]
    fn damage_never_panics(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        pre_skip in any::<u16>(),
    ) {
        let first = ogg_opus(1, &packets(12), 4, pre_skip, 11_000);
        let mut bytes = [first, ogg_opus(2, &packets(5), 2, 0, 4800)].concat();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        fix_checksums(&mut bytes);
        if let Ok(demuxer) = audio(&bytes, &ONCE) {
            let frames = all(demuxer);
            prop_assert!(frames.windows(2).all(|pair| pair[0].time < pair[1].time));
        }
        if let Ok(mut demuxer) = audio(&bytes, &Options::default()) {
            prop_assert!(take(&mut demuxer, 100).len() <= 100);
        }
    }
}

/// Makes the checksum of every page fit its bytes, for tests of what lies behind it.
fn fix_checksums(file: &mut [u8]) {
    let mut page = 0;
    while let Some(header) = file.get(page..page + 27).filter(|h| h.starts_with(b"OggS")) {
        let segments = usize::from(header[26]);
        let Some(lacing) = file.get(page + 27..page + 27 + segments) else {
            return;
        };
        let body: usize = lacing.iter().map(|&length| usize::from(length)).sum();
        let end = page + 27 + segments + body;
        let Some(bytes) = file.get_mut(page..end) else {
            return;
        };
        bytes[22..26].fill(0);
        let sum = crate::container::ogg::page::crc(0, bytes);
        bytes[22..26].copy_from_slice(&sum.to_le_bytes());
        page = end;
    }
}
