//! Rewrites a source so that one build has many mutants, each behind a switch.
//!
//! ```text
//! a < b          ─►  (if crate::mutant_switch::on(7) { a <= b } else { a < b })
//! { statements } ─►  { if crate::mutant_switch::on(8) { return None; } statements }
//! pattern => …   ─►  pattern if !crate::mutant_switch::on(9) => …
//! ```
//!
//! Text is only inserted, so that a mutant within another one needs no care.

use std::ops::Range;

use proc_macro2::{LineColumn, Span};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::listed::{Kind, Mutant, SourcePosition};

/// Module that the library's root gets. The variables are those of [`super::tested`].
pub(super) const SWITCH: &str = r#"
#[doc(hidden)]
pub(crate) mod mutant_switch {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::io::Write;
    use std::sync::{LazyLock, Mutex};

    static ACTIVE: LazyLock<Option<u32>> =
        LazyLock::new(|| std::env::var("MUTANT_ACTIVE").ok()?.parse().ok());
    static REACHED_FILE: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("MUTANTS_REACHED").ok());
    static REACHED: Mutex<BTreeSet<(u32, String)>> = Mutex::new(BTreeSet::new());

    std::thread_local! {
        /// A bit for each mutant that this thread has noted: a switch within a loop is passed
        /// millions of times. Those beyond the last bit are noted each time.
        static NOTED: [Cell<u64>; 256] = const { [const { Cell::new(0) }; 256] };
    }

    #[inline]
    pub(crate) fn on(mutant: u32) -> bool {
        match *ACTIVE {
            Some(active) => active == mutant,
            None => {
                note(mutant);
                false
            }
        }
    }

    fn note(mutant: u32) {
        let Some(path) = REACHED_FILE.as_deref() else {
            return;
        };
        let bit = 1 << (mutant % 64);
        let is_noted = NOTED.with(|noted| {
            let word = noted.get(mutant as usize / 64);
            word.is_some_and(|word| word.replace(word.get() | bit) & bit != 0)
        });
        if is_noted {
            return;
        }
        let thread = std::thread::current().name().unwrap_or("").to_owned();
        let Ok(mut reached) = REACHED.lock() else {
            return;
        };
        if reached.insert((mutant, thread.clone())) {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            if let Ok(mut file) = file {
                let _ = file.write_all(format!("{mutant} {thread}\n").as_bytes());
            }
        }
    }
}
"#;

/// A source with switches.
#[derive(Debug)]
pub(super) struct Switched {
    pub(super) text: String,
    pub(super) regions: Vec<Region>,
    /// Mutants whose place has no switch; they are built one at a time.
    pub(super) unswitched: Vec<u32>,
}

/// Where a mutant stands in a text with switches, in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) number: u32,
    /// The switch and what it chooses.
    pub(super) inserted: Range<usize>,
    /// The switch and both of its choices.
    pub(super) whole: Range<usize>,
}

/// Puts `mutants`, by their numbers, into `source`.
///
/// # Errors
/// The source does not parse.
pub(super) fn switched(source: &str, mutants: &[(u32, &Mutant)]) -> Result<Switched, String> {
    let file = syn::parse_file(source).map_err(|error| error.to_string())?;
    let text = Text::new(source);
    let mut finder = Finder {
        text: &text,
        mutants,
        insertions: Vec::new(),
        found: Vec::new(),
    };
    for (number, mutant) in mutants {
        if mutant.kind == Kind::Body {
            finder.body(*number, mutant);
        }
    }
    finder.visit_file(&file);
    let (insertions, found) = (finder.insertions, finder.found);
    let numbers = mutants.iter().map(|(number, _)| *number);
    let mut switched = inserted(source, insertions);
    switched.unswitched = numbers.filter(|it| !found.contains(it)).collect();
    Ok(switched)
}

/// Text around a range of the source, for one mutant.
#[derive(Debug)]
struct Insertion {
    number: u32,
    range: Range<usize>,
    before: String,
    after: String,
}

/// Applies insertions: at one place those of the wider range open first and close last, after
/// those that are no range.
fn inserted(source: &str, mut insertions: Vec<Insertion>) -> Switched {
    insertions.sort_by_key(|it| {
        let Range { start, end } = it.range;
        (start, start < end, usize::MAX - end, it.number)
    });
    // Closings come before openings at the same place, and the innermost closes first.
    let mut pieces: Vec<(usize, bool, usize)> = Vec::new();
    for (at, insertion) in insertions.iter().enumerate() {
        pieces.push((insertion.range.start, true, at));
        if !insertion.range.is_empty() {
            pieces.push((insertion.range.end, false, usize::MAX - at));
        }
    }
    pieces.sort_unstable();
    let mut text = String::with_capacity(2 * source.len());
    let mut regions: Vec<Region> = Vec::new();
    let mut copied = 0;
    for (place, opens, key) in pieces {
        text.push_str(&source[copied..place]);
        copied = place;
        if opens {
            // Openings come in the order of the insertions.
            let insertion = &insertions[key];
            let start = text.len();
            text.push_str(&insertion.before);
            regions.push(Region {
                number: insertion.number,
                inserted: start..text.len(),
                whole: start..text.len(),
            });
        } else {
            let at = usize::MAX - key;
            text.push_str(&insertions[at].after);
            regions[at].whole.end = text.len();
        }
    }
    text.push_str(&source[copied..]);
    Switched {
        text,
        regions,
        unswitched: Vec::new(),
    }
}

/// A source whose places are bytes.
struct Text<'source> {
    source: &'source str,
    /// Byte at which each line starts.
    lines: Vec<usize>,
}

impl<'source> Text<'source> {
    fn new(source: &'source str) -> Self {
        let starts = source.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            source,
            lines: std::iter::once(0).chain(starts).collect(),
        }
    }

    fn byte(&self, place: SourcePosition) -> usize {
        let start = self.lines[place.line - 1];
        let rest = self.source[start..].char_indices();
        let mut columns = rest.map(|(at, _)| start + at);
        columns.nth(place.column - 1).unwrap_or(self.source.len())
    }

    fn range(&self, span: Span) -> Range<usize> {
        self.byte(place(span.start()))..self.byte(place(span.end()))
    }

    /// The text of `range` with `hole`, a range within it, filled with `filling`.
    fn filled(&self, range: &Range<usize>, hole: &Range<usize>, filling: &str) -> String {
        let (before, after) = (range.start..hole.start, hole.end..range.end);
        format!("{}{filling}{}", &self.source[before], &self.source[after])
    }
}

fn place(at: LineColumn) -> SourcePosition {
    SourcePosition {
        line: at.line,
        column: at.column + 1,
    }
}

/// Finds the syntax around the places of mutants.
struct Finder<'a> {
    text: &'a Text<'a>,
    mutants: &'a [(u32, &'a Mutant)],
    insertions: Vec<Insertion>,
    found: Vec<u32>,
}

impl<'a> Finder<'a> {
    /// Mutants of `kind` that start where `span` does.
    fn at(&self, kind: Kind, span: Span) -> Vec<(u32, &'a Mutant)> {
        let start = place(span.start());
        let here = self.mutants.iter().copied();
        here.filter(|(_, it)| it.kind == kind && it.start == start)
            .collect()
    }

    fn insert(&mut self, number: u32, range: Range<usize>, before: String, after: &str) {
        let after = after.to_owned();
        self.found.push(number);
        self.insertions.push(Insertion {
            number,
            range,
            before,
            after,
        });
    }

    /// Chooses between `changed` and the expression at `range`.
    fn choose(&mut self, number: u32, range: Range<usize>, changed: &str) {
        let before = format!("(if crate::mutant_switch::on({number}) {{ {changed} }} else {{ ");
        self.insert(number, range, before, " })");
    }

    fn body(&mut self, number: u32, mutant: &Mutant) {
        // A value of another type than the function's own cannot stand beside it.
        if mutant.returned.contains("impl ") {
            return;
        }
        let start = self.text.byte(mutant.start);
        let value = &mutant.replacement;
        let before = format!("if crate::mutant_switch::on({number}) {{ return {value}; }} ");
        self.insert(number, start..start, before, "");
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr_binary(&mut self, expression: &'ast syn::ExprBinary) {
        let (whole, operator) = (
            self.text.range(expression.span()),
            self.text.range(expression.op.span()),
        );
        for (number, mutant) in self.at(Kind::BinaryOperator, expression.op.span()) {
            let changed = self.text.filled(&whole, &operator, &mutant.replacement);
            self.choose(number, whole.clone(), &changed);
        }
        visit::visit_expr_binary(self, expression);
    }

    fn visit_expr_unary(&mut self, expression: &'ast syn::ExprUnary) {
        let (whole, operator) = (
            self.text.range(expression.span()),
            self.text.range(expression.op.span()),
        );
        for (number, mutant) in self.at(Kind::UnaryOperator, expression.op.span()) {
            let changed = self.text.filled(&whole, &operator, &mutant.replacement);
            self.choose(number, whole.clone(), &changed);
        }
        visit::visit_expr_unary(self, expression);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let guard = match &arm.pat {
            syn::Pat::Guard(guarded) => Some(&*guarded.guard),
            _ => None,
        };
        for (number, _) in self.at(Kind::Arm, arm.span()) {
            let off = format!("!crate::mutant_switch::on({number})");
            if let Some(guard) = guard {
                let range = self.text.range(guard.span());
                self.insert(number, range, format!("{off} && ("), ")");
            } else {
                let end = self.text.range(arm.pat.span()).end;
                self.insert(number, end..end, format!(" if {off}"), "");
            }
        }
        if let Some(guard) = guard {
            for (number, mutant) in self.at(Kind::Guard, guard.span()) {
                let range = self.text.range(guard.span());
                self.choose(number, range, &mutant.replacement);
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expression: &'ast syn::ExprStruct) {
        let whole = self.text.range(expression.span());
        for pair in expression.fields.pairs() {
            let field = pair.value();
            for (number, _) in self.at(Kind::Field, field.span()) {
                let mut hole = self.text.range(field.span());
                if let Some(comma) = pair.punct() {
                    hole.end = self.text.range(comma.span()).end;
                }
                let changed = self.text.filled(&whole, &hole, "");
                self.choose(number, whole.clone(), &changed);
            }
        }
        visit::visit_expr_struct(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(kind: Kind, line: usize, column: usize, replacement: &str) -> Mutant {
        let place = SourcePosition { line, column };
        Mutant {
            name: String::new(),
            file: String::new(),
            kind,
            start: place,
            end: place,
            replacement: replacement.to_owned(),
            returned: String::new(),
        }
    }

    fn on(number: u32) -> String {
        format!("crate::mutant_switch::on({number})")
    }

    #[test]
    fn operators_of_one_expression_get_a_switch_each() {
        let source = "fn f(a: u32) -> bool {\n    a + 1 < 2\n}\n";
        let less = mutant(Kind::BinaryOperator, 2, 11, "<=");
        let plus = mutant(Kind::BinaryOperator, 2, 7, "-");
        let result = switched(source, &[(1, &less), (2, &plus)]).expect("it parses");
        let expected = format!(
            "fn f(a: u32) -> bool {{\n    (if {} {{ a + 1 <= 2 }} else {{ \
             (if {} {{ a - 1 }} else {{ a + 1 }}) < 2 }})\n}}\n",
            on(1),
            on(2)
        );
        assert_eq!(result.text, expected);
        assert_eq!(result.unswitched, [0; 0]);
        let [outer, inner] = &result.regions[..] else {
            panic!("{:?}", result.regions);
        };
        assert_eq!((outer.number, inner.number), (1, 2));
        assert!(result.text[outer.inserted.clone()].ends_with("{ a + 1 <= 2 } else { "));
        assert!(outer.whole.start < inner.whole.start && inner.whole.end < outer.whole.end);
        syn::parse_file(&result.text).expect("it still parses");
    }

    #[test]
    fn bodies_arms_guards_and_fields_get_switches() {
        let source = "fn f(a: u32) -> S {\n    match a {\n        1 => S::A,\n        b if b > 2 => \
                      S { x: 1, ..S::C },\n        _ => S::B,\n    }\n}\n";
        let body = mutant(Kind::Body, 2, 5, "S::A");
        let arm = mutant(Kind::Arm, 3, 9, "");
        let guarded = mutant(Kind::Arm, 4, 9, "");
        let guard = mutant(Kind::Guard, 4, 14, "true");
        let field = mutant(Kind::Field, 4, 27, "");
        let all = [
            (1, &body),
            (2, &arm),
            (3, &guarded),
            (4, &guard),
            (5, &field),
        ];
        let result = switched(source, &all).expect("it parses");
        for part in [
            format!("if {} {{ return S::A; }} match a", on(1)),
            format!("1 if !{} => S::A", on(2)),
            format!(
                "b if !{} && ((if {} {{ true }} else {{ b > 2 }}))",
                on(3),
                on(4)
            ),
            format!(
                "(if {} {{ S {{  ..S::C }} }} else {{ S {{ x: 1, ..S::C }} }})",
                on(5)
            ),
        ] {
            assert!(result.text.contains(&part), "{part}\n{}", result.text);
        }
        syn::parse_file(&result.text).expect("it still parses");
    }

    #[test]
    fn a_place_without_a_switch_is_told() {
        let nowhere = mutant(Kind::UnaryOperator, 1, 1, "");
        let mut opaque = mutant(Kind::Body, 1, 1, "::std::iter::empty()");
        opaque.returned = "-> impl Iterator<Item = u8>".to_owned();
        let result = switched("fn f() {}\n", &[(4, &nowhere), (5, &opaque)]).expect("it parses");
        assert_eq!(result.unswitched, [4, 5]);
        assert_eq!(result.text, "fn f() {}\n");
    }
}
