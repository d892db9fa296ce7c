use std::sync::Arc;

use rondo_protocol::call::{ModelAnswer, ModelCall};
use rondo_protocol::canonical;
use rondo_protocol::id::{FieldName, LanePath, RoleName, Status};
use rondo_protocol::object::Finish;
use rondo_protocol::source::Source;
use rondo_protocol::workflow::{AnswerFormat, Field};

use super::*;
use crate::model::scripted::Scripted;
use crate::model::{Deltas, Model, NoDeltas, test_call};

const SCRIPT: &str = r#"
writer:
  - { status: drafted, fields: { title: "Tide pools: a primer" }, body: "One.\nTwo.\n" }
  - { raw: "---\nnonsense" }
  - tools: [ { name: read_file, args: { path: a.rs, deep: [1, null] } }, { name: list, args: "{broken" }, { name: now } ]
    then: { fields: { title: Again } }
  - { error: { http: 429, retry_after: 2 } }
  - { error: { cut: true }, delay_ms: 1 }
reviewer: [ { status: ok }, { status: bad } ]
"reviewer[2]": [ { status: bad } ]
"lead[1]/reviewer[2]": [ { status: ok } ]
section/writer: [ { raw: child } ]
person: [ { status: yes_please, fields: { why: "x" }, body: b } ]
lint: [ { fields: { warnings: 2 } }, { raw: text } ]
"#;

fn contract(format: AnswerFormat, statuses: &[(&str, &[&str])]) -> Contract {
    let text = || Field { optional: false, schema: canonical::parse(br#"{"type":"string"}"#).unwrap() };
    let fields = |names: &[&str]| names.iter().map(|name| (FieldName::new(name).unwrap(), text())).collect();
    let output = statuses.iter().map(|(status, names)| (Status::new(status).unwrap(), fields(names))).collect();
    Contract::new(format, &output).unwrap()
}

fn roles() -> ScriptRoles {
    let reviewer: &[(&str, &[&str])] = &[("ok", &[]), ("bad", &[])];
    let roles = [
        ("writer", ScriptRole::Model(contract(AnswerFormat::Frontmatter, &[("drafted", &["title"])]))),
        ("reviewer", ScriptRole::Model(contract(AnswerFormat::Json, reviewer))),
        ("section/writer", ScriptRole::Model(contract(AnswerFormat::Frontmatter, reviewer))),
        ("person", ScriptRole::Human(contract(AnswerFormat::Json, &[("yes_please", &["why"]), ("no_thanks", &[])]))),
        ("lint", ScriptRole::Tool),
    ]
    .map(|(name, part)| (name.to_owned(), part));
    ScriptRoles { roles: roles.into(), ..ScriptRoles::default() }
}

fn yaml(text: &str) -> Source {
    Source::new("script.yaml", text)
}

fn call(role: &str, lane: &str, ordinal: u64) -> ModelCall {
    let mut call = test_call();
    call.site.role = RoleName::new(role).unwrap();
    call.site.lane = LanePath::new(lane).unwrap();
    call.ordinal = ordinal;
    call
}

fn play(model: &Scripted, call: &ModelCall) -> Result<ModelAnswer, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(model.complete(call, &NoDeltas))
}

fn scripted() -> Scripted {
    let file = yaml(SCRIPT);
    let script = Script::read(&file).unwrap();
    assert_eq!(script.check(&file, &roles()), []);
    // As transferred to another process.
    let bytes = canonical::to_bytes(&script).unwrap();
    let moved: Script = canonical::from_slice(&bytes).unwrap();
    assert_eq!(moved, script);
    Scripted::new(Arc::new(moved), Arc::new(roles()))
}

fn text(model: &Scripted, role: &str, lane: &str, ordinal: u64) -> String {
    play(model, &call(role, lane, ordinal)).unwrap().reply.parts.text().into_owned()
}

#[test]
fn an_entry_answers_one_attempt_and_a_structured_one_has_the_form_of_the_role() {
    let model = scripted();
    assert_eq!(
        text(&model, "writer", "", 0),
        "---\nstatus: drafted\ntitle: \"Tide pools: a primer\"\n---\n\nOne.\nTwo.\n"
    );
    assert_eq!(text(&model, "writer", "", 1), "---\nnonsense");
    assert_eq!(text(&model, "writer", "", 3), "---\nstatus: drafted\ntitle: Again\n---\n");
    assert_eq!(text(&model, "reviewer", "", 0), r#"{"status": "ok", "body": ""}"#);
    assert_eq!(text(&model, "person", "", 0), r#"{"body":"b","status":"yes_please","why":"x"}"#);
    assert_eq!((text(&model, "lint", "", 0), text(&model, "lint", "", 1)), (r#"{"warnings":2}"#.into(), "text".into()));
}

#[test]
fn tools_and_then_are_two_attempts() {
    let answer = play(&scripted(), &call("writer", "", 2)).unwrap();
    assert_eq!((answer.reply.finish, answer.reply.parts.text().as_ref()), (Finish::ToolCalls, ""));
    let tools: Vec<[&str; 3]> =
        answer.reply.parts.tool_calls().map(|tool| [&*tool.id, &*tool.name, &*tool.arguments]).collect();
    let wanted = [
        ["call_2_0", "read_file", r#"{"deep":[1,null],"path":"a.rs"}"#],
        ["call_2_1", "list", "{broken"],
        ["call_2_2", "now", "{}"],
    ];
    assert_eq!(tools, wanted);
}

#[test]
fn a_lane_without_a_list_of_its_own_plays_the_common_one_from_its_beginning() {
    let model = scripted();
    let ok = |lane| text(&model, "reviewer", lane, 0).contains("ok");
    assert_eq!([ok(""), ok("reviewer[0]"), ok("a[2]/reviewer[1]"), ok("reviewer[2]")], [true, true, true, false]);
    assert_eq!([ok("lead[0]/reviewer[2]"), ok("lead[1]/reviewer[2]")], [false, true], "a nested lane has its own list");
    assert_eq!(play(&model, &call("reviewer", "reviewer[2]", 1)).unwrap_err().class, FaultClass::ScriptEnd);
    let trunk = LanePath::trunk();
    assert_eq!(text(&model.within(&RoleName::new("section").unwrap(), &trunk), "writer", "", 0), "child");
}

/// `lead` runs a child, and its lanes open others.
#[test]
fn the_narrowest_list_answers_for_the_child_of_a_lane() {
    let script = r#"
"lead/writer": [ { raw: any } ]
"lead[1]/writer": [ { raw: one } ]
"lead/writer[3]": [ { raw: third } ]
"lead[1]/writer[3]": [ { raw: third of one } ]
"top[0]/lead[1]/writer": [ { raw: nested } ]
"lead[1]/reviewer[2]": [ { raw: lane } ]
"lead[2]/lead[3]": [ { raw: lead itself } ]
"#;
    let any = || ScriptRole::Model(contract(AnswerFormat::Frontmatter, &[("ok", &[])]));
    let roles = ["lead", "lead/writer", "lead/lead", "reviewer", "writer"].map(|role| (role.to_owned(), any()));
    let roles = ScriptRoles { roles: roles.into(), ..ScriptRoles::default() };
    let file = yaml(script);
    let script = Script::read(&file).unwrap();
    assert_eq!(script.check(&file, &roles), []);
    let model = Scripted::new(Arc::new(script), Arc::new(roles));
    let said = |above: Option<&str>, role: &str, lane: &str| {
        let lead = RoleName::new("lead").unwrap();
        let model = above.map_or_else(|| model.clone(), |above| model.within(&lead, &LanePath::new(above).unwrap()));
        play(&model, &call(role, lane, 0)).map(|answer| answer.reply.parts.text().into_owned()).unwrap_or_default()
    };
    let in_lead = |above: &str, lane: &str| said(Some(above), "writer", lane);
    assert_eq!([in_lead("", ""), in_lead("lead[0]", ""), in_lead("lead[1]", "")], ["any", "any", "one"]);
    assert_eq!([in_lead("", "writer[3]"), in_lead("lead[1]", "writer[3]")], ["third", "third of one"]);
    assert_eq!([in_lead("top[0]/lead[1]", ""), in_lead("top[1]/lead[1]", "")], ["nested", "one"]);
    assert_eq!([said(None, "reviewer", "lead[1]/reviewer[2]"), said(Some("lead[1]"), "reviewer", "")], ["lane", ""]);
    // Where both are possible, the child is meant, not the nested lane.
    assert_eq!([said(Some("lead[2]"), "lead", "x[3]"), said(None, "lead", "lead[2]/x[3]")], ["lead itself", ""]);
    assert_eq!(said(None, "writer", "lead[1]/writer[3]"), "", "nor does a child's list answer in a nested lane");
}

#[test]
fn a_list_for_lanes_in_which_its_role_never_runs_is_a_fault() {
    let keys = ["lead", "lead[0]", "lead[0]/writer", "writer[1]", "lead[0]/writer[1]", "tail[0]/writer[1]", "tail[0]"];
    let any = || ScriptRole::Model(contract(AnswerFormat::Frontmatter, &[("ok", &[])]));
    let roles = ["lead", "tail", "writer"].map(|role| (role.to_owned(), any()));
    let depths: [(&str, &[usize]); 3] = [("lead", &[0]), ("tail", &[0, 1]), ("writer", &[2])];
    let depths = depths.map(|(role, depths)| (role.to_owned(), depths.iter().copied().collect()));
    let roles = ScriptRoles { roles: roles.into(), depths: depths.into() };
    let file = yaml(&keys.map(|key| format!("\"{key}\": []\n")).concat());
    let faults = Script::read(&file).unwrap().check(&file, &roles);
    insta::assert_snapshot!(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
}

#[test]
fn failures_are_those_of_a_provider() {
    let model = scripted();
    let busy = play(&model, &call("writer", "", 4)).unwrap_err();
    assert_eq!((busy.code, busy.class, busy.retry_after_ms), (Code::ProviderBusy, FaultClass::RateLimit, Some(2000)));
    let cut = play(&model, &call("writer", "", 5)).unwrap_err();
    assert_eq!((cut.code, cut.class), (Code::ReplyCut, FaultClass::Network));
}

#[test]
fn a_failure_can_be_any_fault_of_a_visit_in_its_own_words() {
    let script = r"
writer:
  - { error: { code: RN1108, message: The answer has no title. } }
  - { error: { code: rn1204 } }
  - { error: { code: RN1201 } }
  - { error: { http: 403, message: No. } }
";
    let script = Script::read(&yaml(script)).unwrap();
    let model = Scripted::new(Arc::new(script), Arc::new(roles()));
    let fault = |ordinal| play(&model, &call("writer", "", ordinal)).unwrap_err();
    let told = |ordinal| (fault(ordinal).code, fault(ordinal).class, fault(ordinal).message);
    assert_eq!(told(0), (Code::ContractBroken, FaultClass::Contract, "The answer has no title.".to_owned()));
    assert_eq!((told(1).0, told(1).1), (Code::StepTimeout, FaultClass::Timeout));
    assert_eq!((told(2).0, told(2).1), (Code::StepLimit, FaultClass::Limit));
    assert_eq!(told(3), (Code::KeyRefused, FaultClass::Refused, "No.".to_owned()));
    let faults = Script::read(&yaml("writer: [ { error: { code: RN9999 } } ]")).unwrap_err();
    assert!(faults[0].message.contains("must be a code of rondo"), "{faults:?}");
}

#[test]
fn running_out_names_role_visit_and_lane() {
    let model = scripted();
    let mut call = call("reviewer", "reviewer[2]", 1);
    call.site.visit = 3;
    assert_eq!(
        play(&model, &call).unwrap_err().message,
        "the script has no entry left for role `reviewer`, visit 3 in lane reviewer[2]; add one and resume"
    );
    assert!(!model.has(&call.site, 1) && model.has(&call.site, 0));
}

#[test]
fn a_text_arrives_in_parts_that_make_it_up() {
    #[derive(Default)]
    struct Parts(std::sync::Mutex<Vec<String>>);
    impl Deltas for Parts {
        fn text(&self, text: &str) {
            self.0.lock().unwrap().push(text.to_owned());
        }
    }
    let file = yaml("writer: [ { raw: \"é😀é😀 abc\" } ]");
    let model = Scripted::new(Arc::new(Script::read(&file).unwrap()), Arc::new(roles()));
    let parts = Parts::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(model.complete(&call("writer", "", 0), &parts)).unwrap();
    let parts = parts.0.into_inner().unwrap();
    assert!(parts.len() > 1);
    assert_eq!(parts.concat(), "é😀é😀 abc");
}

#[test]
fn every_fault_of_a_script_is_reported_at_its_place() {
    let text = r#"Writer: []
writer:
  - { staus: drafted }
  - { status: drafted, raw: x }
  - {}
  - just text
  - { status: 3, body: [x] }
  - { then: { raw: x } }
  - { tools: [] }
  - { tools: [ { args: {} } ], then: { raw: x, wait: 1 } }
  - { error: { http: 200 } }
  - { error: { http: 500, network: true } }
  - { error: { network: false, retry: 1 } }
  - { error: {} }
  - { raw: x, delay_ms: -1 }
  - { fields: [1] }
reviewer: none
"reviewer[02]": []
"a/": []
"#;
    let shown = |faults: Vec<rondo_protocol::diagnostic::Diagnostic>| {
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!("shape", shown(Script::read(&yaml(text)).unwrap_err()));
    let text = r#"writer:
  - { status: drafted, fields: { titel: x } }
  - { status: draftd }
  - { fields: { title: 42 } }
  - { body: only }
wrietr: [ { status: ok } ]
"reviewer[1]":
  - { body: no status }
person: [ { raw: x } ]
lint: [ { status: ok }, { tools: [ { name: x } ] } ]
rule: []
"#;
    let file = yaml(text);
    insta::assert_snapshot!("roles", shown(Script::read(&file).unwrap().check(&file, &roles())));
    let json = Source::new("script.JSON", "{\"writer\": [{\"raw\": \"x\"},]}");
    assert_eq!(Script::read(&json).unwrap_err().len(), 1);
    assert!(Script::read(&yaml("- a")).unwrap_err()[0].message.starts_with("a script is a map"));
    assert!(!Script::read(&yaml("")).unwrap_err().is_empty());
}

#[test]
fn the_reference_has_a_row_for_each_key_of_an_entry_and_of_an_error() {
    let page = include_str!("../../../../engine/docs/scripts.md");
    for (title, keys) in [("entry", read::ENTRY_KEYS.as_slice()), ("key of `error`", read::ERROR_KEYS.as_slice())] {
        let (_, table) = page.split_once(&format!("\n| {title} | ")).unwrap();
        let rows = table.lines().skip(2).take_while(|line| line.starts_with("| `"));
        let first: Vec<&str> = rows.filter_map(|row| row.split('|').nth(1)).collect();
        for key in keys {
            let is_named = |cell: &&str| cell.contains(&format!("`{key}`")) || cell.contains(&format!("`{key}: "));
            assert!(first.iter().any(is_named), "{title}: {key}");
        }
    }
}
