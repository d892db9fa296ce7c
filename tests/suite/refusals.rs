//! What the binary says to input that it cannot use: soon, with the right exit code, and never with a panic.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use crate::binary::{Finished, Place, Running};

const WORKFLOW: &str = r#"
rondo: 1
name: pair
input: { topic: string, words: { type: integer, default: 3 } }
roles:
  writer: { system: You write. }
  reader: { system: You read. }
graph:
  start: { to: writer, prompt: "{{ input.topic }}, {{ input.words }}" }
  writer: { done: { to: reader, prompt: "{{ body }}" } }
  reader: { done: { to: end } }
"#;

const SCRIPT: &str = "writer: [ { status: done } ]\nreader: [ { status: done } ]\n";

/// What any refusal may take; on an idle machine it takes milliseconds.
const SOON: Duration = Duration::from_secs(10);

fn place() -> Place {
    let place = Place::new();
    place.file("pair/workflow.yaml", WORKFLOW);
    place.file("pair/script.yaml", SCRIPT);
    place
}

/// Holds `words` to be refused with `code` and to leave no store behind.
#[track_caller]
fn refused(place: &Place, words: &[&str], code: i32) -> Finished {
    let refused = place.start(words).finish_within(SOON).exits(code);
    assert!(!refused.stderr.is_empty() || !refused.lines.is_empty(), "{words:?} ended without a word");
    assert!(!place.store().exists(), "{words:?} left a store");
    refused
}

#[test]
fn a_file_that_is_no_workflow_is_refused() {
    let place = place();
    let file = |name: &str, text: &[u8]| place.file(name, text);
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    let paths = [
        file("empty.yaml", b""),
        file("cut.yaml", &WORKFLOW.as_bytes()[..WORKFLOW.len() / 2]),
        file("no-text.yaml", b"\xff\xfe\0rondo"),
        file("zeros.yaml", &[0; 4096]),
        file("lists.yaml", deep("[", "]").as_bytes()),
        file("lists.json", deep("[", "]").as_bytes()),
        file("maps.json", deep("{\"a\":", "}").as_bytes()),
        file("steps.yaml", (0..2000).map(|at| " ".repeat(at) + "a:\n").collect::<String>().as_bytes()),
        file("large.yaml", &b"a".repeat(4 << 20)),
        "missing.yaml".to_owned(),
        "missing".to_owned(),
        "/dev/null".to_owned(),
    ];
    std::fs::create_dir(place.path().join("folder")).unwrap();
    for path in paths.iter().map(String::as_str).chain(["folder", ""]) {
        refused(&place, &["run", path, "--offline", "-i", "topic=x"], 2);
        refused(&place, &["validate", path], 2);
        refused(&place, &["graph", path], 2);
    }
}

#[test]
fn a_pattern_that_is_no_expression_is_found_where_it_is_written() {
    let place = place();
    let hooks = "hooks:\n  - { use: log }\n  - { use: redact, patterns: [a, '('] }\n";
    place.file("red.yaml", format!("{hooks}{}", WORKFLOW.trim_start()));
    let told = place.run(["validate", "red.yaml"]).exits(2).text();
    assert!(told.contains("red.yaml:3:20") && told.contains("RN1502") && told.contains("unclosed group"), "{told}");
}

#[test]
fn what_is_nested_too_deep_is_refused_where_it_enters() {
    let place = Place::new();
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let answer = |levels: usize| format!("{{\"status\":\"done\",\"tree\":{}}}", deep(levels));
    place.file(
        "tree/workflow.yaml",
        r#"
rondo: 1
name: tree
input: { "tree?": {} }
roles:
  planter: { system: You plant., format: json, output: { done: { tree: {} } } }
graph:
  start: { to: planter, prompt: plant }
  planter: { done: { to: end } }
"#,
    );
    for (script, code) in
        [(vec![answer(125), answer(63)], 0), (vec![answer(63)], 0), (vec![answer(64), answer(125), answer(126)], 5)]
    {
        let raws: Vec<String> = script.iter().map(|raw| format!("{{ raw: '{raw}' }}")).collect();
        place.file("tree/script.yaml", format!("planter: [ {} ]\n", raws.join(", ")));
        let ran = place.run(["run", "tree", "--offline", "--json"]).exits(code);
        // Whatever came of it, the thread can be read.
        for words in [&["show", "last", "--json"][..], &["verify", "last"], &["threads", "--json"]] {
            place.run(words).exits(0);
        }
        if code == 0 {
            assert!(ran.text().contains(&deep(63)), "{}", ran.text());
            place.run(["resume", "last"]).exits(0);
        }
    }
    let place = Place::new();
    place.file("pair/workflow.yaml", WORKFLOW.replace("topic: string", "topic: string, tree: {}"));
    place.file("pair/script.yaml", SCRIPT);
    let given = format!("tree={}", deep(100));
    let told = refused(&place, &["run", "pair", "--offline", "-i", "topic=x", "-i", &given], 2);
    assert!(told.stderr.contains("nested deeper than 64 levels"), "{}", told.stderr);
    let file = place.file("inputs.json", format!("{{\"topic\":\"x\",\"tree\":{}}}", deep(64)));
    let told = refused(&place, &["run", "pair", "--offline", "--input-file", &file], 2);
    assert!(told.stderr.contains("nested deeper than 64 levels"), "{}", told.stderr);
}

#[test]
fn a_pipe_in_place_of_a_workflow_or_a_recording_is_not_waited_for() {
    let place = place();
    let pipe = place.path().join("pipe.yaml");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    for verb in ["run", "validate"] {
        refused(&place, &[verb, "pipe.yaml"], 2);
    }
    // Inputs and scripts that the command line names may be pipes, and are waited for.
    refused(&place, &["run", "pair", "--recorded", "pipe.yaml", "-i", "topic=x"], 2);
}

#[test]
fn an_input_that_breaks_its_schema_is_refused_before_anything_is_stored() {
    let place = place();
    for inputs in
        [&[][..], &["-i", "topic=x", "-i", "words=many"], &["-i", "topic=x", "-i", "colour=red"], &["-i", "topic"]]
    {
        let words = [&["run", "pair", "--offline"], inputs].concat();
        refused(&place, &words, 2);
    }
}

#[test]
fn a_script_that_does_not_fit_is_refused() {
    let place = place();
    for (at, script) in
        ["editor: [ { status: done } ]", "writer: [ { status: lost } ]", "writer: 3", "["].iter().enumerate()
    {
        let file = place.file(&format!("{at}.yaml"), script);
        refused(&place, &["run", "pair", "--script", &file, "-i", "topic=x"], 2);
    }
}

#[test]
fn a_run_without_a_provider_names_the_way_to_go_without() {
    let place = place();
    let told = refused(&place, &["run", "pair", "-i", "topic=x"], 5);
    assert!(told.stderr.contains("--offline"), "{}", told.stderr);
}

#[test]
fn a_model_that_nobody_named_is_refused_before_anything_is_stored() {
    let place = place();
    let mut command = place.command(["run", "pair", "-i", "topic=x"]);
    // Nobody listens there, and nobody is asked.
    command.env("OPENAI_API_KEY", "key").env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
    let told = Running::of(command).finish_within(SOON).exits(5);
    assert!(told.stderr.contains("RONDO_MODEL"), "{}", told.stderr);
    assert!(!place.store().exists());
}

#[test]
fn a_script_that_has_run_out_is_added_to_and_resumed() {
    let place = place();
    let script = place.file("short.yaml", "writer: [ { status: done } ]\n");
    let run = place.run(["run", "pair", "--script", &script, "-i", "topic=x", "--json"]).exits(5);
    let error = run.event("error");
    assert_eq!(error["code"], "RN0705");
    assert_eq!((error["where"]["role"].as_str(), error["where"]["visit"].as_u64()), (Some("reader"), Some(1)));
    place.run(["resume", "--json"]).exits(5);
    place.file("short.yaml", SCRIPT);
    let resumed = place.run(["resume", "--json"]).exits(0);
    assert_eq!(resumed.event("thread_resumed")["seq"], 1);
    assert_eq!(resumed.event("thread_finished")["outcome"], "done");
}

/// What was used of a script stays used, so that the answer behind a broken one is the next.
#[test]
fn a_role_that_broke_its_contract_is_asked_again_by_resume() {
    let place = place();
    let script =
        "writer:\n  - { raw: 1 }\n  - { raw: 2 }\n  - { raw: 3 }\n  - { body: fourth }\nreader: [ { status: done } ]\n";
    let script = place.file("broken.yaml", script.replace("raw: ", "raw: no front matter "));
    let run = place.run(["run", "pair", "--script", &script, "-i", "topic=x", "--json"]).exits(5);
    assert_eq!(run.event("error")["code"], "RN1108");
    let resumed = place.run(["resume", "--json"]).exits(0);
    // The first two replies stand in the journal and are not asked for again.
    let answered: Vec<_> = resumed.events("call_settled").iter().map(|call| call["answered_by"].clone()).collect();
    assert_eq!(answered, ["journal", "journal", "port", "port"]);
    assert_eq!(resumed.event("thread_finished")["outcome"], "done");
}

#[test]
fn a_store_that_cannot_be_made_is_told() {
    let place = place();
    let file = place.file("file", "no folder");
    for store in [file.clone(), format!("{file}/below"), "/proc/nothing".to_owned()] {
        let told = refused(&place, &["run", "pair", "--offline", "-i", "topic=x", "--store", &store], 9);
        assert!(told.stderr.contains(&store), "{}", told.stderr);
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"no folder");
}

#[test]
fn a_reader_that_goes_away_ends_nothing() {
    let place = place();
    place.run(["run", "pair", "--offline", "-i", "topic=x"]).exits(0);
    for words in [
        &["show", "last", "--json"][..],
        &["show", "last"],
        &["threads"],
        &["schema"],
        &["explain"],
        &["run", "pair", "--offline", "-i", "topic=y", "--json"],
    ] {
        let mut command = place.command(words);
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut child = command.stdout(Stdio::from(writer)).spawn().unwrap();
        drop(command);
        let mut first = [0];
        reader.read_exact(&mut first).unwrap();
        drop(reader);
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{words:?}: {told}");
        assert!(!told.to_lowercase().contains("pipe"), "{told}");
    }
    // The run went on to its end although nobody read of it.
    let listed = place.run(["threads", "--json"]).exits(0).json();
    assert!(listed.iter().all(|line| line["status"] == "done"), "{listed:?}");
}

#[test]
fn a_place_that_can_be_no_store_is_told_with_what_a_store_needs() {
    let place = place();
    place.file("plain", "");
    let refused = refused(&place, &["run", "pair", "--offline", "-i", "topic=x", "--store", "plain/store"], 9);
    assert!(refused.stderr.contains("RN1305") && refused.stderr.contains("`--store DIR` uses another"), "{refused:?}");
}

#[test]
fn a_store_of_another_user_is_told_and_left_alone() {
    let place = place();
    let setpriv = std::path::Path::new("/usr/bin/setpriv");
    if !rustix::process::geteuid().is_root() || !setpriv.is_file() {
        println!("skipped: only root can take the place of another user, and needs setpriv");
        return;
    }
    place.run(["run", "pair", "--offline", "-i", "topic=x"]).exits(0);
    for folder in [place.path(), place.path().parent().unwrap().to_owned()] {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    // The binary may lie in a folder that others cannot enter.
    let copy = place.path().join("rondo");
    if std::fs::hard_link(crate::binary::binary(), &copy).is_err() {
        std::fs::copy(crate::binary::binary(), &copy).unwrap();
    }
    let as_nobody = |words: &[&str]| {
        let mut command = std::process::Command::new(setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy).args(words);
        command
            .current_dir(place.path())
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Running::of(command).finish_within(SOON)
    };
    for words in
        [&["threads"][..], &["show", "last"], &["run", "pair", "--offline", "-i", "topic=x"], &["resume", "last"]]
    {
        let told = as_nobody(words).exits(3);
        assert!(
            told.stderr.contains("RN1309") && told.stderr.contains("belongs to user 0"),
            "{words:?}: {}",
            told.stderr
        );
    }
    place.run(["verify", "last"]).exits(0);
}

#[test]
fn a_limit_on_money_without_a_price_is_refused_and_warned_of() {
    let place = Place::new();
    place.file(
        "paid/workflow.yaml",
        WORKFLOW.replace("graph:", "models: { default: { model: tuned } }\nlimits: { cost_usd: 0.5 }\ngraph:"),
    );
    place.file("paid/script.yaml", SCRIPT);
    let run = ["run", "paid", "-i", "topic=x"];
    let with_key =
        |words: &[&str]| place.command(words).env("OPENAI_API_KEY", "sk-nobodys-key-at-all").output().unwrap();
    let refused = with_key(&run);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("RN0519") && said.contains("tuned") && said.contains("[model.default]"), "{said}");
    let warned = with_key(&["validate", "paid"]);
    assert_eq!(warned.status.code(), Some(0));
    let said = String::from_utf8(warned.stdout).unwrap();
    assert!(said.contains("RN0519") && said.contains("workflow.yaml:9"), "{said}");
    // What costs nothing, or what a price is known of, is limited.
    place.start(["run", "paid", "--offline", "-i", "topic=x"]).finish_within(SOON).exits(0);
    place.file(
        "paid/workflow.yaml",
        WORKFLOW.replace("graph:", "models: { default: { model: gpt-4.1-mini } }\nlimits: { cost_usd: 0.5 }\ngraph:"),
    );
    let listed = with_key(&["validate", "paid"]);
    assert!(!String::from_utf8(listed.stdout).unwrap().contains("RN0519"));
}

#[test]
fn what_a_model_does_not_take_is_warned_of_before_it_is_asked() {
    let place = Place::new();
    let asked = WORKFLOW.replace(
        "graph:",
        "models: { default: { model: anthropic/claude-opus-5, temperature: 0.2, seed: 7, stop: [x] } }\ngraph:",
    );
    let fields = "You write., format: json, output: { done: { title: { type: string, pattern: \"^A\" } } }";
    place.file("asked/workflow.yaml", asked.replace("You write.", fields));
    place.file("asked/script.yaml", SCRIPT.replacen("done", "done, fields: { title: A }", 1));
    let told = |words: &[&str], model: &str| {
        let mut command = place.command(words);
        let output = command.env("RONDO_MODEL", model).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let dry = ["run", "asked", "-i", "topic=x", "--dry-run"];
    for words in [&["validate", "asked"][..], &dry] {
        let said = told(words, "");
        assert_eq!(said.matches("RN0522").count(), 2, "{said}");
        assert!(said.contains("(claude-opus-5 at provider anthropic) takes no `seed`: it is left out"), "{said}");
        assert_eq!(said.matches("RN0523").count(), 1, "{said}");
        assert!(said.contains("it goes beyond the JSON Schema that is supported"), "{said}");
    }
    // Another model for the run, or a script in its place.
    let said = told(&[&dry[..], &["--model", "gemini/gemini-4-pro"]].concat(), "");
    assert!(said.contains("gemini-4-pro") && said.contains("`temperature`") && !said.contains("`seed`"), "{said}");
    assert!(!told(&["run", "asked", "--offline", "-i", "topic=x"], "").contains("RN052"));
    // A model that refuses a parameter is another case than one that goes without it.
    place.file(
        "asked/workflow.yaml",
        WORKFLOW.replace("graph:", "models: { default: { temperature: 0.2, top_p: 1 } }\ngraph:"),
    );
    let said = told(&["validate", "asked"], "gpt-5");
    assert!(said.contains("takes no `temperature`: it refuses a request with it") && !said.contains("top_p"), "{said}");
    assert!(!told(&["validate", "asked"], "gpt-4.1").contains("RN052"));
}
