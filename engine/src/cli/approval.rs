//! Single tool calls are shown to the person at the terminal before they are made.

use futures_util::future::BoxFuture;
use rondo_protocol::call::{Fault, FaultClass, ToolCall};
use rondo_protocol::diagnostic::Code;
use tokio::sync::Mutex;

use super::asks::{Answer, ask};
use crate::grant::Approver;

/// The longest arguments that are shown whole, in characters.
const ARGUMENTS_MAX: usize = 2_000;

/// One question at a time.
static QUESTION: Mutex<()> = Mutex::const_new(());

/// The person at this terminal.
pub struct AtTerminal;

impl Approver for AtTerminal {
    fn approve<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(async move {
            let _one_at_a_time = QUESTION.lock().await;
            let question = question(call);
            let asked = tokio::task::spawn_blocking(move || ask(&question)).await;
            let gone =
                |_| Fault::new(Code::ApprovalMissing, FaultClass::Denied, "there is nobody at the terminal any more");
            Ok(matches!(asked.map_err(gone)?, Answer::Once | Answer::Always))
        })
    }
}

fn question(call: &ToolCall) -> String {
    let mut shown: String = call.arguments.chars().take(ARGUMENTS_MAX).collect();
    if shown.len() < call.arguments.len() {
        shown.push_str(" ...");
    }
    // Control characters could make the terminal show something else than what is asked.
    let shown: String = shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("\n{} wants to call {} with\n  {shown}\nAllow this call? [y/N]: ", call.site.role, call.name)
}
