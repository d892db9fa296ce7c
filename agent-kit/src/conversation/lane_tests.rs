//! Conversations of threads with lanes: extending them visit by visit gives the same result as building them from the
//! steps alone, and the result does not depend on which lane was faster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use rondo_protocol::Digest;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::{Conversation, Message};
use rondo_protocol::workflow::{Context, ContextWhat, History};

use super::{Builder, Episode, HistoryPolicy, Key, Past, PastStep, Round, Rounds, closing, opening, summary};

/// An item of a generated thread.
#[derive(Debug, Clone)]
enum Item {
    Step(&'static str),
    FanOut(Vec<Vec<Item>>),
}

fn any_thread() -> impl Strategy<Value = Vec<Item>> {
    let step = || prop::sample::select(vec!["a", "b"]).prop_map(Item::Step);
    let leaves = prop::collection::vec(prop::collection::vec(step(), 0..3), 1..3).prop_map(Item::FanOut);
    let lane = prop::collection::vec(prop_oneof![3 => step(), 1 => leaves], 0..4);
    let lanes = prop::collection::vec(lane, 1..4).prop_map(Item::FanOut);
    prop::collection::vec(prop_oneof![2 => step(), 1 => lanes], 1..6)
}

/// Adds a step before and after each fan-out, as in a graph: the step that it leaves, and the join role.
fn joined(items: &[Item], is_trunk: bool) -> Vec<Item> {
    let mut all = Vec::new();
    for item in items {
        match item {
            Item::Step(role) => all.push(Item::Step(role)),
            Item::FanOut(lanes) => {
                // Only a thread may begin with a fan-out.
                if all.is_empty() && !is_trunk {
                    all.push(Item::Step("b"));
                }
                all.push(Item::FanOut(lanes.iter().map(|lane| joined(lane, false)).collect()));
                all.push(Item::Step("a"));
            }
        }
    }
    all
}

/// A committed step.
#[derive(Debug, Clone)]
struct Done {
    /// An identity that does not depend on when it was committed.
    id: String,
    episode: Arc<Episode>,
    digest: Digest,
    prev: Vec<Digest>,
}

/// Something in progress: the trunk, or a lane in one round.
struct Going<'a> {
    id: String,
    round: Round,
    items: &'a [Item],
    at: usize,
    /// The number of lanes that have not ended.
    open: usize,
    parent: Option<usize>,
    last: Option<(u64, Digest)>,
    /// The last steps of its lanes.
    joined: Vec<(usize, Digest)>,
    index: usize,
}

/// Runs a thread; `chances` choose what continues next.
fn run(items: &[Item], chances: &[usize]) -> Vec<Done> {
    let mut done: Vec<Done> = Vec::new();
    let mut all = vec![Going {
        id: String::new(),
        round: Round::trunk(),
        items,
        at: 0,
        open: 0,
        parent: None,
        last: None,
        joined: Vec::new(),
        index: 0,
    }];
    let mut chances = chances.iter().cycle();
    loop {
        let ready: Vec<usize> =
            (0..all.len()).filter(|at| all[*at].open == 0 && all[*at].at < all[*at].items.len()).collect();
        if ready.is_empty() {
            return done;
        }
        let who = ready[chances.next().unwrap() % ready.len()];
        let (item, place) = (&all[who].items[all[who].at], all[who].at);
        all[who].at += 1;
        let id = format!("{}.{place}", all[who].id);
        match item {
            Item::Step(role) => {
                let seq = done.len() as u64 + 1;
                let digest = Digest::sha256(id.as_bytes());
                let mut prev: Vec<(usize, Digest)> = std::mem::take(&mut all[who].joined);
                prev.sort_by_key(|(index, _)| *index);
                let mut prev: Vec<Digest> = prev.into_iter().map(|(_, digest)| digest).collect();
                if prev.is_empty() {
                    let opener = all[who].parent.and_then(|parent| all[parent].last);
                    prev = all[who].last.or(opener).map(|(_, digest)| digest).into_iter().collect();
                }
                all[who].last = Some((seq, digest));
                let Round { lane, opened_by } = all[who].round.clone();
                let role = RoleName::new(role).unwrap();
                let (prompt, answer) = (format!("prompt of {id}"), format!("answer of {id}"));
                let body = format!("said in {id}");
                let episode = Episode { role, lane, opened_by, prompt, answer, body, ..Episode::test(seq) };
                done.push(Done { id, episode: Arc::new(episode), digest, prev });
            }
            Item::FanOut(lanes) => {
                let opened_by = all[who].last.map_or(0, |(seq, _)| seq);
                for (index, items) in lanes.iter().enumerate().filter(|(_, items)| !items.is_empty()) {
                    let Round { lane, opened_by: outer } = &all[who].round;
                    let between = if lane.is_trunk() { "" } else { "/" };
                    let lane = LanePath::new(&format!("{lane}{between}a[{index}]")).unwrap();
                    let opened_by = outer.iter().copied().chain([opened_by]).collect();
                    all[who].open += 1;
                    all.push(Going {
                        id: format!("{id}[{index}]"),
                        round: Round { lane, opened_by },
                        items,
                        at: 0,
                        open: 0,
                        parent: Some(who),
                        last: None,
                        joined: Vec::new(),
                        index,
                    });
                }
            }
        }
        let is_ended = all[who].open == 0 && all[who].at == all[who].items.len();
        if let (true, Some(parent)) = (is_ended, all[who].parent) {
            let last = all[who].last.map(|(_, digest)| (all[who].index, digest));
            all[parent].open -= 1;
            all[parent].joined.extend(last);
        }
    }
}

/// The steps before a given one.
struct Steps<'a>(&'a [Done]);

impl Past for Steps<'_> {
    type Error = &'static str;

    fn step(&self, seq: u64) -> Result<PastStep, &'static str> {
        let found = self.0.iter().find(|step| step.episode.seq == seq).ok_or("no such step")?;
        let (place, episode) = (found.episode.place(), Some(Arc::clone(&found.episode)));
        Ok(PastStep { place, episode, digest: found.digest, prev: found.prev.as_slice().into() })
    }

    fn seq(&self, digest: Digest, before: u64) -> Result<u64, &'static str> {
        let mut found = self.0.iter().filter(|step| step.digest == digest).map(|step| step.episode.seq);
        found.find(|seq| *seq < before).ok_or("no such digest")
    }
}

/// The first request of each step, with each conversation extended from the one before it.
fn extended(done: &[Done], history_policy: &HistoryPolicy) -> BTreeMap<String, Conversation> {
    let (mut rounds, mut lanes) = (Rounds::default(), BTreeSet::new());
    let mut builders: BTreeMap<Key, Builder> = BTreeMap::new();
    let mut requests = BTreeMap::new();
    for (at, step) in done.iter().enumerate() {
        let Episode { seq, role, lane, prompt, answer, .. } = &*step.episode;
        let place = rounds.step(*seq, step.digest, lane, &step.prev);
        assert_eq!(place, step.episode.place());
        if let Some(parent) = lane.parent().filter(|_| lanes.insert(lane.clone())) {
            for role in ["a", "b"].map(|role| RoleName::new(role).unwrap()) {
                if let Some(begun) = builders.get(&Key::new(&role, &parent)).cloned() {
                    builders.insert(Key::new(&role, lane), begun);
                }
            }
        }
        let builder = builders.entry(Key::new(role, lane)).or_insert_with(|| Builder::new(history_policy.clone()));
        let told = builder.context_report(&step.prev, *seq, &Steps(&done[..at])).unwrap();
        let mut opened = builder.open(prompt, &told, &[]);
        requests.insert(step.id.clone(), opened.clone());
        opened.push(Message::user("a repair that does not stay"));
        builder.close(place, answer, None);
    }
    requests
}

/// The same, built from all steps: visibility follows from the predecessors that each step names.
fn from_scratch(done: &[Done], history_policy: &HistoryPolicy) -> BTreeMap<String, Conversation> {
    let mut before: BTreeMap<Digest, BTreeSet<u64>> = BTreeMap::new();
    for step in done {
        let mut known: BTreeSet<u64> = BTreeSet::new();
        for prev in &step.prev {
            known.extend(&before[prev]);
            known.extend(done.iter().find(|other| other.digest == *prev).map(|other| other.episode.seq));
        }
        before.insert(step.digest, known);
    }
    let known = |step: &Done| &before[&step.digest];
    let mut requests = BTreeMap::new();
    for (at, step) in done.iter().enumerate() {
        let lane = step.episode.lane.as_str();
        let first_opened = |depth: usize| {
            let path: Vec<_> = step.episode.lane.parts().take(depth + 1).collect();
            let within = done[..=at].iter().filter(|other| other.episode.lane.parts().take(depth + 1).eq(path.clone()));
            within.map(|other| other.episode.opened_by[depth]).min().unwrap()
        };
        let is_own = |other: &&Done| {
            let its = &other.episode.lane;
            let is_around = its.as_str() != lane && (its.is_trunk() || lane.starts_with(&format!("{its}/")));
            other.episode.role == step.episode.role
                && (its.as_str() == lane || is_around && other.episode.seq <= first_opened(its.parts().count()))
        };
        let mut own: Vec<&Done> = done[..at].iter().filter(is_own).collect();
        own.sort_by_key(|other| other.episode.place().position());
        let mut messages = Vec::new();
        let mut last: Option<&Done> = None;
        for visit in own.into_iter().chain([step]) {
            let is_news = |seq: u64| last.is_none_or(|last| seq != last.episode.seq && !known(last).contains(&seq));
            let mut news: Vec<&Done> = done.iter().filter(|other| known(visit).contains(&other.episode.seq)).collect();
            news.retain(|other| is_news(other.episode.seq));
            news.sort_by_key(|other| std::cmp::Reverse(other.episode.place().position()));
            let news = news.into_iter().map(|other| Arc::clone(&other.episode));
            let news = news.filter(|episode| super::tells_of(&history_policy.context, &episode.role));
            let told = summary(&history_policy.context, last.is_none(), news);
            if history_policy.history == History::None {
                messages.clear();
            }
            messages.push(opening(&visit.episode.prompt, &told, &[]));
            if visit.episode.seq != step.episode.seq {
                messages.extend(closing(history_policy.history, &visit.episode.answer, None));
            }
            last = Some(visit);
        }
        requests.insert(step.id.clone(), messages.into_iter().collect());
    }
    requests
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn conversations_follow_from_the_steps_and_not_from_who_was_faster(
        items in any_thread(),
        chances in [prop::collection::vec(0_usize..64, 1..40), prop::collection::vec(0_usize..64, 1..40)],
        history in prop::sample::select(vec![History::Condensed, History::None]),
        max_bytes in prop_oneof![0_u64..300, Just(16384)],
        from in prop::option::of(prop::sample::select(vec!["a", "b"])),
    ) {
        let items = joined(&items, true);
        let from = from.map(|role| vec![RoleName::new(role).unwrap()]);
        let history_policy = HistoryPolicy { history, context: Context { from, max_bytes, what: ContextWhat::Bodies } };
        let [one, other] = chances.map(|chances| run(&items, &chances));
        let requests = extended(&one, &history_policy);
        prop_assert_eq!(&requests, &from_scratch(&one, &history_policy));
        prop_assert_eq!(&requests, &extended(&other, &history_policy));
    }

    /// Law `prefix`: in its lane, a role's request begins with its previous request and answer.
    #[test]
    fn a_lane_goes_on_from_its_own_last_visit(
        items in any_thread(),
        chances in prop::collection::vec(0_usize..64, 1..40),
    ) {
        let context = Context { from: None, max_bytes: 16384, what: ContextWhat::Outputs };
        let done = run(&joined(&items, true), &chances);
        let requests = extended(&done, &HistoryPolicy { history: History::Condensed, context });
        let mut before: BTreeMap<(RoleName, LanePath), &Done> = BTreeMap::new();
        for step in &done {
            let request = requests[&step.id].messages();
            if let Some(last) = before.insert((step.episode.role.clone(), step.episode.lane.clone()), step) {
                let promised = requests[&last.id].messages();
                prop_assert_eq!(&request[..promised.len()], &promised[..]);
                prop_assert_eq!(&*request[promised.len()].text(), &last.episode.answer);
                prop_assert_eq!(request.len(), promised.len() + 2);
            }
        }
    }
}
