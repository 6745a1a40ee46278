//! Figures of one source file.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, BinOp, Expr, ExprBinary, ExprLet, ExprMatch, FnArg, ImplItem, Item, Lit, Macro,
    Pat, Signature, Type,
};

use super::super::code::{attributes, is_for_tests};

/// Names of protocols, as literals.
const PROTOCOLS: [&str; 7] = ["moq", "quic", "rtsp", "rtsps", "webrtc", "whep", "whip"];

/// The type whose variants are the kinds of sources.
const INPUT: &str = "Input";

/// Figures of a file, or the sums of many.
#[derive(Debug, Default)]
pub(super) struct FileCount {
    /// Lines that are neither blank nor comments.
    pub(super) code_lines: usize,
    /// Lines and names of functions with a parameter whose type is a tuple, or a reference to one.
    pub(super) tuple_functions: Vec<(usize, String)>,
    /// Lines of each `match`, `if let`, `matches!` and comparison with a variant of [`INPUT`] or one of
    /// [`PROTOCOLS`].
    pub(super) matches: Vec<usize>,
    /// Lines of each function, by its name.
    pub(super) functions: BTreeMap<String, usize>,
    /// Lines that only tests compile.
    of_tests: BTreeSet<usize>,
}

impl FileCount {
    /// # Errors
    /// The text is not Rust.
    pub(super) fn of(text: &str) -> Result<Self, syn::Error> {
        let mut count = Self::default();
        count.visit_file(&syn::parse_file(text)?);
        let lines = text.lines().zip(1..);
        let code = lines.filter(|(line, number)| {
            let line = line.trim_start();
            let is_comment = line.is_empty() || line.starts_with("//");
            !is_comment && !count.of_tests.contains(number)
        });
        count.code_lines = code.count();
        Ok(count)
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.code_lines += other.code_lines;
        self.tuple_functions
            .extend(other.tuple_functions.iter().cloned());
        self.matches.extend(&other.matches);
    }

    /// Notes lines that only tests compile; returns whether `attributes` say so.
    fn leave_out(&mut self, attributes: &[Attribute], item: &impl Spanned) -> bool {
        let is_test = is_for_tests(attributes);
        if is_test {
            let span = item.span();
            self.of_tests.extend(span.start().line..=span.end().line);
        }
        is_test
    }

    fn note_match(&mut self, place: &impl Spanned, is_counted: bool) {
        if is_counted {
            self.matches.push(place.span().start().line);
        }
    }

    fn note_function(&mut self, signature: &Signature, lines: usize) {
        self.functions.insert(signature.ident.to_string(), lines);
        let takes_tuple = signature.inputs.iter().any(|input| match input {
            FnArg::Typed(typed) => is_tuple(&typed.ty),
            FnArg::Receiver(_) => false,
        });
        if takes_tuple {
            let line = signature.ident.span().start().line;
            let name = signature.ident.to_string();
            self.tuple_functions.push((line, name));
        }
    }
}

fn is_tuple(of: &Type) -> bool {
    match of {
        Type::Tuple(tuple) => !tuple.elems.is_empty(),
        Type::Reference(reference) => is_tuple(&reference.elem),
        _ => false,
    }
}

fn lines(of: &impl Spanned) -> usize {
    let span = of.span();
    span.end().line + 1 - span.start().line
}

impl<'ast> Visit<'ast> for FileCount {
    fn visit_item(&mut self, item: &'ast Item) {
        if self.leave_out(attributes(item), item) {
            return;
        }
        if let Item::Fn(it) = item {
            self.note_function(&it.sig, lines(&it.sig) + lines(&it.block) - 1);
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if let ImplItem::Fn(it) = item {
            if self.leave_out(&it.attrs, it) {
                return;
            }
            self.note_function(&it.sig, lines(&it.sig) + lines(&it.block) - 1);
        }
        visit::visit_impl_item(self, item);
    }

    fn visit_expr_match(&mut self, matched: &'ast ExprMatch) {
        let is_counted = |arm: &Arm| is_kind(&arm.pat);
        self.note_match(matched, matched.arms.iter().any(is_counted));
        visit::visit_expr_match(self, matched);
    }

    fn visit_expr_let(&mut self, condition: &'ast ExprLet) {
        self.note_match(condition, is_kind(&condition.pat));
        visit::visit_expr_let(self, condition);
    }

    fn visit_expr_binary(&mut self, compared: &'ast ExprBinary) {
        if matches!(compared.op, BinOp::Eq(_) | BinOp::Ne(_)) {
            let is_counted = |side: &Expr| matches!(side, Expr::Lit(it) if is_protocol(&it.lit));
            let counted = is_counted(&compared.left) || is_counted(&compared.right);
            self.note_match(compared, counted);
        }
        visit::visit_expr_binary(self, compared);
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        if called.path.is_ident("matches") {
            self.note_match(called, names_kind(called.tokens.clone()));
        }
        visit::visit_macro(self, called);
    }
}

/// Whether a pattern names a variant of [`INPUT`], or one of [`PROTOCOLS`].
fn is_kind(pattern: &Pat) -> bool {
    let mut finder = KindFinder(false);
    finder.visit_pat(pattern);
    finder.0
}

struct KindFinder(bool);

impl<'ast> Visit<'ast> for KindFinder {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut owners = path.segments.iter().rev().skip(1);
        self.0 |= owners.next().is_some_and(|owner| owner.ident == INPUT);
    }

    fn visit_lit(&mut self, literal: &'ast Lit) {
        self.0 |= is_protocol(literal);
    }
}

fn is_protocol(literal: &Lit) -> bool {
    matches!(literal, Lit::Str(text) if PROTOCOLS.contains(&text.value().as_str()))
}

/// [`is_kind`] for the tokens of a macro.
fn names_kind(tokens: TokenStream) -> bool {
    let mut before = None;
    tokens.into_iter().any(|token| {
        let is_path = before.as_deref() == Some(INPUT);
        before = match &token {
            TokenTree::Ident(name) => Some(name.to_string()),
            _ => None,
        };
        match token {
            TokenTree::Group(group) => names_kind(group.stream()),
            TokenTree::Punct(punct) => is_path && punct.as_char() == ':',
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                PROTOCOLS.contains(&text.trim_matches('"'))
            }
            TokenTree::Ident(_) => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> FileCount {
        FileCount::of(text).expect("Rust")
    }

    #[test]
    fn comments_blank_lines_and_tests_are_no_code() {
        let text = "//! Head.\n\n/// Doc.\nfn a() {\n    // Why.\n    b();\n}\n\n\
                    #[cfg(test)]\nmod tests {\n    fn c(it: (u8, u8)) {}\n}\n";
        let count = count(text);
        assert_eq!((count.code_lines, count.tuple_functions.len()), (3, 0));
        assert_eq!(count.functions["a"], 4);
    }

    #[test]
    fn functions_that_take_tuples_are_noted_once() {
        let text = "struct S;\nimpl S { fn a(&self, (b, c): (u8, u8), d: &(u8, S)) {} }\n\
                    fn e(f: (), g: Option<(u8, u8)>) -> (u8, u8) { (1, 2) }\nfn h(i: &(u8,)) {}\n";
        let expected = [(2, "a".to_owned()), (4, "h".to_owned())];
        assert_eq!(count(text).tuple_functions, expected);
    }

    #[test]
    fn places_that_know_a_source_or_a_protocol_are_counted() {
        let text = "fn a(b: Input, c: &str) {\n\
                    match b { Input::File(_) | Input::Demo => 1, _ => 2 };\n\
                    if let crate::Input::Demo = b {}\n\
                    if c == \"whip\" || c == \"other\" {}\n\
                    match c { \"rtsp\" => 1, _ => 2 };\n\
                    matches!(b, Input::Demo);\n\
                    matches!(c, \"moq\" | \"x\");\n\
                    match b { Output::File => 1 };\n}\n";
        assert_eq!(count(text).matches, [2, 3, 4, 5, 6, 7]);
    }
}
