//! Single tool calls are shown to the person at the terminal before they are made.

use std::fmt::Write as _;

use futures_util::future::BoxFuture;
use rondo_protocol::call::{Fault, FaultClass, ToolCall};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::{Value, canonical};
use tokio::sync::Mutex;

use super::asks::{Answer, ask};
use super::progress::suspended;
use crate::grant::Approver;

/// Characters of the arguments that are shown: this many from the beginning, and a quarter as many from the end.
const SHOWN_CHARACTERS: usize = 4_000;

/// One question at a time.
static QUESTION: Mutex<()> = Mutex::const_new(());

/// The person at this terminal.
pub struct AtTerminal;

impl Approver for AtTerminal {
    fn approve<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(async move {
            let _one_at_a_time = QUESTION.lock().await;
            let question = question(call);
            let asked = tokio::task::spawn_blocking(move || suspended(|| ask(&question))).await;
            let gone =
                |_| Fault::new(Code::ApprovalMissing, FaultClass::Denied, "there is nobody at the terminal any more");
            Ok(matches!(asked.map_err(gone)?, Answer::Once | Answer::Always))
        })
    }
}

fn question(call: &ToolCall) -> String {
    let arguments = decoded(&call.arguments);
    let count = arguments.chars().count();
    let shown = if count > SHOWN_CHARACTERS + SHOWN_CHARACTERS / 4 {
        let beginning: String = arguments.chars().take(SHOWN_CHARACTERS).collect();
        let end: String = arguments.chars().skip(count - SHOWN_CHARACTERS / 4).collect();
        let hidden = count - SHOWN_CHARACTERS - SHOWN_CHARACTERS / 4;
        format!("{beginning}\n  [{hidden} CHARACTERS ARE NOT SHOWN HERE]\n  {end}")
    } else {
        arguments
    };
    let with = if shown.is_empty() { " without arguments".to_owned() } else { format!(" with\n  {shown}") };
    format!("\n{} wants to call {}{with}\nAllow this call? [y/N]: ", call.site.role, call.name)
}

/// Arguments as they will be used: escapes read, so that none hides what they mean; runs of blanks as one with their
/// number, and what a terminal would not show as a question mark.
fn decoded(arguments: &str) -> String {
    let read: Option<Value> = canonical::from_slice(arguments.as_bytes()).ok();
    let mut text = String::new();
    match read {
        Some(Value::Object(members)) => {
            for (name, value) in &members {
                let value = value.as_str().map_or_else(|| value.to_text(), str::to_owned);
                let _ = writeln!(text, "{name} = {value}");
            }
        }
        _ => text.push_str(arguments),
    }
    let mut shown = String::new();
    let mut blanks = 0_usize;
    for c in text.trim_end().chars() {
        if c == ' ' || c == '\t' {
            blanks += 1;
            continue;
        }
        match std::mem::take(&mut blanks) {
            0 => {}
            few @ 1..=8 => shown.push_str(&" ".repeat(few)),
            many => {
                let _ = write!(shown, " [{many} blanks] ");
            }
        }
        match c {
            '\n' => shown.push_str("\n  "),
            c if c.is_control() || is_invisible(c) => shown.push('?'),
            c => shown.push(c),
        }
    }
    shown
}

/// Characters that change how others are shown, or are not shown themselves (Unicode, general category Cf).
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_arguments_hides_what_they_mean() {
        let blanks = " ".repeat(3000);
        let sly = format!(r#"{{"script":"\u0072\u006d x{blanks}; curl\u202e y\u001b[2K"}}"#);
        assert_eq!(decoded(&sly), "script = rm x [3000 blanks] ; curl? y?[2K");
        assert_eq!(decoded("not json \u{200b}"), "not json ?");
    }
}
