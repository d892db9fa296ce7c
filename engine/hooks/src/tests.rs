//! What holds of every built-in kind.

#[path = "../../core/src/hook/tests/fixture.rs"]
pub(crate) mod fixture;

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::hook::{BuildContext, HookResources, KeySpace, Node};
use rondo_core::store::MemoryStore;
use rondo_protocol::Value;
use rondo_protocol::object::AnsweredBy;
use rondo_protocol::workflow::{self, HookUse, OnHookError};

use super::*;
use fixture::{calls, node, reply, send, text_of};

/// A use of a kind, with a setting where it needs one.
fn used(kind: &workflow::hooks::HookKind) -> HookUse {
    let first = kind.settings.first().filter(|_| kind.needs_setting);
    let settings = first.map(|setting| (setting.name.to_owned(), Value::from(1000_u64))).into_iter().collect();
    HookUse { at: kind.at, on_error: OnHookError::Fail, roles: None, settings, kind: kind.name.to_owned() }
}

fn transparent_kinds() -> Vec<Arc<Node>> {
    let registry = registry();
    let known = registry.kinds().filter_map(|kind| Some((kind, workflow::hooks::HookKind::find(kind.name())?)));
    known
        .filter(|(_, known)| known.transparent)
        .map(|(kind, known)| {
            let space = KeySpace::new(Arc::new(MemoryStore::default()), kind.name());
            let (flags, resources) = (BTreeMap::new(), HookResources::default());
            let build = BuildContext {
                hook: &used(known),
                roles: &BTreeMap::new(),
                flags: &flags,
                resources: &resources,
                space: &space,
                of_kind: &BTreeSet::new(),
                altered: &BTreeSet::new(),
                is_replay: false,
            };
            let hook = kind.build(&build).unwrap();
            node(kind.name(), hook, OnHookError::Fail)
        })
        .collect()
}

/// Law `transparency`, for the kinds that are built in: the reply and the call are what they are without the hook.
#[tokio::test]
async fn a_transparent_hook_changes_neither_call_nor_reply() {
    for hook in transparent_kinds() {
        for call in calls() {
            let outcome = send(vec![Arc::clone(&hook)], call.clone(), None).await;
            let answered = outcome.result.unwrap();
            assert_eq!(answered.reply, reply(&call, "from the port"));
            assert_eq!(answered.answered_by, AnsweredBy::Port);
            assert_eq!(outcome.port_saw, [text_of(&call)]);
        }
    }
}
