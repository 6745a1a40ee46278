//! Judgement of audio on a busy machine. The laboratory's tests include this file, too.

/// Judges audio in real time by `outcome`, if devices were called in time. A machine that calls devices
/// late damages audio, which is no fault of the call's: such a run says so, and proves nothing.
pub(super) fn judge_in_time(late: u64, outcome: Result<(), String>) {
    match outcome {
        Ok(()) => {}
        Err(why) if late == 0 => panic!("{why}"),
        Err(why) => println!("not judged, as {late} periods were late: {why}"),
    }
}
