//! Populations that are built into the program.

/// Names of the built-in populations.
pub const NAMES: [&str; 2] = ["study2019", "anchors"];

/// Text of the population called `name`.
pub fn built_in(name: &str) -> Option<&'static str> {
    match name {
        "study2019" => Some(include_str!("../../../sim/populations/study2019.toml")),
        "anchors" => Some(include_str!("../../../sim/populations/anchors.toml")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_sim::Population;

    #[test]
    fn every_one_is_what_its_name_says() {
        for name in NAMES {
            let text = built_in(name).expect("it is there");
            let population = Population::parse(text).expect("it is one");
            assert_eq!(population.name(), name);
        }
        assert_eq!(built_in("moon"), None);
    }
}
