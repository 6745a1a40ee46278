//! The tables of both directions of a call, one after the other; in a room, of both
//! directions with each of the others.

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

use super::report::{CSV_HEAD, Report, svg};
use super::stage::Stage;
use super::table::Table;

/// What is said here and what is heard here; one of them if there is one. In a room the
/// same with each of the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TwoWay {
    /// What is said first.
    pub directions: Vec<Report>,
}

impl TwoWay {
    /// For people: all tables of the one, then of the other; with ANSI colours if
    /// `colour`.
    pub fn to_text(&self, colour: bool) -> String {
        let texts = self.directions.iter().map(|it| it.to_text(colour));
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// For tools: the first direction as a report alone, the second one under `back`, a
    /// list of what else there is under `more`.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain data becomes JSON");
        text + "\n"
    }

    /// Lines of both under one head; the last column tells which.
    pub fn to_csv(&self) -> String {
        let lines = self.directions.iter().map(Report::csv_lines);
        CSV_HEAD.to_owned() + &lines.collect::<String>()
    }

    /// One chart above the other.
    pub fn to_svg(&self) -> String {
        svg::draw_all(&self.directions)
    }

    /// Tables of `stage`, of each direction that has it.
    pub fn tables(&self, stage: Stage) -> impl Iterator<Item = &Table> {
        let tables = self.directions.iter();
        tables.filter_map(move |it| it.table(stage))
    }
}

#[derive(Serialize)]
struct WithBack<'a> {
    #[serde(flatten)]
    report: &'a Report,
    back: &'a Report,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    more: &'a [Report],
}

impl Serialize for TwoWay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.directions.as_slice() {
            [] => serializer.serialize_map(Some(0))?.end(),
            [report] => report.serialize(serializer),
            [report, back, more @ ..] => WithBack { report, back, more }.serialize(serializer),
        }
    }
}
