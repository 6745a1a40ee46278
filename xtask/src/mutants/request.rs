//! What `cargo xtask mutants` is asked for.

use super::part::PARTS;
use crate::Failure;

/// Number of mutants of a part that a run tests, unless the command line has another.
const SAMPLE: usize = 60;

/// The request of the command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Names of parts; empty for all.
    pub(super) wanted: Vec<String>,
    pub(super) seed: u64,
    pub(super) sample: usize,
    /// Text in the names of the mutants that are tested, in place of a sample.
    pub(super) only: Option<String>,
    /// Whether integration tests are left out, which writes no row.
    pub(super) unit: bool,
    /// Whether mutants that must be built alone are left out of the sample.
    pub(super) switched: bool,
}

impl Request {
    /// Whether `part` was named.
    pub(super) fn wants(&self, part: &str) -> bool {
        self.wanted.iter().any(|name| name == part)
    }

    /// Reads the words of the command line.
    ///
    /// # Errors
    /// An option or a part is unknown, or a value is missing or no number.
    pub(super) fn parse(arguments: &[String]) -> Result<Request, Failure> {
        let mut request = Request {
            wanted: Vec::new(),
            seed: 1,
            sample: SAMPLE,
            only: None,
            unit: false,
            switched: false,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            if word == "--only" {
                let text = words
                    .next()
                    .ok_or_else(|| Failure::usage("--only takes a text in the names of mutants"))?;
                request.only = Some(text.clone());
                continue;
            }
            let mut number = || {
                let value = words.next().and_then(|value| value.parse::<u64>().ok());
                value.ok_or_else(|| Failure::usage(format!("{word} takes a whole number")))
            };
            match word.as_str() {
                "--seed" => request.seed = number()?,
                "--sample" => request.sample = usize::try_from(number()?).unwrap_or(usize::MAX),
                "--unit" => request.unit = true,
                "--switched" => request.switched = true,
                option if option.starts_with('-') => {
                    return Err(Failure::usage(format!("mutants takes no `{option}`")));
                }
                part if PARTS.iter().any(|it| it.name == part) => {
                    request.wanted.push(part.to_owned());
                }
                unknown => {
                    let known = PARTS.map(|it| it.name).join(", ");
                    return Err(Failure::usage(format!(
                        "no part `{unknown}`; there are: {known}"
                    )));
                }
            }
        }
        if request.sample == 0 {
            return Err(Failure::usage("--sample takes a whole number from 1"));
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, u8> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Request::parse(&words).map_err(|failure| failure.exit_code)
    }

    #[test]
    fn parts_seed_and_sample_come_in_any_order() {
        let usual = Request {
            wanted: Vec::new(),
            seed: 1,
            sample: SAMPLE,
            only: None,
            unit: false,
            switched: false,
        };
        assert_eq!(parse(""), Ok(usual));
        let asked = Request {
            wanted: vec!["hub".to_owned(), "runtime".to_owned()],
            seed: 7,
            sample: 5,
            only: Some("ring.rs".to_owned()),
            unit: true,
            switched: true,
        };
        let line = "--seed 7 hub --only ring.rs --unit --sample 5 --switched runtime";
        assert_eq!(parse(line), Ok(asked));
        for wrong in ["--only", "--seed x", "--sample 0", "nothing", "--jobs 2"] {
            assert_eq!(parse(wrong), Err(2), "{wrong}");
        }
    }
}
