use super::step::{Compaction, Rebind, RecordKind, Step};
use crate::canonical;
use crate::digest::{Digest, Kind};
use crate::id::LanePath;

/// The record at one sequence number of a thread. All three kinds are digested as `step` and contain `prev` and
/// `start`, so that a chain can be followed without knowing the kinds.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    Step(Box<Step>),
    Rebind(Rebind),
    Compaction(Box<Compaction>),
}

impl Record {
    /// Reads the canonical bytes of any of the three.
    ///
    /// # Errors
    /// When they are not canonical JSON, are of another kind, or lack a field.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, canonical::Error> {
        let value = canonical::parse_canonical(bytes)?;
        match canonical::from_value(value.get("kind").cloned().unwrap_or_default())? {
            RecordKind::Step => canonical::from_value(value).map(|step| Self::Step(Box::new(step))),
            RecordKind::Rebind => canonical::from_value(value).map(Self::Rebind),
            RecordKind::Compaction => canonical::from_value(value).map(|one| Self::Compaction(Box::new(one))),
        }
    }

    /// The digest and the canonical bytes.
    ///
    /// # Errors
    /// When the fields of a step have no canonical form.
    pub fn digest(&self) -> Result<(Digest, Vec<u8>), canonical::Error> {
        match self {
            Self::Step(step) => Digest::of(Kind::Step, step),
            Self::Rebind(rebind) => Digest::of(Kind::Step, rebind),
            Self::Compaction(compaction) => Digest::of(Kind::Step, compaction),
        }
    }

    /// The steps that it follows; empty at the beginning of a thread.
    pub fn prev(&self) -> &[Digest] {
        match self {
            Self::Step(step) => &step.prev,
            Self::Rebind(rebind) => &rebind.prev,
            Self::Compaction(compaction) => &compaction.prev,
        }
    }

    /// Its lane; a rebind has none.
    pub fn lane(&self) -> Option<&LanePath> {
        match self {
            Self::Step(step) => Some(&step.lane),
            Self::Rebind(_) => None,
            Self::Compaction(compaction) => Some(&compaction.lane),
        }
    }

    /// The start of its thread.
    pub fn start(&self) -> Digest {
        match self {
            Self::Step(step) => step.start,
            Self::Rebind(rebind) => rebind.start,
            Self::Compaction(compaction) => compaction.start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::Value;
    use crate::id::{RoleName, Status};
    use crate::message::{FileRef, Part, Parts, ToolUse};
    use crate::object::{EdgeTaken, Entry, Finish, ModelReply, Observation, Outcome, RecordKind, Transcript};

    fn records() -> [Record; 3] {
        let lane = |path: &str| LanePath::new(path).unwrap();
        let code = || "RN1201".to_owned();
        let (role, start, prev) = (RoleName::new("writer").unwrap(), Digest([3; 32]), vec![Digest([1; 32])]);
        let step = Step {
            answer: "done".to_owned(),
            edge: EdgeTaken { files: Vec::new(), from: "start".to_owned(), prompt: "Go.".to_owned(), status: None },
            kind: RecordKind::Step,
            lane: LanePath::trunk(),
            observations: vec![
                Observation::Join { arrived: vec![lane("a[0]")], cancelled: vec![lane("a[1]")] },
                Observation::Error { code: code() },
                Observation::Limit { code: code() },
                Observation::Timeout { code: code() },
                Observation::Fallback { model: "second".to_owned() },
                Observation::Child { head: None, outcome: Outcome::Failed, start },
                Observation::Given {},
            ],
            output: Value::empty_object(),
            prev: Vec::new(),
            role: role.clone(),
            start,
            status: Status::new("ok").unwrap(),
            transcript: None,
        };
        let rebind = Rebind { kind: RecordKind::Rebind, prev: prev.clone(), start, to: Digest([4; 32]) };
        let compaction = Compaction {
            kind: RecordKind::Compaction,
            lane: lane("a[0]"),
            prev,
            role,
            start,
            text: "All of it.".to_owned(),
            through_visit: 3,
            transcript: Some(Digest([2; 32])),
        };
        [Record::Step(Box::new(step)), Record::Rebind(rebind), Record::Compaction(Box::new(compaction))]
    }

    /// Law `format`: the bytes of the objects of a thread are fixed.
    #[test]
    fn the_bytes_of_records_are_fixed() {
        let transcript = Transcript {
            entries: vec![
                Entry::Model {
                    asked: None,
                    head: Digest([5; 32]),
                    reply: ModelReply {
                        finish: Finish::ToolCalls,
                        parts: [
                            Part::Reasoning { opaque: None, text: "hm".to_owned() },
                            Part::ToolCall(ToolUse {
                                arguments: "{}".to_owned(),
                                id: "1".to_owned(),
                                name: "read_file".to_owned(),
                            }),
                        ]
                        .into_iter()
                        .collect(),
                    },
                    request: Digest([6; 32]),
                },
                Entry::Tool {
                    arguments: "{}".to_owned(),
                    failed: false,
                    files: Vec::new(),
                    id: "1".to_owned(),
                    name: "read_file".to_owned(),
                    text: "tide".to_owned(),
                },
                Entry::Tool {
                    arguments: "{}".to_owned(),
                    failed: false,
                    files: vec![FileRef {
                        digest: Digest([7; 32]),
                        media_type: "image/png".to_owned(),
                        name: "tide.png".to_owned(),
                    }],
                    id: "2".to_owned(),
                    name: "read_file".to_owned(),
                    text: String::new(),
                },
                Entry::Repair { text: "Again.".to_owned() },
            ],
        };
        assert_eq!(ModelReply::said("").parts, Parts::default());
        let bytes = records().map(|record| record.digest().unwrap().1).to_vec();
        let bytes = bytes.into_iter().chain([canonical::to_bytes(&transcript).unwrap()]);
        let lines: Vec<String> = bytes.map(|bytes| String::from_utf8(bytes).unwrap()).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn any_record_is_read_back_with_what_it_follows() {
        for record in records() {
            let (digest, bytes) = record.digest().unwrap();
            let read = Record::from_slice(&bytes).unwrap();
            assert_eq!((&read, read.prev(), read.start()), (&record, record.prev(), Digest([3; 32])));
            assert_eq!(read.digest().unwrap().0, digest);
            let text = String::from_utf8(bytes).unwrap();
            for broken in [text.replace("\"kind\"", "\"sort\""), text.replace("\"start\"", "\"begin\"")] {
                assert!(Record::from_slice(broken.as_bytes()).is_err(), "{broken}");
            }
        }
        for broken in ["{}", "null", "[]", "{\"kind\":\"leap\"}", "{\"kind\":\"rebind\"}", ""] {
            assert!(Record::from_slice(broken.as_bytes()).is_err(), "{broken}");
        }
    }
}
