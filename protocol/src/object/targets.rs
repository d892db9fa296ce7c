//! How a note stores the targets of an edge: neighbouring lanes of one fan-out share an entry, so that the size does
//! not grow with the number of lanes.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::id::{LanePath, MAX_LANES, RoleName};

use super::Target;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    role: RoleName,
    /// The first lane.
    lane: LanePath,
    /// The number of lanes, with consecutive indices.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    count: u32,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

impl Run {
    fn of(target: &Target) -> Self {
        Self { role: target.role.clone(), lane: target.lane.clone(), count: 1 }
    }

    /// The lane at offset `after` from the first one.
    fn lane(&self, after: u32) -> Option<LanePath> {
        if after == 0 {
            return Some(self.lane.clone());
        }
        let index = self.lane.last_index()?.checked_add(after)?;
        let (role, _) = self.lane.parts().last()?;
        Some(self.lane.parent()?.child(&RoleName::new(role).ok()?, index))
    }
}

pub fn serialize<S: Serializer>(targets: &[Target], serializer: S) -> Result<S::Ok, S::Error> {
    let mut runs: Vec<Run> = Vec::new();
    for target in targets {
        match runs.last_mut() {
            Some(run) if run.role == target.role && run.lane(run.count).as_ref() == Some(&target.lane) => {
                run.count += 1;
            }
            _ => runs.push(Run::of(target)),
        }
    }
    runs.serialize(serializer)
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Target>, D::Error> {
    let mut targets = Vec::new();
    for run in Vec::<Run>::deserialize(deserializer)? {
        if targets.len() + run.count as usize > MAX_LANES {
            return Err(de::Error::custom("an edge leads to more lanes than a fan-out can have"));
        }
        for after in 0..run.count {
            let lane = run.lane(after).ok_or_else(|| de::Error::custom("lanes of an edge have no index"))?;
            targets.push(Target { role: run.role.clone(), lane });
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::super::Followed;
    use super::*;

    fn edge(targets: &[(&str, &str)]) -> Followed {
        let target = |(role, lane): &(&str, &str)| Target {
            role: RoleName::new(role).unwrap(),
            lane: LanePath::new(lane).unwrap(),
        };
        Followed::Edge { to: targets.iter().map(target).collect() }
    }

    fn text(followed: &Followed) -> String {
        String::from_utf8(crate::canonical::to_bytes(followed).unwrap()).unwrap()
    }

    #[test]
    fn neighbouring_lanes_are_one_entry() {
        for (followed, kept) in [
            (edge(&[]), r#"{"edge":{"to":[]}}"#),
            (edge(&[("a", "")]), r#"{"edge":{"to":[{"lane":"","role":"a"}]}}"#),
            (
                edge(&[("a", "b[1]/a[3]"), ("a", "b[1]/a[4]"), ("a", "b[1]/a[5]")]),
                r#"{"edge":{"to":[{"count":3,"lane":"b[1]/a[3]","role":"a"}]}}"#,
            ),
            (
                edge(&[("a", "a[0]"), ("b", "b[1]"), ("b", "b[3]"), ("b", "b[2]")]),
                r#"{"edge":{"to":[{"lane":"a[0]","role":"a"},{"lane":"b[1]","role":"b"},{"lane":"b[3]","role":"b"},{"lane":"b[2]","role":"b"}]}}"#,
            ),
        ] {
            assert_eq!(text(&followed), kept);
            assert_eq!(crate::canonical::from_slice::<Followed>(kept.as_bytes()), Ok(followed));
        }
    }

    #[test]
    fn what_no_fan_out_can_have_is_refused() {
        for kept in [
            r#"{"edge":{"to":[{"count":10001,"lane":"a[0]","role":"a"}]}}"#,
            r#"{"edge":{"to":[{"count":2,"lane":"","role":"a"}]}}"#,
            r#"{"edge":{"to":[{"count":2,"lane":"a[4294967295]","role":"a"}]}}"#,
        ] {
            assert!(crate::canonical::from_slice::<Followed>(kept.as_bytes()).is_err(), "{kept}");
        }
    }
}
