use rondo_protocol::diagnostic::Code;
use rondo_protocol::workflow::read;

use super::*;

/// The warnings of a workflow, one per line, with `model` and `tools` for every role.
fn told_with(text: &str, files: &[(&str, &str)], model: Option<&str>, tools: &[ToolSpec]) -> String {
    let files: BTreeMap<String, String> =
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let checked = read("dir/w.yaml", text, &files).unwrap();
    let resolved_roles = |workflow: &Workflow| {
        let of = |(name, _, role): (&RoleName, _, &ModelRole)| {
            let tools = if role.tools.is_empty() { Vec::new() } else { tools.to_vec() };
            (name.clone(), ResolvedRoles { model: model.map(str::to_owned), tools })
        };
        resolved_roles::model_roles(workflow).map(of).collect()
    };
    let found = lint(&checked.workflow, &checked.places, &resolved_roles).unwrap();
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The warnings with one code.
fn told(code: Code, text: &str, files: &[(&str, &str)]) -> String {
    let all = told_with(text, files, Some("gpt-5"), &[]);
    all.lines().filter(|line| line.contains(code.as_str())).collect::<Vec<_>>().join("\n")
}

/// A workflow of two alternating roles, with these lines under `roles` and this opening prompt.
fn pair(roles: &str, prompt: &str) -> String {
    format!(
        "rondo: 1\nname: pair\ninput: {{ topic: string, now: string, repo_path: string }}\nroles:\n{roles}\
         graph:\n  start: {{ to: a, prompt: \"{prompt}\" }}\n  a: {{ done: {{ to: b }} }}\n  \
         b: {{ done: {{ to: a, max: 2, on_max: {{ to: end }} }} }}\n"
    )
}

const PLAIN: &str = "  a: { system: You write. }\n  b: { system: You read. }\n";

#[test]
fn what_changes_in_a_system_text_is_told_in_the_file_where_it_stands() {
    let roles = "  a: { system: [ { file: style.md }, \"Work in /home/ann/book on 22 November 2026.\" ] }\n  \
                 b: { system: { text: \"Ask $EDITOR_NAME.\" } }\n";
    let files = [("style.md", "Be plain.\n\nThe run is 123e4567-e89b-12d3-a456-426614174000.\n")];
    insta::assert_snapshot!(told(Code::VolatileText, &pair(roles, "Go."), &files));
}

#[test]
fn what_changes_in_a_prompt_that_opens_a_thread_is_told_and_in_a_later_one_is_not() {
    let text = pair(PLAIN, "It is 2026-11-22 09:00. Write about {{ input.topic }}.");
    insta::assert_snapshot!(told(Code::VolatileText, &text, &[]));
    let later =
        pair(PLAIN, "Go.").replace("a: { done: { to: b } }", "a: { done: { to: b, prompt: \"On 2026-11-22.\" } }");
    assert_eq!(told(Code::VolatileText, &later, &[]), "");
    assert_eq!(
        told(Code::VolatileText, &pair(PLAIN, "Write. Today is 2026-11-22."), &[]),
        "",
        "nothing stands behind it"
    );
    let file = pair(PLAIN, "Go.").replace("prompt: \"Go.\"", "prompt: { file: open.md }");
    insta::assert_snapshot!(told(Code::VolatileText, &file, &[("open.md", "Hello.\nToday is 2026-11-22.\nBegin.\n")]));
}

#[test]
fn an_input_that_is_a_clock_or_a_path_is_told_where_text_follows_it() {
    let of = |prompt: &str| told(Code::VolatileInput, &pair(PLAIN, prompt), &[]);
    insta::assert_snapshot!(of("{{ input.topic }} at {{ input.now }} in {{ input.repo_path | trim }}: begin."));
    assert_eq!(of("Write about {{ input.topic }}. It is {{ input.now }}"), "");
    assert_eq!(of("{% if input.topic != 'x' %}Write about {{ input.topic }}.{% endif %}"), "");
}

#[test]
fn a_role_that_comes_back_with_less_than_is_kept_is_told_with_its_model() {
    let text = pair(PLAIN, "Write about {{ input.topic }}.");
    let once = "rondo: 1\nname: once\nroles: { a: { system: You write. } }\ngraph: { start: { to: a, prompt: Go. }, a: { done: { to: end } } }\n";
    let of = |model| told_with(&text, &[], model, &[]);
    insta::assert_snapshot!(
        [of(Some("gpt-5")), of(Some("anthropic/claude-haiku-4.5")), of(Some("my-model")), of(None)].join("\n")
    );
    assert_eq!(told_with(once, &[], Some("gpt-5"), &[]), "");

    let long = "Write as the house does. ".repeat(180);
    let kept = pair(&PLAIN.replace("You write.", &long).replace("You read.", &format!("Read. {long}")), "Go.");
    assert_eq!(told(Code::ShortPrefix, &kept, &[]), "");
    assert_eq!(told_with(&kept, &[], Some("claude-haiku-4-5"), &[]).matches("RN1923").count(), 2);
}

#[test]
fn what_a_tool_says_of_itself_is_told_where_the_role_names_it() {
    let spec = |name: &str, description: &str| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: "{\"type\":\"object\"}".to_owned(),
    };
    let tools = [spec("lint", "Runs `/home/ann/bin/lint`."), spec("read", "Reads a file.")];
    let roles = "  a: { system: You write., tools: [read, lint] }\n  b: { system: You read. }\n";
    let all = told_with(&pair(roles, "Go."), &[], Some("gpt-5"), &tools);
    insta::assert_snapshot!(all.lines().find(|line| line.contains("RN1921")).unwrap());
}

#[test]
fn a_common_text_behind_what_differs_is_told_and_one_before_it_is_not() {
    let style = "Write as the house does. ".repeat(200);
    let files = [("style.md", style.as_str())];
    let of = |a: &str, b: &str| told(Code::UnsharedText, &pair(&format!("  a: {a}\n  b: {b}\n"), "Go."), &files);
    let behind = |own: &str| format!("{{ system: [ {own}, {{ file: style.md }} ] }}");
    let before = |own: &str| format!("{{ system: [ {{ file: style.md }}, {own} ] }}");
    insta::assert_snapshot!(of(&behind("You write."), &behind("You read.")));
    assert_eq!(of(&before("You write."), &before("You read.")), "");
    // In a single text the place is known.
    let whole = |own: &str| format!("{{ system: \"{own} {style}\" }}");
    let told = of(&whole("You write."), &whole("You read."));
    assert!(told.starts_with("dir/w.yaml:6:21: RN1924: "), "{told}");
    // The difference is larger than the common part after it.
    assert_eq!(of(&whole(&"You write. ".repeat(900)), &whole(&"Read it all. ".repeat(900))), "");
}

#[test]
fn a_common_text_is_not_shared_behind_other_tools_or_formats() {
    let style = "Write as the house does. ".repeat(200);
    let files = [("style.md", style.as_str())];
    let tool =
        ToolSpec { name: "read".into(), description: "Reads.".into(), parameters: "{\"type\":\"object\"}".into() };
    let of = |a: &str, b: &str| {
        let text = pair(
            &format!("  a: {{ system: {{ file: style.md }}{a} }}\n  b: {{ system: {{ file: style.md }}{b} }}\n"),
            "Go.",
        );
        let all = told_with(&text, &files, Some("gpt-5"), std::slice::from_ref(&tool));
        all.lines().filter(|line| line.contains("RN1924")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(of("", ""), "");
    assert_eq!(of(", tools: [read]", ", tools: [read]"), "");
    insta::assert_snapshot!([of("", ", tools: [read]"), of("", ", format: json")].join("\n"));
}

#[test]
fn a_child_workflow_is_looked_at_in_its_own_file() {
    let child = "rondo: 1\nname: child\nroles:\n  one: { system: Today is 2026-11-22. }\ngraph:\n  start: { to: one, prompt: Go. }\n  one: { done: { to: end } }\n";
    let text = "rondo: 1\nname: outer\nroles:\n  sub: { kind: workflow, workflow: child.yaml }\ngraph:\n  start: { to: sub }\n  sub: { done: { to: end }, failed: { to: fail } }\n";
    let told = told_with(text, &[("child.yaml", child)], None, &[]);
    assert!(told.starts_with("dir/child.yaml:4:27: RN1921: "), "{told}");
}

#[test]
fn many_findings_are_bounded() {
    let dates = format!("{}end", "2026-11-22 ".repeat(5_000));
    let told = told(Code::VolatileText, &pair(&PLAIN.replace("You write.", &dates), &dates), &[]);
    assert_eq!(told.lines().count(), 40);
}
