//! Repetition of audio tests on a busy machine. The laboratory's tests include this file,
//! too.

/// Attempts at the most.
const ATTEMPTS: usize = 4;

/// Tries again where devices were not called in time: what a busy machine does to audio
/// is no fault of the call's. `attempt` says how many periods were late.
pub(super) fn in_time(attempt: impl Fn() -> (u64, Result<(), String>)) {
    for number in 1..=ATTEMPTS {
        let (late, outcome) = attempt();
        match outcome {
            Ok(()) => return,
            Err(why) if late == 0 || number == ATTEMPTS => {
                panic!("{why}; {late} periods were late")
            }
            Err(why) => println!("{why}; {late} periods were late: once more"),
        }
    }
}
