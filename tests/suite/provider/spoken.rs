//! The protocols as providers speak them: the bytes of replies, and how a client finds a server.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client::Client;
use super::server::{Act, EVENTS, Server};

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoken {
    OpenAiChat,
    OpenAiResponses,
    Anthropic,
    Gemini,
}

pub const ALL: [Spoken; 4] = [Spoken::OpenAiChat, Spoken::OpenAiResponses, Spoken::Anthropic, Spoken::Gemini];

/// A reply.
#[derive(Debug, Clone)]
pub struct Turn<'a> {
    /// The number of a thought that comes first, with something that only the provider understands.
    pub thought: Option<usize>,
    pub said: Said<'a>,
    /// What its calls ask for: the name of a tool and the arguments.
    pub asked: (&'a str, &'a str),
    /// The figures in the provider's own form; `None` for none.
    pub usage: Option<String>,
    /// The provider's word for how it ended, in place of the usual one.
    pub end: Option<&'a str>,
}

#[derive(Debug, Clone)]
pub enum Said<'a> {
    Text(&'a str),
    /// Calls, by their ids.
    Calls(&'a [&'a str]),
}

/// What a call asks for, written as no program would write it: it has to come back as it is.
pub const ARGUMENTS: &str = r#"{ "path" : "a.txt" }"#;

impl Spoken {
    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai_chat",
            Self::OpenAiResponses => "openai_responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// The beginning of a request to it, in lower case.
    pub fn request_line(self) -> &'static str {
        match self {
            Self::OpenAiChat => "post /v1/chat/completions http/1.1\r\n",
            Self::OpenAiResponses => "post /v1/responses http/1.1\r\n",
            Self::Anthropic => "post /v1/messages http/1.1\r\n",
            Self::Gemini => "post /v1/models/gemini-3-pro:streamgeneratecontent?alt=sse http/1.1\r\n",
        }
    }

    /// The member of a request with the conversation.
    fn conversation(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::Anthropic => "messages",
            Self::OpenAiResponses => "input",
            Self::Gemini => "contents",
        }
    }

    /// A model that thinks; of Anthropic one that binds its thoughts to what stands in front of them.
    pub fn model(self) -> &'static str {
        match self {
            Self::OpenAiChat => "fake-1",
            Self::OpenAiResponses => "gpt-5.6",
            Self::Anthropic => "anthropic/claude-opus-5-5",
            Self::Gemini => "gemini/gemini-3-pro",
        }
    }

    /// The variables with the address and the key of its service.
    pub fn variables(self) -> [&'static str; 2] {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => ["OPENAI_BASE_URL", "OPENAI_API_KEY"],
            Self::Anthropic => ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"],
            Self::Gemini => ["GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"],
        }
    }

    /// A folder in which that server is asked in this protocol.
    pub fn client(self, server: &Server, workflow: &str) -> Client {
        let client = server.client(workflow).without("OPENAI_BASE_URL").with("RONDO_MODEL", self.model());
        if self == Self::OpenAiResponses {
            client.own_settings("[provider.openai]\nprotocol = \"openai_responses\"\n");
        }
        client.file("a.txt", "alpha\n");
        let [base_url, key] = self.variables();
        client.with(base_url, &server.base_url()).with(key, "k")
    }

    /// A body up to the end of its last message, and the rest of it.
    pub fn split(self, body: &str) -> (&str, &str) {
        let members: BTreeMap<&str, &RawValue> = serde_json::from_str(body).unwrap();
        let list = members[self.conversation()].get();
        let end = list.as_ptr() as usize - body.as_ptr() as usize + list.len() - "]".len();
        body.split_at(end)
    }

    /// What must stand in every later request of its turn, byte for byte, if a reply has that thought.
    pub fn returned(self, thought: usize) -> String {
        match self {
            Self::OpenAiChat => format!(r#""reasoning_content":"hm {thought}""#),
            Self::OpenAiResponses => reasoning(thought),
            Self::Anthropic => {
                format!(r#"{{"type":"thinking","thinking":"hm {thought}","signature":"c2ln/{thought}+="}}"#)
            }
            Self::Gemini => format!(r#""args":{ARGUMENTS}}},"thoughtSignature":"c2ln/{thought}+=""#),
        }
    }

    /// What only the provider of that thought may see.
    pub fn opaque(self, thought: usize) -> String {
        match self {
            Self::OpenAiChat => format!("hm {thought}"),
            Self::OpenAiResponses => format!("gAAAA/{thought}+="),
            Self::Anthropic | Self::Gemini => format!("c2ln/{thought}+="),
        }
    }

    /// Figures of tokens, of which some of the prompt were cached.
    pub fn usage(self, [prompt, cached, output]: [u64; 3]) -> String {
        match self {
            Self::OpenAiChat => json!({
                "prompt_tokens": prompt, "completion_tokens": output,
                "prompt_tokens_details": { "cached_tokens": cached },
            }),
            Self::OpenAiResponses => json!({
                "input_tokens": prompt, "output_tokens": output, "input_tokens_details": { "cached_tokens": cached },
            }),
            Self::Anthropic => json!({
                "input_tokens": prompt - cached, "cache_read_input_tokens": cached, "output_tokens": output,
            }),
            Self::Gemini => json!({
                "promptTokenCount": prompt, "cachedContentTokenCount": cached, "candidatesTokenCount": output,
            }),
        }
        .to_string()
    }

    /// The events of a stream with that reply.
    pub fn events(self, turn: &Turn<'_>) -> Vec<String> {
        match self {
            Self::OpenAiChat => openai_chat(turn),
            Self::OpenAiResponses => openai_responses(turn),
            Self::Anthropic => anthropic(turn),
            Self::Gemini => gemini(turn),
        }
    }

    /// How many of the events it takes until the reply is whole.
    pub fn completing(self, events: &[String]) -> usize {
        let last = match self {
            Self::OpenAiChat => "\"finish_reason\":\"",
            Self::OpenAiResponses => "data: {\"type\":\"response.completed\"",
            Self::Anthropic => "event: message_stop",
            Self::Gemini => "\"finishReason\":\"",
        };
        1 + events.iter().position(|event| event.contains(last)).unwrap()
    }

    /// A stream with that reply, each event in a segment of its own.
    pub fn reply(self, turn: &Turn<'_>) -> Act {
        Act::Send([vec![EVENTS.to_owned()], self.events(turn)].concat())
    }

    /// A text with usage figures.
    pub fn text(self, text: &str) -> Act {
        self.reply(&Turn { usage: Some(self.usage([30, 20, 10])), ..Turn::text(text) })
    }
}

impl<'a> Turn<'a> {
    pub fn text(text: &'a str) -> Self {
        Self { thought: None, said: Said::Text(text), asked: ("read_file", ARGUMENTS), usage: None, end: None }
    }

    pub fn calls(ids: &'a [&'a str]) -> Self {
        Self { said: Said::Calls(ids), ..Self::text("") }
    }

    /// A call of this tool with these arguments.
    pub fn call(id: &'a [&'a str; 1], tool: &'a str, arguments: &'a str) -> Self {
        Self { asked: (tool, arguments), ..Self::calls(id) }
    }

    #[must_use]
    pub fn thinking(self, thought: usize) -> Self {
        Self { thought: Some(thought), ..self }
    }

    /// How the reply ended in the provider's words.
    fn end(&self, of_text: &'a str, of_calls: &'a str) -> &'a str {
        let usual = match self.said {
            Said::Text(_) => of_text,
            Said::Calls(_) => of_calls,
        };
        self.end.unwrap_or(usual)
    }

    fn usage(&self) -> &str {
        self.usage.as_deref().unwrap_or("null")
    }
}

fn data(json: &str) -> String {
    format!("data: {json}\n\n")
}

/// A text in two pieces, the cut on a letter.
fn pieces(text: &str) -> [&str; 2] {
    let half = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    text.split_at(half).into()
}

fn openai_chat(turn: &Turn<'_>) -> Vec<String> {
    let chunk = |delta: &Value, finish: &Value| {
        data(&json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }).to_string())
    };
    let mut events = vec![chunk(&json!({ "role": "assistant", "content": "" }), &Value::Null)];
    if let Some(thought) = turn.thought {
        events.extend(["hm ", &thought.to_string()].map(|piece| {
            let delta = json!({ "reasoning_content": piece });
            chunk(&delta, &Value::Null)
        }));
    }
    match turn.said {
        Said::Text(text) => {
            events.extend(pieces(text).map(|piece| chunk(&json!({ "content": piece }), &Value::Null)));
        }
        Said::Calls(ids) => {
            for (index, id) in ids.iter().enumerate() {
                let function = json!({ "name": turn.asked.0, "arguments": "" });
                let call = json!({ "index": index, "id": id, "type": "function", "function": function });
                events.push(chunk(&json!({ "tool_calls": [call] }), &Value::Null));
                events.extend(pieces(turn.asked.1).map(|piece| {
                    let call = json!({ "index": index, "function": { "arguments": piece } });
                    chunk(&json!({ "tool_calls": [call] }), &Value::Null)
                }));
            }
        }
    }
    events.push(chunk(&json!({}), &turn.end("stop", "tool_calls").into()));
    events.push(data(&format!("{{\"choices\":[],\"usage\":{}}}", turn.usage())));
    events.push(data("[DONE]"));
    events
}

/// An item that has to come back as it is, blanks and all.
fn reasoning(thought: usize) -> String {
    format!(
        r#"{{"id": "rs_{thought}", "type": "reasoning",  "summary": [{{"type": "summary_text", "text": "hm {thought}"}}], "encrypted_content": "gAAAA/{thought}+="}}"#
    )
}

fn openai_responses(turn: &Turn<'_>) -> Vec<String> {
    let event = |kind: &str, members: &str| {
        format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":0,{members}}}\n\n")
    };
    let mut events = vec![
        event("response.created", r#""response":{"id":"resp_1","status":"in_progress","output":[],"usage":null}"#),
        event("response.in_progress", r#""response":{"id":"resp_1","status":"in_progress","output":[]}"#),
    ];
    let mut items: Vec<String> = Vec::new();
    if let Some(thought) = turn.thought {
        let begun = r#""output_index":0,"item":{"id":"rs","type":"reasoning","summary":[]}"#;
        events.push(event("response.output_item.added", begun));
        let delta = format!(r#""output_index":0,"item_id":"rs","summary_index":0,"delta":"hm {thought}""#);
        events.push(event("response.reasoning_summary_text.delta", &delta));
        items.push(reasoning(thought));
        events.push(event("response.output_item.done", &format!("\"output_index\":0,\"item\":{}", items[0])));
    }
    match turn.said {
        Said::Text(text) => {
            let index = items.len();
            let item = |text: &str, status: &str| {
                let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
                json!({ "id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content })
            };
            let begun = format!("\"output_index\":{index},\"item\":{}", item("", "in_progress"));
            events.push(event("response.output_item.added", &begun));
            events.push(event("keepalive", "\"x\":1"));
            events.extend(pieces(text).map(|piece| {
                let delta = Value::from(piece);
                let place = format!("\"output_index\":{index},\"item_id\":\"msg_1\",\"content_index\":0");
                event("response.output_text.delta", &format!("{place},\"delta\":{delta},\"obfuscation\":\"xyz\""))
            }));
            items.push(item(text, "completed").to_string());
            let done = format!("\"output_index\":{index},\"item\":{}", items[index]);
            events.push(event("response.output_item.done", &done));
        }
        Said::Calls(ids) => {
            for id in ids {
                let index = items.len();
                let item = |arguments: &str, status: &str| {
                    json!({
                        "id": format!("fc_{id}"), "type": "function_call", "call_id": id, "name": turn.asked.0,
                        "arguments": arguments, "status": status,
                    })
                };
                let begun = format!("\"output_index\":{index},\"item\":{}", item("", "in_progress"));
                events.push(event("response.output_item.added", &begun));
                events.extend(pieces(turn.asked.1).map(|piece| {
                    let delta = Value::from(piece);
                    let place = format!("\"output_index\":{index},\"item_id\":\"fc_{id}\"");
                    event("response.function_call_arguments.delta", &format!("{place},\"delta\":{delta}"))
                }));
                items.push(item(turn.asked.1, "completed").to_string());
                let done = format!("\"output_index\":{index},\"item\":{}", items[index]);
                events.push(event("response.output_item.done", &done));
            }
        }
    }
    let (output, usage) = (items.join(","), turn.usage());
    events.push(match turn.end {
        None => event(
            "response.completed",
            &format!(r#""response":{{"id":"resp_1","status":"completed","output":[{output}],"usage":{usage}}}"#),
        ),
        Some(reason) => event(
            "response.incomplete",
            &format!(
                r#""response":{{"id":"resp_1","status":"incomplete","incomplete_details":{{"reason":"{reason}"}},"output":[{output}],"usage":{usage}}}"#
            ),
        ),
    });
    events
}

fn anthropic(turn: &Turn<'_>) -> Vec<String> {
    let event = |kind: &str, members: &Value| {
        let mut all = json!({ "type": kind });
        all.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        format!("event: {kind}\n{}", data(&all.to_string()))
    };
    let usage: Value = serde_json::from_str(turn.usage()).unwrap();
    let message =
        json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage.clone() });
    let mut events = vec![event("message_start", &json!({ "message": message })), event("ping", &json!({}))];
    let mut block = |index: usize, begun: Value, deltas: &[Value]| {
        events.push(event("content_block_start", &json!({ "index": index, "content_block": begun })));
        events.extend(
            deltas.iter().map(|delta| event("content_block_delta", &json!({ "index": index, "delta": delta }))),
        );
        events.push(event("content_block_stop", &json!({ "index": index })));
    };
    let mut index = 0;
    if let Some(thought) = turn.thought {
        let deltas = [
            json!({ "type": "thinking_delta", "thinking": "hm " }),
            json!({ "type": "thinking_delta", "thinking": thought.to_string() }),
            json!({ "type": "signature_delta", "signature": Spoken::Anthropic.opaque(thought) }),
        ];
        block(index, json!({ "type": "thinking", "thinking": "", "signature": "" }), &deltas);
        index += 1;
    }
    match turn.said {
        Said::Text(text) => {
            let deltas = pieces(text).map(|piece| json!({ "type": "text_delta", "text": piece }));
            block(index, json!({ "type": "text", "text": "" }), &deltas);
        }
        Said::Calls(ids) => {
            for id in ids {
                let deltas =
                    pieces(turn.asked.1).map(|piece| json!({ "type": "input_json_delta", "partial_json": piece }));
                block(index, json!({ "type": "tool_use", "id": id, "name": turn.asked.0, "input": {} }), &deltas);
                index += 1;
            }
        }
    }
    let end = json!({ "stop_reason": turn.end("end_turn", "tool_use"), "stop_sequence": null });
    events.push(event("message_delta", &json!({ "delta": end, "usage": usage })));
    events.push(event("from_the_future", &json!({ "index": "?" })));
    events.push(event("message_stop", &json!({})));
    events
}

fn gemini(turn: &Turn<'_>) -> Vec<String> {
    let part = |part: &str| {
        data(&format!(r#"{{"candidates":[{{"content":{{"role":"model","parts":[{part}]}},"index":0}}]}}"#))
    };
    let mut events = Vec::new();
    let signature = turn.thought.map(|thought| format!(r#""thoughtSignature":"{}""#, Spoken::Gemini.opaque(thought)));
    if let Some(thought) = turn.thought {
        events.extend(
            ["hm ", &thought.to_string()].map(|piece| part(&format!(r#"{{"text":"{piece}","thought":true}}"#))),
        );
    }
    let mut last = String::new();
    match turn.said {
        Said::Text(text) => {
            events.extend(pieces(text).map(|piece| part(&json!({ "text": piece }).to_string())));
            last.extend(signature.map(|signature| format!(r#"{{"text":"",{signature}}}"#)));
        }
        Said::Calls(ids) => {
            for (index, id) in ids.iter().enumerate() {
                // Of calls side by side only the first has one.
                let signature = signature.as_deref().filter(|_| index == 0).map(|signature| format!(",{signature}"));
                let (name, arguments) = turn.asked;
                let call = format!(r#"{{"id":"{id}","name":"{name}","args":{arguments}}}"#);
                events.push(part(&format!(r#"{{"functionCall":{call}{}}}"#, signature.unwrap_or_default())));
            }
        }
    }
    let (end, usage) = (turn.end("STOP", "STOP"), turn.usage());
    let content = format!(r#"{{"role":"model","parts":[{last}]}}"#);
    events.push(data(&format!(
        r#"{{"candidates":[{{"content":{content},"finishReason":"{end}","index":0}}],"usageMetadata":{usage}}}"#
    )));
    events
}
