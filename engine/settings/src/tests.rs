mod settings_page;

use std::path::Path;

use rondo_protocol::event::Durability;
use rondo_protocol::workflow::{Limits, ModelSpec};

use super::*;

fn in_force(text: &str, flags: &Flags, variables: &[(&str, &str)]) -> Settings {
    let stated = read("rondo.toml", text, Layer::Project).expect("the file is good");
    let variable = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let files = Files { project: Some("/here/rondo.toml".into()), user: None };
    resolve(Path::new("/here/sub"), &files, stated, flags, &variable).expect("the environment is good")
}

fn faults(text: &str) -> String {
    read("rondo.toml", text, Layer::Project)
        .expect_err("the file is bad")
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_flag_goes_before_the_environment_before_the_file_before_the_default() {
    let text = "[store]\npath = \"from-file\"\n";
    let flags = Flags { store: Some("from-flag".into()), durability: Some(Durability::Log), ..Flags::default() };
    let variables = [("RONDO_STORE", "from-env")];
    let store = |text, flags, variables: &[_]| {
        let settings = in_force(text, flags, variables);
        (settings.store.value.to_string_lossy().into_owned(), settings.store.from.to_string())
    };
    let none = Flags::default();
    assert_eq!(store(text, &flags, &variables), ("/here/sub/from-flag".into(), "--store".into()));
    assert_eq!(store(text, &none, &variables), ("/here/sub/from-env".into(), "$RONDO_STORE".into()));
    assert_eq!(store(text, &none, &[]), ("/here/from-file".into(), "rondo.toml:2".into()));
    assert_eq!(store("", &none, &[("RONDO_STORE", "")]), ("/here/.rondo".into(), "default".into()));
    assert_eq!(in_force("[store]\ndurability = \"sync\"", &flags, &[]).durability.value, Durability::Log);
}

#[test]
fn the_environment_goes_before_the_file_for_addresses_and_timeouts() {
    let text = "[provider.openai]\nbase_url = \"http://a/v1/\"\nidle_timeout = \"5s\"\ntotal_timeout = \"2m\"\n";
    let settings =
        in_force(text, &Flags::default(), &[("OPENAI_BASE_URL", "http://b/v1"), ("RONDO_IDLE_TIMEOUT", "1s")]);
    let provider = &settings.providers["openai"];
    assert_eq!(provider.base_url.value, "http://b/v1");
    assert_eq!(provider.idle_timeout_ms.value, 1_000);
    assert_eq!(provider.total_timeout_ms.as_ref().map(|timeout| timeout.value), Some(120_000));
    assert_eq!(provider.connect_timeout_ms.from, Origin::Default);
    assert_eq!(in_force(text, &Flags::default(), &[]).providers["openai"].base_url.value, "http://a/v1");
}

#[test]
fn a_model_is_resolved_from_operator_then_workflow_then_environment_then_script() {
    let text = "[model.default]\nmodel = \"of-operator\"\nprice = { input = 1, output = 2.5 }\n";
    let spec = ModelSpec { model: Some("of-workflow".into()), ..ModelSpec::default() };
    let key = ("OPENAI_API_KEY", "sk-0123456789");
    let with_env = in_force(text, &Flags::default(), &[key, ("RONDO_MODEL", "of-env")]);
    let resolved = with_env.model("default", Some(&spec), None).unwrap();
    assert_eq!((resolved.model.as_str(), resolved.provider.as_str()), ("of-operator", "openai"));
    assert_eq!(
        resolved.price.map(|price| (price.dollars.input, price.dollars.cached_input, price.dollars.output)),
        Some((1.0, 1.0, 2.5))
    );
    assert_eq!(with_env.model("other", Some(&spec), None).unwrap().model, "of-workflow");
    assert_eq!(with_env.model("other", None, Some("scripted")).unwrap().model, "of-env");

    let bare = in_force("", &Flags::default(), &[]);
    assert_eq!(bare.model("other", None, Some("scripted")).unwrap().model, "scripted");
    assert_eq!(bare.model("other", None, None), Err(Unresolved::NoModel { name: "other".into() }));
    let no_key = bare.model("other", Some(&spec), None);
    assert_eq!(
        no_key,
        Err(Unresolved::NoKey { provider: "openai".into(), key_env: "OPENAI_API_KEY".into(), usable: Vec::new() })
    );
    let local = in_force("", &Flags::default(), &[("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1")]);
    assert!(local.model("other", Some(&spec), None).is_ok(), "a local server may need no key");
}

#[test]
fn no_key_is_shown_or_sent_to_a_server_that_is_not_its_own() {
    let text = "[provider.openai]\nkey_env = \"MY_KEY\"\n[provider.local]\nbase_url = \"http://127.0.0.1:1/v1\"\n";
    let variables = [("OPENAI_API_KEY", "sk-unused-but-secret"), ("MY_KEY", "sk-the-real-one")];
    let settings = in_force(text, &Flags::default(), &variables);
    assert_eq!(settings.providers["openai"].key.as_ref().map(|key| key.value.as_str()), Some("sk-the-real-one"));
    assert_eq!(settings.providers["local"].key, None);
    let names: Vec<&str> = settings.secrets.iter().map(|secret| secret.name.as_str()).collect();
    assert_eq!(names, ["MY_KEY", "OPENAI_API_KEY"]);
    assert!(!format!("{settings:?}").contains("sk-"));
}

#[test]
fn the_lower_limit_holds() {
    let caps = in_force("[limits]\nsteps = 50\ncost_usd = 0.5\nwall_time = \"1m\"\n", &Flags::default(), &[]).limits;
    let limits = Limits { steps: 40, cost_usd: Some(1.0), tokens: Some(9), ..Limits::default() };
    let lower = caps.over(&limits);
    assert_eq!((lower.steps, lower.cost_usd, lower.tokens), (40, Some(0.5), Some(9)));
    assert_eq!(lower.wall_time_ms, Some(60_000));
}

#[test]
fn every_fault_of_a_file_is_told_with_its_place() {
    insta::assert_snapshot!(faults(
        "stroe = 1\n[store]\ndurabilty = \"log\"\npath = 3\n[provider.openai]\nidle_timeout = \"5 minutes\"\n\
         key_env = \"sk-secret-value\"\nbase_url = \"ftp://x\"\n[model.default]\nprice = { input = -1 }\n\
         [mcp.files]\nargs = [1]\n[tool.x]\neffect = \"none\"\n[limits]\nsteps = 0\n[grant]\nsandbox = true\n"
    ));
}

#[test]
fn a_retention_that_its_way_does_not_take_is_told() {
    let of = |keep: &str, time: &str| {
        let text = format!("[provider.openai]\nprompt_cache = \"{keep}\"\nprompt_cache_retention = \"{time}\"\n");
        read("rondo.toml", &text, Layer::Project).map(|_| ()).map_err(|faults| faults[0].to_string())
    };
    for (keep, time) in [("key", "24h"), ("key", "in_memory"), ("blocks", "5m"), ("blocks", "1h"), ("auto", "1h")] {
        assert_eq!(of(keep, time), Ok(()), "{keep} {time}");
    }
    for (keep, time) in [("key", "1h"), ("blocks", "24h"), ("off", "24h"), ("off", "5m")] {
        let told = of(keep, time).expect_err("it is not sent");
        assert!(told.starts_with("rondo.toml:3:26: RN0805: "), "{told}");
    }
    assert!(of("key", "1d").expect_err("no such time").contains("RN0803"));
    assert!(of("yes", "24h").expect_err("no such way").contains("expected one of auto, key, blocks, off"));
}

#[test]
fn text_that_is_not_toml_is_one_fault() {
    insta::assert_snapshot!(faults("[store\npath = 1"));
}

#[test]
fn durations_are_read_and_refused() {
    assert_eq!(parse_duration_ms("250ms"), Ok(250));
    assert_eq!(parse_duration_ms("3d"), Ok(259_200_000));
    for bad in ["", "5", "s", "-1s", "1.5s", "0s", "99999999999999999999s", "18446744073709551615d", "1 s", "٣s"] {
        assert!(parse_duration_ms(bad).is_err(), "{bad}");
    }
}

#[test]
fn every_key_of_a_file_is_read() {
    let text = include_str!("tests/everything.toml");
    let stated = read("rondo.toml", text, Layer::Project).expect("the file is good");
    assert_eq!(stated.models["default"].price.as_ref().and_then(|price| price.date.as_deref()), Some("2026-11-01"));
    assert_eq!(stated.tools["build"].output_max_bytes, Some(32 << 10));
    assert_eq!(stated.limits.tokens, Some(100_000));
    assert_eq!(stated.grant.sandbox, Some(false));
    assert_eq!(stated.sandbox.memory_bytes, Some(2 << 30));
    assert_eq!(stated.mcp["remote"].headers_env["X-Team"], "TEAM_HEADER");
    assert_eq!(stated.providers["vault"].key_command.as_ref().map(|command| command.value.len()), Some(3));
    assert_eq!(stated.imposed[0].hook.settings["name"].as_str(), Some("policy"));
}

#[test]
fn keys_that_contradict_each_other_are_told() {
    let told = faults(
        "[provider.a]\nkey_env = \"A\"\nkey_command = [\"x\"]\n[mcp.b]\nurl = \"https://b\"\nargs = [\"x\"]\n\
         [mcp.c]\ncommand = \"c\"\nheaders_env = { X = \"Y\" }\n",
    );
    assert_eq!(told.lines().filter(|line| line.contains("RN0805")).count(), 3, "{told}");
}

#[test]
fn a_project_is_looked_for_below_the_home_and_never_in_it() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path().join("home");
    std::fs::create_dir_all(home.join("project/sub")).unwrap();
    std::fs::write(home.join("rondo.toml"), "").unwrap();
    std::fs::write(root.path().join("rondo.toml"), "").unwrap();
    let found = |folder: &Path| find_project(folder, Some(&home));
    assert_eq!(found(&home.join("project/sub")), None);
    assert_eq!(found(&home), Some(home.join("rondo.toml")), "it is where the work is done");
    std::fs::write(home.join("project/rondo.toml"), "").unwrap();
    assert_eq!(found(&home.join("project/sub")), Some(home.join("project/rondo.toml")));
    assert_eq!(found(root.path()), Some(root.path().join("rondo.toml")));
    assert_eq!(
        find_project(&home.join("other"), None),
        Some(home.join("rondo.toml")),
        "without a home, below the root"
    );
}
