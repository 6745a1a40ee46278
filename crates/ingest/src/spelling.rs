//! Suggests the word that was probably meant by a misspelled one.

/// Lowest similarity, from 0 to 1, at which a word is suggested.
const LIKENESS_MIN: f64 = 0.6;

/// Returns the word of `known` that `word` was probably meant to be, if one is similar enough.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        // This distance counts wrong, missing, extra and swapped letters, which are the errors of
        // typing.
        .map(|candidate| {
            (
                strsim::normalized_damerau_levenshtein(word, candidate),
                candidate,
            )
        })
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}
