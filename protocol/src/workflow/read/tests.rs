use std::collections::BTreeMap;

use super::*;
use crate::canonical::Value;

const EXAMPLE: &str = r#"
rondo: 1                       # format version
name: review-loop
description: A writer and an editor go round until the editor approves.

input:                         # checked before the thread starts
  topic: string
  words: { type: integer, default: 300 }

models:                        # logical names
  default: { model: gpt-4.1-mini, temperature: 0.2, max_output_tokens: 2000 }

roles:
  writer:
    system: |
      You write short, factual articles.
    output:                    # one entry for each status the role may answer with
      drafted: { title: string }
  editor:
    system: You are a demanding but fair editor.
    output:
      approved: { summary: string }
      revise:   { comments: "string[]" }

graph:
  start: { to: writer, prompt: "Write about {{ input.topic }} in {{ input.words }} words." }
  writer:
    drafted: { to: editor, prompt: "Review this draft.\n\n{{ body }}" }
  editor:
    revise:
      to: writer
      prompt: |
        Revise it:
        {% for c in output.comments %}
        - {{ c }}
        {% endfor %}
      max: 3
      on_max: { to: fail, reason: "three rounds were not enough" }
    approved: { to: end }

result: { title: "{{ steps.writer.output.title }}", text: "{{ steps.writer.body }}" }

hooks:
  - { use: response_cache, roles: [writer, editor], ttl: 24h }
  - { use: tool_cache, ttl: 60s, per_tool: { read_file: 30s } }

limits: { steps: 40, visits: 10, cost_usd: 1.00, wall_time: 30m }
"#;

fn files(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

fn good(text: &str) -> Checked {
    read("w.yaml", text, &files(&[])).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

#[test]
fn the_example_of_the_format_is_read() {
    let checked = good(EXAMPLE);
    insta::assert_snapshot!(Value::from_serialize(&checked.workflow).unwrap().to_text());
    insta::assert_snapshot!(Value::from_serialize(&checked.policy).unwrap().to_text());
    insta::assert_snapshot!(listing(&checked.warnings));
}

fn listing(faults: &[Diagnostic]) -> String {
    faults.iter().map(|fault| format!("{fault}\n")).collect()
}
