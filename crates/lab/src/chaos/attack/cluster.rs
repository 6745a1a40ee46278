//! Faults of a cluster: its servers, NATS, and servers that do not belong to it.
//!
//! Each action looks at viewers of the fleet at every server, and leaves the fleet whole.

use std::time::{Duration, Instant};

use super::Attack;
use crate::chaos::action::Kind;
use crate::chaos::clock::unix_ms;
use crate::chaos::error::Error;
use crate::chaos::fleet::{Fleet, NODES, SECRET, STREAM};

/// Longest time until all viewers have video again after a server was killed: its clients notice the
/// loss after two seconds, and its publisher gets its name at another server.
const LOST_MAX: Duration = Duration::from_secs(6);

/// Longest time that viewers lack video when a server stops by SIGTERM, from its end on.
const STOPPED_MAX: Duration = Duration::from_secs(3);

/// Longest time until a server that does not belong to the cluster has ended.
const ENDED_MAX: Duration = Duration::from_secs(15);

/// Time in which servers find a store that is empty, and write their claims again.
const WRITTEN_BACK: Duration = Duration::from_secs(12);

/// Step of a calendar, many times what servers allow for.
const HOUR_MS: i64 = 3_600_000;

/// Longest time that is waited for video, so that one fault does not hide those of later actions.
const BACK_MAX: Duration = Duration::from_secs(40);

impl Attack<'_> {
    /// Makes one of the faults of a cluster.
    pub(super) fn disturb_the_cluster(&mut self) -> Result<(), Error> {
        let plan = &self.deployment.plan;
        let fleet = match self.deployment.fleet.take() {
            Some(fleet) => Some(fleet),
            None => Fleet::start(&plan.program, &plan.folder)?,
        };
        let Some(mut fleet) = fleet else {
            self.outcome.skipped = Some("there is no nats-server on the path".to_owned());
            return Ok(());
        };
        self.outcome.sent = 1;
        let done = match self.action.kind {
            Kind::ClusterKillOwner => self.kill_owner(&mut fleet),
            Kind::ClusterKillRelay => self.kill_relay(&mut fleet),
            Kind::ClusterStopOwner => self.stop_owner(&fleet),
            Kind::ClusterEmptyStore => self.empty_store(&mut fleet),
            Kind::ClusterWrongSecret => {
                self.stranger_ends(&fleet, "n9", "another-secret-than-theirs")
            }
            Kind::ClusterTakenName => self.stranger_ends(&fleet, "n0", SECRET),
            Kind::ClusterReload => self.reload_with_pulled_source(&fleet),
            Kind::ClusterStepClock => self.step_clock_of_owner(&fleet),
            _ => self.restart_in_turn(&mut fleet),
        };
        if fleet.wait_for_video(BACK_MAX).is_none() {
            self.miss("the fleet's viewers have no video after the action".to_owned());
        }
        self.deployment.fleet = Some(fleet);
        done
    }

    fn kill_owner(&mut self, fleet: &mut Fleet) -> Result<(), Error> {
        match fleet.owner() {
            Some(owner) => self.kill_node(fleet, owner),
            None => self.nobody_has_it(),
        }
    }

    fn kill_relay(&mut self, fleet: &mut Fleet) -> Result<(), Error> {
        match fleet.relay() {
            Some(relay) => self.kill_node(fleet, relay),
            None => {
                self.outcome.skipped = Some("no server pulls through another one".to_owned());
                Ok(())
            }
        }
    }

    /// Kills a server and starts it again at once: its viewers and its publisher come back, too.
    fn kill_node(&mut self, fleet: &mut Fleet, index: usize) -> Result<(), Error> {
        let killed = Instant::now();
        fleet.nodes[index].kill();
        fleet.start_node(index)?;
        self.back_within(fleet, killed, LOST_MAX);
        Ok(())
    }

    fn stop_owner(&mut self, fleet: &Fleet) -> Result<(), Error> {
        let (Some(owner), Some(before)) = (fleet.owner(), fleet.pulls()) else {
            return self.nobody_has_it();
        };
        fleet.nodes[owner].program()?.signal("-STOP")?;
        let waited = self.wait(Duration::from_secs(1));
        // The server must go on even if the run ends here.
        fleet.nodes[owner].program()?.signal("-CONT")?;
        waited?;
        self.back_within(fleet, Instant::now(), STOPPED_MAX);
        let moved = fleet.pulls().unwrap_or(before) - before;
        if moved > 0.0 {
            self.late(format!(
                "{moved} pulls moved when the owner stood still for 1 s"
            ));
        }
        if fleet.owner() != Some(owner) {
            self.miss("another server has the stream after the owner stood still".to_owned());
        }
        Ok(())
    }

    fn empty_store(&mut self, fleet: &mut Fleet) -> Result<(), Error> {
        let owner = fleet.owner();
        fleet.empty_store()?;
        self.keeps_video(fleet, WRITTEN_BACK, "after the store was emptied")?;
        if fleet.owner() != owner {
            self.miss("the stream has another owner since the store was emptied".to_owned());
        }
        Ok(())
    }

    /// A server that must not be a member ends by itself, and disturbs nobody.
    fn stranger_ends(&mut self, fleet: &Fleet, name: &str, secret: &str) -> Result<(), Error> {
        let mut stranger = fleet.stranger(name, secret)?;
        let begun = Instant::now();
        let most = self.deployment.plan.patience(ENDED_MAX);
        while stranger.ended().is_none() {
            if begun.elapsed() > most {
                self.late(format!("the server did not end within {most:?}"));
                return Ok(());
            }
            self.wait(Duration::from_millis(100))?;
        }
        self.note(format!(
            "ended after {:.1} s",
            begun.elapsed().as_secs_f64()
        ));
        if fleet.owner().is_none() {
            self.miss("nobody has the stream since".to_owned());
        }
        Ok(())
    }

    /// A source is added, under the name of a stream that the server pulls.
    fn reload_with_pulled_source(&mut self, fleet: &Fleet) -> Result<(), Error> {
        let Some(owner) = fleet.owner() else {
            return self.nobody_has_it();
        };
        let other = (owner + 1) % NODES;
        fleet.reload(other, &format!("sources: {{{STREAM}: demo}}\n"))?;
        self.wait(Duration::from_secs(2))?;
        let told = fleet.nodes[other].told("/api/v1/reloads");
        if !told.contains("applied") {
            self.miss(format!("the file was not read: {told}"));
        }
        if fleet.owner() != Some(owner) {
            self.miss("the stream has another owner since the reload".to_owned());
        }
        fleet.reload(other, "")?;
        self.wait(Duration::from_secs(1))
    }

    /// The calendar of the owner goes an hour ahead, two hours back, and is right again. What runs goes on,
    /// and the others tell how wrong the clock is.
    fn step_clock_of_owner(&mut self, fleet: &Fleet) -> Result<(), Error> {
        let (Some(owner), Some(before)) = (fleet.owner(), fleet.pulls()) else {
            return self.nobody_has_it();
        };
        let other = (owner + 1) % NODES;
        for (step_ms, told_as) in [
            (HOUR_MS, Some("3")),
            (-2 * HOUR_MS, Some("-3")),
            (HOUR_MS, None),
        ] {
            let admin = fleet.nodes[owner].admin();
            if !self.inject(admin, &format!("kind=calendar&step_ms={step_ms}")) {
                return Ok(());
            }
            self.keeps_video(
                fleet,
                self.action.time,
                "while the owner's calendar is wrong",
            )?;
            let told = fleet.nodes[other].told("/api/v1/cluster");
            let wanted = told_as.map(|it| format!("\"clock_ahead_s\":{it}"));
            if wanted.is_some_and(|it| !told.contains(&it)) {
                self.miss(format!("nobody tells that a clock is wrong: {told}"));
            }
        }
        let moved = fleet.pulls().unwrap_or(before) - before;
        if moved > 0.0 {
            self.miss(format!(
                "{moved} pulls moved while the owner's calendar was wrong"
            ));
        }
        if fleet.owner() != Some(owner) {
            self.miss("the stream has another owner since the calendar was wrong".to_owned());
        }
        Ok(())
    }

    /// Looks for `time` whether all viewers have video; `when` follows in what is said of a lack.
    fn keeps_video(&mut self, fleet: &Fleet, time: Duration, when: &str) -> Result<(), Error> {
        let begun = Instant::now();
        let (mut seen_ms, mut longest_ms) = (unix_ms(), 0);
        while begun.elapsed() < time {
            self.wait(Duration::from_millis(200))?;
            longest_ms = longest_ms.max(unix_ms().saturating_sub(seen_ms));
            if fleet.has_video(seen_ms) {
                seen_ms = unix_ms();
            }
        }
        let gap = Duration::from_millis(longest_ms);
        if gap > self.deployment.plan.patience(STOPPED_MAX) {
            self.late(format!("no video for {gap:?} {when}"));
        }
        Ok(())
    }

    fn restart_in_turn(&mut self, fleet: &mut Fleet) -> Result<(), Error> {
        for index in 0..NODES {
            if !fleet.nodes[index].terminate(Duration::from_secs(20)) {
                self.miss(format!("n{index} did not end by SIGTERM"));
            }
            let ended = Instant::now();
            fleet.start_node(index)?;
            self.back_within(fleet, ended, STOPPED_MAX);
        }
        Ok(())
    }

    /// Waits until all viewers have video, which should be `most` after `since`.
    fn back_within(&mut self, fleet: &Fleet, since: Instant, most: Duration) {
        let is_back = fleet.wait_for_video(BACK_MAX).is_some();
        // A sample of half a second shows it.
        let took = since.elapsed().saturating_sub(Duration::from_millis(500));
        let text = format!("video again after {:.1} s", took.as_secs_f64());
        if !is_back || took > self.deployment.plan.patience(most) {
            self.late(text.clone());
        }
        self.note(text);
    }

    fn nobody_has_it(&mut self) -> Result<(), Error> {
        self.miss("no server has the stream of the fleet".to_owned());
        Ok(())
    }
}
