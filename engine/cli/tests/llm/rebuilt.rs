//! The requests of a thread, put together in the ways in which other engines do it. What is said is the same.

use serde_json::{Value, json};

use crate::share::Role;

/// A way of putting requests together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// As rondo does: what the others are measured beside.
    Same,
    /// All in one message of the user: the system text, what is to be done now, then what was said so far.
    Flattened,
    /// Every earlier answer parsed and written again, always in the same way.
    Rewritten,
    /// Every earlier answer parsed and written again by a map that keeps no order.
    Unordered,
    /// The folder that was made for the call at the end of the system text.
    Path,
}

impl Variant {
    /// Each of them.
    pub const ALL: [Self; 5] = [Self::Same, Self::Flattened, Self::Rewritten, Self::Unordered, Self::Path];

    /// What it is called in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "the same requests, sent again by the test",
            Self::Flattened => "everything in one user message, what to do first",
            Self::Rewritten => "answers parsed and written again, always alike",
            Self::Unordered => "answers parsed and written again, keys in any order",
            Self::Path => "the call's scratch folder at the end of the system text",
        }
    }

    /// The body of the first request of a visit, from 1, as `rondo messages --json` has told it.
    ///
    /// Each variant's system texts begin with its own letter, so that nothing is found that another one left.
    pub fn rebuilt(self, told: &Value, role: Role, visit: usize) -> String {
        let head = &told["head"];
        let letter = match self {
            Self::Same => 'A',
            Self::Flattened => 'B',
            Self::Rewritten => 'C',
            Self::Unordered => 'D',
            Self::Path => 'E',
        };
        let system = format!("{letter}. {}", text(&head["system"]));
        let said: Vec<(&str, &str)> = told["messages"]
            .as_array()
            .expect("a request has messages")
            .iter()
            .map(|message| (text(&message["role"]), said_in(message)))
            .collect();
        if self == Self::Flattened {
            return body(head, &[json!({ "role": "user", "content": flattened(&system, &said) })]);
        }
        let folder = format!("\n\nYour working folder is /tmp/agents/{}-{visit:04}.", role.name());
        let system = if self == Self::Path { system + &folder } else { system };
        let content = |(role, text): &(&str, &str)| match (self, *role) {
            (Self::Rewritten, "assistant") => rewritten(text, 0),
            (Self::Unordered, "assistant") => rewritten(text, visit),
            _ => (*text).to_owned(),
        };
        let first = json!({ "role": "system", "content": system });
        let rest = said.iter().map(|said| json!({ "role": said.0, "content": content(said) }));
        let messages: Vec<Value> = std::iter::once(first).chain(rest).collect();
        body(head, &messages)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// The text of a message. The roles have no tools, so a message is one text.
fn said_in(message: &Value) -> &str {
    match message["parts"].as_array().map(Vec::as_slice) {
        Some([part]) => text(&part["text"]),
        _ => panic!("a message of one text: {message}"),
    }
}

/// The body, with the schema as it was sent: the order of its keys is that of the answer's.
fn body(head: &Value, messages: &[Value]) -> String {
    let mut fields = vec![
        format!("\"model\":{}", head["model"]),
        format!("\"messages\":{}", Value::from(messages.to_vec())),
        format!(
            "\"response_format\":{{\"type\":\"json_schema\",\"json_schema\":{{\"name\":\"answer\",\"strict\":true,\
             \"schema\":{}}}}}",
            text(&head["response_format"])
        ),
    ];
    for (name, value) in head["parameters"].as_object().expect("a head has parameters") {
        let name = if name == "max_output_tokens" { "max_completion_tokens" } else { name };
        fields.push(format!("\"{name}\":{value}"));
    }
    format!("{{{}}}", fields.join(","))
}

fn flattened(system: &str, said: &[(&str, &str)]) -> String {
    let (now, before) = said.split_last().expect("a request has a message");
    let before: Vec<String> = before.iter().map(|(role, text)| format!("{role}: {text}")).collect();
    format!("{system}\n\nWhat to do now:\n{}\n\nWhat was said before:\n{}", now.1, before.join("\n"))
}

/// An answer with its keys in another order, `turn` places on.
fn rewritten(answer: &str, turn: usize) -> String {
    let Ok(Value::Object(members)) = serde_json::from_str(answer) else { return answer.to_owned() };
    let mut members: Vec<String> = members.iter().map(|(name, value)| format!("{name:?}: {value}")).collect();
    let turn = turn.checked_rem(members.len()).unwrap_or(0);
    members.rotate_left(turn);
    format!("{{{}}}", members.join(", "))
}
