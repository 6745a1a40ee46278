//! What cameras send by ONVIF: any bytes are refused, or read within their bounds, and lead nowhere but
//! to the camera's own address.

pub(crate) fn run(bytes: &[u8]) {
    glassline_onvif::fuzzing::responses(bytes);
}
