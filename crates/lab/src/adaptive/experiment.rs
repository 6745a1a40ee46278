//! Plays every case with every arm and seed, on several threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use glassline_webrtc::Certificate;

use super::arm::Arm;
use super::case::Case;
use super::outcome::Run;
use super::scene::play;

/// Scene that the run plays.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Cases in the order of the report.
    pub cases: Vec<Case>,
    /// Arms in the order of the report.
    pub arms: Vec<Arm>,
    /// First seed, and the number of seeds.
    pub seeds: std::ops::Range<u64>,
}

/// A run that is done.
#[derive(Clone, Debug)]
pub struct Played {
    /// Position of the case in the plan.
    pub case: usize,
    /// Sender that the run tries.
    pub arm: Arm,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// Outcome of the run.
    pub run: Run,
}

impl Plan {
    /// Plays everything, `jobs` runs at a time. Calls `progress` with the number of runs that are done, and
    /// of all runs. The answer is in the order of cases, arms and seeds; it has fewer runs if `stop` became
    /// true.
    ///
    /// # Panics
    /// If the machine has no randomness for a certificate.
    pub fn play(
        &self,
        jobs: usize,
        stop: &AtomicBool,
        mut progress: impl FnMut(usize, usize),
    ) -> Vec<Played> {
        let certificate = Arc::new(Certificate::generate().expect("randomness"));
        let all = self.runs();
        // Long runs first, so that no thread waits for one in the end.
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|place| std::cmp::Reverse(self.weight(all[*place].0)));
        let (next, (sender, done)) = (AtomicUsize::new(0), mpsc::channel());
        let mut played: Vec<(usize, Played)> = Vec::with_capacity(all.len());
        std::thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, all.len().max(1)) {
                let (next, sender) = (&next, sender.clone());
                let (all, order, certificate) = (&all, &order, &certificate);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let turn = next.fetch_add(1, Ordering::Relaxed);
                        let Some(place) = order.get(turn).copied() else {
                            return;
                        };
                        let (case, arm, seed) = all[place];
                        let mut run = play(&self.cases[case], arm, seed, certificate);
                        if seed != self.seeds.start {
                            // Pictures are of the first seed alone.
                            run.viewers.iter_mut().for_each(|it| it.samples.clear());
                        }
                        let played = Played {
                            case,
                            arm,
                            seed,
                            run,
                        };
                        // The receiver is gone only after a panic.
                        let _ = sender.send((place, played));
                    }
                });
            }
            drop(sender);
            for found in done {
                played.push(found);
                progress(played.len(), all.len());
            }
        });
        played.sort_by_key(|(place, _)| *place);
        played.into_iter().map(|(_, it)| it).collect()
    }

    fn runs(&self) -> Vec<(usize, Arm, u64)> {
        let mut runs = Vec::new();
        for case in 0..self.cases.len() {
            for arm in &self.arms {
                runs.extend(self.seeds.clone().map(|seed| (case, *arm, seed)));
            }
        }
        runs
    }

    fn weight(&self, case: usize) -> u64 {
        let case = &self.cases[case];
        case.duration.as_secs() * case.flows.len() as u64
    }
}
