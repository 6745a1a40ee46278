//! Every route of the HTTP server has a row on its page, and every row a route.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folders and files in which routes are declared.
const PLACES: [&str; 2] = ["crates/server/src/http", "crates/server/src/hls/mod.rs"];

/// Routes without a row on the page, and rows without a route.
pub(super) fn problems(
    path: &Path,
    page: &str,
    sources: &BTreeMap<PathBuf, String>,
) -> Vec<String> {
    let is_place = |path: &Path| PLACES.iter().any(|it| path.starts_with(it));
    let places = sources.iter().filter(|(path, _)| is_place(path));
    let declared: BTreeSet<&str> = places.flat_map(|(_, text)| declared(text)).collect();
    let documented: BTreeSet<&str> = documented(page).collect();
    let shown = path.display();
    let missing = declared.difference(&documented);
    let missing = missing.map(|route| format!("{shown}: no row for the route `{route}`"));
    let stale = documented.difference(&declared);
    let stale = stale.map(|route| format!("{shown}: `{route}` is no route of the server"));
    missing.chain(stale).collect()
}

/// The paths of routes: the text behind each `.route(`, `.passed(`, `.page(`, `.get(` and `.post(`, and behind the
/// method that `.on(` begins with.
fn declared(source: &str) -> impl Iterator<Item = &str> {
    let by_path = [".route(", ".passed(", ".page(", ".get(", ".post("].into_iter();
    let by_path = by_path.flat_map(|call| source.split(call).skip(1));
    let by_method = source.split(".on(").skip(1);
    let by_method = by_method.filter_map(|rest| rest.split_once(',').map(|(_, rest)| rest));
    let texts = by_path
        .chain(by_method)
        .filter_map(|rest| rest.trim_start().strip_prefix('"'));
    let texts = texts.filter_map(|rest| rest.split_once('"').map(|(route, _)| route));
    // Others have `get`, too.
    texts.filter(|text| text.starts_with('/'))
}

/// Paths in code of the first cell of each row.
fn documented(page: &str) -> impl Iterator<Item = &str> {
    let cells = page.lines().filter_map(|line| line.split('|').nth(1));
    let code = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    code.filter_map(|code| {
        let route = code.split(' ').next_back()?;
        route.starts_with('/').then_some(route)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_and_rows_are_compared_both_ways() {
        let text = "Router::new().route(\"/\", get(a)).route(\n    \"/{stream}\",\n    get(b)); \
                    Routes::default().post(\"/list\", of, list).on(Method::PUT, \"/one\", of, put); \
                    headers.get(\"host\")";
        let sources = BTreeMap::from([(PathBuf::from(PLACES[0]).join("mod.rs"), text.to_owned())]);
        let found = |page: &str| problems(Path::new("a.md"), page, &sources).len();
        assert_eq!(
            found(
                "| `GET /` | x |\n| `GET`, `POST /{stream}` | y |\n| `/list` | |\n| `PUT /one` | |\n"
            ),
            0
        );
        assert_eq!(found("| `GET /` | x |\n"), 3);
        assert_eq!(
            found("| `/` | |\n| `/{stream}` | |\n| `/list` | |\n| `/one` | |\n| `/gone` | |\n"),
            1
        );
    }
}
