//! The parts of a report's way that are counted, each for all pages.

use std::hint::black_box;
use std::time::Duration;

use crate::pages::{PAGES, Pages, Second, WINDOW_S};

/// A part by name.
pub(crate) struct Case {
    /// Name in the baseline, and of the case's function without [`PREFIX`].
    pub(crate) name: &'static str,
    /// Description of one operation.
    pub(crate) about: &'static str,
    /// Number of operations that are counted together.
    pub(crate) operations: usize,
    counted: fn(&Pages, &[Second]) -> u64,
}

/// Prefix of the functions that callgrind counts.
pub(crate) const PREFIX: &str = "counted_";
/// Name of the function that resets the counts.
pub(crate) const FENCE: &str = "count_from_here";

/// Seconds of which the reports are counted.
const COUNTED_S: usize = 20;

/// Defines the function `counted_NAME`, which callgrind counts.
macro_rules! counted {
    ($($counted:ident = $work:expr;)*) => {
        $(
            #[inline(never)]
            fn $counted(pages: &Pages, seconds: &[Second]) -> u64 {
                let work: fn(&Pages, &[Second]) = $work;
                work(pages, seconds);
                // Work after the call prevents a tail call, in which the function would not be
                // seen; the name keeps functions of equal bodies from being merged.
                black_box(stringify!($counted)).len() as u64
            }
        )*
    };
}

counted! {
    counted_read = |pages, seconds| seconds.iter().for_each(|second| pages.read(second));
    counted_join = |pages, seconds| seconds.iter().for_each(|second| pages.join(second));
    counted_count = |pages, seconds| seconds.iter().for_each(|second| pages.count(second));
    counted_answer = |pages, seconds| {
        for second in seconds {
            pages.answer(&pages.figures(second));
        }
    };
}

const OPERATIONS: usize = COUNTED_S * PAGES;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "read",
        about: "report read",
        operations: OPERATIONS,
        counted: counted_read,
    },
    Case {
        name: "join",
        about: "joined with stamps",
        operations: OPERATIONS,
        counted: counted_join,
    },
    Case {
        name: "count",
        about: "counted, and figures",
        operations: OPERATIONS,
        counted: counted_count,
    },
    Case {
        name: "answer",
        about: "answer written",
        operations: OPERATIONS,
        counted: counted_answer,
    },
];

/// Runs all cases; called in the child process under callgrind.
pub(crate) fn run() -> Result<(), String> {
    for case in CASES {
        let mut pages = Pages::new();
        let seconds = full(&mut pages);
        count_from_here();
        black_box((case.counted)(&pages, &seconds));
    }
    Ok(())
}

/// Fills the window of each page, and returns what pages report in the seconds after it.
fn full(pages: &mut Pages) -> Vec<Second> {
    for second in 0..WINDOW_S {
        let second = pages.second(second);
        pages.count(&second);
    }
    let seconds = WINDOW_S..WINDOW_S + COUNTED_S;
    seconds.map(|second| pages.second(second)).collect()
}

/// Prints the processor time of each part.
pub(crate) fn print_times() {
    const ROUNDS: u32 = 5;
    let mut whole = 0.0;
    for case in CASES {
        let mut took: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                let mut pages = Pages::new();
                let seconds = full(&mut pages);
                let began = cpu_time();
                black_box((case.counted)(&pages, &seconds));
                cpu_time().saturating_sub(began)
            })
            .collect();
        took.sort();
        let each_us = took[took.len() / 2].as_secs_f64() * 1e6 / case.operations as f64;
        whole += each_us;
        // A report of 1,000 pages a second: a microsecond each is a thousandth of a core.
        println!(
            "{:<22} {each_us:6.1} µs, {:4.1} % of a core for 1,000 pages",
            case.about,
            each_us / 10.0
        );
    }
    println!("{:<22} {whole:6.1} µs, {:4.1} %", "all", whole / 10.0);
}

/// Returns the processor time of this thread; zero where the system does not tell it.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().map(str::parse);
    Duration::from_nanos(nanos.and_then(Result::ok).unwrap_or_default())
}

/// Callgrind writes the counts until here to a file of their own.
#[inline(never)]
fn count_from_here() {
    black_box(());
}
