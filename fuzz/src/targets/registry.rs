//! Sessions that are made, adopted, restarted, moved between shards, deleted and swept in any order:
//! each has one owner at most, and nothing is left of it afterwards.

pub(crate) fn run(bytes: &[u8]) {
    glassline_server::fuzzing::registry(bytes);
}
