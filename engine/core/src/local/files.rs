//! The files of a thread: their contents are taken out of its input once, or come with a tool's result, and are read
//! again for each request that holds one.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::redact::Redactor;
use rondo_protocol::Value;
use rondo_protocol::call::{Fault, FaultClass, Files, ToolReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::file::File;
use rondo_protocol::message::{Conversation, Message};
use rondo_protocol::workflow::types;
use rondo_protocol::workflow::{Field, Workflow};

use super::Error;
use crate::store::Read;
use crate::thread::Object;

/// The operator's rules for files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRules {
    /// The maximum bytes of one file.
    pub max_bytes: u64,
    /// The media types that are taken, such as `image/png` or `image/*`; none means all.
    pub media_types: Vec<String>,
}

impl Default for FileRules {
    fn default() -> Self {
        Self { max_bytes: 20 << 20, media_types: Vec::new() }
    }
}

impl FileRules {
    fn check(&self, file: &File, redactor: &Redactor) -> Result<(), Fault> {
        let (name, media_type) = (&file.name, &file.media_type);
        let size = u64::try_from(file.bytes.len()).unwrap_or(u64::MAX);
        if size > self.max_bytes {
            let most = self.max_bytes;
            return Err(refused(
                format!("the file {name} has {size} bytes, and at most {most} are taken"),
                "`max_size` of [files] in the settings sets how many",
            ));
        }
        let is_it = |wanted: &String| {
            wanted == media_type || wanted.strip_suffix('*').is_some_and(|kind| media_type.starts_with(kind))
        };
        if !self.media_types.is_empty() && !self.media_types.iter().any(is_it) {
            let taken = self.media_types.join(", ");
            return Err(refused(
                format!("the file {name} is of type {media_type}, and only {taken} are taken"),
                "`media_types` of [files] in the settings sets which",
            ));
        }
        let text = String::from_utf8_lossy(&file.bytes);
        let mut without_keys = text.clone().into_owned();
        redactor.string(&mut without_keys);
        if without_keys != text {
            return Err(refused(
                format!("the file {name} holds a key of the settings"),
                "give a file without it: the contents of files are sent and stored as they are",
            ));
        }
        Ok(())
    }
}

/// Takes the contents of the files out of an input that was checked: what stays names each by its digest. Contents are
/// held to the rules, and may hold no key that the redactor knows, if both are given.
///
/// # Errors
/// If a file is against the rules, or one without contents is not in the store.
pub fn take_files(
    workflow: &Workflow,
    input: &mut Value,
    rules: Option<(&FileRules, &Redactor)>,
    store: &dyn Read,
) -> Result<Vec<Object>, Error> {
    let Value::Object(members) = input else { return Ok(Vec::new()) };
    let is_of_files = |name: &str| {
        let field = workflow.input.iter().find(|(known, _)| known.as_str() == name).map(|(_, field)| field);
        field.is_some_and(Field::takes_files)
    };
    let mut objects: BTreeMap<Digest, Object> = BTreeMap::new();
    for file in types::take_files(members, is_of_files) {
        if let Some((rules, redactor)) = rules {
            rules.check(&file, redactor).map_err(Error::Fault)?;
        }
        objects.insert(file.digest(), (Kind::File, file.digest(), file.bytes.to_vec()));
    }
    for file in types::files_of(input).into_iter().filter(|file| !objects.contains_key(&file.digest)) {
        if store.object(Kind::File, file.digest)?.is_none() {
            let message = format!("the file {} is named by its digest, and the store does not hold it", file.name);
            return Err(Error::Fault(refused(message, "give it with its contents")));
        }
    }
    Ok(objects.into_values().collect())
}

/// Holds the files of a tool's result to the rules. Those that are against them are left out, and the text says why: the
/// model has to go on without them.
pub(super) fn admit(reply: &mut ToolReply, (rules, redactor): (&FileRules, &Redactor)) {
    let (mut kept, mut left_out) = (Vec::new(), String::new());
    for file in std::mem::take(&mut reply.files) {
        let checked = file.checked().map_err(|error| format!("a file of the result cannot be kept: {error}"));
        match checked.and_then(|file| rules.check(&file, redactor).map(|()| file).map_err(|fault| fault.message)) {
            Ok(file) => kept.push(file),
            Err(why) => left_out = format!("{left_out}[left out: {why}]\n"),
        }
    }
    // In front, where no cut of a long text takes it away.
    reply.text.insert_str(0, &left_out);
    reply.files = kept;
}

/// The contents of files that no commit has stored yet.
pub(super) type Held = BTreeMap<Digest, Arc<[u8]>>;

fn refused(message: String, hint: &str) -> Fault {
    Fault { hint: Some(hint.into()), ..Fault::new(Code::InvalidInput, FaultClass::Denied, message) }
}

/// The contents of the files in a conversation: those that are held, and those in the store.
pub(super) fn read(store: &dyn Read, held: &Held, conversation: &Conversation) -> Result<Files, Fault> {
    if !conversation.has_files() {
        return Ok(Files::default());
    }
    let named = conversation.messages().into_iter().flat_map(Message::files);
    let digests: Vec<Digest> = named.map(|file| file.digest).collect();
    let mut files: BTreeMap<Digest, Arc<[u8]>> = BTreeMap::new();
    for digest in digests {
        if files.contains_key(&digest) {
            continue;
        }
        if let Some(bytes) = held.get(&digest) {
            files.insert(digest, Arc::clone(bytes));
            continue;
        }
        let missing =
            || Fault::new(Code::StoreDamaged, FaultClass::Store, format!("the file {digest} is not in the store"));
        let bytes = store.object(Kind::File, digest)?.ok_or_else(missing)?;
        files.insert(digest, bytes.into());
    }
    Ok(files.into_iter().collect())
}
