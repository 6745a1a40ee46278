//! Keyframes of real encoders as images, and bytes that are none.

use glassline_demux as demux;
use glassline_media::VideoParameters;
use glassline_rtp::payload::{Recovery, recovery};

use super::*;

/// Keyframes of a file in the checkout.
fn keyframes(path: &str) -> Vec<Vec<u8>> {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    let options = demux::Options {
        once: true,
        ..demux::Options::default()
    };
    let mut film = demux::open(&[path.into()], &options).expect("a sample");
    let frames = std::iter::from_fn(|| film.next_frame().expect("good"));
    let keyframes = frames.filter(|frame| frame.keyframe);
    keyframes.map(|frame| frame.data.to_vec()).collect()
}

/// Width, height and sampling factors that a JPEG file's frame header has (ITU-T T.81, B.2.2).
fn frame_header(jpeg: &[u8]) -> (u16, u16, [u8; 3]) {
    assert!(jpeg.starts_with(&[0xff, 0xd8]), "start of image");
    assert!(jpeg.ends_with(&[0xff, 0xd9]), "end of image");
    let mut at = 2;
    loop {
        let length = usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
        if jpeg[at + 1] == 0xc0 {
            let number = |at: usize| u16::from_be_bytes([jpeg[at], jpeg[at + 1]]);
            let factors = [11, 14, 17].map(|place| jpeg[at + place]);
            return (number(at + 7), number(at + 5), factors);
        }
        at += 2 + length;
    }
}

fn limit(width: impl Into<Option<u16>>, height: impl Into<Option<u16>>) -> SizeLimit {
    SizeLimit {
        width: width.into(),
        height: height.into(),
    }
}

#[test]
fn a_keyframe_becomes_an_image_within_the_limit_in_its_proportions() {
    let keyframe = &keyframes("assets/demo.h264")[0];
    for (limit, size) in [
        (SizeLimit::default(), (1280, 720)),
        (limit(320, None), (320, 180)),
        (limit(None, 90), (160, 90)),
        (limit(300, 300), (300, 168)),
        (limit(4096, 4096), (1280, 720)),
        (limit(17, None), (17, 9)),
    ] {
        let still = Still::of_h264(keyframe, limit).expect("decoded");
        assert_eq!((still.width, still.height), size, "{limit:?}");
        let (width, height, factors) = frame_header(&still.jpeg);
        assert_eq!((width, height), size, "{limit:?}");
        assert_eq!(factors, [0x22, 0x11, 0x11], "4:2:0");
    }
}

#[test]
fn a_keyframe_is_decoded_once_for_images_of_all_sizes() {
    let keyframe = &keyframes("assets/demo.h264")[0];
    let decoded = DecodedKeyframe::of_h264(keyframe).expect("decoded");
    assert_eq!(decoded.size(), FrameSize::new(1280, 720));
    assert!((1280 * 720 * 3 / 2..2 * 1280 * 720).contains(&decoded.bytes()));
    for limit in [SizeLimit::default(), limit(320, None), limit(None, 90)] {
        let still = decoded.still(limit.fit(decoded.size())).expect("encoded");
        let alone = Still::of_h264(keyframe, limit).expect("decoded");
        assert_eq!(still, alone, "{limit:?}");
    }
}

#[test]
fn a_stream_with_b_frames_gives_its_keyframe_away_at_once() {
    for keyframe in keyframes("crates/demux/samples/b-frames.h264") {
        let still = Still::of_h264(&keyframe, SizeLimit::default()).expect("decoded");
        assert!(still.jpeg.len() > 500, "{still:?}");
    }
}

#[test]
fn damaged_keyframes_are_refused_and_harm_no_later_one() {
    let keyframe = &keyframes("assets/demo.h264")[0];
    for length in [0, 1, 5, 20, 100, keyframe.len() / 2] {
        let refused = Still::of_h264(&keyframe[..length], SizeLimit::default());
        if length <= 100 {
            assert!(matches!(refused, Err(NoStill::Decoder { .. })), "{length}");
        }
    }
    let mut noise = keyframe.clone();
    for byte in noise.iter_mut().skip(60).step_by(7) {
        *byte = byte.wrapping_mul(31).wrapping_add(17);
    }
    let _ = Still::of_h264(&noise, limit(64, None));
    Still::of_h264(keyframe, limit(64, None)).expect("decoded all the same");
}

#[test]
fn other_codecs_and_huge_frames_are_named() {
    for codec in [Codec::H265, Codec::Vp8, Codec::Av1, Codec::Opus] {
        assert_eq!(
            still_of(&Track::new(codec)),
            Err(NoStill::Codec { codec }),
            "{codec}"
        );
    }
    let mut track = Track::h264(VideoParameters {
        width: 16_384,
        height: 16_384,
        ..VideoParameters::default()
    });
    assert!(matches!(still_of(&track), Err(NoStill::Size { .. })));
    (track.video.width, track.video.height) = (3840, 2160);
    assert_eq!(still_of(&track), Ok(()));
}

#[test]
fn smaller_planes_are_means() {
    for (size, limit, fitted) in [
        ((1920, 1080), limit(1920, 100), (177, 100)),
        ((1080, 1920), limit(100, 100), (56, 100)),
        ((4000, 16), limit(16, None), (16, 1)),
    ] {
        let [size, fitted] = [size, fitted].map(|(width, height)| FrameSize::new(width, height));
        assert_eq!(limit.fit(size), fitted);
    }
    struct Gray;
    impl openh264::formats::YUVSource for Gray {
        fn dimensions(&self) -> (usize, usize) {
            (4, 2)
        }
        fn strides(&self) -> (usize, usize, usize) {
            (5, 2, 2)
        }
        fn y(&self) -> &[u8] {
            &[0, 10, 100, 200, 99, 20, 30, 100, 100]
        }
        fn u(&self) -> &[u8] {
            &[128, 130]
        }
        fn v(&self) -> &[u8] {
            &[100, 50]
        }
    }
    let planes = Planes::of(&Gray);
    let smaller = planes.scaled(limit(2, None).fit(planes.size()));
    assert_eq!(smaller.luminance.row(0), [15, 125]);
    let [u, v] = smaller.chrominance.each_ref().map(|plane| plane.row(0)[0]);
    assert_eq!((u, v), (129, 75));
}

#[test]
fn the_limit_of_pixels_is_exact() {
    for (size, is_taken) in [
        ((4096, 2304), true),
        ((2304, 4096), true),
        ((4096, 2305), false),
        ((4097, 2304), false),
        ((9_437_184, 1), true),
        ((9_437_185, 1), false),
        ((usize::MAX, 2), false),
    ] {
        let (width, height) = size;
        let expected = is_taken
            .then_some(())
            .ok_or(NoStill::Size { width, height });
        assert_eq!(fits(FrameSize::new(width, height)), expected);
    }
    assert_eq!(STILL_PIXELS_MAX, 9_437_184);
}

/// w3c/webcodecs#650: a camera's only starts are recovery points.
#[test]
fn the_frames_behind_a_recovery_point_become_the_right_image() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../demux/samples");
    let options = demux::Options {
        once: true,
        ..demux::Options::default()
    };
    let path = format!("{folder}/intra-refresh.h264");
    let mut film = demux::open(&[path.into()], &options).expect("a sample");
    let film = std::iter::from_fn(|| film.next_frame().expect("good"));
    let film: Vec<Vec<u8>> = film.map(|frame| frame.data.to_vec()).collect();
    let recovery = |unit: &Vec<u8>| recovery(Codec::H264, unit);
    let is_start = |unit: &&Vec<u8>| matches!(recovery(unit), Recovery::Frames(_));
    let start = film.iter().position(|unit| is_start(&unit));
    let start = start.expect("a recovery point");
    let Recovery::Frames(right) = recovery(&film[start]) else {
        panic!("no recovery point");
    };
    let right = right as usize;
    let image = |from: usize, to: usize| {
        let decoded = DecodedKeyframe::of_recovery(&film[from..], to - from);
        decoded.expect("decoded").planes
    };
    let difference = |to: usize| {
        let (cut, whole) = (image(start, to), image(0, to));
        let rows = (0..whole.size().height).map(|y| {
            let pairs = cut.luminance.row(y).iter().zip(whole.luminance.row(y));
            pairs.map(|(a, b)| f64::from(a.abs_diff(*b))).sum::<f64>()
        });
        rows.sum::<f64>() / whole.size().pixels() as f64
    };
    assert!(difference(start) > 5.0, "grey: {}", difference(start));
    assert!(difference(start + right) < 1.0);
    let refused = DecodedKeyframe::of_recovery(&film[start..start + right], right);
    assert!(matches!(refused, Err(NoStill::Decoder { .. })), "too few");
    assert!(DecodedKeyframe::of_recovery(&[], 0).is_err());
}
