//! Checks a script against the roles that it answers for.

use rondo_protocol::diagnostic::{Code, Diagnostic, nearest};
use rondo_protocol::source::Source;

use super::{Attempt, List, Said, Script, ScriptRole, ScriptRoles, key};

impl Script {
    /// Reports everything that the roles of `roles` could not answer, in file order: lists that answer for nobody, and
    /// structured answers that break a contract. Intentionally broken answers belong in `raw`. `file` is the script's
    /// source.
    pub fn check(&self, file: &Source, roles: &ScriptRoles) -> Vec<Diagnostic> {
        let mut faults = Vec::new();
        for (key, list) in &self.lists {
            let Some(part) = roles.role_of(key).and_then(|role| roles.roles.get(&role)) else {
                faults.push(answers_nobody(file, (key, list), roles));
                continue;
            };
            for attempt in &list.attempts {
                if let Err((code, words)) = part.allows(attempt) {
                    faults.push(file.diagnostic(code, attempt.place, format!("`{key}`: {words}")));
                }
            }
        }
        faults.sort_by_key(|fault| fault.span);
        faults
    }
}

fn answers_nobody(file: &Source, (key, list): (&str, &List), roles: &ScriptRoles) -> Diagnostic {
    let fault = |message: String| file.diagnostic(Code::ScriptRole, list.place, message);
    if let Some(role) = roles.role_anywhere(key) {
        let message = format!("`{key}` answers for nobody: `{role}` never runs in such a lane");
        return fault(message).with_hint(format!("write `{role}`, or the index of a lane in which it runs"));
    }
    let role = key::without_lanes(key);
    let fault = fault(format!("the workflow has no role `{role}` that a script answers for"));
    match nearest(&role, roles.roles.keys().map(String::as_str)) {
        Some(near) => fault.with_hint(format!("write `{near}`")),
        None => fault,
    }
}

impl ScriptRole {
    fn allows(&self, attempt: &Attempt) -> Result<(), (Code, String)> {
        let shape = |words: &str| Err((Code::ScriptShape, words.to_owned()));
        match (self, &attempt.said) {
            (Self::Human(_), Said::Raw(_) | Said::Tools(_) | Said::Error(_)) => {
                shape("a person answers with `status`, `fields` and `body`")
            }
            (Self::Tool, Said::Tools(_)) => shape("a tool answers with `raw` or `fields`"),
            (Self::Tool, Said::Structured { status, body, .. }) if status.is_some() || !body.is_empty() => {
                shape("a tool answers with `raw` or `fields`: its status is `ok`, and its body is its text")
            }
            (Self::Model(_), Said::Raw(_) | Said::Tools(_) | Said::Error(_))
            | (Self::Tool, Said::Structured { .. } | Said::Raw(_) | Said::Error(_)) => Ok(()),
            (Self::Model(contract) | Self::Human(contract), Said::Structured { status, fields, body }) => {
                let answer = |words: String| (Code::ScriptAnswer, words.replace('\n', "; "));
                let status = self.status(status.as_deref());
                contract.check(status, fields).map_err(|fault| answer(fault.words))?;
                // The rendered text must also parse: a field or the whole text may be too long.
                let text = contract.render(status, fields, body);
                contract.parse(&text).map(drop).map_err(|fault| answer(fault.words))
            }
        }
    }
}
