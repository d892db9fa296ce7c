use rondo_protocol::call::{Effect, Site};
use rondo_protocol::id::{LanePath, ThreadId};

use super::*;

fn call(role: &str, name: &str, arguments: &str) -> ToolCall {
    let site = Site {
        thread: ThreadId::from_parts(1, 1),
        role: RoleName::new(role).unwrap(),
        lane: LanePath::trunk(),
        visit: 1,
        position: 0,
    };
    let (name, arguments) = (name.to_owned(), arguments.to_owned());
    ToolCall { site, id: "a".into(), name, arguments, effect: Effect::External, idempotency_key: String::new() }
}

fn script(text: &str) -> ToolCall {
    call("dev", "shell", &format!("{{\"script\":{}}}", rondo_protocol::Value::from(text).to_text()))
}

fn grants(tools: &[&str], deny: &[&str], approve: &[&str]) -> Grants {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Grants { tools: rules(tools), deny: rules(deny), approve: rules(approve) }
}

#[test]
fn deny_goes_before_approve_and_approve_before_tools() {
    let grants = grants(&["*"], &["shell:git push*"], &["shell:git*"]);
    assert_eq!(grants.decide(&script("cargo test")), Decision::Granted);
    assert_eq!(grants.decide(&script("git status")), Decision::Asked);
    for denied in ["git push", "git pushx", "'git' push", "git   push origin", "/usr/bin/git push", "g\\it push"] {
        assert!(matches!(grants.decide(&script(denied)), Decision::Denied(_)), "{denied}");
    }
    let argv = call("dev", "shell", r#"{"argv":["git","push"]}"#);
    assert!(matches!(grants.decide(&argv), Decision::Denied(_)));
}

#[test]
fn what_cannot_be_split_matches_every_deny_and_approve_and_no_grant() {
    let denying = grants(&["shell"], &["shell:git push*"], &[]);
    let approving = grants(&["shell"], &[], &["shell:git push*"]);
    let granting = grants(&["shell:cargo test"], &[], &[]);
    for sly in ["true; git push", "$(git push)", "a | git push", "env git push", "sh -c 'git push'", "X=1 git push"] {
        assert!(matches!(denying.decide(&script(sly)), Decision::Denied(_)), "{sly}");
        assert_eq!(approving.decide(&script(sly)), Decision::Asked, "{sly}");
        let sly = format!("cargo test; {sly}");
        assert!(matches!(granting.decide(&script(&sly)), Decision::Denied(_)), "{sly}");
    }
    assert_eq!(granting.decide(&script("cargo test --workspace")), Decision::Granted);
    assert!(matches!(granting.decide(&script("cargo testament")), Decision::Denied(_)), "whole words are compared");
}

#[test]
fn a_rule_of_a_role_is_of_no_other() {
    let grants = grants(&["dev/shell", "read_file"], &["dev/read_file"], &[]);
    let spec = |name: &str| Spec {
        name: name.to_owned(),
        description: String::new(),
        parameters: "{}".to_owned(),
        origin: rondo_agent_kit::tool::Origin::BuiltIn,
    };
    let (dev, other) = (RoleName::new("dev").unwrap(), RoleName::new("other").unwrap());
    assert_eq!(grants.denied(Some(&dev), &spec("shell")), None);
    assert!(grants.denied(Some(&other), &spec("shell")).unwrap().contains("not granted"));
    assert!(grants.denied(Some(&dev), &spec("read_file")).unwrap().contains("denied"));
    assert_eq!(grants.denied(Some(&other), &spec("read_file")), None);
}

#[test]
fn a_path_is_compared_without_its_detours() {
    let grants = grants(&["write_file:notes/*"], &["write_file:notes/keys*"], &[]);
    let write = |path: &str| grants.decide(&call("a", "write_file", &format!("{{\"path\":\"{path}\"}}")));
    assert_eq!(write("notes/a.txt"), Decision::Granted);
    assert_eq!(write("./x/../notes/a.txt"), Decision::Granted);
    for denied in ["notes/keys.txt", "notes/./keys.txt", "src/a.txt", "notes/a/b.txt", "../notes/a.txt", "/notes/a.txt"]
    {
        assert!(matches!(write(denied), Decision::Denied(_)), "{denied}");
    }
}

#[test]
fn an_entry_that_means_no_tool_is_refused() {
    for bad in ["", "docs*", "*.read", "a b", "Dev/shell", "shell:", "docs.find:x", "read_file:/etc", "read_file:"] {
        assert!(bad.parse::<Rule>().is_err(), "{bad:?}");
    }
    for good in ["*", "docs.*", "dev/*", "shell:git push*", "a/read_file:b/*.md", "docs.a/b"] {
        assert_eq!(good.parse::<Rule>().unwrap().as_str(), good);
    }
}
