//! What the command line asks for.

use std::path::PathBuf;

use super::recipe::Recipe;
use super::recipes::RECIPES;

/// The request to `cargo xtask figures`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// Recipes by name; empty for all.
    pub(super) only: Vec<String>,
    /// Print the recipes, and do nothing else.
    pub(super) lists: bool,
    /// Write the pages from the stored results, and measure nothing.
    pub(super) pages_only: bool,
    /// Run the short forms, and store apart from the documentation.
    pub(super) is_quick: bool,
    /// Measure what the run has measured already.
    pub(super) again: bool,
    /// Begin a new run instead of continuing the last one.
    pub(super) is_new: bool,
    /// Measure on a machine with other work, and mark the values.
    pub(super) busy: bool,
    /// Leave out the second run without wide AES.
    pub(super) no_mask: bool,
    /// Scene to run alone, without storing its report.
    pub(super) scene: Option<String>,
    /// File for the report of the scene.
    pub(super) json: Option<PathBuf>,
    /// Program to measure instead of building one.
    pub(super) binary: Option<PathBuf>,
}

impl Request {
    /// # Errors Names the argument that is wrong, and what there is instead.
    pub(super) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut request = Self::default();
        let mut words = arguments.iter().peekable();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--list" => request.lists = true,
                "--pages" => request.pages_only = true,
                "--quick" => request.is_quick = true,
                "--again" => request.again = true,
                "--new" => request.is_new = true,
                "--busy" => request.busy = true,
                "--no-mask" => request.no_mask = true,
                "--scene" => {
                    let name = words.next().ok_or("--scene needs the name of a scene")?;
                    request.scene = Some(name.clone());
                }
                "--json" => {
                    let path = words.next().ok_or("--json needs a file")?;
                    request.json = Some(path.into());
                }
                "--binary" => {
                    let path = words.next().ok_or("--binary needs a path")?;
                    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
                    if !path.is_file() {
                        return Err(format!("--binary {}: no such file", path.display()));
                    }
                    request.binary = Some(path);
                }
                "--only" => {
                    let is_name = |it: &&String| !it.starts_with("--");
                    let before = request.only.len();
                    while let Some(names) = words.next_if(is_name) {
                        request.only.extend(names.split(',').map(str::to_owned));
                    }
                    if request.only.len() == before {
                        return Err("--only needs the name of a recipe".to_owned());
                    }
                }
                other => return Err(format!("figures takes no `{other}`")),
            }
        }
        if request.scene.is_some() != request.json.is_some() {
            return Err("--scene and --json FILE belong together".to_owned());
        }
        for name in &request.only {
            if !RECIPES.iter().any(|it| it.name == *name) {
                return Err(format!("no recipe `{name}`; `--list` names them"));
            }
        }
        Ok(request)
    }

    /// The recipes that are asked for, in their order.
    pub(super) fn recipes(&self) -> Vec<&'static Recipe> {
        let is_named = |recipe: &&Recipe| self.only.iter().any(|it| it == recipe.name);
        let has_form = |recipe: &&Recipe| !self.is_quick || recipe.quick.is_some();
        let chosen = RECIPES.iter().filter(|it| match self.only.is_empty() {
            true => has_form(it),
            false => is_named(it),
        });
        chosen.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Request::parse(&words)
    }

    #[test]
    fn names_come_by_commas_and_by_spaces() {
        let request = parsed("--only seal,join data --quick").expect("all are recipes");
        assert_eq!(request.only, ["seal", "join", "data"]);
        assert!(request.is_quick);
        let names: Vec<&str> = request.recipes().iter().map(|it| it.name).collect();
        assert_eq!(names.len(), 3);
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, word) in [
            ("--only", "needs the name"),
            ("--only --quick", "needs the name"),
            ("--only nothing", "`nothing`"),
            ("--loud", "`--loud`"),
            ("--scene reload", "belong together"),
            ("--json x.json", "belong together"),
            ("--binary", "needs a path"),
            ("--binary /no/such/program", "no such file"),
        ] {
            let error = parsed(line).expect_err("wrong");
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn all_recipes_are_meant_where_none_is_named() {
        let all = parsed("").expect("nothing to be wrong").recipes();
        assert_eq!(all.len(), RECIPES.len());
        let quick = parsed("--quick").expect("right").recipes();
        assert!(!quick.is_empty() && quick.len() < all.len());
    }
}
