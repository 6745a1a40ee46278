//! The mutants that cargo-mutants lists, with their places in the source.

use serde_json::Value;

/// A fault that cargo-mutants can put into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    /// File, line, column and change, as cargo-mutants prints them.
    pub(super) name: String,
    /// Path of the file from the root of the checkout.
    pub(super) file: String,
    pub(super) kind: Kind,
    /// Where the text that changes starts and ends.
    pub(super) start: SourcePosition,
    pub(super) end: SourcePosition,
    /// Text that takes the place; empty for a deletion.
    pub(super) replacement: String,
    /// Type that the function around the fault returns, with its arrow; empty for `()`.
    pub(super) returned: String,
}

/// The kind of code that a mutant changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All statements of a function become one value.
    Body,
    BinaryOperator,
    UnaryOperator,
    /// An arm of a `match` that also has a wildcard.
    Arm,
    Guard,
    /// A field of a struct expression that ends with a base.
    Field,
}

/// A position in a text: line from 1, column in characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourcePosition {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Reads what `cargo mutants --list --json` printed.
///
/// # Errors
/// The text is no list of mutants, or has a kind that is unknown here.
pub(super) fn parse(text: &str) -> Result<Vec<Mutant>, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("the list of mutants: {error}"))?;
    let all = value.as_array().ok_or("the list of mutants is no list")?;
    all.iter().map(mutant).collect()
}

fn mutant(value: &Value) -> Result<Mutant, String> {
    let text = |pointer: &str| {
        let found = value.pointer(pointer).and_then(Value::as_str);
        found
            .map(str::to_owned)
            .ok_or_else(|| format!("a mutant without {pointer}: {value}"))
    };
    let place = |pointer: &str| -> Result<SourcePosition, String> {
        let number = |field: &str| {
            let found = value.pointer(&format!("{pointer}/{field}"));
            let found = found.and_then(Value::as_u64);
            found
                .and_then(|it| usize::try_from(it).ok())
                .ok_or_else(|| format!("a mutant without {pointer}/{field}: {value}"))
        };
        Ok(SourcePosition {
            line: number("line")?,
            column: number("column")?,
        })
    };
    let kind = match text("/genre")?.as_str() {
        "FnValue" => Kind::Body,
        "BinaryOperator" => Kind::BinaryOperator,
        "UnaryOperator" => Kind::UnaryOperator,
        "MatchArm" => Kind::Arm,
        "MatchArmGuard" => Kind::Guard,
        "StructField" => Kind::Field,
        other => return Err(format!("cargo-mutants has a kind of mutant `{other}`")),
    };
    Ok(Mutant {
        name: text("/name")?,
        file: text("/file")?,
        kind,
        start: place("/span/start")?,
        end: place("/span/end")?,
        replacement: text("/replacement")?,
        returned: text("/function/return_type").unwrap_or_default(),
    })
}
