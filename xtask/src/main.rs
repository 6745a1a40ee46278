//! The project's one door: demo, test, check, bench, fuzz.
fn main() {}
