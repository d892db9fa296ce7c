//! How a thread that stopped continues: what to change first, and what to do then.

use std::sync::Arc;

use rondo_protocol::Value;
use rondo_protocol::call::{Fault, FaultClass, ReachedLimit};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::id::ThreadId;
use rondo_workflows::shipped;
use serde::Serialize;

use super::limits::number;
use crate::grant::Ceilings;
use crate::graph::Graph;
use crate::store::if_damaged;
use crate::thread::Origin;

/// All that a hint depends on, of one thread.
pub(super) struct ResumeHint {
    pub(super) thread: ThreadId,
    /// The thread at the top, whose run this thread belongs to.
    pub(super) root: ThreadId,
    pub(super) origin: Origin,
    pub(super) graph: Arc<Graph>,
    pub(super) ceilings: Ceilings,
}

impl ResumeHint {
    /// The fault with its hint. A fault of a child keeps the hint that it has, which names the child.
    pub(super) fn with_hint(&self, mut fault: Fault) -> Fault {
        if fault.hint.is_none() {
            fault.hint = Some(self.hint(&fault));
        }
        fault
    }

    fn hint(&self, fault: &Fault) -> Hint {
        match (&fault.limit, fault.class) {
            (Some(limit), _) => self.of_limit(limit),
            (None, FaultClass::Limit) => self.in_file(&[]),
            _ if fault.code == Code::RenderFailed => self.in_file(&[]),
            _ if fault.code == Code::StoreDamaged => if_damaged(),
            _ if fault.code == Code::StoreFull => self.resumed("make room on that disk, then "),
            _ if fault.code == Code::StoreUnusable => self.resumed("make room there or make it writable, then "),
            (None, FaultClass::ScriptEnd) => self.of_answers(),
            (None, FaultClass::Refused | FaultClass::Denied) => self.resumed("mend that, then "),
            _ => self.resumed(""),
        }
    }

    /// The thread continues after what these words say.
    fn resumed(&self, first: &str) -> Hint {
        goes_on(first, Operation::on(Verb::Resume, &self.root))
    }

    /// A limit is the lowest of the role's own, the thread's and the operator's; each that is too low is named.
    fn of_limit(&self, limit: &ReachedLimit) -> Hint {
        let ReachedLimit { key, role, is_of_thread, needed } = limit;
        let policy = self.graph.policy();
        let own = role.as_ref().and_then(|role| Some((role, &policy.roles.get(role.as_str())?.limits)));
        let own = own.filter(|(_, own)| of_key(own, key).is_some_and(|most| most < *needed));
        let of_thread = of_key(&policy.limits, key).filter(|most| *is_of_thread && most < needed);
        let of_operator = of_key(&self.ceilings, key).filter(|most| *is_of_thread && most < needed);
        let mend = if let Some((role, _)) = own {
            let mut keys = vec![format!("`roles.{role}.limits.{key}`")];
            keys.extend(of_thread.map(|_| format!("`limits.{key}`")));
            self.in_file(&keys)
        } else {
            match of_thread.map(|most| enough(key, most, *needed)) {
                None => self.resumed(""),
                // That of a child takes the threads above it along.
                Some(value) => {
                    goes_on("", Operation::on(Verb::Resume, &self.thread).with("limit", format!("{key}={value}")))
                }
            }
        };
        match of_operator {
            Some(_) => Hint::from(format!("raise `{key}` of `[limits]` in the settings ("))
                .operation(Operation::new(Verb::Doctor))
                .words(" names the file), then ")
                .then(mend),
            None => mend,
        }
    }

    /// What to do about a part of the workflow's file: raise these keys, or mend it where the message says.
    fn in_file(&self, keys: &[String]) -> Hint {
        let what = |place: &str| match keys {
            [] => format!("mend {place}"),
            keys => format!("raise {} in {place}", keys.join(" and ")),
        };
        let is_child = self.thread != self.root;
        let (before, file) = match self.origin.file.as_deref() {
            None => (Hint::default(), "FILE".to_owned()),
            Some(file) if shipped::is_one(file) => {
                let name = file.trim_start_matches(shipped::SCHEME).trim_end_matches("/workflow.yaml");
                let copied = Operation::new(Verb::Init).named(name).with("from", name);
                let before = Hint::from("copy the workflow with ").operation(copied).words(", ");
                (before, format!("{name}/workflow.yaml"))
            }
            Some(file) => (Hint::default(), file.to_owned()),
        };
        let place = match (file.as_str(), is_child) {
            ("FILE", false) => "the workflow's file".to_owned(),
            ("FILE", true) => "the child's file".to_owned(),
            (file, false) => file.to_owned(),
            (file, true) => format!("the child workflow of {file}"),
        };
        let first = format!("{}, then ", what(&place));
        before.then(goes_on(&first, Operation::on(Verb::Fork, &self.root).with("with", file)))
    }

    /// What to do when what answers in place of models has no answer left.
    fn of_answers(&self) -> Hint {
        let Origin { script, recorded, .. } = &self.origin;
        let resume = |key: &str| Operation::on(Verb::Resume, &self.root).with(key, "FILE");
        match (script.as_deref(), recorded) {
            (None, Some(_)) => Hint::from(resume("recorded")).words(" continues with a recording that has it"),
            (Some(file), _) if file != "-" && !shipped::is_one(file) => {
                self.resumed(&format!("add the answer to {file}, then "))
            }
            _ => Hint::from(resume("script")).words(" continues with a longer script"),
        }
    }
}

fn goes_on(first: &str, operation: Operation) -> Hint {
    Hint::from(first).operation(operation).words(" continues")
}

/// What limits say of a key, in its unit; milliseconds for a time.
fn of_key(limits: &impl Serialize, key: &str) -> Option<f64> {
    let name = if key == "wall_time" { "wall_time_ms" } else { key };
    match Value::from_serialize(limits).ok()?.get(name)? {
        Value::Null => None,
        value => Some(number(value)),
    }
}

/// A value of a limit with which the work continues for a while: twice the old one, or what is needed if that is more.
/// As the command line takes it.
fn enough(key: &str, most: f64, needed: f64) -> String {
    let value = (most * 2.0).max(needed);
    match key {
        "cost_usd" if value < 0.01 => value.to_string(),
        "cost_usd" => format!("{:.2}", (value * 100.0).ceil() / 100.0),
        "wall_time" => match (value / 1000.0).ceil() {
            seconds if seconds <= 120.0 => format!("{seconds}s"),
            seconds if seconds <= 2.0 * 3600.0 => format!("{}m", (seconds / 60.0).ceil()),
            seconds => format!("{}h", (seconds / 3600.0).ceil()),
        },
        _ => value.ceil().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_is_enough_and_round() {
        let all = [
            ("steps", 3.0, 4.0, "6"),
            ("tokens", 100.0, 5_500.0, "5500"),
            ("cost_usd", 0.5, 0.51, "1.00"),
            ("cost_usd", 0.0004, 0.0005, "0.0008"),
            ("wall_time", 250.0, 251.0, "1s"),
            ("wall_time", 600_000.0, 600_001.0, "20m"),
            ("wall_time", 7_200_000.0, 7_200_001.0, "4h"),
        ];
        for (key, most, needed, offered) in all {
            assert_eq!(enough(key, most, needed), offered, "{key}={most}");
        }
    }
}
