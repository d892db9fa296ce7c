//! Shows single tool calls to the person at the terminal for approval.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError};

use futures_util::future::BoxFuture;
use rondo_protocol::call::{Effect, Fault, FaultClass, ToolCall};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::RoleName;
use rondo_protocol::text::{is_invisible, is_steering};
use rondo_protocol::{Value, canonical};
use tokio::sync::Mutex;

use super::consent::Answer;
use super::person::{answer_to, ask};
use super::progress::suspended;
use super::run_config::Approvers;
use crate::grant::Approver;

/// How many characters of the arguments are shown: this many from the beginning, and a quarter as many from the end.
const SHOWN_CHARACTERS: usize = 4_000;

/// One question at a time.
static QUESTION: Mutex<()> = Mutex::const_new(());

/// Tools that a person allowed for the rest of the run, by role.
type Allowed = Arc<std::sync::Mutex<BTreeSet<(RoleName, String)>>>;

/// Creates approvers that ask at the terminal, if a person is there.
pub fn approvers(is_attended: bool) -> Option<Approvers> {
    is_attended.then(|| Arc::new(|| Arc::new(AtTerminal::default()) as Arc<dyn Approver>) as Approvers)
}

/// The person at this terminal.
#[derive(Default)]
pub struct AtTerminal {
    allowed: Allowed,
}

impl Approver for AtTerminal {
    fn approve<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(async move {
            let _one_at_a_time = QUESTION.lock().await;
            let of_tool = (call.site.role.clone(), call.name.clone());
            if self.allowed.lock().unwrap_or_else(PoisonError::into_inner).contains(&of_tool) {
                return Ok(true);
            }
            let (question, word) = (question(call), word(call));
            let asked = tokio::task::spawn_blocking(move || {
                suspended(|| match word {
                    Some(word) => typed(&answer_to(&question), &word),
                    None => ask(&question),
                })
            });
            let gone =
                |_| Fault::new(Code::ApprovalMissing, FaultClass::Denied, "there is nobody at the terminal any more");
            let answer = asked.await.map_err(gone)?;
            if answer == Answer::Always {
                self.allowed.lock().unwrap_or_else(PoisonError::into_inner).insert(of_tool);
            }
            Ok(matches!(answer, Answer::Once | Answer::Always))
        })
    }
}

/// The word that a person must type to allow a dangerous call, so that nobody allows it by habit; `None` if yes or no
/// is enough.
fn word(call: &ToolCall) -> Option<String> {
    if call.effect != Effect::External {
        return None;
    }
    let arguments: Option<Value> = canonical::from_slice(call.arguments.as_bytes()).ok();
    let of = |name: &str| arguments.as_ref().and_then(|arguments| arguments.get(name));
    let program = match of("argv") {
        Some(Value::List(argv)) => argv.first().and_then(Value::as_str),
        _ => of("script").and_then(Value::as_str).and_then(|script| script.split_whitespace().next()),
    };
    let can_be_typed = |word: &&str| !word.is_empty() && word.len() <= 40 && word.chars().all(|c| c.is_ascii_graphic());
    let program = program.filter(can_be_typed);
    Some(program.unwrap_or(&call.name).to_owned())
}

fn typed(line: &str, word: &str) -> Answer {
    match line {
        line if line == word => Answer::Once,
        line if line.split_once(' ') == Some(("always", word)) => Answer::Always,
        _ => Answer::No,
    }
}

fn question(call: &ToolCall) -> String {
    let arguments = decoded(&call.arguments);
    let count = arguments.chars().count();
    let shown = if count > SHOWN_CHARACTERS + SHOWN_CHARACTERS / 4 {
        let beginning: String = arguments.chars().take(SHOWN_CHARACTERS).collect();
        let end: String = arguments.chars().skip(count - SHOWN_CHARACTERS / 4).collect();
        let hidden = count - SHOWN_CHARACTERS - SHOWN_CHARACTERS / 4;
        format!("{beginning}\n    [{hidden} CHARACTERS ARE NOT SHOWN HERE]\n    {end}")
    } else {
        arguments
    };
    let with = if shown.is_empty() { " without arguments".to_owned() } else { format!(" with\n    {shown}") };
    let (role, tool) = (&call.site.role, &call.name);
    let how = match word(call) {
        Some(word) => format!(
            "Type {word} to allow this call, always {word} to allow every call of {tool} by {role} in this run: "
        ),
        None => format!("Allow it? [y] this call, [a] every call of {tool} by {role} in this run, [N] no: "),
    };
    format!("\n{role} wants to call {tool}{with}\n{how}")
}

/// Arguments as they will be used: escapes are decoded, so that they cannot hide anything; a run of blanks becomes one
/// blank with its count, and invisible characters a question mark. Each line is indented, so that none looks like
/// rondo's own.
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
        if c.is_whitespace() && c != '\n' && !is_invisible(c) && !is_steering(c) {
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
            '\n' => shown.push_str("\n    "),
            c if is_steering(c) || is_invisible(c) => shown.push('?'),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use rondo_protocol::call::Site;
    use rondo_protocol::id::{LanePath, ThreadId};

    use super::*;

    fn call(name: &str, effect: Effect, arguments: &str) -> ToolCall {
        let role = RoleName::new("dev").unwrap();
        let site = Site { thread: ThreadId::from_parts(1, 1), role, lane: LanePath::trunk(), visit: 1, position: 0 };
        let (id, idempotency_key) = (String::new(), String::new());
        ToolCall { site, id, name: name.to_owned(), arguments: arguments.to_owned(), effect, idempotency_key }
    }

    #[test]
    fn nothing_in_arguments_hides_what_they_mean() {
        let blanks = " ".repeat(3000);
        let sly = format!(r#"{{"script":"\u0072\u006d x{blanks}; curl\u202e y\u001b[2K"}}"#);
        assert_eq!(decoded(&sly), "script = rm x [3000 blanks] ; curl? y?[2K");
        assert_eq!(decoded("not json \u{200b}"), "not json ?");
        assert_eq!(decoded("{\"a\":\"x\\nAllow it? [y]\"}"), "a = x\n    Allow it? [y]");
    }

    #[test]
    fn a_dangerous_call_is_allowed_by_a_word_of_it_and_by_nothing_else() {
        let remove = call("shell", Effect::External, r#"{"script":"rm -r x"}"#);
        assert_eq!(word(&remove).as_deref(), Some("rm"));
        assert_eq!(word(&call("shell", Effect::External, r#"{"argv":["git","push"]}"#)).as_deref(), Some("git"));
        assert_eq!(word(&call("docs.send", Effect::External, r#"{"to":"x"}"#)).as_deref(), Some("docs.send"));
        assert_eq!(word(&call("shell", Effect::External, r#"{"script":"\u202erm x"}"#)).as_deref(), Some("shell"));
        assert_eq!(word(&call("write_file", Effect::Writes(Vec::new()), "{}")), None);
        for (line, answer) in [
            ("rm", Answer::Once),
            ("always rm", Answer::Always),
            ("y", Answer::No),
            ("a", Answer::No),
            ("", Answer::No),
        ] {
            assert_eq!(typed(line, "rm"), answer, "{line:?}");
        }
        assert!(
            question(&remove).contains("Type rm to allow this call, always rm to allow every call of shell by dev")
        );
    }
}
