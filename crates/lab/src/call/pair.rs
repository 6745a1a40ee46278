//! Both ends of a call in this process, and their records joined as they come.

use glassline_client::call::{
    AnswerError, Call, CallError, Config, Devices, Dialling, Ended, Records, answer,
};
use glassline_client::impairment::{Impairment, ImpairmentProxy};
use glassline_net::BindError;
use glassline_webrtc::SetAnswerError;
use thiserror::Error;

use super::join::Join;
use super::report::Report;

/// A call between two ends of this process, over loopback.
#[derive(Debug)]
pub struct Pair {
    ends: [Call; 2],
    /// Joins of the audio that the first end sends, and of the audio that the second one sends.
    joins: [Join; 2],
    records: Records,
    _between: Option<ImpairmentProxy>,
}

/// The reason why a call within this process could not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PairError {
    /// The first end failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The second end could not answer.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The first end did not accept the answer.
    #[error(transparent)]
    SetAnswer(#[from] SetAnswerError),
    /// The impairment between the ends could not start.
    #[error(transparent)]
    Relay(#[from] BindError),
}

impl Pair {
    /// Starts both ends; they connect in the background.
    ///
    /// # Errors No sockets, no threads, or devices that cannot be used.
    pub fn start(
        config: &Config,
        impairment: Option<&Impairment>,
        [first, second]: [Devices; 2],
    ) -> Result<Self, PairError> {
        let loopback = ([127, 0, 0, 1], 9).into();
        let dialling = Dialling::new(loopback, config)?;
        let (called, mut sdp) = answer(dialling.offer(), loopback, config)?;
        let mut between = None;
        if let Some(impairment) = impairment
            && let Some(put) = ImpairmentProxy::splice_into_answer(&sdp, impairment)
        {
            let (proxy, rewritten) = put?;
            sdp = rewritten;
            between = Some(proxy);
        }
        let calling = dialling.answered(&sdp)?;
        Ok(Self {
            ends: [
                Call::start(calling, config.clone(), first)?,
                Call::start(called, config.clone(), second)?,
            ],
            joins: [Join::new(), Join::new()],
            records: Records::default(),
            _between: between,
        })
    }

    /// The calling end, then the called one.
    pub const fn ends(&self) -> &[Call; 2] {
        &self.ends
    }

    /// Takes the records of both ends. Call it every few seconds.
    pub fn poll(&mut self) {
        let Self {
            ends,
            joins,
            records,
            ..
        } = self;
        for (index, end) in ends.iter().enumerate() {
            records.clear();
            end.drain(records);
            let own = &mut joins[index];
            if let Some(ssrc) = end.ssrc() {
                for send_stamps in &records.sent {
                    own.record_sent(ssrc, *send_stamps, None);
                }
            }
            for at in &records.capture_calls {
                own.capture_called(*at);
            }
            let theirs = &mut joins[1 - index];
            for playout_stamps in &records.played {
                theirs.record_played(*playout_stamps, None);
            }
            for again in &records.duplicates {
                theirs.duplicate(*again);
            }
            for at in &records.playout_calls {
                theirs.playout_called(*at);
            }
        }
    }

    /// Quantile `share` (0–1) of the mouth-to-ear delay of the first end's audio so far, in ms.
    pub fn mouth_to_ear_ms(&self, share: f64) -> Option<f64> {
        self.joins[0].mouth_to_ear_ms(share)
    }

    /// Hangs up, and builds the reports of the first end's audio and of the second one's.
    ///
    /// # Errors The call had failed before.
    pub fn finish(mut self, source: &str) -> Result<[Report; 2], CallError> {
        let [first, second] = &mut self.ends;
        let ended = first.hang_up();
        let answered: Result<Ended, CallError> = second.hang_up();
        self.poll();
        ended.and(answered)?;
        Ok(self.joins.map(|join| join.finish(source)))
    }
}
