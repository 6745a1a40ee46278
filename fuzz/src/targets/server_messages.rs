//! Messages beside streams between the servers of a cluster: any bytes are refused, or are a message that
//! is written and read again as the same.

pub(crate) fn run(bytes: &[u8]) {
    glassline_messages::fuzz_record(bytes);
}
