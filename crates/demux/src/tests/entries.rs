//! Sample entries of MP4 and QuickTime, written box by box.

use super::*;

/// A track: its sample entries, and chunks of units with the number of their entry.
struct Movie<'a> {
    handler: &'a [u8; 4],
    ticks_a_second: u32,
    entries: Vec<Vec<u8>>,
    chunks: &'a [(u32, Vec<Vec<u8>>)],
    /// Numbers of the keyframes, from one.
    keyframes: &'a [u32],
}

fn boxed(kind: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&(8 + body.len() as u32).to_be_bytes(), &kind[..], &body].concat()
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|it| it.to_be_bytes()).collect()
}

impl Movie<'_> {
    fn bytes(&self) -> Vec<u8> {
        let file_type = boxed(b"ftyp", &[b"isom\0\0\x02\0isom"]);
        let data: Vec<Vec<u8>> = self
            .chunks
            .iter()
            .map(|(_, units)| units.concat())
            .collect();
        let sizes: Vec<u32> = self
            .chunks
            .iter()
            .flat_map(|(_, units)| units.iter().map(|unit| unit.len() as u32))
            .collect();
        let mut at = file_type.len() as u32 + 8;
        let offsets: Vec<u32> = data
            .iter()
            .map(|chunk| {
                let end = at + chunk.len() as u32;
                std::mem::replace(&mut at, end)
            })
            .collect();
        let count = |table: &[u32], fields: u32| words(&[0, table.len() as u32 / fields]);
        let mut per_chunk = Vec::new();
        for (place, (entry, units)) in (1..).zip(self.chunks) {
            per_chunk.extend([place, units.len() as u32, *entry]);
        }
        let units = sizes.len() as u32;
        let entries = self.entries.concat();
        let table = boxed(
            b"stbl",
            &[
                &boxed(
                    b"stsd",
                    &[&words(&[0, self.entries.len() as u32]), &entries],
                ),
                &boxed(b"stts", &[&words(&[0, 1, units, 1])]),
                &boxed(
                    b"stss",
                    &[&count(self.keyframes, 1), &words(self.keyframes)],
                ),
                &boxed(b"stsc", &[&count(&per_chunk, 3), &words(&per_chunk)]),
                &boxed(b"stsz", &[&words(&[0, 0, units]), &words(&sizes)]),
                &boxed(b"stco", &[&count(&offsets, 1), &words(&offsets)]),
            ],
        );
        let media = boxed(
            b"mdia",
            &[
                &boxed(
                    b"mdhd",
                    &[&words(&[0, 0, 0, self.ticks_a_second, units, 0])],
                ),
                &boxed(b"hdlr", &[&words(&[0, 0]), self.handler, &[0; 13]]),
                &boxed(b"minf", &[&table]),
            ],
        );
        let header = [words(&[3, 0, 0, 1]), vec![0; 68]].concat();
        let track = boxed(b"trak", &[&boxed(b"tkhd", &[&header]), &media]);
        let movie_header = words(&[0, 0, 0, self.ticks_a_second, units]);
        let movie = boxed(b"moov", &[&boxed(b"mvhd", &[&movie_header]), &track]);
        [file_type, boxed(b"mdat", &[&data.concat()]), movie].concat()
    }

    fn opened(&self) -> Result<Demuxer, Error> {
        opened(Format::Mp4, &self.bytes(), &ONCE)
    }
}

/// Parameter sets of x264 for 64×64; the second one for pictures has another offset of chroma.
const SEQUENCE: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0a, 0xd9, 0x04, 0x26, 0xc0, 0x44, 0x00, 0x00, 0x03, 0x00, 0x04, 0x00, 0x00,
    0x03, 0x00, 0xc8, 0x3c, 0x48, 0x99, 0x20,
];
const PICTURES: [&[u8]; 2] = [
    &[0x68, 0xcb, 0x83, 0xcb, 0x20],
    &[0x68, 0xcb, 0x83, 0xd4, 0x80],
];

fn video_entry(kind: &[u8; 4], record: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut head = vec![0; 78];
    head[24..28].copy_from_slice(&[0, 64, 0, 64]);
    boxed(kind, &[&head, &boxed(record, &[body])])
}

fn avc(picture: &[u8]) -> Vec<u8> {
    let record = [
        &[1, 0x42, 0xc0, 0x0a, 0xff, 0xe1, 0, SEQUENCE.len() as u8][..],
        SEQUENCE,
        &[1, 0, picture.len() as u8],
        picture,
    ];
    video_entry(b"avc1", b"avcC", &record.concat())
}

/// A unit with one NAL unit of this type.
fn unit(header: u8, number: u8) -> Vec<u8> {
    vec![0, 0, 0, 3, header, 0x80, number]
}

fn with_codes(nals: &[&[u8]]) -> Vec<u8> {
    nals.iter()
        .flat_map(|nal| [&[0, 0, 0, 1][..], nal].concat())
        .collect()
}

/// gpac#2472: with the first entry's sets alone, most of the film is grey.
#[test]
fn frames_have_the_parameter_sets_of_their_own_sample_entry() {
    let chunks = [
        (1, vec![unit(0x65, 1), unit(0x41, 2)]),
        (2, vec![unit(0x65, 3), unit(0x41, 4)]),
        // A recorder may change the picture's parameters between keyframes.
        (1, vec![unit(0x41, 5), unit(0x41, 6)]),
    ];
    let movie = Movie {
        handler: b"vide",
        ticks_a_second: 25,
        entries: PICTURES.map(avc).to_vec(),
        chunks: &chunks,
        keyframes: &[1, 3],
    };
    let demuxer = movie.opened().expect("a good file");
    assert_eq!(reasons(&demuxer), []);
    let found: Vec<Vec<u8>> = all(demuxer).iter().map(|it| it.data.to_vec()).collect();
    let nal = |header, number| [header, 0x80, number];
    let with_sets =
        |picture: usize, slice: [u8; 3]| with_codes(&[SEQUENCE, PICTURES[picture], &slice]);
    assert_eq!(
        found,
        [
            with_sets(0, nal(0x65, 1)),
            with_codes(&[&nal(0x41, 2)]),
            with_sets(1, nal(0x65, 3)),
            with_codes(&[&nal(0x41, 4)]),
            with_sets(0, nal(0x41, 5)),
            with_codes(&[&nal(0x41, 6)]),
        ]
    );
}

#[test]
fn units_of_another_coding_are_left_out_and_named() {
    let chunks = [
        (1, vec![unit(0x65, 1)]),
        (2, vec![vec![0xff, 0xd8, 0xff, 0xd9]; 3]),
        (1, vec![unit(0x41, 5), unit(0x65, 6)]),
        // No entry has this number.
        (9, vec![unit(0x41, 7)]),
    ];
    let jpeg = video_entry(b"jpeg", b"free", &[]);
    let movie = Movie {
        handler: b"vide",
        ticks_a_second: 25,
        entries: vec![avc(PICTURES[0]), jpeg, video_entry(b"xyzw", b"free", &[])],
        chunks: &chunks,
        keyframes: &[1, 2, 3, 4, 6],
    };
    let demuxer = movie.opened().expect("what can be played is played");
    let told = "track 1: 1 of sample entry 1 (no keyframe follows units of another coding), 3 of \
                sample entry 2 (jpeg)";
    assert_eq!(
        reasons(&demuxer),
        [WarningReason::OtherEntries(told.to_owned())]
    );
    let frames = all(demuxer);
    let last = |frame: &Frame| (frame.data.last().copied(), frame.time.nanos() / 40_000_000);
    let found: Vec<_> = frames.iter().map(last).collect();
    assert_eq!(found, [(Some(1), 0), (Some(6), 5), (Some(7), 6)]);
}

#[test]
fn a_first_entry_that_is_unknown_does_not_hide_the_others() {
    let chunks = [
        (1, vec![vec![7; 9]; 2]),
        (2, vec![unit(0x65, 3), unit(0x41, 4)]),
    ];
    let movie = |entries| Movie {
        handler: b"vide",
        ticks_a_second: 25,
        entries,
        chunks: &chunks,
        keyframes: &[1, 2, 3],
    };
    let unknown = video_entry(b"xyzw", b"free", &[]);
    let broken = video_entry(b"avc1", b"avcC", &[1]);
    for (first, why) in [
        (unknown.clone(), "xyzw"),
        (broken.clone(), "avc1: it is damaged"),
    ] {
        let demuxer = movie(vec![first, avc(PICTURES[0])])
            .opened()
            .expect("the second is good");
        let told = format!("track 1: 2 of sample entry 1 ({why})");
        assert_eq!(reasons(&demuxer), [WarningReason::OtherEntries(told)]);
        assert_eq!(all(demuxer).len(), 2);
    }
    let none = failure(movie(vec![unknown.clone(), unknown]).opened());
    assert!(none.to_string().contains("track 1 (xyzw)"), "{none}");
    let damaged = failure(movie(vec![broken.clone(), broken]).opened());
    assert!(matches!(damaged.reason, Reason::Damaged(_)), "{damaged}");
}

/// mediamtx#2848: A-law of 16 kHz as PCMA is heard an octave too low.
#[test]
fn g711_in_quicktime_keeps_its_pitch_at_every_rate() {
    for (rate, channels, codec, expected) in [
        (8_000, 1, Codec::Pcma, &[0xaa, 0xd5][..]),
        (16_000, 1, Codec::L16, &[0x7e, 0, 0, 8]),
        (8_000, 2, Codec::L16, &[0x7e, 0, 0, 8]),
        (11_025, 1, Codec::L16, &[0x7e, 0, 0, 8]),
    ] {
        let mut head = vec![0; 28];
        (head[17], head[19]) = (channels, 16);
        head[24..28].copy_from_slice(&u32::to_be_bytes(rate << 16));
        let units = [vec![0xaa], vec![0xd5]];
        let movie = Movie {
            handler: b"soun",
            ticks_a_second: rate,
            entries: vec![boxed(b"alaw", &[&head])],
            chunks: &[(1, units[..2 / usize::from(channels)].to_vec())],
            keyframes: &[],
        };
        // A sample of two channels is one unit of two bytes.
        let chunk = [(1, vec![vec![0xaa, 0xd5]])];
        let movie = match channels {
            1 => movie,
            _ => Movie {
                chunks: &chunk,
                ..movie
            },
        };
        let demuxer = movie.opened().expect("a good file");
        let track = &demuxer.tracks()[0];
        assert_eq!(
            (track.codec, track.clock_rate, track.channels),
            (codec, rate, channels)
        );
        let played: Vec<u8> = all(demuxer)
            .iter()
            .flat_map(|it| it.data.to_vec())
            .collect();
        assert_eq!(played, expected, "{rate} Hz");
    }
}
