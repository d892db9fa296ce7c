//! The bytes of a request.
//!
//! The contents come last, so that a longer conversation begins with the bytes of a shorter one up to its last part. What
//! is sent for a message follows from it and from those before it.
//!
//! Neighbours of one role are one content, and a content has at least one part
//! (<https://ai.google.dev/api/caching#Content>). Results of tools are the user's
//! (<https://ai.google.dev/gemini-api/docs/function-calling>), in the order of the conversation, which is that of the
//! calls. Signatures go back beside the parts that they came with ([`super::attached`]).

use std::borrow::Cow;
use std::collections::BTreeMap;

use rondo_protocol::Value;
use rondo_protocol::call::Fault;
use rondo_protocol::message::{FileRef, Message, Part, Speaker, ToolUse};
use rondo_protocol::object::Head;
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::value::{RawValue, to_raw_value};

use super::attached::{Attached, Signature};
use super::{Gemini, generation, schema};
use crate::model::opaque::{self, Kept as _};
use crate::model::protocol::{
    NO_ANSWER, Outgoing, Protocol as _, base64, object_of, raw_json, refused, tools_by_name, written,
};
use crate::model::response_format::ANY_OBJECT;

/// The first generation with `thinkingLevel`, with a check of signatures, with a response schema beside functions, and
/// with files in a function's result.
const LEVEL_GENERATION: u32 = 3;

/// The media types of files in a function's result (<https://ai.google.dev/gemini-api/docs/function-calling#multimodal>).
const RESULT_TYPES: [&str; 5] = ["image/jpeg", "image/png", "image/webp", "application/pdf", "text/plain"];

/// Stands in for the signature of a call that another model asked for
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
const NO_SIGNATURE: &str = r#""skip_thought_signature_validator""#;

/// Stands for an empty prompt, because an empty text is no part.
const EMPTY: &str = " ";

const USER: &str = "user";
const MODEL: &str = "model";

/// The bytes sent: the same for equal heads and messages. Tools are sorted by name, their schemas are sent byte for byte.
pub(super) fn body(request: &Outgoing<'_>) -> Result<Vec<u8>, Fault> {
    let head = &request.call.head;
    let functions = tools_by_name(head)?.into_iter().map(|(tool, parameters_json_schema)| {
        let (name, description) = (&tool.name, &tool.description);
        Function { name, description, parameters_json_schema }
    });
    let body = Body {
        system_instruction: (!head.system.is_empty())
            .then(|| System { parts: [Data::Text(Cow::Borrowed(&head.system))] }),
        tools: (!head.tools.is_empty()).then(|| [Tool { function_declarations: functions.collect() }]),
        generation_config: generation_config(head)?,
        contents: contents(request)?,
    };
    written(&body)
}

/// Whether the request has signatures of this model.
pub(super) fn holds_signatures(request: &Outgoing<'_>) -> bool {
    let Some(origin) = origin(request) else { return false };
    let is_its = |part: &Part| matches!(part, Part::Reasoning { opaque, .. } if Attached::of(opaque.as_ref(), &origin).is_some());
    request.call.conversation.messages().into_iter().any(|message| message.parts().iter().any(is_its))
}

/// Whose signatures are sent; `None` for a request without any.
fn origin(request: &Outgoing<'_>) -> Option<String> {
    (!request.form.is_without_reasoning).then(|| opaque::origin(request.provider, &request.call.head.model))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<System<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tool<'a>; 1]>,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_object")]
    generation_config: Vec<(&'static str, Box<RawValue>)>,
    contents: Vec<Content<'a>>,
}

fn as_object<S: Serializer>(members: &[(&str, Box<RawValue>)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(members.iter().map(|(name, value)| (name, value)))
}

#[derive(Serialize)]
struct System<'a> {
    parts: [Data<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
    function_declarations: Vec<Function<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a RawValue,
}

/// What stands in the workflow file, and its name here.
const GENERATION_CONFIG: [(&str, &str); 7] = [
    ("temperature", "temperature"),
    ("top_p", "topP"),
    ("max_output_tokens", "maxOutputTokens"),
    ("seed", "seed"),
    ("stop", "stopSequences"),
    ("presence_penalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
];

/// <https://ai.google.dev/api/generate-content#generationconfig>
fn generation_config(head: &Head) -> Result<Vec<(&'static str, Box<RawValue>)>, Fault> {
    let ignored = Gemini.ignores(&head.model);
    let given = |name: &str| head.parameters.0.get(name).filter(|_| !ignored.contains(&name));
    let mut config = Vec::new();
    for (name, its_name) in GENERATION_CONFIG {
        if let Some(value) = given(name) {
            let is_one = name == "stop" && !matches!(value, Value::List(_));
            config.push((its_name, if is_one { raw(&[value])? } else { raw(value)? }));
        }
    }
    if let Some(effort) = given("reasoning_effort").and_then(Value::as_str) {
        config.push(("thinkingConfig", raw(&ThinkingConfig::new(&head.model, effort)?)?));
    }
    if let Some(format) = head.response_format.as_deref() {
        let format_json = raw_json("the schema of the answer", format)?;
        // A model before generation 3 refuses JSON together with functions
        // (<https://github.com/googleapis/python-genai/issues/867>), so it is asked for no format then.
        if head.tools.is_empty() || !is_before_levels(&head.model) {
            config.push(("responseMimeType", raw("application/json")?));
            let schema = (format != ANY_OBJECT).then(|| schema::supported(format_json.get())).flatten();
            if let Some(schema) = schema {
                config.push(("responseJsonSchema", raw_json("the schema of the answer", &schema)?.to_owned()));
            }
        }
    }
    Ok(config)
}

fn raw(value: &(impl Serialize + ?Sized)) -> Result<Box<RawValue>, Fault> {
    to_raw_value(value).map_err(|error| refused(error.to_string()))
}

pub(super) fn is_before_levels(model: &str) -> bool {
    generation(model).is_some_and(|generation| generation < LEVEL_GENERATION)
}

/// <https://ai.google.dev/gemini-api/docs/thinking>
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    #[serde(flatten)]
    thinking: Thinking,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_thoughts: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Thinking {
    ThinkingLevel(String),
    /// In tokens.
    ThinkingBudget(u32),
}

impl ThinkingConfig {
    /// A model takes a level or a budget, and refuses both together. The budgets are those of Google's chat form
    /// (<https://ai.google.dev/gemini-api/docs/openai#thinking>) but for `minimal`, where half of the lowest is ours.
    /// Levels are passed on, but there is none below `minimal`. Thoughts without thinking are refused.
    fn new(model: &str, effort: &str) -> Result<Self, Fault> {
        let include_thoughts = (effort != "none").then_some(true);
        if !is_before_levels(model) {
            let level = if effort == "none" { "minimal" } else { effort };
            return Ok(Self { thinking: Thinking::ThinkingLevel(level.to_ascii_uppercase()), include_thoughts });
        }
        let budget = match effort {
            "none" => 0,
            "minimal" => 512,
            "low" => 1024,
            "medium" => 8192,
            "high" => 24_576,
            _ => {
                let known = "none, minimal, low, medium or high";
                return Err(refused(format!("the reasoning effort of {model} is {known}, not `{effort}`")));
            }
        };
        Ok(Self { thinking: Thinking::ThinkingBudget(budget), include_thoughts })
    }
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<WirePart<'a>>,
}

impl Content<'_> {
    fn holds(&self, is_such: impl Fn(&Data<'_>) -> bool) -> bool {
        self.parts.iter().any(|part| is_such(&part.data))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WirePart<'a> {
    #[serde(flatten)]
    data: Data<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<Signature>,
}

impl<'a> From<Data<'a>> for WirePart<'a> {
    fn from(data: Data<'a>) -> Self {
        Self { data, thought: None, thought_signature: None }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Data<'a> {
    Text(Cow<'a, str>),
    FunctionCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        name: &'a str,
        args: Cow<'a, RawValue>,
    },
    FunctionResponse(FunctionResponse<'a>),
    InlineData(InlineData<'a>),
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Response<'a>,
    /// Its files (<https://ai.google.dev/gemini-api/docs/function-calling#multimodal>).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Data<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Response<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: String,
}

fn contents<'a>(request: &Outgoing<'a>) -> Result<Vec<Content<'a>>, Fault> {
    let mut writer = Writer {
        request,
        origin: origin(request),
        is_leveled: generation(&request.call.head.model).is_some_and(|generation| generation >= LEVEL_GENERATION),
        called: BTreeMap::new(),
        behind: Vec::new(),
        contents: Vec::new(),
    };
    for message in request.call.conversation.messages() {
        writer.add(message)?;
    }
    writer.push_behind();
    Ok(writer.contents)
}

struct Writer<'r, 'a> {
    request: &'r Outgoing<'a>,
    origin: Option<String>,
    /// Whether the first call of a step needs a signature, and a result holds files.
    is_leveled: bool,
    /// The name of each call so far, and whether its id is the provider's. Of calls with one id the last counts.
    called: BTreeMap<&'a str, (&'a str, bool)>,
    /// The files of results that have to stand behind the last result of a turn.
    behind: Vec<WirePart<'a>>,
    contents: Vec<Content<'a>>,
}

impl<'a> Writer<'_, 'a> {
    fn add(&mut self, message: &'a Message) -> Result<(), Fault> {
        let role = match message.role() {
            Speaker::User | Speaker::Tool => USER,
            Speaker::Assistant => MODEL,
        };
        if message.role() != Speaker::Tool {
            self.push_behind();
        }
        let is_result = |data: &Data<'_>| matches!(data, Data::FunctionResponse(_));
        if message.role() == Speaker::User && self.contents.last().is_some_and(|last| last.holds(is_result)) {
            self.push(MODEL, Data::Text(NO_ANSWER.into()).into());
        }
        let mut attached = None;
        for part in message.parts() {
            match part {
                Part::Reasoning { opaque, text } => {
                    let origin = self.origin.as_deref();
                    attached = match origin.and_then(|origin| Attached::of(opaque.as_ref(), origin)) {
                        Some(Attached::EmptyText(signature)) => {
                            let thought_signature = Some(signature);
                            self.push(role, WirePart { thought_signature, ..Data::Text("".into()).into() });
                            None
                        }
                        Some(Attached::Thought(signature)) => {
                            let (thought, thought_signature) = (Some(true), Some(signature));
                            self.push(role, WirePart { thought, thought_signature, ..Data::Text(text.into()).into() });
                            None
                        }
                        other => other,
                    };
                    continue;
                }
                Part::Text { text } if text.is_empty() => {}
                Part::Text { text } => {
                    let thought_signature = match attached.take() {
                        Some(Attached::Text(signature)) => Some(signature),
                        _ => None,
                    };
                    self.push(role, WirePart { thought_signature, ..Data::Text(text.into()).into() });
                }
                Part::ToolCall(tool) => self.add_call(role, tool, attached.take())?,
                Part::ToolResult { failed, id, .. } => {
                    let text = self.request.result_text(&Gemini, message);
                    let response = if *failed { Response::Error(text) } else { Response::Output(text) };
                    let Some((name, has_id)) = self.called.get(id.as_str()).copied() else {
                        return Err(refused(format!("the result of a tool answers `{id}`, which was not called")));
                    };
                    let id = has_id.then_some(id.as_str());
                    self.push(
                        role,
                        Data::FunctionResponse(FunctionResponse { id, name, response, parts: Vec::new() }).into(),
                    );
                }
                Part::File(file) if !self.request.carries(&Gemini, message, &file.media_type) => {}
                Part::File(FileRef { digest, media_type, name }) => {
                    let data = base64(self.request.file(*digest, name)?);
                    let file = Data::InlineData(InlineData { mime_type: media_type, data });
                    match self.result_with_files().filter(|_| RESULT_TYPES.contains(&media_type.as_str())) {
                        Some(result) => result.parts.push(file),
                        None if message.role() == Speaker::Tool => self.behind.push(file.into()),
                        None => self.push(role, file.into()),
                    }
                }
            }
            attached = None;
        }
        let has_content = self.contents.last().is_some_and(|last| last.role == role);
        if message.role() == Speaker::User && !has_content {
            self.push(role, Data::Text(EMPTY.into()).into());
        }
        Ok(())
    }

    /// The first call of a step has the signature of all. The step of another model's, or one whose signature was lost,
    /// takes the stand-in, also before the current turn: a request then begins with the bytes of the one before.
    fn add_call(&mut self, role: &'static str, tool: &'a ToolUse, attached: Option<Attached>) -> Result<(), Fault> {
        let (has_id, signature) = match attached {
            Some(Attached::Call { has_id, signature }) => (has_id, signature),
            _ => (false, None),
        };
        let is_call = |data: &Data<'_>| matches!(data, Data::FunctionCall { .. });
        let is_first = !self.contents.last().is_some_and(|last| last.role == role && last.holds(is_call));
        let thought_signature = match signature {
            None if is_first && self.is_leveled => Some(raw_json("a signature", NO_SIGNATURE)?.to_owned()),
            own => own,
        };
        self.called.insert(&tool.id, (&tool.name, has_id));
        let (id, args) = (has_id.then_some(tool.id.as_str()), object_of(&tool.arguments)?);
        let call = Data::FunctionCall { id, name: &tool.name, args };
        self.push(role, WirePart { thought_signature, ..call.into() });
        Ok(())
    }

    fn push_behind(&mut self) {
        for part in std::mem::take(&mut self.behind) {
            self.push(USER, part);
        }
    }

    /// The result at the end, if its files belong into it.
    fn result_with_files(&mut self) -> Option<&mut FunctionResponse<'a>> {
        let last = self.contents.last_mut().filter(|_| self.is_leveled)?.parts.last_mut()?;
        match &mut last.data {
            Data::FunctionResponse(result) => Some(result),
            Data::Text(_) | Data::FunctionCall { .. } | Data::InlineData(_) => None,
        }
    }

    fn push(&mut self, role: &'static str, part: WirePart<'a>) {
        match self.contents.last_mut() {
            Some(last) if last.role == role => last.parts.push(part),
            _ => self.contents.push(Content { role, parts: vec![part] }),
        }
    }
}

#[cfg(test)]
mod tests;
