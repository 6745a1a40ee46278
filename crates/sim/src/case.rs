/// A row of a table of scenarios: a run over a path, and what is expected of it. Its text,
/// for the message of an assertion, is the description and the seed.
///
/// `P` is the path, such as [`Conditions`](crate::Conditions); `E` is what the test expects
/// of the run.
///
/// ```
/// use glassline_sim::{Case, Conditions, Loss};
///
/// let lossy = |share| Conditions::default().with_loss(Loss::Random(share));
/// let cases = [
///     Case { description: "nothing is lost", path: lossy(0.0), seed: 1, expected: 0..=0 },
///     Case { description: "a tenth is lost", path: lossy(0.1), seed: 2, expected: 60..=140 },
/// ];
/// for case in cases {
///     let mut link = glassline_sim::Link::new(case.path.clone(), case.seed);
///     let start = glassline_sim::Clock::new().now();
///     for number in 0..1000 {
///         link.send(start, 100, number);
///     }
///     let lost = link.counts().lost;
///     assert!(case.expected.contains(&lost), "{case}: {lost} lost");
/// }
/// ```
#[derive(Clone, Debug, derive_more::Display)]
#[display("{description} (seed {seed})")]
pub struct Case<P, E> {
    /// The specialty of this path, as text for messages.
    pub description: &'static str,
    /// The path that the run uses.
    pub path: P,
    /// Seed of all random decisions of the run.
    pub seed: u64,
    /// The expectation of the test.
    pub expected: E,
}
