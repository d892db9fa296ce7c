//! Layout 1: the fixed texts around what authors and models wrote. `engine/docs/layout-1.md` documents them, and golden
//! tests pin them: any changed byte would invalidate every prefix that a provider caches.

use std::borrow::Borrow;

use rondo_protocol::workflow::{Context, ContextWhat};

use super::Episode;
use super::escape::{escaped, until, within};

/// Replaces an empty prompt when nothing happened since the last visit.
pub const EMPTY_LINE: &str = "Go on.";

/// Replaces the answer of an earlier visit that has none.
pub const NO_ANSWER: &str = "(no answer)";

pub(super) const BEFORE_FIRST: &str = "What happened before:";
pub(super) const SINCE_LAST: &str = "What happened since your last answer:";
/// Precedes the text that stands for the visits before a compaction.
pub(super) const IN_SHORT: &str = "What happened so far, in short:";
/// Answers the message that opens an epoch after a compaction: speakers alternate, as some models require.
pub(super) const CONTINUED: &str = "(continued)";
pub const COMPACT_PROMPT: &str = "Summarise the conversation above for the one who answered in it and goes on without \
these messages. Keep the task, what was decided and why, names, figures, quotations that matter, and all that is open. \
Leave out what was settled and is not needed again.";

pub(super) const ENTRY: &str = "<step role=\"";

/// Replaces the oldest steps of a summary that does not hold them all.
pub const LEFT_OUT: &str = "[earlier steps are left out]";

/// Marks where the text of a step is cut.
pub const CUT: &str = "[cut]";

/// The system text of a role: the author's text, then the output contract.
pub fn system_text(role: &str, contract: &str) -> String {
    let role = role.trim_end_matches('\n');
    match (role.is_empty(), contract.is_empty()) {
        (_, true) => role.to_owned(),
        (true, false) => contract.to_owned(),
        (false, false) => format!("{role}\n\n{contract}"),
    }
}

/// The choices of a selector, which stand between its text and its contract: each status with where it leads.
pub fn choices_text(choices: &[(&str, &str)]) -> String {
    let lines = choices.iter().map(|(status, to)| format!("\n- `{status}`: {to}"));
    format!("Your status decides who is next:\n{}", lines.collect::<String>())
}

/// The maximum bytes of a tool's result that a model sees; longer results are cut and marked.
pub const SHOWN_MAX_BYTES: usize = 32 << 10;

const NO_OUTPUT: &str = "(no output)";

/// The text of the message that answers a tool call.
pub fn result_text(result: &str) -> String {
    if result.is_empty() {
        return NO_OUTPUT.to_owned();
    }
    let mut text = result.to_owned();
    crate::cut::cut(&mut text, SHOWN_MAX_BYTES);
    text
}

/// The text of the message that opens a visit.
pub(super) fn user_text(prompt: &str, summary: &str) -> String {
    let prompt = escaped(prompt);
    match (prompt.is_empty(), summary.is_empty()) {
        (true, true) => EMPTY_LINE.to_owned(),
        (false, true) => prompt.into_owned(),
        (true, false) => summary.to_owned(),
        (false, false) => format!("{}\n\n{summary}", prompt.trim_end_matches('\n')),
    }
}

pub(super) fn epoch_text(first_prompt: &str, summary: &str) -> String {
    let (prompt, summary) = (escaped(first_prompt), escaped(summary));
    let summary = format!("{IN_SHORT}\n\n{}", summary.trim_end_matches('\n'));
    if prompt.is_empty() { summary } else { format!("{}\n\n{summary}", prompt.trim_end_matches('\n')) }
}

/// Summarizes what happened since a role's last visit (or `before_first`) from the steps that are news to it, **newest
/// first** in causal order. They stand oldest first; when they do not all fit the size limit, the newest stay. Takes
/// only as many as fit, so that a long wait costs no more than a short one.
pub fn summary(
    context: &Context,
    before_first: bool,
    newest_first: impl Iterator<Item = impl Borrow<Episode>>,
) -> String {
    if context.what == ContextWhat::None {
        return String::new();
    }
    let ceiling = usize::try_from(context.max_bytes).unwrap_or(usize::MAX);
    let mut entries: Vec<String> = Vec::new();
    let mut used = 0_usize;
    let mut left_out = false;
    for episode in newest_first {
        let episode = episode.borrow();
        if !super::tells_of(context, &episode.role) {
            continue;
        }
        let entry = entry(episode, context.what, ceiling);
        if !entries.is_empty() && used.saturating_add(entry.len()) > ceiling {
            left_out = true;
            break;
        }
        used = used.saturating_add(entry.len());
        entries.push(entry);
    }
    if entries.is_empty() {
        return String::new();
    }
    let mut text = String::with_capacity(used + 80);
    text.push_str(if before_first { BEFORE_FIRST } else { SINCE_LAST });
    text.push_str("\n\n");
    if left_out {
        text.push_str(LEFT_OUT);
        text.push('\n');
    }
    for entry in entries.iter().rev() {
        text.push_str(entry);
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// One step: `<step role=".." status="..">`, its fields as canonical JSON if it has any, its body if wanted.
fn entry(episode: &Episode, what: ContextWhat, ceiling: usize) -> String {
    let mut content = String::new();
    if !matches!(&episode.output, rondo_protocol::Value::Object(fields) if fields.is_empty()) {
        content.push_str(&episode.output.to_text());
        content.push('\n');
    }
    if what == ContextWhat::Bodies && !episode.body.is_empty() {
        // One character more than fits, so that `cut` notices that the body is longer.
        content.push_str(until(&episode.body, ceiling.saturating_add(4)));
        if !content.ends_with('\n') {
            content.push('\n');
        }
    }
    let (said, is_cut) = within(&content, ceiling);
    let mut content = said.into_owned();
    if is_cut {
        content.push('\n');
        content.push_str(CUT);
        content.push('\n');
    }
    let (role, status) = (&episode.role, &episode.status);
    if content.is_empty() {
        format!("{ENTRY}{role}\" status=\"{status}\"/>\n")
    } else {
        format!("{ENTRY}{role}\" status=\"{status}\">\n{content}</step>\n")
    }
}
