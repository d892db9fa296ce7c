//! The definitions that the records of a thread name: one, and another for each rebind.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rondo_agent_kit::conversation::HistoryPolicy;
use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::RoleName;
use rondo_protocol::object::Start;
use rondo_protocol::workflow::Workflow;

use super::rebuild;
use crate::resolved_roles::{self, BodyReader};
use crate::store::{Damage, Error, Read};

/// How the answers of a definition are read, and what its roles see of the past.
#[derive(Debug)]
pub struct Binding {
    body_readers: BTreeMap<RoleName, BodyReader>,
    history_policies: BTreeMap<RoleName, HistoryPolicy>,
}

impl Binding {
    fn new(workflow: &Workflow) -> Result<Self, resolved_roles::Error> {
        let models = resolved_roles::model_roles(workflow);
        let policies = models.map(|(name, _, model)| (name.clone(), resolved_roles::history_policy(model)));
        Ok(Self { body_readers: resolved_roles::body_readers(workflow)?, history_policies: policies.collect() })
    }

    /// The body of a role's answer; empty if there is no answer or it cannot be read.
    pub fn body(&self, role: &RoleName, answer: &str) -> String {
        self.body_readers.get(role).map(|reader| reader.body(answer)).unwrap_or_default()
    }

    /// What a model role sees of the past.
    pub fn history_policy(&self, role: &RoleName) -> Option<&HistoryPolicy> {
        self.history_policies.get(role)
    }
}

/// The bindings of a thread, by start. Those before its last rebind are read when a record names them.
#[derive(Debug)]
pub struct Bindings {
    known: Mutex<BTreeMap<Digest, Arc<Binding>>>,
}

impl Bindings {
    /// The bindings of a thread whose latest records name `start`, of `workflow`.
    pub fn new(start: Digest, workflow: &Workflow) -> Result<Self, resolved_roles::Error> {
        let binding = Arc::new(Binding::new(workflow)?);
        Ok(Self { known: Mutex::new(BTreeMap::from([(start, binding)])) })
    }

    /// The binding that a start names.
    pub fn of(&self, start: Digest, store: &dyn Read) -> Result<Arc<Binding>, Error> {
        if let Some(known) = self.known.lock().get(&start) {
            return Ok(Arc::clone(known));
        }
        let Start { workflow, .. } = rebuild::object(store, Kind::Start, start)?;
        let definition: Workflow = rebuild::object(store, Kind::Workflow, workflow)?;
        let unreadable = |error| Damage::new(format!("the workflow {workflow}: {error}")).of_object(workflow);
        let binding = Arc::new(Binding::new(&definition).map_err(unreadable)?);
        self.known.lock().insert(start, Arc::clone(&binding));
        Ok(binding)
    }
}
