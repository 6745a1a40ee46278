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
