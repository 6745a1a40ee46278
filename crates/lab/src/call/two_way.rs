//! Reports of both directions of a call; in a room, of both directions with each participant.

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

use super::report::{CSV_HEAD, Report, svg};
use super::stage::Stage;
use super::table::Table;

/// Reports of the audio that this end sends and receives; only one of them if the other has no
/// audio. In a room, for each participant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TwoWay {
    /// The reports; sent audio comes first.
    pub directions: Vec<Report>,
}

impl TwoWay {
    /// All reports as text. `color` adds ANSI colors.
    pub fn to_text(&self, color: bool) -> String {
        let texts = self.directions.iter().map(|it| it.to_text(color));
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// The reports as JSON: the first one at the top level, the second one under `back`, all
    /// others as a list under `more`.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("plain data becomes JSON");
        text + "\n"
    }

    /// The rows of all reports under one head; the last column names the direction.
    pub fn to_csv(&self) -> String {
        let lines = self.directions.iter().map(Report::csv_lines);
        CSV_HEAD.to_owned() + &lines.collect::<String>()
    }

    /// The charts of all reports, one below the other.
    pub fn to_svg(&self) -> String {
        svg::draw_all(&self.directions)
    }

    /// The tables of `stage`, from each report that has one.
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
