//! Several providers in one thread: each has its own key and its own reasoning, and none is shown those of another.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::binary::{Running, binary};
use crate::programs::{cargo_test, copied, workflow};

use super::client::Client;
use super::secret::{assert_clean_folder, part_of};
use super::server::{Act, Request, Server};
use super::spoken::{Spoken, Turn};

const RELAY: &str = r#"
rondo: 1
name: relay
input: { topic: string }
models: { writes: {}, edits: {}, helps: {} }
roles:
  writer:
    model: writes
    fallback: [helps]
    system: You write.
    tools: [read_file]
    history: exact
    retry: { attempts: 1 }
    output: { drafted: { title: string } }
  editor:
    model: edits
    fallback: [helps]
    system: You edit.
    tools: [read_file]
    history: exact
    retry: { attempts: 1 }
    output: { revise: {}, approved: {} }
graph:
  start: { to: writer, prompt: "Write about {{ input.topic }}." }
  writer: { drafted: { to: editor, prompt: "Judge {{ output.title }}: {{ body }}" } }
  editor:
    revise: { to: writer, max: 3, prompt: "{{ body }}", on_max: { to: fail } }
    approved: { to: end, say: "{{ body }}" }
"#;

const NAMES: [&str; 3] = ["FIRST_KEY", "SECOND_KEY", "THIRD_KEY"];
const KEYS: [&str; 3] = ["sk-ant-0123456789-abcdefgh", "sk-proj-9876543210-ZYXWVUTS", "third-5555544444-qwertzui"];

/// What the providers of the writer, of the editor and of the fallback of both speak.
type Speaking = [Spoken; 3];

const SPEAKING: [Speaking; 5] = [
    [Spoken::Anthropic, Spoken::OpenAiResponses, Spoken::OpenAiChat],
    [Spoken::OpenAiResponses, Spoken::Anthropic, Spoken::Anthropic],
    [Spoken::Gemini, Spoken::OpenAiResponses, Spoken::OpenAiResponses],
    [Spoken::OpenAiChat, Spoken::Gemini, Spoken::Gemini],
    [Spoken::OpenAiChat, Spoken::OpenAiChat, Spoken::OpenAiChat],
];

/// A server that shows its own key in whatever it says.
fn server(spoken: Spoken, key: &'static str, turns: fn(usize) -> Option<Turn<'static>>) -> Server {
    Server::new(move |number| match turns(number) {
        Some(turn) => match spoken.reply(&turn) {
            Act::Send(pieces) => Act::Send(pieces.into_iter().map(|piece| piece.replace("MY KEY", key)).collect()),
            other => other,
        },
        None => Act::refusal(529, "", &format!(r#"{{"error":{{"message":"overloaded, {key}"}}}}"#)),
    })
}

/// The settings of a provider, whose key is in that variable, and of the model of that name.
fn provided((name, key): (&str, &str), model: &str, spoken: Spoken, server: &Server) -> String {
    let (protocol, base_url) = (spoken.name(), server.base_url());
    let id = spoken.model().rsplit('/').next().unwrap();
    format!(
        "[provider.{name}]\nprotocol = \"{protocol}\"\nbase_url = \"{base_url}\"\nkey_env = \"{key}\"\n\
         [model.{model}]\nprovider = \"{name}\"\nmodel = \"{id}\"\n"
    )
}

struct Ran {
    client: Client,
    /// The requests of each server.
    requests: [Vec<Request>; 3],
    said: Vec<Value>,
}

/// The writer's own provider fails in the midst of a turn, and then that of the editor.
fn run(speaking: Speaking) -> Ran {
    let writes = server(speaking[0], KEYS[0], |number| match number {
        0 => Some(Turn::calls(&["call_1"]).thinking(1)),
        1 => None,
        2 => Some(Turn::calls(&["call_3"]).thinking(3)),
        _ => Some(Turn::text("---\nstatus: drafted\ntitle: Two MY KEY\n---\n\nIt is MY KEY.")),
    });
    let edits = server(speaking[1], KEYS[1], |number| match number {
        0 => Some(Turn::calls(&["call_4"]).thinking(4)),
        1 => None,
        _ => Some(Turn::text("---\nstatus: approved\n---\n\nMY KEY is good.")),
    });
    let helps = server(speaking[2], KEYS[2], |number| match number {
        0 => Some(Turn::calls(&["call_2"]).thinking(2)),
        1 => Some(Turn::text("---\nstatus: drafted\ntitle: One MY KEY\n---\n\nIt is MY KEY.")),
        2 => Some(Turn::calls(&["call_5"]).thinking(5)),
        _ => Some(Turn::text("---\nstatus: revise\n---\n\nToo long: MY KEY.")),
    });
    let servers = [&writes, &edits, &helps];
    let mut client = Client::new(RELAY, &helps.base_url(), "none").without("OPENAI_BASE_URL");
    let mut settings = Vec::new();
    for (of, (model, name)) in ["writes", "edits", "helps"].into_iter().zip(["first", "second", "third"]).enumerate() {
        settings.push(provided((name, NAMES[of]), model, speaking[of], servers[of]));
        client = client.with(NAMES[of], KEYS[of]);
    }
    client.own_settings(&settings.concat());
    client.file("a.txt", "alpha\n");
    let topic = format!("topic=the keys {}", KEYS.join(", "));
    let finished = client.run(&["run", "workflow.yaml", "-i", &topic, "--json"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for key in KEYS {
        assert_eq!(part_of(key, finished.text().as_bytes()), None, "{finished:?}");
        assert_eq!(part_of(key, finished.stderr.as_bytes()), None, "{finished:?}");
    }
    Ran { client, requests: servers.map(Server::requests), said: finished.json() }
}

#[test]
fn no_key_goes_to_another_provider_or_stays_anywhere() {
    for speaking in SPEAKING {
        let Ran { client, requests, .. } = run(speaking);
        for (of, spoken) in speaking.into_iter().enumerate() {
            let header = match spoken {
                Spoken::OpenAiChat | Spoken::OpenAiResponses => format!("authorization: bearer {}", KEYS[of]),
                Spoken::Anthropic => format!("x-api-key: {}", KEYS[of]),
                Spoken::Gemini => format!("x-goog-api-key: {}", KEYS[of]),
            };
            for Request { head, body } in &requests[of] {
                assert!(head.starts_with(spoken.request_line()), "{head}");
                assert!(head.contains(&header.to_lowercase()), "{head}");
                for (other, key) in KEYS.into_iter().enumerate() {
                    assert_eq!(part_of(key, body.as_bytes()), None, "{body}");
                    let is_there = part_of(&key.to_lowercase(), head.as_bytes()).is_some();
                    assert_eq!(is_there, other == of, "{head}");
                }
            }
        }
        let topic = "the keys [redacted:FIRST_KEY], [redacted:SECOND_KEY], [redacted:THIRD_KEY]";
        assert!(requests[0][0].body.contains(topic), "{:?}", requests[0][0]);
        let mut shown = Vec::new();
        for words in
            [&["show"][..], &["show", "last", "--json"], &["threads", "--json"], &["doctor"], &["doctor", "--json"]]
        {
            let said = client.run(words);
            shown.extend([said.text(), said.stderr]);
        }
        for role in ["writer", "editor"] {
            let said = client.run(&["messages", "last", "--role", role, "--visit", "1", "--json"]).exits(0);
            shown.extend([said.text(), said.stderr]);
        }
        client.run(&["verify", "last"]).exits(0);
        for key in KEYS {
            assert_clean_folder(key, &client.store());
            for text in &shown {
                assert_eq!(part_of(key, text.as_bytes()), None, "{text}");
            }
        }
    }
}

/// Also where two providers speak the same protocol and serve a model of the same name.
#[test]
fn reasoning_goes_back_to_the_provider_that_sent_it_and_to_no_other() {
    for speaking in SPEAKING {
        let Ran { requests, said, .. } = run(speaking);
        let bodies = requests.map(|requests| requests.into_iter().map(|request| request.body).collect::<Vec<_>>());
        assert_eq!([0, 1, 2].map(|of| bodies[of].len()), [4, 3, 4], "{speaking:?}");
        // Whose each thought is.
        for (thought, of) in [(1, 0), (2, 2), (3, 0), (4, 1), (5, 2)] {
            for (other, bodies) in bodies.iter().enumerate() {
                for body in bodies.iter().filter(|_| other != of) {
                    for words in [speaking[of].opaque(thought), format!("hm {thought}")] {
                        assert!(!body.contains(&words), "{speaking:?}: {words} of {of} at {other}: {body}");
                    }
                }
            }
        }
        // Each has its own back, in the later visits too, and sees what the other did between.
        for (of, at, thoughts, call) in [
            (2, 1, &[2][..], "call_1"),
            (2, 3, &[5], "call_4"),
            (0, 2, &[1], "call_2"),
            (0, 3, &[1, 3], "call_2"),
            (1, 2, &[4], "call_5"),
        ] {
            let body = &bodies[of][at];
            for thought in thoughts {
                assert!(body.contains(&speaking[of].returned(*thought)), "{speaking:?} {of} {at} {thought}: {body}");
            }
            // Gemini is not told the ids of other providers.
            assert!(body.contains(call) || speaking[of] == Spoken::Gemini, "{speaking:?} {of} {at} {call}: {body}");
        }
        let settled = said.iter().filter(|event| event["event"] == "call_settled");
        let providers: Vec<&str> = settled.map(|event| event["provider"].as_str().unwrap()).collect();
        let wanted = ["first", "third", "third", "second", "third", "third", "first", "first", "second"];
        assert_eq!(providers, wanted, "{speaking:?}");
    }
}

/// The shipped workflow: its developer at one provider, its reviewer at another, and a third where the first is overloaded
/// in the midst of a visit. The project's tests are really run.
#[test]
fn a_failing_test_is_fixed_by_roles_of_two_providers_and_a_fallback_to_a_third() {
    const READ: (&str, &str) = ("read_file", r#"{"path":"src/lib.rs"}"#);
    const BLANK: (&str, &str) = (
        "edit_file",
        r#"{"path":"src/lib.rs","old":"line.len() + word.len() > width","new":"line.len() + 1 + word.len() > width"}"#,
    );
    const CHARACTERS: (&str, &str) = (
        "edit_file",
        r#"{"path":"src/lib.rs","old":"line.len() + 1 + word.len() > width","new":"line.chars().count() + 1 + word.chars().count() > width"}"#,
    );
    let mends = server(Spoken::Anthropic, KEYS[0], |number| match number {
        0 => Some(Turn::call(&["call_1"], READ.0, READ.1).thinking(1)),
        1 => Some(Turn::call(&["call_2"], BLANK.0, BLANK.1).thinking(2)),
        2 => Some(Turn::text("---\nstatus: edited\nsummary: The blank.\nfiles: [src/lib.rs]\n---\n")),
        3 => Some(Turn::call(&["call_3"], READ.0, READ.1).thinking(3)),
        _ => None,
    });
    let judges = server(Spoken::OpenAiResponses, KEYS[1], |number| match number {
        0 => Some(Turn::call(&["call_5"], READ.0, READ.1).thinking(5)),
        _ => Some(Turn::text("---\nstatus: approved\nsummary: Lines are measured in characters.\n---\n")),
    });
    let helps = server(Spoken::Gemini, KEYS[2], |number| match number {
        0 => Some(Turn::call(&["call_4"], CHARACTERS.0, CHARACTERS.1).thinking(4)),
        _ => Some(Turn::text("---\nstatus: edited\nsummary: Characters.\nfiles: [src/lib.rs]\n---\n")),
    });

    let folder = tempfile::tempdir().unwrap();
    let [project, own, settings] = ["wrap", "own", "settings/rondo"].map(|name| folder.path().join(name));
    let shipped = PathBuf::from(workflow("fix-failing-test"));
    copied(&shipped.join("fixture"), &project);
    copied(&shipped, &own);
    let text = std::fs::read_to_string(own.join("workflow.yaml")).unwrap();
    let text = text
        .replace("models:\n", "models:\n  mends: {}\n  judges: {}\n  helps: {}\n")
        .replace(
            "  developer:\n    system",
            "  developer:\n    model: mends\n    fallback: [helps]\n    retry: { attempts: 1 }\n    system",
        )
        .replace("  reviewer:\n    system", "  reviewer:\n    model: judges\n    system");
    std::fs::write(own.join("workflow.yaml"), text).unwrap();
    std::fs::create_dir_all(&settings).unwrap();
    let text = [
        provided(("mends", NAMES[0]), "mends", Spoken::Anthropic, &mends),
        provided(("judges", NAMES[1]), "judges", Spoken::OpenAiResponses, &judges),
        provided(("helps", NAMES[2]), "helps", Spoken::Gemini, &helps),
    ];
    std::fs::write(settings.join("config.toml"), text.concat()).unwrap();

    let mut command = Command::new(binary());
    command.args(["run", "--trust", own.to_str().unwrap(), "--json"]).current_dir(&project);
    command.env("XDG_CONFIG_HOME", folder.path().join("settings")).envs(NAMES.into_iter().zip(KEYS));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in ["OPENAI_API_KEY", "RONDO_MODEL", "RONDO_STORE", "CARGO_TARGET_DIR"] {
        command.env_remove(name);
    }
    let run = Running::of(command).finish().exits(0);
    let committed = run.events("step_committed");
    let committed: Vec<String> = committed
        .iter()
        .map(|event| format!("{}.{}", event["role"].as_str().unwrap(), event["status"].as_str().unwrap()))
        .collect();
    let expected =
        ["tests.failed", "developer.edited", "tests.failed", "developer.edited", "tests.ok", "reviewer.approved"];
    assert_eq!(committed, expected);
    assert!(cargo_test(&project), "the tests must pass now");

    let settled = run.events("call_settled");
    let providers: Vec<&str> = settled.iter().map(|event| event["provider"].as_str().unwrap()).collect();
    assert_eq!(providers, ["mends", "mends", "mends", "mends", "helps", "helps", "judges", "judges"]);
    // The fallback continues the visit: it is shown what was read, and not what the other thought.
    let Request { body, .. } = &helps.requests()[0];
    assert!(body.contains("word.len() > width") && !body.contains(&Spoken::Anthropic.opaque(3)), "{body}");
}
