//! A thread with tools, thoughts and a role that answers in JSON, in each protocol.
//!
//! The model is too small to call a tool by itself, and its own template leaves tools out. So another server is held to
//! `calls.gbnf`, a thought and a call, and has `calls.jinja` as its template, which shows tools and opens a thought. That
//! it calls, and with what, is the grammar's; what it thinks is its own. The answer after the call is the first server's.
//!
//! No schema is sent: beside one, the server has no place for a call in chat completions.

use serde_json::Value;

use crate::forwarder::Forwarder;
use crate::{PROTOCOLS, WITHOUT_SCHEMA, check, run_at, steps};

const WORKFLOW: &str = r#"
rondo: 1
name: tools
models:
  default: { temperature: 0, max_output_tokens: 300 }
roles:
  reader:
    system: |
      You answer questions about files that you have read. Read the file first, then answer in one short sentence
      about what lives in the pool. Leave the body empty.
    format: json
    history: exact
    tools: [read_file]
    output:
      said: { text: { type: string, pattern: '^[A-Z][a-zA-Z ,]{9,70}[.?]$' } }
graph:
  start: { to: reader, prompt: "Read pool.txt. What lives there?" }
  reader:
    said: { to: reader, max: 1, on_max: { to: end }, prompt: "Read pool.txt again. What else lives there?" }
"#;

/// The parts of the model's replies in a step.
fn parts(step: &Value) -> Vec<&Value> {
    let entries = step["transcript"]["entries"].as_array().expect("a transcript has entries");
    entries.iter().filter_map(|entry| entry["reply"]["parts"].as_array()).flatten().collect()
}

#[test]
#[ignore = "needs a model server: make test-llm"]
fn tools_are_called_and_thoughts_kept_in_each_protocol() {
    let forwarder = Forwarder::start();
    for protocol in PROTOCOLS {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let folder = folder.path();
        std::fs::write(folder.join("workflow.yaml"), WORKFLOW).expect("the folder can be written");
        std::fs::write(folder.join("pool.txt"), "Limpets and a crab.\n").expect("the folder can be written");

        let thread = run_at(&forwarder.url(), folder, protocol, "workflow.yaml", &WITHOUT_SCHEMA);
        let steps = steps(folder, &thread);
        assert_eq!(steps.len(), 2, "{protocol}");
        for step in &steps {
            assert_eq!(step["status"], "said", "{protocol}: {step}");
            let count = |is_it: &dyn Fn(&Value) -> bool| parts(step).into_iter().filter(|part| is_it(part)).count();
            assert_eq!(count(&|part| part["kind"] == "tool_call"), 1, "{protocol}: {step}");
            // A reply in Responses has more parts of that kind, without a text: ids that go back.
            assert_eq!(count(&|part| part["kind"] == "reasoning" && part["text"] != ""), 1, "{protocol}: {step}");
            assert!(step["transcript"].to_string().contains("Limpets and a crab."), "{protocol}: {step}");
        }
        check(folder, &thread);
        // With `history: exact` the last request holds both calls and both results. Thoughts go back where the protocol
        // takes those without a signature, which Anthropic's own does not.
        let last = forwarder.last();
        let messages = last.get("messages").or_else(|| last.get("input")).expect("a request has messages").to_string();
        let (result, thought) = match protocol {
            "openai_chat" => (r#""role":"tool""#, "reasoning_content"),
            "openai_responses" => ("function_call_output", "reasoning_text"),
            _ => (r#""type":"tool_result""#, "thinking"),
        };
        assert_eq!(messages.matches(result).count(), 2, "{protocol}: {messages}");
        assert_eq!(messages.contains(thought), protocol != "anthropic", "{protocol}: {messages}");
    }
}
