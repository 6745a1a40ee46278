use std::fs;

/// Times of every core so far, in ticks.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    whole: Ticks,
    cores: Vec<Ticks>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ticks {
    idle: u64,
    stolen: u64,
    all: u64,
}

impl Machine {
    /// The times until now; all zero where the system does not provide `/proc/stat`.
    pub fn now() -> Self {
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut machine = Self::default();
        for line in text.lines() {
            let mut fields = line.split_ascii_whitespace();
            let Some(number) = fields.next().and_then(|name| name.strip_prefix("cpu")) else {
                continue;
            };
            let ticks = Ticks::parse(fields);
            match number.parse::<usize>() {
                Ok(core) if core <= 8192 => {
                    if machine.cores.len() <= core {
                        machine.cores.resize(core + 1, Ticks::default());
                    }
                    machine.cores[core] = ticks;
                }
                _ => machine.whole = ticks,
            }
        }
        machine
    }

    /// Number of cores, 0 if unknown.
    pub const fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Share of all cores' time since `earlier` that was busy, 0–1. Time that the hypervisor took
    /// counts as busy, because no process could use it.
    pub fn busy_since(&self, earlier: &Self) -> f64 {
        1.0 - self.idle_since(earlier)
    }

    /// Share of all cores' time since `earlier` that was idle, 0–1; 1 if unknown.
    pub fn idle_since(&self, earlier: &Self) -> f64 {
        self.whole
            .share_since(earlier.whole, |ticks| ticks.idle)
            .unwrap_or(1.0)
    }

    /// Share of all cores' time since `earlier` that the hypervisor gave to other machines, 0–1.
    pub fn stolen_since(&self, earlier: &Self) -> f64 {
        self.whole
            .share_since(earlier.whole, |ticks| ticks.stolen)
            .unwrap_or(0.0)
    }

    /// Share of the time of `cores` since `earlier` that was idle, 0–1; 1 if none of them is
    /// known.
    pub fn cores_idle_since(&self, earlier: &Self, cores: &[usize]) -> f64 {
        let known = cores
            .iter()
            .filter_map(|core| Some((*self.cores.get(*core)?, *earlier.cores.get(*core)?)));
        let (idle, all) = known.fold((0, 0), |(idle, all), (now, before)| {
            (
                idle + now.idle.saturating_sub(before.idle),
                all + now.all.saturating_sub(before.all),
            )
        });
        if all == 0 {
            1.0
        } else {
            idle as f64 / all as f64
        }
    }

    /// Share of busy time of the busiest core since `earlier`, 0–1.
    pub fn busiest_core_since(&self, earlier: &Self) -> f64 {
        (0..self.cores.len())
            .map(|core| 1.0 - self.cores_idle_since(earlier, &[core]))
            .fold(0.0, f64::max)
    }
}

impl Ticks {
    /// Parses `user nice system idle iowait irq softirq steal`; the time of guests is in `user`.
    fn parse<'a>(fields: impl Iterator<Item = &'a str>) -> Self {
        let ticks: Vec<u64> = fields
            .take(8)
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
        Self {
            idle: at(3) + at(4),
            stolen: at(7),
            all: ticks.iter().sum(),
        }
    }

    fn share_since(self, before: Self, part: impl Fn(Self) -> u64) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        let part = part(self).saturating_sub(part(before));
        Some((part as f64 / all as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_between_two_looks() {
        let before = Machine::parse(
            "cpu  100 0 100 800 0 0 0 0 5 5\ncpu0 50 0 50 400 0 0 0 0\ncpu1 50 0 50 400 0 0 0 0\n\
             intr 12345\n",
        );
        let after = Machine::parse(
            "cpu  200 0 180 900 10 0 0 10 5 5\ncpu0 150 0 100 450 0 0 0 0\n\
             cpu1 50 0 80 450 10 0 0 10\n",
        );
        assert_eq!(after.cores(), 2);
        let near = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-9, "{value}");
        near(after.idle_since(&before), 110.0 / 300.0);
        near(after.busy_since(&before), 190.0 / 300.0);
        near(after.stolen_since(&before), 10.0 / 300.0);
        near(after.cores_idle_since(&before, &[0]), 0.25);
        near(after.cores_idle_since(&before, &[0, 1]), 110.0 / 300.0);
        near(after.cores_idle_since(&before, &[7]), 1.0);
        near(after.busiest_core_since(&before), 0.75);
    }

    #[test]
    fn nonsense_is_a_machine_that_does_nothing() {
        let odd = Machine::parse("cpu x y\ncpu99999999999999999999 1 2 3 4\ncpu8193 1\n\u{0}");
        assert_eq!(odd.cores(), 0);
        assert_eq!(odd.stolen_since(&Machine::default()), 0.0);
        assert!(Machine::now().idle_since(&Machine::now()).is_finite());
    }
}
