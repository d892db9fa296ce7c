//! Texts cannot forge the layout: a reader written only from `engine/docs/layout-1.md`, which shares no code with the
//! layout, recovers the exact inputs from every user message.

use std::sync::Arc;

use proptest::prelude::*;
use rondo_protocol::Value;
use rondo_protocol::id::RoleName;
use rondo_protocol::message::{Message, Speaker};
use rondo_protocol::workflow::{Context, ContextWhat, History};

use super::{Episode, HistoryPolicy};

/// The parsed content of a message.
#[derive(Debug, PartialEq)]
struct Read {
    prompt: String,
    leaves_out: bool,
    steps: Vec<ReadStep>,
}

#[derive(Debug, PartialEq)]
struct ReadStep {
    role: String,
    status: String,
    says: String,
    is_cut: bool,
}

const HEADINGS: [&str; 2] = ["What happened before:", "What happened since your last answer:"];
const IN_SHORT: &str = "What happened so far, in short:";
const BEGINNINGS: [&str; 7] =
    [HEADINGS[0], HEADINGS[1], IN_SHORT, "<step", "</step", "[earlier steps are left out]", "[cut]"];

fn read(text: &str) -> Read {
    let lines: Vec<&str> = text.split('\n').collect();
    let Some(heading) = lines.iter().position(|line| HEADINGS.contains(line)) else {
        let prompt = if text == "Go on." { String::new() } else { unescaped(text) };
        return Read { prompt, leaves_out: false, steps: Vec::new() };
    };
    let prompt = if heading == 0 {
        String::new()
    } else {
        assert_eq!(lines[heading - 1], "", "a blank line stands between prompt and summary");
        unescaped(&lines[..heading - 1].join("\n"))
    };
    assert_eq!(lines[heading + 1], "");
    let mut rest = lines[heading + 2..].iter().copied().peekable();
    let leaves_out = rest.next_if_eq(&"[earlier steps are left out]").is_some();
    let mut steps = Vec::new();
    while let Some(line) = rest.next() {
        let (role, line) = line.strip_prefix("<step role=\"").unwrap().split_once("\" status=\"").unwrap();
        let (status, end) = line.split_once('"').unwrap();
        let mut said: Vec<&str> = Vec::new();
        if end == ">" {
            said.extend(rest.by_ref().take_while(|line| *line != "</step>"));
        } else {
            assert_eq!(end, "/>");
        }
        let is_cut = said.last() == Some(&"[cut]");
        if is_cut {
            said.pop();
        }
        let says = unescaped(&said.join("\n"));
        steps.push(ReadStep { role: role.to_owned(), status: status.to_owned(), says, is_cut });
    }
    Read { prompt, leaves_out, steps }
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for c in text.chars() {
        line.push(c);
        if "\n\r\u{b}\u{c}\u{85}\u{2028}\u{2029}".contains(c) {
            out += &unescaped_line(&line);
            line.clear();
        }
    }
    out + &unescaped_line(&line)
}

fn unescaped_line(line: &str) -> String {
    let is_blank = |c: char| {
        let n = u32::from(c);
        let unseen = [0xad, 0x34f, 0x61c, 0x180e, 0xfeff].contains(&n)
            || [0x200b..=0x200f, 0x202a..=0x202e, 0x2060..=0x206f, 0xfe00..=0xfe0f, 0xe0000..=0xe0fff]
                .iter()
                .any(|range| range.contains(&n));
        c.is_whitespace() || c.is_control() || unseen
    };
    let at = line.find(|c| !is_blank(c)).unwrap_or(line.len());
    let (blanks, rest) = line.split_at(at);
    let words = rest.trim_start_matches('\\').to_ascii_lowercase();
    let is_escaped =
        rest.starts_with('\\') && BEGINNINGS.iter().any(|with| words.starts_with(&with.to_ascii_lowercase()));
    format!("{blanks}{}", if is_escaped { &rest[1..] } else { rest })
}

/// Texts that try to look like the layout.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = [
        "<step role=\"b\" status=\"ok\">",
        "<step role=\"c\" status=\"ok\"/>",
        "</step>",
        "<STEP",
        "<ste",
        "What happened before:",
        "What happened since your last answer:",
        "what happened since",
        "What happened so far, in short:",
        "[cut]",
        "[earlier steps are left out]",
        "Go on.",
        "{\"a\":1}",
        "\n",
        "\n\n",
        "\\",
        " ",
        "\t",
        "\r",
        "\u{2028}",
        "\u{200b}",
        "x",
        "é",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..7).prop_map(|pieces| pieces.concat())
}

fn any_episodes() -> impl Strategy<Value = Vec<Arc<Episode>>> {
    let step = (prop::sample::select(vec!["a", "b", "c"]), any_text(), any_text(), prop::option::of(any_text()));
    prop::collection::vec(step, 0..8).prop_map(|steps| {
        let made = steps.into_iter().zip(1..).map(|((role, prompt, body, field), seq)| {
            let fields = field.map(|field| ("f".to_owned(), Value::from(field)));
            Arc::new(Episode {
                role: RoleName::new(role).unwrap(),
                prompt,
                answer: "an answer".to_owned(),
                output: fields.into_iter().collect(),
                body,
                ..Episode::test(seq)
            })
        });
        made.collect()
    })
}

/// The text of a step in a summary.
fn says(episode: &Episode, what: ContextWhat) -> String {
    let mut says = String::new();
    if episode.output != Value::empty_object() {
        says += &episode.output.to_text();
        says.push('\n');
    }
    if what == ContextWhat::Bodies {
        says += &episode.body;
    }
    says.strip_suffix('\n').unwrap_or(&says).to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]
    #[test]
    fn what_a_role_is_told_cannot_be_forged(
        episodes in any_episodes(),
        prompt in any_text(),
        what in prop::sample::select(vec![ContextWhat::Outputs, ContextWhat::Bodies]),
        max_bytes in prop_oneof![0_u64..200, Just(16384)],
    ) {
        let history_policy = HistoryPolicy { history: History::Condensed, context: Context { from: None, max_bytes, what } };
        let role = RoleName::new("a").unwrap();
        let messages = super::tests::history(&history_policy, &role, &episodes, &prompt);
        let opened: Vec<&Message> = messages.messages().into_iter().filter(|message| message.role() == Speaker::User).collect();

        let own: Vec<usize> = (0..episodes.len()).filter(|at| episodes[*at].role == role).collect();
        let prompts = own.iter().map(|at| &episodes[*at].prompt).chain([&prompt]);
        let ends = own.iter().copied().chain([episodes.len()]);
        let begins = [0].into_iter().chain(own.iter().map(|at| at + 1));
        prop_assert_eq!(opened.len(), own.len() + 1);
        for (((begin, end), prompt), message) in begins.zip(ends).zip(prompts).zip(opened) {
            let others = &episodes[begin..end];
            let read = read(&message.text());
            prop_assert!(read.steps.len() <= others.len());
            prop_assert_eq!(read.steps.is_empty(), others.is_empty());
            prop_assert_eq!(read.leaves_out, read.steps.len() < others.len());
            let wanted = match (others.is_empty(), prompt.as_str()) {
                (true, "Go on.") => "",
                (true, prompt) => prompt,
                (false, prompt) => prompt.trim_end_matches('\n'),
            };
            prop_assert_eq!(read.prompt, wanted);
            for (step, episode) in read.steps.iter().zip(&others[others.len() - read.steps.len()..]) {
                prop_assert_eq!((step.role.as_str(), step.status.as_str()), (episode.role.as_str(), "done"));
                let whole = says(episode, what);
                if step.is_cut {
                    prop_assert!(format!("{whole}\n").starts_with(&step.says), "{:?} of {:?}", step.says, whole);
                    prop_assert!(step.says.len() as u64 <= max_bytes);
                } else {
                    prop_assert_eq!(&step.says, &whole);
                }
            }
        }
    }
}
