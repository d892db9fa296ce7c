//! The keys of a script: which role, in which of its lanes, of which child thread.
//!
//! A key is a path. A part with an index is either a role that runs a child workflow, in the lane of that index, or an
//! outer lane of the next part: `lead[0]/writer[2]` is `writer` of the child that `lead` runs, or `writer` in a nested
//! lane. The roles of the workflow decide; where it has both, the child is meant.

use std::collections::BTreeSet;

use rondo_protocol::id::{LanePath, RoleName};

use super::ScriptRoles;

/// A role in a lane of its thread.
pub type Place = (RoleName, LanePath);

/// Every key that may hold the list of the last place, whose thread the places before it run. The narrowest is first;
/// the outermost place counts most.
pub(super) fn keys(path: &[Place]) -> Vec<String> {
    path.iter().fold(Vec::new(), |before: Vec<String>, place| {
        if before.is_empty() {
            return spellings(place);
        }
        before.iter().flat_map(|outer| spellings(place).into_iter().map(move |own| format!("{outer}/{own}"))).collect()
    })
}

/// The names of a role in its lane, in lanes of that index, and anywhere.
fn spellings((role, lane): &Place) -> Vec<String> {
    let of_index = lane.last_index().map(|index| format!("{role}[{index}]"));
    let mut all: Vec<String> =
        [Some(lane.role_in_lane(role)), of_index, Some(role.to_string())].into_iter().flatten().collect();
    all.dedup();
    all
}

impl ScriptRoles {
    /// The role that a key answers for, without its lanes: `writer`, `section/writer`. `None` if there is none in such
    /// a lane.
    pub(super) fn role_of(&self, key: &str) -> Option<String> {
        self.named(key, |role, outer_lanes, has_index| self.runs(role, outer_lanes, has_index))
    }

    /// The role that a key names, in whatever lanes.
    pub(super) fn role_anywhere(&self, key: &str) -> Option<String> {
        self.named(key, |_, _, _| true)
    }

    fn named(&self, key: &str, runs: impl Fn(&str, usize, bool) -> bool) -> Option<String> {
        let (outer, last) = key.rsplit_once('/').map_or((None, key), |(outer, last)| (Some(outer), last));
        // The children so far, and in how many outer lanes the next part is.
        let mut open = BTreeSet::from([(String::new(), 0)]);
        for part in outer.into_iter().flat_map(|outer| outer.split('/')) {
            let index = without_index(part);
            let child = |(within, lanes): &(String, usize)| {
                let role = format!("{within}{}", index.unwrap_or(part));
                let children = format!("{role}/");
                (self.has_below(&children) && runs(&role, *lanes, index.is_some())).then_some((children, 0))
            };
            let lane = |(within, lanes): &(String, usize)| index.map(|_| (within.clone(), lanes + 1));
            open = open.iter().flat_map(|place| [child(place), lane(place)]).flatten().collect();
        }
        let index = without_index(last);
        let roles = open.into_iter().filter_map(|(within, lanes)| {
            let role = format!("{within}{}", index.unwrap_or(last));
            (self.roles.contains_key(&role) && runs(&role, lanes, index.is_some())).then_some(role)
        });
        roles.max_by_key(|role| role.matches('/').count())
    }

    fn has_below(&self, path: &str) -> bool {
        self.roles.range(path.to_owned()..).next().is_some_and(|(name, _)| name.starts_with(path))
    }

    /// Whether a role runs in a lane that is in so many others, if it has an index.
    fn runs(&self, role: &str, outer_lanes: usize, has_index: bool) -> bool {
        let Some(depths) = self.depths.get(role) else { return has_index || outer_lanes == 0 };
        match (outer_lanes, has_index) {
            (outer_lanes, false) => outer_lanes == 0,
            // The index is that of the innermost lane.
            (0, true) => depths.iter().any(|depth| *depth > 0),
            (outer_lanes, true) => depths.contains(&(outer_lanes + 1)),
        }
    }
}

/// A key's role as a guess, where the workflow has none of its parts.
pub(super) fn without_lanes(key: &str) -> String {
    let (outer, last) = key.rsplit_once('/').map_or((None, key), |(outer, last)| (Some(outer), last));
    let children = outer.into_iter().flat_map(|outer| outer.split('/')).filter(|part| without_index(part).is_none());
    children.chain([without_index(last).unwrap_or(last)]).collect::<Vec<_>>().join("/")
}

/// The role of `role[2]`; `None` if `part` has no index.
pub(super) fn without_index(part: &str) -> Option<&str> {
    let (role, index) = part.strip_suffix(']')?.rsplit_once('[')?;
    // Each lane has exactly one spelling.
    let is_index = index.parse::<u32>().is_ok_and(|number| number.to_string() == index);
    is_index.then_some(role)
}
