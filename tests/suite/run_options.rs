//! Options of `run`: where the result goes, limits, models and settings for one run, and what would be sent.

use serde_json::{Value, json};

use crate::binary::{Finished, Place};

const WORKFLOW: &str = r#"
rondo: 1
name: pair
input: { topic: string }
models:
  default: { model: small-model, temperature: 0.5 }
  careful: { model: large-model }
roles:
  writer: { system: You write., output: { drafted: { title: string } } }
  editor: { system: You edit., model: careful, tools: [read_file] }
  lister: { kind: tool, tool: read_file, args: { path: notes.txt } }
graph:
  start:
    - { when: "input.topic == 'files'", to: lister }
    - else: { to: writer, prompt: "Write about {{ input.topic }}." }
  lister:
    ok: { to: writer, prompt: "{{ body }}" }
    failed: { to: fail, reason: no }
  writer: { drafted: { to: editor, prompt: "{{ body }}" } }
  editor: { done: { to: end } }
result: { title: "{{ steps.writer.output.title }}", words: "{{ steps.writer.visits }}" }
"#;

fn place() -> Place {
    let place = Place::new();
    place.file("pair/workflow.yaml", WORKFLOW);
    let script = "writer: [ { fields: { title: \"Tides\\n and all\" }, body: text } ]\neditor: [ { body: fine } ]\n";
    place.file("pair/script.yaml", script);
    place.trust(&["pair"]);
    place
}

fn run(place: &Place, words: &[&str]) -> Finished {
    place.run([&["run", "pair", "--offline", "-i", "topic=tides"], words].concat())
}

/// The model of each role's request head.
fn models(place: &Place) -> Vec<String> {
    let lines = place.run(["messages", "last", "--json"]).exits(0).json();
    lines
        .iter()
        .map(|line| format!("{} {}", line["role"].as_str().unwrap(), line["head"]["model"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_result_goes_to_a_file_as_a_whole_or_one_text_of_it_to_a_shell() {
    let place = place();
    assert_eq!(run(&place, &["--raw", "title", "-q"]).exits(0).text(), "Tides\n and all");
    assert_eq!(run(&place, &["--raw", "words", "-q"]).exits(0).text(), "1");
    let unknown = run(&place, &["--raw", "titel", "-q"]).exits(2);
    assert!(unknown.stderr.contains("its keys: title, words"), "{}", unknown.stderr);
    assert_eq!(run(&place, &["-o", "out.json", "-q"]).exits(0).text(), "");
    let written: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path().join("out.json")).unwrap()).unwrap();
    assert_eq!(written, json!({ "title": "Tides\n and all", "words": 1 }));
    // The result of a thread that has ended is written again, and nothing is run.
    assert_eq!(place.run(["resume", "last", "--raw", "words", "-q"]).exits(0).text(), "1");
    let lost = run(&place, &["-o", "no/such/folder", "-q"]).exits(9);
    assert!(lost.stderr.contains("no/such/folder") && lost.stderr.contains("resume last -o FILE"), "{}", lost.stderr);
}

#[test]
fn limits_of_one_run_take_the_place_of_the_files() {
    let place = place();
    let stopped = run(&place, &["--limit", "steps=1", "-q"]).exits(4);
    assert!(stopped.stderr.contains("RN1202"), "{}", stopped.stderr);
    place.run(["resume", "last", "--limit", "steps=2", "-q"]).exits(0);
    for bad in ["stepz=1", "steps=0", "steps=-1", "steps=many", "cost_usd=0", "wall_time=1", "steps"] {
        let refused = run(&place, &["--limit", bad]).exits(2);
        assert!(refused.stderr.contains("RN1415"), "{bad}: {}", refused.stderr);
    }
    for (bad, what) in [
        ("stepz=1", "there is no such limit; did you mean `steps`?"),
        ("wal=1s", "there is no such limit; limits are "),
        ("wall_time=0s", "the limit wall_time cannot"),
        ("steps=many", "write a number"),
    ] {
        let refused = run(&place, &["--limit", bad]).exits(2);
        assert!(refused.stderr.contains(what), "{bad}: {}", refused.stderr);
    }
}

#[test]
fn models_of_one_run_keep_provider_and_parameters() {
    let place = place();
    run(&place, &[]).exits(0);
    assert_eq!(models(&place), ["writer small-model", "editor large-model"]);
    run(&place, &["--model", "other-model"]).exits(0);
    assert_eq!(models(&place), ["writer other-model", "editor other-model"]);
    run(&place, &["--model", "writer=careful"]).exits(0);
    assert_eq!(models(&place), ["writer large-model", "editor large-model"]);
    run(&place, &["--model", "writer=other-model"]).exits(0);
    assert_eq!(models(&place), ["writer other-model", "editor large-model"]);
    let head = place.run(["messages", "last", "--role", "writer", "--json"]).exits(0).json()[0]["head"].clone();
    assert_eq!(head["parameters"]["temperature"], 0.5);
    let unknown = run(&place, &["--model", "writr=x"]).exits(2);
    assert!(unknown.stderr.contains("did you mean `writer`?"), "{}", unknown.stderr);
    run(&place, &["--model", "lister=x"]).exits(2);
}

#[test]
fn settings_of_one_run_are_stronger_than_files_and_environment() {
    let place = place();
    place.settings("[model.default]\nmodel = \"from-file\"\n[limits]\nsteps = 50\n");
    run(&place, &["--set", "model.default.model=from-flag", "--set", "limits.steps=1", "-q"]).exits(4);
    assert_eq!(models(&place), ["writer from-flag"]);
    let mut command = place.command(["doctor", "--set", "provider.openai.base_url=http://127.0.0.1:9/v1", "--json"]);
    command.env("OPENAI_BASE_URL", "http://127.0.0.1:8/v1");
    let doctor = crate::binary::Running::of(command).finish();
    assert!(doctor.text().contains("http://127.0.0.1:9/v1") && doctor.text().contains("--set"), "{}", doctor.text());
    for (bad, told) in [
        ("limits.stepz=1", "did you mean `steps`?"),
        ("model.default.model", "write key=value"),
        ("tool.x.argv=[\"sh\"]", "is declared in a file"),
        ("limits.steps=many", "must be"),
    ] {
        let refused = run(&place, &["--set", bad]).exits(2);
        assert!(refused.stderr.contains(told), "{bad}: {}", refused.stderr);
    }
}

#[test]
fn a_dry_run_shows_the_first_request_as_it_would_be_sent_and_stores_nothing() {
    let place = place();
    let dry = place.run(["run", "pair", "-i", "topic=tides", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(dry.len(), 2, "{dry:?}");
    assert!(!place.store().exists());
    run(&place, &["-q"]).exits(0);
    let sent = place.run(["messages", "last", "--role", "writer", "--json"]).exits(0).json();
    for same in ["role", "digest", "messages", "head"] {
        assert_eq!(dry[0][same], sent[0][same], "{same}");
    }
    let worst = &dry[1];
    assert_eq!((&worst["event"], &worst["cost_usd"]), (&json!("worst_case"), &Value::Null));
    assert_eq!(worst["unpriced"], json!(["writer", "editor"]));
    let priced = ["--model", "gpt-4.1", "--limit", "steps=9"];
    let dry = place.run([&["run", "pair", "-i", "topic=tides", "--dry-run"], &priced[..]].concat()).exits(0);
    assert!(dry.text().contains("Write about tides.") && dry.text().contains("limits: 9 steps"), "{}", dry.text());
    assert!(dry.text().contains(" if no prompt cache hits"), "{}", dry.text());
    // A tool that comes first is not run.
    let dry = place.run(["run", "pair", "-i", "topic=files", "--dry-run"]).exits(0);
    assert!(dry.text().contains("no model is asked before role lister runs read_file"), "{}", dry.text());
}

#[test]
fn the_worst_case_counts_what_children_use() {
    let place = Place::new();
    let worst = |words: &[&str]| {
        let fixture = crate::binary::fixture("children");
        let dry = place.run([&["run", &fixture, "-i", "topic=tea", "--dry-run", "--json"], words].concat()).exits(0);
        dry.event("worst_case")
    };
    assert_eq!(worst(&[])["unpriced"], json!(["planner", "section/writer", "assemble"]));
    let simulated = place.run(["simulate", &crate::binary::fixture("children"), "--json"]).exits(0).event("worst");
    let roles = &simulated["roles"];
    let tokens = |role: &str, name: &str| roles[role][name].as_u64().unwrap();
    assert!(tokens("section", "prompt_tokens") > 0 && tokens("section", "output_tokens") > 0, "{simulated}");
    assert_eq!(
        tokens("section", "prompt_tokens") % tokens("section", "visits"),
        0,
        "each visit has a child of its own"
    );
    let all: u64 = ["planner", "section", "assemble"].iter().map(|role| tokens(role, "output_tokens")).sum();
    assert_eq!(simulated["output_tokens"], all);
    // 2 dollars a million tokens of input, 8 of output.
    let priced = worst(&["--model", "gpt-4.1"]);
    let (prompt, output) = (priced["prompt_tokens"].as_f64().unwrap(), priced["output_tokens"].as_f64().unwrap());
    let dollars = (2.0 * prompt + 8.0 * output) / 1e6;
    assert!((priced["cost_usd"].as_f64().unwrap() - dollars).abs() < 1e-9, "{priced}, {dollars}");
}

fn run_in(place: &Place, store: &str, words: &[&str]) -> Finished {
    place.run([&["run", "pair", "--offline", "--store", store], words].concat())
}

/// What a person who does not know the options tries first.
#[test]
fn words_that_are_left_out_mean_what_is_there() {
    let place = Place::new();
    let none = place.run(["show"]).exits(2);
    assert!(none.stderr.contains("there is no store in"), "{}", none.stderr);
    assert!(place.run(["validate"]).exits(2).stderr.contains("there is no workflow here"));
    place.file("workflows/pair/workflow.yaml", "rondo: 1\nname: pair\ninput: { n: integer }\nroles: { a: { output: { found: { text: string } } } }\ngraph: { start: { to: a, prompt: x }, a: { found: { to: end } } }\n");
    place.file("workflows/broken/workflow.yaml", "rondo: 1\n");
    let told = place.run(["validate"]).exits(2);
    let told = told.text() + &told.stderr;
    assert!(told.contains("2 files") && told.contains("workflows/broken/workflow.yaml"), "{told}");
    std::fs::remove_dir_all(place.path().join("workflows/broken")).unwrap();

    place.file("workflows/pair/script.yaml", "a: [ { status: found, fields: { text: x } } ]\n");
    place.file("in.yaml", "n: 3 # a comment\n");
    let run = |words: &[&str], exit| place.run([&["run", "pair", "--offline", "--json"], words].concat()).exits(exit);
    run(&["--input-file", "in.yaml"], 0);
    place.file("bad.yml", "n: [1\n");
    let bad = run(&["--input-file", "bad.yml"], 2).event("error");
    assert!(bad["message"].as_str().unwrap().starts_with("not YAML"), "{bad}");
    run(&["-i", "n=4", "--limit", "steps=1"], 0);

    let file = place.path().join("one.jsonl");
    place.run(["export", "last", "-o", "one.jsonl"]).exits(0);
    let exported = place.run(["export", "last"]).exits(0).text();
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim_end(), exported.trim_end());
    let again = place.run(["export", "last", "-o", "one.jsonl"]);
    assert!(again.code != Some(0) && again.stderr.contains("one.jsonl"), "{again:?}");

    place.file("lists.yaml", "rondo: 1\nname: lists\ninput: { commits: \"string[]\" }\nroles: { a: { system: s } }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: end } } }\n");
    place.file("commits.yaml", "commits:\n  - 0a1b2c3\n  - 556e174\n");
    let told = place.run(["run", "lists.yaml", "--input-file", "commits.yaml", "--json"]).exits(2).event("error");
    assert!(told["message"].as_str().unwrap().contains("/1"), "{told}");
    assert_eq!(
        (&told["where"]["line"], told.to_string().contains("YAML reads 556e174 as")),
        (&json!(3), true),
        "{told}"
    );
    std::fs::write(place.path().join("latin.yaml"), b"commits: []\n# caf\xe9\n").unwrap();
    let told = place.run(["run", "lists.yaml", "--input-file", "latin.yaml"]).exits(2).stderr;
    assert!(told.contains("line 2 holds the byte 0xe9") && told.contains("iconv -f WINDOWS-1252"), "{told}");
    for (bytes, mend) in [
        (&b"# ab\xff\n"[..], "0xff, which is not UTF-8; mend that line"),
        (b"# caf\xc3\xa9\n# caf\xe9\n", "line 2 holds the byte 0xe9, which is not UTF-8; mend that line"),
        (b"\xff\xfe#\0\n\0", "iconv -f UTF-16"),
    ] {
        std::fs::write(place.path().join("damaged.yaml"), bytes).unwrap();
        let told = place.run(["run", "lists.yaml", "--input-file", "damaged.yaml"]).exits(2).stderr;
        assert!(told.contains(mend), "{told}");
    }

    let shown = place.run(["show", "last:1", "--json"]).exits(0);
    assert_eq!(shown.json().iter().filter(|line| line["event"] == "step").count(), 1);
    place.run(["show", "last:9"]).exits(0);
    // What is told to be pasted means the same store and file.
    place.file("workflows/pair/script.yaml", "a: []\n");
    let stopped = run_in(&place, "my store", &["-i", "n=5", "-o", "out.json"]);
    assert!(stopped.stderr.contains("--store 'my store' -o out.json`"), "{}", stopped.stderr);

    let calls =
        |words: &[&str]| place.run([&["usage", "--json"], words].concat()).exits(0).json()[0]["threads"].clone();
    assert_eq!((calls(&[]), calls(&["last"])), (json!(2), json!(1)));
}
