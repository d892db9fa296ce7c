//! Shows single tool calls to the person at the terminal for approval.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rondo::core::grant::Approver;
use rondo::core::shown_call::ShownCall;
use rondo::protocol::call::{Fault, FaultClass, ToolCall};
use rondo::protocol::diagnostic::Code;
use rondo::protocol::id::RoleName;
use tokio::sync::Mutex;

use super::consent::Answer;
use super::person::{answer_to, ask};
use super::progress::suspended;
use super::run_config::Approvers;

static QUESTION: Mutex<()> = Mutex::const_new(());

pub fn approvers(is_attended: bool) -> Option<Approvers> {
    is_attended.then(|| Arc::new(|| Arc::new(AtTerminal::default()) as Arc<dyn Approver>) as Approvers)
}

#[derive(Default)]
pub struct AtTerminal {
    /// Tools that a person allowed for the rest of the run, by role.
    allowed: parking_lot::Mutex<BTreeSet<(RoleName, String)>>,
}

impl Approver for AtTerminal {
    fn approve<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(async move {
            let _one_at_a_time = QUESTION.lock().await;
            let of_tool = (call.site.role.clone(), call.name.clone());
            if self.allowed.lock().contains(&of_tool) {
                return Ok(true);
            }
            let shown = ShownCall::new(call);
            let (question, word) = (question(&call.site.role, &shown), shown.word);
            let asked = tokio::task::spawn_blocking(move || {
                suspended(|| match word {
                    Some(word) => typed(&answer_to(&question), &word),
                    None => ask(&question),
                })
            });
            let gone = |_| Fault::new(Code::ApprovalMissing, FaultClass::Denied, "the terminal was closed");
            let answer = asked.await.map_err(gone)?;
            if answer == Answer::Always {
                self.allowed.lock().insert(of_tool);
            }
            Ok(matches!(answer, Answer::Once | Answer::Always))
        })
    }
}

/// What a line says to a question that wants `word` typed; `always WORD` allows every call of that tool.
fn typed(line: &str, word: &str) -> Answer {
    match line {
        line if line == word => Answer::Once,
        line if line.split_once(' ') == Some(("always", word)) => Answer::Always,
        _ => Answer::No,
    }
}

fn question(role: &RoleName, call: &ShownCall) -> String {
    let ShownCall { tool, word, .. } = call;
    let how = match word {
        Some(word) => format!(
            "Type {word} to allow this call, always {word} to allow every call of {tool} by {role} in this run: "
        ),
        None => format!("Allow it? [y] this call, [a] every call of {tool} by {role} in this run, [N] no: "),
    };
    format!("\n{}\n{how}", asked(role.as_str(), call))
}

/// The call that `who` wants to make. Each line of its arguments is indented, so that none looks like rondo's own.
pub(super) fn asked(who: &str, call: &ShownCall) -> String {
    if call.arguments.is_empty() {
        return format!("{who} wants to call {} without arguments", call.tool);
    }
    format!("{who} wants to call {} with\n    {}", call.tool, call.arguments.replace('\n', "\n    "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dangerous_call_is_allowed_by_its_word_and_by_nothing_else() {
        for (line, answer) in [
            ("rm", Answer::Once),
            ("always rm", Answer::Always),
            ("y", Answer::No),
            ("a", Answer::No),
            ("", Answer::No),
        ] {
            assert_eq!(typed(line, "rm"), answer, "{line:?}");
        }
        let (tool, arguments, word) = ("shell".to_owned(), "script = rm\n  | x".to_owned(), Some("rm".to_owned()));
        let question = question(&RoleName::new("dev").unwrap(), &ShownCall { tool, arguments, word });
        assert_eq!(
            question,
            "\ndev wants to call shell with\n    script = rm\n      | x\nType rm to allow this call, always rm to allow \
             every call of shell by dev in this run: "
        );
    }
}
