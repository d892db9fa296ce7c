//! Keys: what differs in anything has another one, what is only spelt differently the same one.

use std::collections::BTreeMap;

use rondo_protocol::call::CallKind;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::LanePath;
use rondo_protocol::message::{Conversation, Message};
use rondo_protocol::object::{Finish, Head, ModelReply};
use rondo_protocol::{Digest, canonical};

use super::entry::{Answer, Content};
use super::key::KeyParts;
use crate::cache::{CacheValue, Key};

/// How many pairs are made of each kind of change.
const PAIRS: u64 = 250;

/// `SplitMix64`, so that a failure can be had again.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    fn word(&mut self) -> String {
        const LETTERS: [&str; 12] = ["a", "b", "ü", "0", " ", "\"", "\\", "\n", "temperature", "user", "system", "}"];
        let length = self.below(12) + 1;
        (0..length).map(|_| LETTERS[usize::try_from(self.below(12)).unwrap()]).collect()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, usize::try_from(self.below(at as u64 + 1)).unwrap());
        }
    }
}

/// A number that can be spelt in several ways: thousandths.
fn number(thousandths: i64, draw: &mut Draw) -> String {
    let (whole, rest) = (thousandths / 1000, thousandths % 1000);
    let plain = format!("{whole}.{rest:03}");
    match draw.below(4) {
        0 => plain,
        1 => format!("{thousandths}e-3"),
        2 => format!("{plain}000"),
        _ if rest == 0 => whole.to_string(),
        _ => format!("{thousandths}.0E-03"),
    }
}

/// Everything that a request depends on, as somebody writes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    at: CallKind,
    provider: String,
    address: String,
    model: String,
    parameters: BTreeMap<String, i64>,
    stop: Vec<String>,
    system: String,
    tools: BTreeMap<String, (String, String)>,
    schema: Option<String>,
    messages: Vec<(bool, String)>,
    scope: &'static str,
    within: String,
    lane: &'static str,
    occurrence: u32,
    root: String,
}

const PARAMETERS: [&str; 7] =
    ["temperature", "top_p", "max_output_tokens", "seed", "presence_penalty", "frequency_penalty", "reasoning_effort"];

impl Asked {
    fn new(draw: &mut Draw) -> Self {
        let parameters = PARAMETERS.iter().filter(|_| draw.below(3) > 0).map(|name| (*name).to_owned());
        let parameters: Vec<String> = parameters.collect();
        Self {
            at: CallKind::Model,
            provider: draw.word(),
            address: draw.word(),
            model: draw.word(),
            parameters: parameters.into_iter().map(|name| (name, i64::try_from(draw.below(5_000)).unwrap())).collect(),
            stop: (0..draw.below(3)).map(|_| draw.word()).collect(),
            system: draw.word(),
            tools: (0..draw.below(4)).map(|_| (draw.word(), (draw.word(), draw.word()))).collect(),
            schema: (draw.below(2) == 0).then(|| draw.word()),
            messages: (0..=draw.below(5)).map(|at| (at % 2 == 0, draw.word())).collect(),
            scope: ["thread", "workflow", "store"][usize::try_from(draw.below(3)).unwrap()],
            within: draw.word(),
            lane: ["", "a[0]", "a[1]"][usize::try_from(draw.below(3)).unwrap()],
            occurrence: u32::try_from(draw.below(3)).unwrap() + 1,
            root: String::new(),
        }
    }

    /// The key of it, spelt as `draw` says: keys and tools in any order, numbers in any form.
    fn key(&self, draw: &mut Draw) -> Key {
        let text = |text: &str| serde_json::to_string(text).unwrap();
        let object = |mut members: Vec<String>, draw: &mut Draw| {
            draw.shuffle(&mut members);
            format!("{{{}}}", members.join([",", " ,\n ", ", "][usize::try_from(draw.below(3)).unwrap()]))
        };
        let mut parameters: Vec<String> = Vec::new();
        for (name, value) in &self.parameters {
            parameters.push(format!("{}:{}", text(name), number(*value, draw)));
        }
        if !self.stop.is_empty() {
            parameters.push(format!("\"stop\":{}", serde_json::to_string(&self.stop).unwrap()));
        }
        let parameters = object(parameters, draw);
        // A role's tools may be named in any order; what is sent is sorted by name.
        let mut named: Vec<&String> = self.tools.keys().collect();
        draw.shuffle(&mut named);
        let mut tools = BTreeMap::new();
        for name in named {
            let (description, schema) = &self.tools[name];
            let members = [("name", name), ("description", description), ("parameters", schema)]
                .map(|(key, value)| format!("{}:{}", text(key), text(value)));
            tools.insert(name, object(members.to_vec(), draw));
        }
        let tools = tools.into_values().collect::<Vec<_>>().join(",");
        let schema = self.schema.as_ref().map_or_else(|| "null".to_owned(), |schema| text(schema));
        let head = object(
            vec![
                format!("\"model\":{}", text(&self.model)),
                format!("\"parameters\":{parameters}"),
                format!("\"system\":{}", text(&self.system)),
                format!("\"tools\":[{tools}]"),
                format!("\"response_format\":{schema}"),
            ],
            draw,
        );
        let head: Head = canonical::from_slice(head.as_bytes()).unwrap_or_else(|error| panic!("{head}: {error}"));
        let said = |(is_user, text): &(bool, String)| {
            if *is_user { Message::user(text.clone()) } else { Message::assistant(text.clone()) }
        };
        let conversation: Conversation = self.messages.iter().map(said).collect();
        let parts = KeyParts {
            version: KeyParts::VERSION,
            at: self.at,
            scope: self.scope.to_owned(),
            within: self.within.clone(),
            provider: self.provider.clone(),
            address: self.address.clone(),
            request: conversation.request(Digest::of(Kind::Head, &head).unwrap().0),
            lane: LanePath::new(self.lane).unwrap().to_string(),
            occurrence: self.occurrence,
            redaction: String::new(),
            root: self.root.clone(),
        };
        parts.key().unwrap()
    }
}

/// One part of a request changed; gives what was changed, or `None` where this one has no such part.
type Change = fn(&mut Asked, &mut Draw) -> Option<()>;

fn other(text: &mut String, draw: &mut Draw) {
    let before = text.clone();
    while *text == before {
        *text = draw.word();
    }
}

const CHANGES: [(&str, Change); 19] = [
    ("provider", |asked, draw| {
        other(&mut asked.provider, draw);
        Some(())
    }),
    ("address", |asked, draw| {
        other(&mut asked.address, draw);
        Some(())
    }),
    ("model", |asked, draw| {
        other(&mut asked.model, draw);
        Some(())
    }),
    ("a parameter", |asked, draw| {
        let name = PARAMETERS[usize::try_from(draw.below(7)).unwrap()];
        *asked.parameters.entry(name.to_owned()).or_insert(-1) += 1;
        Some(())
    }),
    ("a parameter left out", |asked, _| asked.parameters.pop_first().map(drop)),
    ("two parameters swapped", |asked, _| {
        let values: Vec<i64> = asked.parameters.values().copied().collect();
        let (first, last) = (*values.first()?, *values.last()?);
        *asked.parameters.values_mut().next()? = last;
        *asked.parameters.values_mut().next_back()? = first;
        (first != last).then_some(())
    }),
    ("stop", |asked, draw| {
        asked.stop.push(draw.word());
        Some(())
    }),
    ("system", |asked, draw| {
        other(&mut asked.system, draw);
        Some(())
    }),
    ("a tool more", |asked, draw| {
        let tool = (draw.word(), draw.word());
        asked.tools.insert(draw.word() + "!", tool);
        Some(())
    }),
    ("a tool's description", |asked, draw| asked.tools.values_mut().next().map(|tool| other(&mut tool.0, draw))),
    ("a tool's schema", |asked, draw| asked.tools.values_mut().next().map(|tool| other(&mut tool.1, draw))),
    ("schema", |asked, draw| {
        asked.schema = match asked.schema.take() {
            Some(_) if draw.below(2) == 0 => None,
            Some(mut schema) => {
                other(&mut schema, draw);
                Some(schema)
            }
            None => Some(draw.word()),
        };
        Some(())
    }),
    ("a message", |asked, draw| asked.messages.last_mut().map(|message| other(&mut message.1, draw))),
    ("a message's role", |asked, _| asked.messages.last_mut().map(|message| message.0 = !message.0)),
    ("one message more", |asked, draw| {
        asked.messages.push((true, draw.word()));
        Some(())
    }),
    ("text moved to the next message", |asked, _| {
        let last = asked.messages.pop()?;
        asked.messages.push((last.0, String::new()));
        asked.messages.push((!last.0, last.1));
        Some(())
    }),
    ("scope", |asked, draw| {
        if draw.below(2) == 0 {
            other(&mut asked.within, draw);
        } else {
            asked.scope = if asked.scope == "store" { "thread" } else { "store" };
        }
        Some(())
    }),
    ("occurrence or lane", |asked, draw| {
        if draw.below(2) == 0 {
            asked.occurrence += 1;
        } else {
            asked.lane = if asked.lane.is_empty() { "a[0]" } else { "" };
        }
        Some(())
    }),
    ("kind of call or root", |asked, draw| {
        if draw.below(2) == 0 {
            asked.at = CallKind::Turn;
        } else {
            other(&mut asked.root, draw);
        }
        Some(())
    }),
];

#[test]
fn whatever_changes_is_a_miss_and_whatever_is_spelt_otherwise_a_hit() {
    let mut draw = Draw(20_261_122);
    let mut known: BTreeMap<[u8; 32], Asked> = BTreeMap::new();
    for (name, change) in CHANGES {
        let mut made = 0;
        while made < PAIRS {
            let asked = Asked::new(&mut draw);
            let key = asked.key(&mut draw);
            let again = asked.key(&mut draw);
            assert_eq!(key, again, "spelt otherwise: {asked:?}");
            let mut changed = asked.clone();
            if change(&mut changed, &mut draw).is_none() {
                continue;
            }
            assert_ne!(asked, changed, "{name} changes nothing");
            let changed_key = changed.key(&mut draw);
            assert_ne!(key, changed_key, "{name}: {asked:?}\n{changed:?}");
            for (key, asked) in [(key, asked), (changed_key, changed)] {
                // No two that differ have ever met.
                let before = known.entry(key.0).or_insert_with(|| asked.clone());
                assert_eq!(*before, asked);
            }
            made += 1;
        }
    }
}

#[test]
fn the_credential_is_no_part_of_a_key() {
    // Parts are named one by one here, so that one more has to be thought of.
    let KeyParts {
        version: _,
        at: _,
        scope: _,
        within: _,
        provider: _,
        address: _,
        request: _,
        lane: _,
        occurrence: _,
        redaction: _,
        root: _,
    } = KeyParts {
        version: KeyParts::VERSION,
        at: CallKind::Model,
        scope: String::new(),
        within: String::new(),
        provider: String::new(),
        address: String::new(),
        request: Digest::sha256(b""),
        lane: String::new(),
        occurrence: 1,
        redaction: String::new(),
        root: String::new(),
    };
}

fn said(text: &str, finish: Finish) -> rondo_protocol::call::ModelAnswer {
    let reply = ModelReply { finish, ..ModelReply::said(text) };
    rondo_protocol::call::ModelAnswer { reply, usage: None, cost_usd: Some(0.25) }
}

#[test]
fn what_is_cut_withheld_or_empty_is_never_kept() {
    assert!(Answer::of_model(&said("whole", Finish::Stop)).is_some());
    assert!(Answer::of_model(&said("whole", Finish::ToolCalls)).is_some());
    for finish in [Finish::Length, Finish::ContentFilter, Finish::Other("error".to_owned())] {
        assert!(Answer::of_model(&said("a part", finish)).is_none());
    }
    assert!(Answer::of_model(&said(" \n", Finish::Stop)).is_none());
}

#[test]
fn an_answer_is_read_back_as_it_was_written() {
    let mut answer = Answer::of_model(&said("whole \u{1f300}\n", Finish::Stop)).unwrap();
    answer.usage = Some(rondo_protocol::object::Usage {
        prompt_tokens: u64::MAX,
        output_tokens: 2,
        ..rondo_protocol::object::Usage::default()
    });
    assert_eq!(Answer::decode(&answer.encode().unwrap()), Ok(answer.clone()));
    assert!(answer.weight() >= 4);
    assert!(Answer::decode(b"{}").is_err());
    assert!(matches!(answer.said, Content::Model(_)));
}
