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

/// The same picture with the standard tables (`-huffman default`).
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

#[test]
fn damage_of_a_frame_with_optimized_tables_never_panics() {
    for at in 2..OPTIMAL.len() {
        let mut bytes = OPTIMAL.to_vec();
        bytes[at] ^= 1 << (at % 8);
        let _ = jfif::parse(&bytes);
        let _ = jfif::parse(&OPTIMAL[..at]);
    }
}
