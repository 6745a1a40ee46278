//! Cameras as they are: a fake camera with one switch for each thing that real ones do otherwise.
//!
//! ```text
//!            table (rows of quirks, with public reports) ──► docs/reference/cameras.md
//!              │
//!  media ─► feed (packets) ─► camera (RTSP, without sockets) ─► outlet ─► the server ─► reader
//!              │                                                            ▲            │
//!              └──────────────► publisher (RECORD) ─────────────────────────┘          sight
//! ```
//!
//! Every row is a test for each way and codec, like `cameras::a_negative_port::tcp_h264`. The cases play
//! at the same time, and a table of what they showed is printed behind them.

mod camera;
mod description;
mod device;
mod feed;
mod lock;
mod media;
mod outlet;
mod place;
mod publisher;
mod quirk;
mod reader;
mod row;
mod scene;
mod sight;
mod sound;
mod stage;
mod table;

use libtest_mimic::{Arguments, Trial};

use crate::peers::{self, Peer, point_to_logs};
use crate::sharing;
use scene::Case;
use stage::Stage;

/// Makes a trial of each row by each way and in each codec.
pub(crate) fn trials(arguments: &Arguments) -> Vec<Trial> {
    let cases: Vec<Case> = table::rows().flat_map(cases_of).collect();
    let missing = peers::missing(&[Peer::Ffmpeg]);
    if let Some((reason, true)) = missing.as_ref().filter(|_| !arguments.list) {
        println!("skipped cameras: {reason}");
    }
    let stage: &'static Stage = Box::leak(Box::new(Stage::of(&cases, arguments)));
    let trials = cases.into_iter().map(|case| {
        let reason = missing.clone();
        let is_skipped = missing.as_ref().is_some_and(|(_, is_skipped)| *is_skipped);
        let run = move || match reason {
            Some((reason, _)) => Err(reason.into()),
            None => sharing::beside(|| stage.result(case)).map_err(|it| point_to_logs(&it)),
        };
        Trial::test(case.name(), run).with_ignored_flag(is_skipped)
    });
    trials.collect()
}

fn cases_of(row: &'static row::Row) -> impl Iterator<Item = Case> {
    let ways = row.ways.iter();
    ways.flat_map(move |&way| {
        let codecs = row.codecs.iter();
        codecs.map(move |&video| Case { row, way, video })
    })
}
