//! Checks a script against the roles that it answers for.

use rondo_protocol::diagnostic::{Code, Diagnostic, nearest};
use rondo_protocol::source::Source;

use super::{Attempt, Said, Script, ScriptRole, ScriptRoles, role_of};

impl Script {
    /// Reports everything that the roles of `roles` could not answer, in file order: lists for unknown roles, and
    /// structured answers that break a contract. Intentionally broken answers belong in `raw`. `file` is the script's
    /// source.
    pub fn check(&self, file: &Source, roles: &ScriptRoles) -> Vec<Diagnostic> {
        let mut faults = Vec::new();
        for (key, list) in &self.lists {
            let role = role_of(key);
            let Some(part) = roles.get(&role) else {
                let message = format!("the workflow has no role `{role}` that a script answers for");
                let fault = file.diagnostic(Code::ScriptRole, list.place, message);
                faults.push(match nearest(&role, roles.keys().map(String::as_str)) {
                    Some(near) => fault.with_hint(format!("write `{near}`")),
                    None => fault,
                });
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
