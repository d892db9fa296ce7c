//! Fault points: something goes wrong in the reconstruction of messages while the workflows stay as they are.

use std::path::Path;

use rondo_agent_kit::fault_point::{Point, choose};

use crate::mutant::Named;
use crate::subject::Subject;
use crate::trial::{self, Trial, Went};

/// What a report calls a fault that no part of a workflow explains.
const CAUSES: &[&str] = &["message layout"];

/// Every fault, done in every workflow. It is caught when the scenarios of one of them notice it: a fault in what only
/// some workflows use cannot show in the others.
pub fn trials(shipped: &[Subject]) -> Vec<Trial> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/layout");
    let layout = Subject::read(&folder, "layout");
    let untouched = trial::report(&layout, &layout.as_tree());
    assert!(untouched.is_passed(), "layout: {}", trial::shown(&untouched));
    Point::ALL.into_iter().map(|point| of_point(point, shipped.iter().chain([&layout]))).collect()
}

fn of_point<'s>(point: Point, subjects: impl Iterator<Item = &'s Subject>) -> Trial {
    let _chosen = choose(point);
    let named = Named { causes: CAUSES, parts: Vec::new(), word: String::new() };
    let mut caught = Vec::new();
    let mut went = Went::Survived;
    for subject in subjects {
        let report = trial::report(subject, &subject.as_tree());
        match trial::judged(&report, &named) {
            Went::Survived | Went::Refused => continue,
            misnamed @ Went::Misnamed(_) => went = misnamed,
            Went::Named if went == Went::Survived => went = Went::Named,
            Went::Named => {}
        }
        caught.push(subject.name.as_str());
    }
    Trial {
        workflow: "all".to_owned(),
        operator: "fault point".to_owned(),
        place: format!("{point:?}"),
        what: caught.join(", "),
        went,
    }
}
