use std::path::Path;

use rondo::settings::{Files, Flags, Stated, resolve};

use super::*;

fn server(models: &[&str]) -> LocalServer {
    LocalServer {
        program: "llama.cpp",
        base_url: "http://127.0.0.1:8080/v1".to_owned(),
        models: models.iter().map(|model| (*model).to_owned()).collect(),
    }
}

fn settings(variables: &[(&str, &str)]) -> Settings {
    let variable =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let (files, stated, flags) = (Files::default(), Stated::default(), Flags::default());
    resolve(Path::new("/here"), &files, stated, &flags, &variable).unwrap()
}

fn told(servers: &[LocalServer], variables: &[(&str, &str)]) -> String {
    super::super::doctor::table(&findings(servers, &settings(variables)))
}

#[test]
fn a_server_is_told_with_the_line_that_uses_it() {
    insta::assert_snapshot!(told(&[server(&["model-a", "b/c:1"])], &[]), @r"
        local server  llama.cpp at http://127.0.0.1:8080/v1: model-a, b/c:1
        to use it     OPENAI_BASE_URL=http://127.0.0.1:8080/v1 RONDO_MODEL=model-a rondo run ...
        ");
    let many: Vec<String> = (1..=7).map(|number| format!("m{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(told(&[server(&many)], &[]).contains(": m1, m2, m3, m4, m5 and 2 more\n"));
    assert!(told(&[server(&["a"])], &[("OPENAI_API_KEY", "sk-0123456789")]).contains("  OPENAI_API_KEY= OPENAI_BASE"));
    assert_eq!(told(&[], &[]), "");
    let in_use = told(&[server(&["a"])], &[("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1/")]);
    assert_eq!(in_use, "  local server  llama.cpp at http://127.0.0.1:8080/v1: a  (provider.openai)\n");
}

#[test]
fn what_a_server_calls_its_models_neither_steers_nor_is_typed() {
    let names = ["a; rm -rf ~", "--trust", "$(id)", "x=y", "b\u{1b}[2J\nlocal server  evil", "good"];
    let shown = told(&[server(&names)], &[]);
    assert!(shown.contains(" RONDO_MODEL=good rondo run") && shown.lines().count() == 2, "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
    assert!(!told(&[server(&names[..5])], &[]).contains("to use it"));
}

#[test]
fn a_run_without_a_provider_keeps_its_message_and_names_the_servers() {
    let failure = Failure::new(Code::NoProvider, "no model is set for `default`").with_hint("set RONDO_MODEL");
    let text = |servers: &[LocalServer]| {
        let failure = hinted(failure.clone(), servers, &settings(&[]), "my flow");
        super::super::report::text(&failure, super::super::Style::PLAIN)
    };
    insta::assert_snapshot!(text(&[server(&["model-a"]), server(&["$x"])]), @r"
        rondo: RN1001: no model is set for `default`
          set RONDO_MODEL
          llama.cpp at http://127.0.0.1:8080/v1 serves model-a: OPENAI_BASE_URL=http://127.0.0.1:8080/v1 rondo run 'my flow' --model model-a
          llama.cpp at http://127.0.0.1:8080/v1 serves $x
        ");
    assert_eq!(text(&[]), "rondo: RN1001: no model is set for `default`\n  set RONDO_MODEL\n");
}
