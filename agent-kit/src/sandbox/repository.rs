//! What git accepts as a repository, whatever its name: a folder with `HEAD`, `objects` and `refs`, or with `HEAD` and
//! a `commondir` that names their place. Git reads hooks, filters and settings from it as from a `.git`
//! (<https://git-scm.com/docs/gitrepository-layout>).

use std::ffi::OsStr;

const PARTS: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// Which of them a folder holds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shape([bool; 4]);

impl Shape {
    /// The shape of a folder; `holds` says which names exist.
    pub(crate) fn of(holds: impl Fn(&OsStr) -> bool) -> Self {
        Self(PARTS.map(|part| holds(OsStr::new(part))))
    }

    /// With one more name in it.
    pub(crate) fn add(&mut self, name: &OsStr) {
        for (part, is_there) in PARTS.iter().zip(&mut self.0) {
            *is_there |= name.eq_ignore_ascii_case(part);
        }
    }

    pub(crate) fn is_repository(self) -> bool {
        let [head, objects, refs, commondir] = self.0;
        head && (objects && refs || commondir)
    }
}

pub(crate) fn is_part(name: &OsStr) -> bool {
    PARTS.iter().any(|part| name.eq_ignore_ascii_case(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_told_by_what_it_holds() {
        let of = |names: &[&str]| {
            let mut shape = Shape::default();
            for name in names {
                shape.add(OsStr::new(name));
            }
            assert_eq!(
                shape.is_repository(),
                Shape::of(|part| names.iter().any(|name| part.eq_ignore_ascii_case(name))).is_repository()
            );
            shape.is_repository()
        };
        assert!(
            of(&["HEAD", "objects", "refs"]) && of(&["refs", "x", "objects", "head"]) && of(&["HEAD", "commondir"])
        );
        assert!(!of(&["objects", "refs"]) && !of(&["HEAD", "objects"]) && !of(&["commondir"]) && !of(&["HEAD"]));
    }
}
