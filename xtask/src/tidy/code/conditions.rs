//! Finds items that only the build of the tests has.

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Meta};

/// Whether these attributes keep an item out of every build but that of the tests.
pub(in crate::tidy) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) => list.path.is_ident("cfg") && asks_for_test(list.tokens.clone()),
        Meta::NameValue(_) => false,
    })
}

/// Whether `test` occurs in a condition, outside of `not(…)`.
fn asks_for_test(condition: TokenStream) -> bool {
    let mut is_negated = false;
    condition.into_iter().any(|token| match token {
        TokenTree::Ident(word) => {
            is_negated = word == "not";
            word == "test"
        }
        TokenTree::Group(group) => !is_negated && asks_for_test(group.stream()),
        _ => false,
    })
}
