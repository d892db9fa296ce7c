//! Whether a tool says what it said: if it does not, what it declares of its effect is wrong.

use rondo_agent_kit::bound::beginning;
use rondo_protocol::call::{ToolCall, ToolReply};

use super::entry::ToolResult;

const EXCERPT_MAX_BYTES: usize = 200;

/// How a reply differs from what would have been answered in its place, in words for a person.
pub fn difference(call: &ToolCall, kept: &ToolResult, reply: &ToolReply) -> Option<String> {
    if !reply.failed && reply.text == kept.text {
        return None;
    }
    let (tool, effect) = (&call.name, call.effect.name());
    let declared = format!(
        "{tool} is declared with the effect {effect}, and a call with equal arguments, while all that it had seen stood \
         as it did,"
    );
    if reply.failed {
        return Some(format!("{declared} failed: {}", excerpt(reply.text.lines().next())));
    }
    let (mut before, mut now) = (kept.text.split('\n'), reply.text.split('\n'));
    let mut number: usize = 1;
    loop {
        // The texts differ, so that one of them ends or differs at some line.
        match (before.next(), now.next()) {
            (Some(before), Some(now)) if before == now => number += 1,
            (before, now) => {
                let (before, now) = (excerpt(before), excerpt(now));
                return Some(format!("{declared} said something else: line {number} was {before} and is {now}"));
            }
        }
    }
}

fn excerpt(line: Option<&str>) -> String {
    let Some(line) = line else { return "not there".to_owned() };
    let shown = beginning(line, EXCERPT_MAX_BYTES);
    let mark = if shown.len() < line.len() { " ..." } else { "" };
    format!("{shown:?}{mark}")
}
