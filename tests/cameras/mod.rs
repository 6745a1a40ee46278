//! Cameras as they are: a fake camera with one switch for each thing that real ones do otherwise.
//!
//! ```text
//!  table (rows of quirks, each with its public report) ──► docs/reference/cameras.md
//!    │
//!    ▼
//!  packet_source ─► camera (RTSP, no sockets) ─► camera_server ─┬► the server ─► reader ─► sight
//!    └────────────► publisher (RECORD) ─────────────────────────┘
//! ```
//!
//! Every row is a test for each way and codec, like `cameras::a_negative_port::tcp_h264`. The cases play
//! at the same time, and a table of what they showed is printed behind them.

pub(crate) mod browser;
mod camera;
mod camera_server;
mod camera_stream;
mod description;
mod device;
mod ffmpeg;
mod lock;
mod media;
mod packet_source;
mod password;
mod player;
mod publisher;
mod quirk;
mod reader;
mod removal;
mod response;
mod row;
mod scene;
mod sight;
mod sound;
mod stage;
mod table;
mod test_server;
mod virtual_session;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::peers::{Peer, is_skip, point_to_logs};
use crate::sharing;
use scene::Case;
use stage::Stage;

/// Makes a trial of each row by each way and in each codec.
pub(crate) fn trials(arguments: &Arguments) -> Vec<Trial> {
    let cases: Vec<Case> = table::rows().flat_map(cases_of).collect();
    let missing = Peer::Ffmpeg.absence();
    let is_skipped = missing.is_some() && is_skip();
    if let Some(reason) = missing.as_ref().filter(|_| is_skipped && !arguments.list) {
        println!("skipped cameras: {reason}");
    }
    let stage: &'static Stage = Box::leak(Box::new(Stage::of(&cases, arguments)));
    let all = cases.clone();
    let by_ffmpeg = move || ffmpeg::plays_the_cameras(all);
    let by_ffmpeg = Trial::test("soak::cameras::ffmpeg_plays_them", by_ffmpeg);
    let trials = cases.into_iter().map(|case| {
        let reason = missing.clone();
        let run = move || match reason {
            Some(reason) => Err(reason.into()),
            None => sharing::beside(|| stage.result(case)).map_err(|it| point_to_logs(&it)),
        };
        Trial::test(case.name(), run).with_ignored_flag(is_skipped)
    });
    let sessions = table::rows().filter(|row| virtual_session::is_within_a_session(row));
    let sessions = sessions.map(|row| {
        let name = format!("cameras::virtual_time::{}", row.name);
        Trial::test(name, move || two_minutes(row)).with_ignored_flag(is_skipped)
    });
    let mut all: Vec<Trial> = trials.chain(sessions).collect();
    all.push(password::trial());
    all.push(removal::trial(is_skipped));
    all.extend(player::trials(is_skipped));
    all.push(by_ffmpeg.with_ignored_flag(true));
    all
}

/// Plays two minutes of virtual time of each way and codec.
fn two_minutes(row: &'static row::Row) -> Result<(), Failed> {
    let pulled = cases_of(row).filter(|case| case.way != row::Way::Record);
    for case in pulled {
        let played = virtual_session::play(case);
        played.map_err(|reason| stage::failed(case, &reason))?;
    }
    Ok(())
}

fn cases_of(row: &'static row::Row) -> impl Iterator<Item = Case> {
    let ways = row.ways.iter();
    ways.flat_map(move |&way| {
        let codecs = row.codecs.iter();
        codecs.map(move |&video| Case { row, way, video })
    })
}
