//! Lines that `cargo xtask figures` reads from what a benchmark prints.

/// Prints a figure: its name, value and unit, which direction is better (`less` or `more`), and what
/// was measured beside it in the same run, by name.
pub(crate) fn print(name: &str, value: f64, unit: &str, better: &str, beside: Option<(&str, f64)>) {
    let beside = match beside {
        Some((name, value)) => format!(r#","beside":{{"name":"{name}","value":{value:.6}}}"#),
        None => String::new(),
    };
    println!(
        r#"figure: {{"name":"{name}","value":{value:.6},"unit":"{unit}","better":"{better}"{beside}}}"#
    );
}
