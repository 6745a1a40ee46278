use super::*;
use crate::congestion::arm::arm;

const POPULATION: &str = include_str!("../../../../sim/populations/study2019.toml");

fn plan(sessions: u64) -> Plan {
    let population = Population::parse(POPULATION).expect("ours");
    Plan {
        population: population.lasting(Duration::from_secs(3)),
        sample: Sample::Tuning(1),
        arms: ["cubic", "copa"]
            .map(|name| arm(name, None).expect("an arm"))
            .into(),
        sessions,
        at_least: BTreeMap::new(),
    }
}

fn run(plan: &Plan, known: &[Outcome], jobs: usize) -> (Vec<Outcome>, Progress) {
    let mut found = Vec::new();
    let progress = plan.run(known, jobs, &AtomicBool::new(false), |outcome, _| {
        found.push(outcome);
    });
    found.sort_by(|a, b| (a.session(), &a.arm).cmp(&(b.session(), &b.arm)));
    (found, progress)
}

#[test]
fn a_run_is_the_same_on_any_number_of_threads_and_when_taken_up() {
    let plan = plan(8);
    let (alone, progress) = run(&plan, &[], 1);
    assert_eq!((alone.len(), progress.done, progress.of), (16, 16, 16));
    assert!(progress.speed() > 0.0, "{progress:?}");
    assert!(alone.iter().any(|it| it.goodput_mbps > 0.1), "{alone:?}");
    let (together, _) = run(&plan, &[], 3);
    assert_eq!(together, alone);
    let (known, left) = alone.split_at(5);
    let (rest, progress) = run(&plan, known, 2);
    assert_eq!(rest, left);
    assert_eq!((progress.done, progress.of), (16, 16));
}

#[test]
fn a_stratum_can_be_drawn_beyond_its_share() {
    let mut plan = plan(20);
    let before = plan.draws();
    let policed = plan.population.strata().position(|it| it.policed);
    let policed = policed.expect("there is one");
    plan.at_least.insert(policed, 30);
    let draws = plan.draws();
    assert_eq!(draws[..20], before);
    assert_eq!(draws.iter().filter(|it| it.0 == policed).count(), 30);
    let distinct: HashSet<_> = draws.iter().collect();
    assert_eq!(distinct.len(), draws.len());
    assert!((plan.shares().values().sum::<f64>() - 1.0).abs() < 1e-6);
}

#[test]
fn a_run_that_is_stopped_ends_soon() {
    let stop = AtomicBool::new(false);
    let mut count = 0;
    let progress = plan(50).run(&[], 1, &stop, |_, _| {
        count += 1;
        stop.store(true, Ordering::Relaxed);
    });
    assert!(count <= 3 && progress.done == count, "{count}");
}
