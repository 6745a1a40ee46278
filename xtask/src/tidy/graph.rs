//! Layers and circles of a graph: which names reach each other.

use std::collections::{BTreeMap, BTreeSet};

/// Each name with the names that it uses.
pub(super) type Graph = BTreeMap<String, BTreeSet<String>>;

/// The graph of these arrows, from the first to the second.
pub(super) fn graph<'names>(arrows: impl IntoIterator<Item = (&'names str, &'names str)>) -> Graph {
    let mut graph = Graph::new();
    for (from, to) in arrows {
        graph.entry(to.to_owned()).or_default();
        graph
            .entry(from.to_owned())
            .or_default()
            .insert(to.to_owned());
    }
    graph
}

/// All names in groups of those that reach each other; a group comes after all groups that it
/// uses. A group of two or more is a circle.
pub(super) fn floors(graph: &Graph) -> Vec<Vec<String>> {
    let mut search = Search {
        graph,
        numbers: BTreeMap::new(),
        path: Vec::new(),
        floors: Vec::new(),
    };
    for name in graph.keys() {
        if !search.numbers.contains_key(name.as_str()) {
            search.visit(name);
        }
    }
    search.floors
}

/// Tarjan's search for strongly connected components.
struct Search<'graph> {
    graph: &'graph Graph,
    /// In the order of the first visit; `None` for a name whose group is complete.
    numbers: BTreeMap<&'graph str, Option<usize>>,
    path: Vec<&'graph str>,
    floors: Vec<Vec<String>>,
}

impl<'graph> Search<'graph> {
    /// Returns the lowest number that `name` reaches among those still open.
    fn visit(&mut self, name: &'graph str) -> usize {
        let number = self.numbers.len();
        let depth = self.path.len();
        self.numbers.insert(name, Some(number));
        self.path.push(name);
        let mut lowest = number;
        for next in self.graph.get(name).into_iter().flatten() {
            let reached = match self.numbers.get(next.as_str()) {
                Some(Some(open)) => *open,
                Some(None) => continue,
                None => self.visit(next),
            };
            lowest = lowest.min(reached);
        }
        if lowest == number {
            let group = self.path.split_off(depth);
            for name in &group {
                self.numbers.insert(name, None);
            }
            self.floors.push(self.in_order(&group));
        }
        lowest
    }

    /// The names of a circle, ordered so that few arrows lead to a later one.
    fn in_order(&self, group: &[&str]) -> Vec<String> {
        let mut open: BTreeSet<&str> = group.iter().copied().collect();
        let mut order = Vec::new();
        while let Some(next) = open.iter().copied().min_by_key(|name| {
            self.graph[*name]
                .iter()
                .filter(|it| open.contains(it.as_str()))
                .count()
        }) {
            open.remove(next);
            order.push(next.to_owned());
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_stands_behind_all_that_it_knows() {
        let found = floors(&graph([("b", "a"), ("c", "b"), ("b", "d"), ("a", "b")]));
        assert_eq!(found, [vec!["d"], vec!["a", "b"], vec!["c"]]);
    }

    #[test]
    fn two_circles_through_one_name_are_one() {
        let found = floors(&graph([("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")]));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_name_that_knows_itself_is_no_circle() {
        assert_eq!(floors(&graph([("a", "a")])), [["a"]]);
    }
}
