//! Tokens of an identity provider, their claims, and the sets of keys that verify them: any bytes are
//! refused, or give rights within their bounds; no forged signature is right.

pub(crate) fn run(bytes: &[u8]) {
    glassline_access::fuzzing::token(bytes);
}
