//! Answers of the webhook that decides about rights: any bytes are refused, or give rights to what was
//! asked for, with an end that has not passed.

pub(crate) fn run(bytes: &[u8]) {
    glassline_access::fuzzing::rights_answer(bytes);
}
