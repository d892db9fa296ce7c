//! Which objects an object or a record names: what must be there with it.

use rondo_protocol::canonical;
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::object::{Entry, Record, Request, Start, Transcript};
use rondo_protocol::workflow::types;

use super::Row;

/// The objects that the canonical bytes of an object name.
///
/// # Errors
/// If they are not those of an object of the kind.
pub fn of_object(kind: Kind, bytes: &[u8]) -> Result<Vec<(Kind, Digest)>, canonical::Error> {
    Ok(match kind {
        Kind::Start => {
            let start: Start = canonical::from_slice(bytes)?;
            let files = types::files_of(&start.input).into_iter().map(|file| (Kind::File, file.digest));
            [(Kind::Workflow, start.workflow)].into_iter().chain(files).collect()
        }
        Kind::Transcript => {
            let transcript: Transcript = canonical::from_slice(bytes)?;
            transcript.entries.iter().flat_map(of_entry).collect()
        }
        Kind::Request => {
            let request: Request = canonical::from_slice(bytes)?;
            vec![(Kind::Head, request.head)]
        }
        Kind::Workflow | Kind::Policy | Kind::Head | Kind::Message | Kind::Messages | Kind::Step | Kind::File => {
            Vec::new()
        }
    })
}

/// The objects that a step, a rebind or a compaction names.
pub fn of_record(record: &Record) -> Vec<(Kind, Digest)> {
    let start = (Kind::Start, record.start());
    let named = match record {
        Record::Step(step) => step.transcript.map(|transcript| (Kind::Transcript, transcript)),
        Record::Compaction(compaction) => compaction.transcript.map(|transcript| (Kind::Transcript, transcript)),
        Record::Rebind(rebind) => Some((Kind::Start, rebind.to)),
    };
    [start].into_iter().chain(named).collect()
}

/// The objects that the row of a thread names.
pub fn of_row(row: &Row) -> [(Kind, Digest); 3] {
    [(Kind::Workflow, row.workflow), (Kind::Policy, row.policy), (Kind::Start, row.start)]
}

/// A request is stored only if a hook rewrote it: the others are rebuilt from steps.
fn of_entry(entry: &Entry) -> Vec<(Kind, Digest)> {
    match entry {
        Entry::Model { asked, head, request, .. } => {
            let rewritten = asked.map(|_| (Kind::Request, *request));
            [(Kind::Head, *head)].into_iter().chain(rewritten).collect()
        }
        Entry::Tool { files, .. } => files.iter().map(|file| (Kind::File, file.digest)).collect(),
        Entry::Repair { .. } => Vec::new(),
    }
}
