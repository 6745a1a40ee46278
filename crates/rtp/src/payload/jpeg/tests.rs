use super::*;

/// A frame of 64 x 48 pixels with this for its coded data.
pub(in crate::payload) fn frame(scan: &[u8]) -> Vec<u8> {
    let tables = quantization::by_factor(75).expect("a factor");
    let parameters = Parameters {
        sampling: 1,
        width: 64,
        height: 48,
        restart_interval: 0,
        tables,
    };
    let mut bytes = Vec::new();
    parameters.write_headers(&mut bytes);
    [&bytes, scan, &jfif::END_OF_IMAGE].concat()
}

/// A file of 48 x 32 pixels that FFmpeg encoded (`-c:v mjpeg -huffman optimal`).
const OPTIMAL: &[u8] = include_bytes!("samples/420-optimal.jpg");

/// The picture with the standard tables (`-huffman default`).
const DEFAULT: &[u8] = include_bytes!("samples/420-default.jpg");

#[test]
fn a_scan_of_optimized_tables_becomes_that_of_the_standard_tables() {
    assert!(OPTIMAL.len() < DEFAULT.len());
    let [optimal, default] = [OPTIMAL, DEFAULT].map(|file| match jfif::parse(file) {
        Ok(frame) => frame,
        Err(error) => panic!("{error}"),
    });
    assert_eq!(optimal.parameters, default.parameters);
    assert_eq!(optimal.scan, default.scan);
    assert!(matches!(default.scan, std::borrow::Cow::Borrowed(_)));
}

/// A file of 40 x 24 pixels in 4:2:2 with MCUs of 16 x 16 pixels, as FFmpeg makes it (`-pix_fmt
/// yuvj422p -huffman optimal`), and the same picture in MCUs of 16 x 8 with the standard tables. FFmpeg
/// decodes both to the same bytes.
const STACKED: &[u8] = include_bytes!("samples/422-stacked.jpg");
const FLAT: &[u8] = include_bytes!("samples/422-flat.jpg");

/// Nothing was sent of what FFmpeg makes of 4:2:2.
#[test]
fn mcus_of_twice_the_height_are_put_in_the_order_of_payloads() {
    let [stacked, flat] = [STACKED, FLAT].map(|file| match jfif::parse(file) {
        Ok(frame) => frame,
        Err(error) => panic!("{error}"),
    });
    assert_eq!(stacked.parameters.sampling, 0);
    assert_eq!(
        (stacked.parameters.width, stacked.parameters.height),
        (flat.parameters.width, flat.parameters.height)
    );
    assert_eq!(stacked.scan, flat.scan);
    for at in 2..STACKED.len() {
        let mut bytes = STACKED.to_vec();
        bytes[at] ^= 1 << (at % 8);
        let _ = jfif::parse(&bytes);
        let _ = jfif::parse(&STACKED[..at]);
    }
}

#[test]
fn damage_of_a_frame_with_optimized_tables_never_panics() {
    for at in 2..OPTIMAL.len() {
        let mut bytes = OPTIMAL.to_vec();
        bytes[at] ^= 1 << (at % 8);
        let _ = jfif::parse(&bytes);
        let _ = jfif::parse(&OPTIMAL[..at]);
    }
}
