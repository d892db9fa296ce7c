//! Fault points: the places of message reconstruction at which a test can have the wrong thing done, to see whether it
//! is noticed.
//!
//! A place says what is right and what would be wrong, in one line: `at(Point::CutMark, CUT, |_| "")`. Without the
//! feature `fault-points`, which only the tests of this workspace switch on, [`at`] gives back what is right and nothing
//! else of this module is left. With it, at most one fault is chosen at a time, for the whole process.

use rondo_protocol::canonical;
use rondo_protocol::object::ToolSpec;

/// A place where something wrong can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// The system text begins with a date.
    SystemDate,
    /// One line break instead of two stands between a role's own text and the contract.
    ContractGap,
    /// The keys of a response format are sorted.
    ResponseFormatOrder,
    /// The tools stand in reverse order.
    ToolsUnsorted,
    /// Another tool stands behind the role's.
    ToolAdded,
    /// The role's first tool is missing.
    ToolDropped,
    /// The descriptions of tools begin with a blank.
    ToolDescription,
    /// A prompt keeps its last line breaks when a summary follows it.
    PromptNewlines,
    /// Other words stand for neither a prompt nor a summary.
    EmptyLine,
    /// Other words stand above what happened before the first visit.
    BeforeHeading,
    /// Other words stand above what happened since the last visit.
    SinceHeading,
    /// The newest step is told first.
    SummaryReversed,
    /// A summary may have half the bytes that the role gives it.
    SummaryCeilingHalved,
    /// One step may have one byte less than the ceiling.
    StepCeilingShort,
    /// Steps are left out without a mark.
    LeftOutMark,
    /// A step is cut without a mark.
    CutMark,
    /// The fields of a step are told under other names.
    FieldsRenamed,
    /// The statuses of steps are not told.
    StatusLeftOut,
    /// A role is told the steps of everybody, whatever `context` says.
    FilterIgnored,
    /// An earlier answer is written again instead of repeated.
    AnswerRewritten,
    /// An earlier answer is left out.
    AnswerDropped,
    /// Other words stand for an answer that was not given.
    NoAnswer,
    /// With `exact` only the conclusion of a visit is told.
    ExactCondensed,
    /// The model is shown half of what it may be shown of a tool's result.
    ShownHalved,
    /// Other words stand for a result without a text.
    NoOutput,
    /// An answer that breaks its contract is sent back with other words.
    RepairWords,
}

/// What is right; with the feature `fault-points`, and where this fault is chosen, what `wrong` makes of it.
#[cfg(not(feature = "fault-points"))]
#[inline]
pub(crate) fn at<T>(_: Point, right: T, _: impl FnOnce(T) -> T) -> T {
    right
}

/// A tool that no role names.
pub(crate) fn one_tool_more() -> ToolSpec {
    let (description, parameters) = ("Does nothing.".to_owned(), r#"{"type":"object"}"#.to_owned());
    ToolSpec { description, name: "zz_nothing".to_owned(), parameters }
}

/// A JSON text with its keys in the order of their bytes.
pub(crate) fn sorted(json: &str) -> String {
    canonical::parse(json.as_bytes()).map_or_else(|_| json.to_owned(), |value| value.to_text())
}

#[cfg(feature = "fault-points")]
pub(crate) use chosen::at;

#[cfg(feature = "fault-points")]
pub use chosen::{Chosen, choose};

#[cfg(feature = "fault-points")]
mod chosen {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::Point;

    /// Stands for no fault at all.
    const NONE: usize = usize::MAX;

    /// The place in [`Point::ALL`] of the chosen fault.
    static CHOSEN: AtomicUsize = AtomicUsize::new(NONE);

    /// Whoever holds it has chosen.
    static CHOICE: Mutex<()> = Mutex::new(());

    /// A choice; it ends when this is dropped.
    #[derive(Debug)]
    pub struct Chosen {
        _choice: MutexGuard<'static, ()>,
    }

    impl Drop for Chosen {
        fn drop(&mut self) {
            CHOSEN.store(NONE, Ordering::SeqCst);
        }
    }

    /// Has the fault done from now on, on every thread. Waits until no other fault is chosen.
    pub fn choose(point: Point) -> Chosen {
        // The lock guards nothing that a panic could leave half done.
        let choice = CHOICE.lock().unwrap_or_else(PoisonError::into_inner);
        CHOSEN.store(point as usize, Ordering::SeqCst);
        Chosen { _choice: choice }
    }

    pub(crate) fn at<T>(point: Point, right: T, wrong: impl FnOnce(T) -> T) -> T {
        if CHOSEN.load(Ordering::Relaxed) == point as usize { wrong(right) } else { right }
    }

    impl Point {
        /// Every fault point, in declared order.
        pub const ALL: [Self; 26] = [
            Self::SystemDate,
            Self::ContractGap,
            Self::ResponseFormatOrder,
            Self::ToolsUnsorted,
            Self::ToolAdded,
            Self::ToolDropped,
            Self::ToolDescription,
            Self::PromptNewlines,
            Self::EmptyLine,
            Self::BeforeHeading,
            Self::SinceHeading,
            Self::SummaryReversed,
            Self::SummaryCeilingHalved,
            Self::StepCeilingShort,
            Self::LeftOutMark,
            Self::CutMark,
            Self::FieldsRenamed,
            Self::StatusLeftOut,
            Self::FilterIgnored,
            Self::AnswerRewritten,
            Self::AnswerDropped,
            Self::NoAnswer,
            Self::ExactCondensed,
            Self::ShownHalved,
            Self::NoOutput,
            Self::RepairWords,
        ];
    }
}

#[cfg(all(test, feature = "fault-points"))]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_done_while_it_is_chosen_and_no_other_is() {
        let spoilt = |point| at(point, "right", |_| "wrong");
        assert!(Point::ALL.into_iter().all(|point| spoilt(point) == "right"));
        for chosen in Point::ALL {
            let choice = choose(chosen);
            let wrong: Vec<Point> = Point::ALL.into_iter().filter(|point| spoilt(*point) == "wrong").collect();
            assert_eq!(wrong, [chosen]);
            drop(choice);
        }
        assert_eq!(spoilt(Point::CutMark), "right");
    }
}
