//! Clients that publish, as a thread has them: what they sent goes to the hub, what
//! they are to be told goes back on their way.

use std::time::Instant;

use glassline_rtsp::interleaved;

use super::worker::{FAREWELL, Worker};
use crate::egress::rtsp::udp::Target;
use crate::ingest::rtsp::Ended;
use crate::runtime::Key;

impl Worker {
    /// Hands the hub what a publisher sent, and the publisher what it asks for.
    pub(super) fn publish_recorded(&mut self, key: Key, now: Instant) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let Some(recording) = &mut client.recording else {
            return;
        };
        if let Err(reason) = recording.publish(now) {
            return self.dismiss(key, &reason, now);
        }
        let deadlines = [self.held_until, recording.deadline()];
        self.held_until = deadlines.into_iter().flatten().min();
        self.tell_publisher(key, now);
    }

    /// What publishers sent and was held back for packets that did not come in time.
    pub(super) fn publish_held(&mut self, now: Instant) {
        if self.held_until.is_none_or(|at| at > now) {
            return;
        }
        self.held_until = None;
        for key in self.clients.keys() {
            let client = self.clients.get_mut(key);
            if let Some(recording) = client.and_then(|client| client.recording.as_mut())
                && recording.deadline().is_some()
            {
                recording.expire(now);
                self.publish_recorded(key, now);
            }
        }
    }

    /// Looks after a publisher, a few times a second; false if it was sent away.
    pub(super) fn check_publisher(&mut self, key: Key, now: Instant) -> bool {
        let client = self.clients.get(key);
        let Some(recording) = client.and_then(|client| client.recording.as_ref()) else {
            return true;
        };
        if let Err(reason) = recording.check(now) {
            self.dismiss(key, &reason, now);
            return false;
        }
        self.tell_publisher(key, now);
        true
    }

    /// Sends reports and keyframe requests that are due.
    fn tell_publisher(&mut self, key: Key, now: Instant) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        let Some(recording) = &mut client.recording else {
            return;
        };
        let feedback = recording.poll_feedback(now, rand::random_range(0.5..1.5), &self.counters);
        if feedback.is_empty() {
            return;
        }
        for (track, packet) in &feedback {
            let seal = recording.seals.get_mut(*track).and_then(Option::as_mut);
            let packet = match seal {
                Some(seal) => &seal.control(packet).unwrap_or_default(),
                None => packet,
            };
            let way = recording.channels.get(*track).copied().flatten();
            if let Some((_, control)) = way {
                // Whoever reads nothing has a whole socket's buffer of it; the next
                // report says the same.
                if client.outlet.between_bytes() == 0 {
                    let mut frame = Vec::with_capacity(packet.len() + 4);
                    interleaved::write_frame(&mut frame, control, packet);
                    client.outlet.push(&frame);
                }
            }
            let target = recording.targets.get(*track).copied().flatten();
            if let (Some(target), Some(udp)) = (target, &self.udp) {
                udp.send_report(packet, &target, Some(client.local.ip()));
            }
        }
        self.pump(key, now);
    }

    /// Sends a publisher away.
    fn dismiss(&mut self, key: Key, reason: &Ended, now: Instant) {
        let Some(client) = self.clients.get_mut(key) else {
            return;
        };
        if let Some(recording) = client.recording.take() {
            let stream = recording.name();
            tracing::warn!(client = %client.name(), %stream, %reason, "publisher sent away");
            self.unlearn(key, &recording.targets);
            recording.leave(glassline_hub::State::Down {
                detail: reason.to_string(),
            });
        }
        if let Some(client) = self.clients.get_mut(key) {
            client.closing.get_or_insert(now + FAREWELL);
        }
        self.pump(key, now);
    }

    /// Datagrams from there are nobody's any more.
    pub(super) fn unlearn(&mut self, key: Key, targets: &[Option<Target>]) {
        if let Some(udp) = &mut self.udp {
            for target in targets.iter().flatten() {
                udp.forget(target, key);
            }
        }
    }
}
