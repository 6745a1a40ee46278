use glassline_hub::StreamName;
use glassline_ingest::SourceSpec;

use super::Config;

/// More sources are programs than the configuration allows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "source '{name}' is a program, and `limits.programs` allows {allowed} of them: set it to {needed}, \
     if whoever writes the sources may run programs as the server's user"
)]
pub struct ProgramsError {
    /// The first source that is not allowed.
    pub name: StreamName,
    /// Number of programs that are allowed.
    pub allowed: usize,
    /// Number of programs among the sources.
    pub needed: usize,
}

impl Config {
    /// Checks that no more of `sources` are programs than `limits.programs` allows.
    ///
    /// # Errors
    /// Returns [`ProgramsError`] with the first source above the limit.
    pub fn check_programs(&self, sources: &[SourceSpec]) -> Result<(), ProgramsError> {
        let allowed = self.limits.programs;
        let programs = sources.iter().filter(|it| it.input.command().is_some());
        let programs: Vec<_> = programs.collect();
        match programs.get(allowed) {
            None => Ok(()),
            Some(first) => Err(ProgramsError {
                name: first.name.clone(),
                allowed,
                needed: programs.len(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_run_only_as_far_as_the_configuration_allows() {
        let check = |limits: &str| {
            let yaml = format!(
                "limits: {limits}\nsources:\n  a: 'exec:cat film.ts'\n  b: demo\n  c: /dev/video0\n"
            );
            let config = Config::from_yaml(&yaml, "t.yml").expect("a good file");
            config.check_programs(&config.specs())
        };
        assert_eq!(check("{programs: 2}"), Ok(()));
        let refused = check("{}").expect_err("none is allowed").to_string();
        assert!(
            refused.starts_with(
                "source 'a' is a program, and `limits.programs` allows 0 of them: set it to 2"
            ),
            "{refused}"
        );
        let refused = check("{programs: 1}").expect_err("one is allowed");
        assert_eq!(refused.name.as_str(), "c");
    }
}
