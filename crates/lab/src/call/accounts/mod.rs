//! Stage delays of a call with another process or host, in both directions: records of this end,
//! joined with the records that the far end sends.

use std::time::Duration;

use glassline_client::call::{Call, Figures, Records, far};

use super::join::Join;
use super::report::{Direction, Report};
use super::two_way::TwoWay;

/// Collects the records of a call from one of its ends.
#[derive(Debug)]
pub struct Accounts {
    /// Records of the audio that this end sends.
    pub(super) sent: Join,
    /// Records of the audio that this end receives.
    pub(super) received: Join,
    records: Records,
}

impl Default for Accounts {
    fn default() -> Self {
        Self::new()
    }
}

impl Accounts {
    /// Returns accounts without any record.
    pub fn new() -> Self {
        Self {
            sent: Join::with_remote_end(),
            received: Join::with_remote_end(),
            records: Records::default(),
        }
    }

    /// Takes the records of `call` since the last poll. Call it every few seconds, and once after
    /// the end.
    pub fn poll(&mut self, call: &Call) {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        call.drain(&mut records);
        if let Some(ssrc) = call.ssrc() {
            for send_stamps in &records.sent {
                self.sent.record_sent(ssrc, *send_stamps, None);
            }
        }
        for playout_stamps in &records.played {
            self.received.record_played(*playout_stamps, None);
        }
        for again in &records.duplicates {
            self.received.duplicate(*again);
        }
        for at in &records.capture_calls {
            self.sent.capture_called(*at);
        }
        for at in &records.playout_calls {
            self.received.playout_called(*at);
        }
        for remote in &records.remote {
            self.record_remote(remote);
        }
        self.records = records;
    }

    /// Takes a record of the far end. What the far end received is what this end sent, and the
    /// other way round.
    pub fn record_remote(&mut self, remote: &far::RemoteRecord) {
        use glassline_client::call::Record::{
            CaptureCalled, Duplicate, Played, PlayoutCalled, Sent,
        };
        match remote.record {
            Sent(..) | CaptureCalled(_) => self.received.record_remote(remote),
            Played(_) | Duplicate(_) | PlayoutCalled(_) => self.sent.record_remote(remote),
        }
    }

    /// Quantile `share` (0–1) of the mouth-to-ear delay of received audio so far, in ms. It is
    /// some seconds old, since the far end's records are delayed.
    pub fn mouth_to_ear_ms(&self, share: f64) -> Option<f64> {
        self.received.mouth_to_ear_ms(share)
    }

    /// Builds the reports of both directions. `figures` are the call's final figures, `peer`
    /// names the other end.
    pub fn finish(self, figures: &Figures, peer: &str) -> TwoWay {
        self.finish_with(figures.far.as_ref(), peer)
    }

    /// Builds the reports of a call with one participant of a room; `None` if nobody else was
    /// there.
    pub(super) fn finish_room(
        self,
        far: Option<&far::Report>,
        called: Option<&str>,
        room: &str,
    ) -> TwoWay {
        let peer = match called {
            Some(called) => format!("{called} in {room}"),
            None => format!("nobody in {room}"),
        };
        let mut both = self.finish_with(far, &peer);
        for report in &mut both.directions {
            report.peer = called.map(str::to_owned);
        }
        both
    }

    fn finish_with(self, far: Option<&far::Report>, peer: &str) -> TwoWay {
        let (notes, is_told) = notes(far);
        let finish = |join: Join, direction, source: String| {
            let is_joined = join.mouth_to_ear_ms(0.5).is_some();
            let mut report = match is_told && is_joined {
                true => join.finish_remote(source),
                false => join.finish_alone(source),
            };
            report.direction = Some(direction);
            if is_told && !is_joined {
                let note = "no frame was found in the records of both ends: only one end's \
                            stages are here, neither the network nor the whole way";
                report.notes.push(note.to_owned());
            }
            report.notes.extend(notes.iter().cloned());
            report
        };
        let (sent, received) = (
            format!("Audio sent from here to {peer}"),
            format!("Audio received here from {peer}"),
        );
        let all = [
            finish(self.sent, Direction::Sent, sent),
            finish(self.received, Direction::Received, received),
        ];
        // A participant who only listened has sent nothing.
        let is_there = |it: &Report| !it.stages.is_empty();
        TwoWay {
            directions: all.into_iter().filter(is_there).collect(),
        }
    }
}

/// Notes on the far end's records, and whether they can be used.
fn notes(far: Option<&far::Report>) -> (Vec<String>, bool) {
    let alone = |why: &str| {
        let note = format!(
            "{why}: this report has the stages of this end only, not the network and not mouth to ear"
        );
        (vec![note], false)
    };
    let Some(far) = far else {
        return alone("the other end has no channel for stamps (browsers and servers have none)");
    };
    let refused = far.refusal.map(|first| {
        let count = far.refused;
        format!("{count} of the other end's messages were invalid; the first: {first}")
    });
    if !far.is_there {
        let why = refused.unwrap_or_else(|| "its hello message did not arrive".to_owned());
        return alone(&format!("the other end sends no stamps: {why}"));
    }
    let Some(clock) = far.clock else {
        return alone("the other end did not answer clock requests");
    };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mut notes = vec![format!(
        "the other end's clock: known to ± {:.3} ms at the end, {:+.1} ppm, shortest round trip {:.3} ms",
        ms(clock.error),
        clock.skew_ppm,
        ms(clock.round_trip_min)
    )];
    notes.extend(refused);
    if far.dropped_there > 0 {
        let count = far.dropped_there;
        notes.push(format!(
            "{count} records were lost at the other end, whose queue was full"
        ));
    }
    if far.unconverted > 0 {
        let count = far.unconverted;
        notes.push(format!(
            "{count} records of the other end could not be mapped to this end's clock"
        ));
    }
    (notes, true)
}

#[cfg(test)]
mod tests;
