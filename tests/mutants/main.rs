//! The mutation test of scenarios: everything that an author can change in a shipped workflow is changed once, and what
//! rondo itself writes is made to look changed; the scenarios must notice, and the report must name the cause.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing")]

mod chance;
mod figures;
mod layout;
mod mutant;
mod operators;
mod subject;
mod tree;
mod trial;

use figures::Figures;
use subject::Subject;

/// Every mutant follows from it.
const SEED: u64 = 0x726f_6e64_6f31;

/// How many of a hundred mutants have to be caught, and of a hundred caught ones be named right.
const LEAST_PERCENT: usize = 95;

/// One test: both halves keep every processor busy, and are told in one report.
#[test]
fn what_changes_in_a_workflow_or_in_its_messages_is_caught_and_named() {
    let subjects = Subject::shipped();
    for subject in &subjects {
        let untouched = trial::report(subject, &subject.as_tree());
        assert!(untouched.is_passed(), "{}: {}", subject.name, trial::shown(&untouched));
    }
    let mutants = Figures::of(trial::of_mutants(&subjects));
    let of_layout = layout::subject();
    let all: Vec<&Subject> = subjects.iter().chain([&of_layout]).collect();
    assert_eq!(layout::unseen(&all), Vec::<&str>::new(), "no scenario is sent these words");
    let layouts = Figures::of(layout::trials(&all));
    let report = format!("{}\n{}", mutants.shown("mutants"), layouts.shown("layout"));
    let file = figures::keep(&format!("{report}\n{}{}", mutants.every(), layouts.every()));
    println!("{report}\nevery one of them: {}", file.display());
    assert!(mutants.total() > 500, "only {} mutants were made", mutants.total());
    assert!(layouts.total() > 50, "only {} requests were made to look changed", layouts.total());
    for figures in [mutants, layouts] {
        assert!(figures.caught_percent() >= LEAST_PERCENT, "too few are caught: {}%", figures.caught_percent());
        assert!(figures.named_percent() >= LEAST_PERCENT, "too few are named right: {}%", figures.named_percent());
    }
}
