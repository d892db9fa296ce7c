//! The mutation test of scenarios: everything that an author can change in a shipped workflow, and everything that
//! could go wrong in the reconstruction of messages, is changed once; the scenarios must notice, and the report must name
//! the cause.
//!
//! A binary of its own: while a fault is chosen ([`rondo_agent_kit::fault_point`]), it is done in the whole process, and
//! no other test may run beside it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing")]

mod chance;
mod figures;
mod mutant;
mod operators;
mod points;
mod subject;
mod tree;
mod trial;

use figures::Figures;
use subject::Subject;

/// Every mutant follows from it.
const SEED: u64 = 0x726f_6e64_6f31;

/// How many of a hundred mutants have to be caught, and of a hundred caught ones be named right.
const LEAST_PERCENT: usize = 95;

/// One test: both halves use the same machine, and the second one changes what the whole process does.
#[test]
fn what_changes_in_a_workflow_or_in_its_messages_is_caught_and_named() {
    let subjects = Subject::shipped();
    for subject in &subjects {
        let untouched = trial::report(subject, &subject.as_tree());
        assert!(untouched.is_passed(), "{}: {}", subject.name, trial::shown(&untouched));
    }
    let mutants = Figures::of(trial::of_mutants(&subjects));
    let points = Figures::of(points::trials(&subjects));
    let report = format!("{}\n{}", mutants.shown("mutants"), points.shown("fault points"));
    let file = figures::keep(&format!("{report}\n{}{}", mutants.every(), points.every()));
    println!("{report}\nevery one of them: {}", file.display());
    assert!(mutants.total() > 500, "only {} mutants were made", mutants.total());
    for figures in [mutants, points] {
        assert!(figures.caught_percent() >= LEAST_PERCENT, "too few are caught: {}%", figures.caught_percent());
        assert!(figures.named_percent() >= LEAST_PERCENT, "too few are named right: {}%", figures.named_percent());
    }
}
