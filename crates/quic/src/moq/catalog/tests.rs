use super::entry::NAME_BYTES_MAX;
use super::*;
use crate::moq::codec;
use glassline_media::{Bitrate, Codec, Track};
use proptest::prelude::*;

fn read(text: &str) -> Result<Catalog, CatalogError> {
    Document::default().take(text.as_bytes(), true)
}

/// A catalog as hang 0.21 writes it (its test `simple`).
const HANG: &str = r#"{"video":{"renditions":{"video":{"codec":"avc1.64001f","codedWidth":1280,
    "codedHeight":720,"bitrate":6000000,"framerate":30.0,"container":{"kind":"legacy"}}}},
    "audio":{"renditions":{"audio":{"codec":"opus","sampleRate":48000,"numberOfChannels":2,
    "bitrate":128000,"container":{"kind":"legacy"}}}}}"#;

#[test]
fn catalogs_of_hang_are_read() {
    let catalog = read(HANG).expect("a catalog");
    let chosen = catalog.choose().expect("both");
    let codecs: Vec<_> = chosen.iter().map(|it| it.track.codec).collect();
    assert_eq!(codecs, [Codec::H264, Codec::Opus]);
    assert_eq!(
        (chosen[0].name.as_str(), chosen[1].name.as_str()),
        ("video", "audio")
    );
    let video = &chosen[0].track.video;
    assert_eq!((video.width, video.height), (1280, 720));
    assert_eq!(chosen[0].bitrate, Some(Bitrate::from_bps(6_000_000)));
    assert!(!catalog.echoes && catalog.clock.is_none());
}

/// Returns the names of the video renditions that are received of those with these names, sizes and
/// bitrates in kbit/s; 0 is not stated.
fn received(renditions: &[(&str, u32, u32, u64)]) -> Vec<String> {
    let listed = renditions.iter().map(|(name, width, height, kbps)| {
        let mut fields = vec![r#""codec":"vp8""#.to_owned()];
        if *width > 0 {
            fields.push(format!(r#""codedWidth":{width},"codedHeight":{height}"#));
        }
        if *kbps > 0 {
            fields.push(format!(r#""bitrate":{}"#, kbps * 1000));
        }
        format!(r#""{name}":{{{}}}"#, fields.join(","))
    });
    let listed: Vec<_> = listed.collect();
    let text = format!(r#"{{"video":{{"renditions":{{{}}}}}}}"#, listed.join(","));
    let chosen = read(&text).and_then(|it| it.choose()).expect("video");
    chosen.into_iter().map(|it| it.name).collect()
}

#[test]
fn encodings_of_one_video_are_received_together() {
    let ladder = [("a", 426, 240, 0), ("b", 1920, 1080, 0), ("c", 854, 480, 0)];
    assert_eq!(received(&ladder), ["b", "c", "a"]);
    let rates = [("a", 0, 0, 300), ("b", 0, 0, 2000), ("c", 1280, 720, 5000)];
    assert_eq!(received(&rates), ["c", "b", "a"], "the bitrates tell");
    let alike = [("a", 640, 360, 300), ("b", 640, 360, 900)];
    assert_eq!(received(&alike), ["b", "a"]);
    let other = [("slides", 1280, 720, 0), ("face", 640, 480, 0)];
    assert_eq!(received(&other), ["slides"], "another shape");
    let portrait = [("wide", 1280, 720, 0), ("tall", 720, 1280, 0)];
    assert_eq!(received(&portrait).len(), 1);
    let unknown = [("a", 0, 0, 0), ("b", 0, 0, 0), ("c", 1280, 720, 0)];
    assert_eq!(received(&unknown), ["c"], "nothing tells that they are one");
    let many = [1080, 900, 720, 540, 360, 180];
    let many = many.map(|rows| {
        (
            "abcdefghijklmnopqrst".split_at(rows as usize / 90).0,
            rows * 16 / 9,
            rows,
            0,
        )
    });
    assert_eq!(received(&many).len(), LAYERS_MAX);
}

#[test]
fn what_is_written_is_read_again() {
    let (mut h264, opus) = (Track::new(Codec::H264), Track::audio(Codec::Opus, 2));
    (h264.video.width, h264.video.height) = (640, 360);
    let aac = codec::aac(&[0x11, 0x90], 48_000, 2);
    let offered = |name, track, codec| OfferedRendition {
        name,
        track,
        codec,
        bitrate: Some(Bitrate::from_bps(7)),
    };
    let clock = Duration::from_micros(1_795_000_000_123_456);
    let renditions = [
        offered("v", &h264, "avc3.42c01f"),
        offered("a", &opus, "opus"),
        offered("b", &aac, "mp4a.40.2"),
    ];
    let text = write(&renditions, Some(clock), true);
    let catalog = Document::default().take(&text, true).expect("ours");
    assert_eq!(catalog.clock, Some(clock));
    assert!(catalog.echoes);
    let tracks: Vec<_> = catalog.renditions.iter().map(|it| &it.track).collect();
    assert_eq!(tracks, [&h264, &opus, &aac]);
}

#[test]
fn patches_change_the_document() {
    let mut document = Document::default();
    document.take(HANG.as_bytes(), true).expect("a catalog");
    let patch = r#"{"audio":null,"video":{"renditions":{"video":null,"hd":{"codec":"vp8"}}}}"#;
    let catalog = document.take(patch.as_bytes(), false).expect("patched");
    assert_eq!(catalog.renditions.len(), 1);
    assert_eq!(catalog.renditions[0].track.codec, Codec::Vp8);
}

#[test]
fn lies_are_named() {
    let video = |fields: &str| format!(r#"{{"video":{{"renditions":{{"v":{{{fields}}}}}}}}}"#);
    let audio = |fields: &str| format!(r#"{{"audio":{{"renditions":{{"a":{{{fields}}}}}}}}}"#);
    for (text, expected) in [
        ("nonsense".to_owned(), "the catalog is malformed"),
        ("[]".to_owned(), "not an object"),
        (
            r#"{"video":{"renditions":7}}"#.to_owned(),
            "`video.renditions` is not an object",
        ),
        (video(r#""codec":7"#), "codec cannot be 7"),
        (
            video(r#""codec":"vp8","codedWidth":0"#),
            "codedWidth cannot be 0",
        ),
        (
            video(r#""codec":"vp8","codedHeight":1e9"#),
            "codedHeight cannot be",
        ),
        (
            video(r#""codec":"avc1.64001f","description":"01"#.to_owned().as_str()),
            "malformed",
        ),
        (
            video(r#""codec":"avc1.64001f","description":"zz""#),
            "description cannot be",
        ),
        (
            video(r#""codec":"avc1.64001f","description":"0164001fffe1ffff""#),
            "description",
        ),
        (
            audio(r#""codec":"opus","numberOfChannels":2"#),
            "sampleRate cannot be",
        ),
        (
            audio(r#""codec":"mp4a.40.2","sampleRate":47999,"numberOfChannels":2"#),
            "codec",
        ),
        (
            audio(r#""codec":"opus","sampleRate":48000,"numberOfChannels":200"#),
            "numberOf",
        ),
    ] {
        let error = read(&text).expect_err(&text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    for (text, expected) in [
        ("{}".to_owned(), "no rendition in the catalog"),
        (video(r#""codec":"vp10""#), "codec `vp10` is not supported"),
        (video(r#""codec":"opus""#), "codec `opus` is not supported"),
        (
            video(r#""codec":"vp8","container":{"kind":"cmaf","init":""}"#),
            "container `cmaf` is not supported",
        ),
        (
            video(r#""codec":"vp8","broadcast":"../other""#),
            "in another broadcast",
        ),
    ] {
        let catalog = read(&text).expect(&text);
        let error = catalog.choose().expect_err(&text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn floods_are_refused_before_they_are_read() {
    let long = " ".repeat(BYTES_MAX + 1);
    assert_eq!(
        read(&long),
        Err(CatalogError::Long {
            bytes: BYTES_MAX + 1
        })
    );
    let many: Vec<_> = (0..=RENDITIONS_MAX)
        .map(|number| format!(r#""{number}":{{"codec":"vp8"}}"#))
        .collect();
    let many = format!(r#"{{"video":{{"renditions":{{{}}}}}}}"#, many.join(","));
    assert_eq!(read(&many), Err(CatalogError::Many { count: 65 }));
    let name = "n".repeat(NAME_BYTES_MAX + 1);
    let named = format!(r#"{{"video":{{"renditions":{{"{name}":{{"codec":"vp8"}}}}}}}}"#);
    assert!(matches!(
        read(&named),
        Err(CatalogError::InvalidField { .. })
    ));
    let deep = format!("{}1{}", "[".repeat(4000), "]".repeat(4000));
    assert!(matches!(read(&deep), Err(CatalogError::Malformed(_))));
}

proptest! {
    #[test]
    fn documents_of_strangers_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut document = Document::default();
        let _ = document.take(&bytes, true);
        let _ = document.take(&bytes, false);
    }
}
