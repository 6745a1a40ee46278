//! Frames of a report as columns of whole numbers: a sixth of the bytes of an object for each frame, and
//! of the time that reading them takes.
//!
//! ```text
//! {"rtp_timestamp": [3000, 1500, 1500], "received_us": [520000, null, 33334], …}
//!                    3000  4500  6000                   520000  –     553334
//! ```

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::report::{FRAMES_MAX, FrameReport, ReportError};

/// The measurements of [`FrameReport`], by frame. Times are in µs. Each number is the difference to the
/// last one before it in its column that is known, which begins with zero.
#[derive(Deserialize)]
struct FrameColumns {
    /// Timestamps count modulo 2³² (RFC 3550 §5.1).
    rtp_timestamp: Vec<i64>,
    #[serde(default)]
    received_us: Vec<Option<i64>>,
    presented_us: Vec<i64>,
    #[serde(default)]
    decode_us: Vec<Option<i64>>,
    #[serde(default)]
    jitter_buffer_us: Vec<Option<i64>>,
    #[serde(default)]
    code: Vec<Option<i64>>,
}

/// The sum of the numbers of a column so far.
#[derive(Default)]
struct Sum(i64);

impl Sum {
    fn next(&mut self, step: i64) -> i64 {
        // A page may state any numbers.
        self.0 = self.0.wrapping_add(step);
        self.0
    }

    /// Returns the number at `place` of a column, if it is known.
    fn known(&mut self, column: &[Option<i64>], place: usize) -> Option<i64> {
        let step = column.get(place).copied().flatten()?;
        Some(self.next(step))
    }
}

impl FrameColumns {
    /// Returns an error unless all columns that are there have a number for each frame.
    fn check(&self) -> Result<(), String> {
        let frames = self.rtp_timestamp.len();
        if frames > FRAMES_MAX {
            return Err(ReportError::TooManyFrames { count: frames }.to_string());
        }
        let columns = [
            ("received_us", self.received_us.len()),
            ("decode_us", self.decode_us.len()),
            ("jitter_buffer_us", self.jitter_buffer_us.len()),
            ("code", self.code.len()),
        ];
        // A column of which nothing is known can be left out.
        let present = columns.into_iter().filter(|(_, len)| *len > 0);
        let mut needed = present.chain([("presented_us", self.presented_us.len())]);
        match needed.find(|(_, len)| *len != frames) {
            None => Ok(()),
            Some((name, len)) => Err(format!(
                "`{name}` has {len} entries, and `rtp_timestamp` has {frames}"
            )),
        }
    }

    // Timestamps count modulo 2³².
    fn into_frames(self) -> Result<Vec<FrameReport>, String> {
        let [mut timestamp, mut presented, mut received] = [Sum(0), Sum(0), Sum(0)];
        let [mut decode, mut buffered, mut code] = [Sum(0), Sum(0), Sum(0)];
        let steps = self.rtp_timestamp.iter().zip(&self.presented_us);
        steps
            .enumerate()
            .map(|(place, (timestamp_step, presented_step))| {
                let code = code.known(&self.code, place).map(u32::try_from);
                Ok(FrameReport {
                    rtp_timestamp: timestamp.next(*timestamp_step) as u32,
                    received_ms: received.known(&self.received_us, place).map(ms),
                    presented_ms: ms(presented.next(*presented_step)),
                    decode_ms: decode.known(&self.decode_us, place).map(ms),
                    jitter_buffer_ms: buffered.known(&self.jitter_buffer_us, place).map(ms),
                    code: code.transpose().map_err(|_| {
                        format!("`code` of frame {place} is not from 0 to 4294967295")
                    })?,
                })
            })
            .collect()
    }
}

// Exact for 285 years of microseconds.
fn ms(us: i64) -> f64 {
    us as f64 / 1e3
}

/// Reads frames in either form: a list of objects, or columns.
pub(super) fn read<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<FrameReport>, D::Error> {
    deserializer.deserialize_any(EitherForm)
}

struct EitherForm;

impl<'de> Visitor<'de> for EitherForm {
    type Value = Vec<FrameReport>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of frames, or columns of numbers by name")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut frames: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::with_capacity(frames.size_hint().unwrap_or_default().min(FRAMES_MAX));
        while let Some(frame) = frames.next_element()? {
            all.push(frame);
        }
        Ok(all)
    }

    fn visit_map<A: MapAccess<'de>>(self, columns: A) -> Result<Self::Value, A::Error> {
        let columns = FrameColumns::deserialize(MapAccessDeserializer::new(columns))?;
        columns.check().map_err(A::Error::custom)?;
        columns.into_frames().map_err(A::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use crate::Report;

    fn read(frames: &str) -> Result<Report, String> {
        let body = format!(r#"{{"offset_ns":0,"error_ns":0,"frames":{frames}}}"#);
        Report::read(body.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn columns_say_what_objects_say() {
        let columns = read(
            r#"{"rtp_timestamp":[4294965796,1500,-3000],"received_us":[520000,null,33334],
                "presented_us":[540100,16600,16700],"decode_us":[2000,-100,100],
                "jitter_buffer_us":[null,null,12500],"code":[7,1,-8]}"#,
        );
        let objects = read(
            r#"[{"rtp_timestamp":4294965796,"received_ms":520,"presented_ms":540.1,"decode_ms":2,
                 "jitter_buffer_ms":null,"code":7},
                {"rtp_timestamp":0,"received_ms":null,"presented_ms":556.7,"decode_ms":1.9,"code":8},
                {"rtp_timestamp":4294964296,"received_ms":553.334,"presented_ms":573.4,"decode_ms":2,
                 "jitter_buffer_ms":12.5,"code":0}]"#,
        );
        assert_eq!(
            columns.expect("right").frames,
            objects.expect("right").frames
        );
        let little = read(r#"{"rtp_timestamp":[1,2],"presented_us":[5,6]}"#).expect("right");
        let known = little
            .frames
            .iter()
            .map(|it| (it.rtp_timestamp, it.received_ms));
        assert_eq!(known.collect::<Vec<_>>(), [(1, None), (3, None)]);
    }

    #[test]
    fn columns_that_do_not_fit_together_are_refused_by_name() {
        let refused = |columns: &str| read(columns).expect_err("refused");
        let short = refused(r#"{"rtp_timestamp":[1,2],"presented_us":[5,6],"decode_us":[1]}"#);
        assert!(short.contains("`decode_us` has 1 entries"), "{short}");
        let none = refused(r#"{"rtp_timestamp":[1,2],"presented_us":[]}"#);
        assert!(none.contains("`presented_us` has 0 entries"), "{none}");
        let missing = refused(r#"{"rtp_timestamp":[1,2]}"#);
        assert!(missing.contains("`presented_us`"), "{missing}");
        let part = refused(r#"{"rtp_timestamp":[1],"presented_us":[0.5]}"#);
        assert!(part.contains("0.5"), "{part}");
        let code = refused(r#"{"rtp_timestamp":[1,2],"presented_us":[5,6],"code":[3,-4]}"#);
        assert!(code.contains("`code` of frame 1"), "{code}");
        let many = vec!["1"; 1_001].join(",");
        let many = refused(&format!(
            r#"{{"rtp_timestamp":[{many}],"presented_us":[]}}"#
        ));
        assert!(many.contains("1001 entries"), "{many}");
        assert!(refused("7").contains("a list of frames, or columns"));
    }
}
