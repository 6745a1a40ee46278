//! Variables of playlists, and their places in URIs and texts (§4.3, §4.4.2.3).

use std::collections::BTreeMap;

use super::BYTES_MAX;
use super::fault::{Faults, shown};

/// Values of the variables that a playlist knows so far.
#[derive(Clone, Debug)]
pub(super) struct Variables {
    values: BTreeMap<String, String>,
    /// Bytes that replacements may still add.
    room: usize,
    /// Whether any variable was used.
    pub(super) are_used: bool,
}

impl Default for Variables {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            room: BYTES_MAX,
            are_used: false,
        }
    }
}

impl Variables {
    /// Adds a variable; false if there is one of this name.
    pub(super) fn define(&mut self, name: String, value: String) -> bool {
        if self.values.contains_key(&name) {
            return false;
        }
        self.values.insert(name, value);
        true
    }

    pub(super) fn into_values(self) -> BTreeMap<String, String> {
        self.values
    }

    /// Returns `text` with the values of its variables. An unknown variable is a fault, and stays.
    pub(super) fn replaced(&mut self, text: &str, line: usize, faults: &mut Faults) -> String {
        let mut done = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("{$") {
            let Some((name, after)) = behind.split_once('}') else {
                break;
            };
            self.are_used = true;
            done += before;
            match self.values.get(name) {
                Some(value) if value.len() <= self.room => {
                    self.room -= value.len();
                    done += value;
                }
                Some(_) => {
                    faults.add(
                        line,
                        "4.3",
                        "the values of variables make the playlist too large",
                    );
                    return done;
                }
                None => {
                    let name = shown(name);
                    faults.add(
                        line,
                        "6.3.1",
                        format!("no EXT-X-DEFINE above defines the variable '{name}'"),
                    );
                    done += "{$";
                    done += &name;
                    done += "}";
                }
            }
            rest = after;
        }
        done + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_put_in_once_and_not_replaced_again() {
        let (mut variables, mut faults) = (Variables::default(), Faults::default());
        assert!(variables.define("a".to_owned(), "{$b}".to_owned()));
        assert!(!variables.define("a".to_owned(), "x".to_owned()));
        assert_eq!(variables.replaced("1{$a}2{$a", 1, &mut faults), "1{$b}2{$a");
        assert!(variables.are_used && faults.clone().into_sorted().is_empty());
        assert_eq!(variables.replaced("{$c}", 7, &mut faults), "{$c}");
        let faults = faults.into_sorted();
        assert!(
            faults[0].to_string().starts_with("line 7: no EXT-X-DEFINE"),
            "{faults:?}"
        );
    }

    #[test]
    fn a_value_that_is_used_often_does_not_fill_the_memory() {
        let (mut variables, mut faults) = (Variables::default(), Faults::default());
        variables.define("a".to_owned(), "x".repeat(BYTES_MAX / 2));
        let made = variables.replaced(&"{$a}".repeat(1000), 1, &mut faults);
        assert_eq!((made.len(), faults.into_sorted().len()), (BYTES_MAX, 1));
    }
}
