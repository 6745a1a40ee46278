//! The cases: those of RFC 8867 §5, and others that viewers meet.

mod elements;
mod feedback;
mod paths;
mod publishers;
mod rfc8867;

use thiserror::Error;

use super::case::Case;
use super::target::{Figure, Target};

/// Returns all cases, in the order of the table.
pub fn all() -> Vec<Case> {
    let mut cases = paths::changing();
    cases.extend(feedback::all());
    cases.extend(paths::constant());
    cases.extend(paths::shared());
    cases.extend(publishers::all());
    cases.extend(paths::radio());
    cases.extend(rfc8867::all());
    // These hold for every case.
    for case in &mut cases {
        case.targets.push(Target::at_most(Figure::Torn, 0.0));
    }
    cases
}

/// Returns the case with this name.
///
/// # Errors
/// [`UnknownCase`] names all cases.
pub fn named(name: &str) -> Result<Case, UnknownCase> {
    let found = all().into_iter().find(|case| case.name == name);
    found.ok_or_else(|| UnknownCase(name.to_owned()))
}

/// The name of a case is unknown; the user's mistake.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown case '{0}'; choose among {known}", known = names())]
pub struct UnknownCase(String);

fn names() -> String {
    let names: Vec<&str> = all().iter().map(|case| case.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_case_has_a_name_of_its_own_and_begins_at_zero() {
        let cases = all();
        for case in &cases {
            let same = cases.iter().filter(|it| it.name == case.name).count();
            assert_eq!(same, 1, "{}", case.name);
            for lane in [&case.forward, &case.backward] {
                assert_eq!(lane.steps[0].at, Duration::ZERO, "{}", case.name);
                assert!(lane.steps.is_sorted_by_key(|step| step.at), "{}", case.name);
            }
            assert_eq!(named(case.name).map(|it| it.about), Ok(case.about));
        }
        let unknown = named("5.9").expect_err("no such case").to_string();
        assert!(
            unknown.contains("'5.9'") && unknown.contains("5.8"),
            "{unknown}"
        );
    }
}
