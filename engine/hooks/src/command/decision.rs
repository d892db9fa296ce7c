//! What a program decides: one JSON object, version 1, and what becomes of a call by it.
//!
//! Law: every output is a decision or words on why it is none. A member that does not belong to a decision is a fault,
//! so that a misspelt one does not let a call through.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_agent_kit::answer::Contract;
use rondo_agent_kit::tool;
use rondo_protocol::call::{Call, ModelAnswer, Reply, ToolReply, TurnReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::message::{Conversation, Message};
use rondo_protocol::object::{Head, ModelReply};
use rondo_protocol::{Digest, Value, canonical};

const REASON_MAX_BYTES: usize = 4 << 10;

/// How many characters of a word are shown.
const SHOWN_WORD: usize = 60;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision {
    Continue,
    Answer { text: String, failed: bool },
    Rewrite(Changes),
    Deny { reason: String },
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Changes {
    system: Option<String>,
    messages: Option<Vec<Message>>,
    arguments: Option<Value>,
}

#[derive(Debug)]
pub(super) enum HookDecision {
    Through(Call),
    Rewritten(Call),
    Answered(Reply),
    /// Of a model call or a turn, which has no reply that says so.
    Denied(String),
    /// Of a tool call: the text for the model.
    DeniedTool(Reply),
}

impl Decision {
    /// Reads what a program that ended well has put out. Nothing means that the call continues.
    pub(super) fn read(stdout: &[u8]) -> Result<Self, String> {
        if stdout.trim_ascii().is_empty() {
            return Ok(Self::Continue);
        }
        let value = canonical::parse(stdout).map_err(|error| format!("its stdout is not one JSON object: {error}"))?;
        let mut given = Members::of(value, "its stdout")?;
        let word = given.text("decision")?;
        let decision = match word.as_str() {
            "continue" => Self::Continue,
            "answer" => {
                let (text, failed) = (given.text("text")?, given.take("failed"));
                let failed = match failed {
                    None => false,
                    Some(Value::Bool(failed)) => failed,
                    Some(_) => return Err("`failed` must be true or false".to_owned()),
                };
                Self::Answer { text, failed }
            }
            "rewrite" => {
                let call = given.take("call").ok_or("`rewrite` needs `call`, the members to change")?;
                Self::Rewrite(Changes::read(call)?)
            }
            "deny" => Self::denied(&given.text("reason")?),
            other => {
                let other = excerpt(other);
                return Err(format!("there is no decision {other:?}; there are continue, answer, rewrite and deny"));
            }
        };
        given.end()?;
        Ok(decision)
    }

    /// The denial of a call for that reason, as far as it can be told.
    pub(super) fn denied(reason: &str) -> Self {
        let mut reason = reason.trim().to_owned();
        if reason.is_empty() {
            "no reason is given".clone_into(&mut reason);
        }
        tool::cut(&mut reason, REASON_MAX_BYTES);
        Self::Deny { reason }
    }

    /// Applies the decision to a call.
    ///
    /// # Errors
    /// Why it does not fit the call. `contract` is that of the role's answers.
    pub(super) fn apply(self, call: Call, contract: Option<&Contract>) -> Result<HookDecision, String> {
        match self {
            Self::Continue => Ok(HookDecision::Through(call)),
            Self::Answer { text, failed } => answer(&call, text, failed, contract).map(HookDecision::Answered),
            Self::Rewrite(changes) => changes.apply(call).map(HookDecision::Rewritten),
            Self::Deny { reason } => Ok(match call {
                Call::Tool(_) => {
                    let words = tool::Error::new(Code::HookDenied, format!("this call is not made: {reason}"));
                    HookDecision::DeniedTool(Reply::Tool(ToolReply::failed(words.to_string(), Some(Code::HookDenied))))
                }
                Call::Model(_) | Call::Turn(_) => HookDecision::Denied(reason),
            }),
        }
    }
}

fn answer(call: &Call, text: String, failed: bool, contract: Option<&Contract>) -> Result<Reply, String> {
    if failed && !matches!(call, Call::Tool(_)) {
        return Err(format!("`failed` is for tool calls, and this is a {} call", call.kind().name()));
    }
    match call {
        Call::Tool(_) => Ok(Reply::Tool(if failed { ToolReply::failed(text, None) } else { ToolReply::said(text) })),
        Call::Model(_) => Ok(Reply::Model(ModelAnswer { reply: ModelReply::said(text), usage: None, cost_usd: None })),
        Call::Turn(_) => {
            let contract = contract.ok_or("the role has no contract that an answer could keep")?;
            let read =
                contract.parse(&text).map_err(|fault| format!("the answer breaks the role's contract: {fault}"))?;
            // No model was asked for anything.
            let said = TurnReply::said(read.status, text);
            Ok(Reply::Turn(Box::new(TurnReply { body: read.body, output: read.output, ..said })))
        }
    }
}

impl Changes {
    fn read(call: Value) -> Result<Self, String> {
        let mut given = Members::of(call, "`call`")?;
        let system = given.take("system").map(|system| text_of(system, "system")).transpose()?;
        let messages = given.take("messages").map(messages).transpose()?;
        let arguments = match given.take("arguments") {
            Some(arguments @ Value::Object(_)) => Some(arguments),
            Some(_) => return Err("`arguments` must be an object".to_owned()),
            None => None,
        };
        given.end()?;
        Ok(Self { system, messages, arguments })
    }

    fn apply(self, mut call: Call) -> Result<Call, String> {
        let Self { system, messages, arguments } = self;
        let (kind, is_tool) = (call.kind().name(), matches!(call, Call::Tool(_)));
        let given =
            [("system", system.is_some()), ("messages", messages.is_some()), ("arguments", arguments.is_some())];
        let is_foreign = |(name, is_given): &(&str, bool)| *is_given && (*name == "arguments") != is_tool;
        if let Some((name, _)) = given.into_iter().find(is_foreign) {
            return Err(format!("`{name}` of a {kind} call cannot be rewritten: it has none"));
        }
        let (head, digest, conversation) = match &mut call {
            Call::Turn(call) => (&mut call.head, &mut call.head_digest, &mut call.conversation),
            Call::Model(call) => (&mut call.head, &mut call.head_digest, &mut call.conversation),
            Call::Tool(tool_call) => {
                if let Some(arguments) = arguments {
                    tool_call.arguments = arguments.to_text();
                }
                return Ok(call);
            }
        };
        if let Some(system) = system {
            let new = Head { system, ..Head::clone(head) };
            *digest = Digest::of(Kind::Head, &new).map_err(|error| error.to_string())?.0;
            *head = Arc::new(new);
        }
        if let Some(messages) = messages {
            *conversation = Arc::new(messages.into_iter().collect::<Conversation>());
        }
        Ok(call)
    }
}

/// Reads a whole list of messages and holds it to what every provider holds it to.
fn messages(value: Value) -> Result<Vec<Message>, String> {
    let Value::List(items) = value else { return Err("`messages` must be a list".to_owned()) };
    if items.is_empty() {
        return Err("`messages` must hold at least one message".to_owned());
    }
    let mut asked: BTreeSet<String> = BTreeSet::new();
    let mut messages = Vec::with_capacity(items.len());
    for (position, item) in items.into_iter().enumerate() {
        let wrong = |what: &str| format!("message {} of `messages`: {what}", position + 1);
        let message: Message = canonical::from_value(item).map_err(|error| wrong(&error.to_string()))?;
        asked.extend(message.tool_calls().map(|asked| asked.id.clone()));
        if message.answers().is_some_and(|id| !asked.contains(id)) {
            return Err(wrong("a tool's message answers a call before it, by its `id`"));
        }
        messages.push(message);
    }
    Ok(messages)
}

fn text_of(value: Value, name: &str) -> Result<String, String> {
    match value {
        Value::Str(text) => Ok(text),
        _ => Err(format!("`{name}` must be a text")),
    }
}

/// The members of an object that have not been taken yet.
struct Members {
    left: BTreeMap<String, Value>,
}

impl Members {
    fn of(value: Value, what: &str) -> Result<Self, String> {
        match value {
            Value::Object(left) => Ok(Self { left }),
            _ => Err(format!("{what} is not an object")),
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name)
    }

    fn text(&mut self, name: &str) -> Result<String, String> {
        self.take(name).map_or_else(|| Err(format!("`{name}` is missing")), |value| text_of(value, name))
    }

    fn end(self) -> Result<(), String> {
        match self.left.keys().next() {
            Some(name) => Err(format!("there is no member {:?} here", excerpt(name))),
            None => Ok(()),
        }
    }
}

fn excerpt(word: &str) -> String {
    word.chars().take(SHOWN_WORD).collect()
}
