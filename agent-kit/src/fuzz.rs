//! What reads text from models, servers and files, for [`rondo_fuzz`] and for cargo-fuzz: each function takes one input
//! and panics when a law is broken.

#![expect(clippy::expect_used, clippy::missing_panics_doc, reason = "a check says what it expects by failing")]

use std::path::PathBuf;
use std::sync::Arc;

use rondo_protocol::canonical;
use rondo_protocol::diagnostic::Diagnostic;
use rondo_protocol::id::{FieldName, Status};
use rondo_protocol::source::Source;
use rondo_protocol::workflow::{AnswerFormat, Field, Ordered};

use crate::answer::{AnswerPart, Contract, StreamedAnswer};
use crate::model::recorded::Cassette;
use crate::model::script::Script;
use crate::sandbox::files::{Access, Workspace};
use crate::tool::{Invocation, STORED_MAX_BYTES};
use crate::tool::{Offer, file_tools};

pub use crate::model::openai_chat::fuzz::stream;

/// A role with a status that has fields and one that has none.
fn contract(format: AnswerFormat) -> Contract {
    let field =
        |schema: &str, optional| Field { optional, schema: canonical::parse(schema.as_bytes()).expect("a schema") };
    let named = |name: &str, field| (FieldName::new(name).expect("a name"), field);
    let fields: Ordered<FieldName, Field> = [
        named("text", field(r#"{"type":"string"}"#, false)),
        named("texts", field(r#"{"type":"array","items":{"type":"string"}}"#, false)),
        named("any", field("{}", true)),
    ]
    .into_iter()
    .collect();
    let status = |name: &str, fields| (Status::new(name).expect("a status"), fields);
    let output = [status("a", fields), status("b-c", Ordered::default())].into_iter().collect();
    Contract::new(format, &output).expect("a contract")
}

/// An answer of a model, in both formats: what is accepted is accepted again as it is rendered, and has the text that a
/// reader of its stream was shown.
pub fn answer(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for format in [AnswerFormat::Frontmatter, AnswerFormat::Json] {
        let contract = contract(format);
        drop(StreamedAnswer::default().push(text));
        let Ok(answer) = contract.parse(text) else { continue };
        let rendered = contract.render(answer.status.as_str(), &answer.output, &answer.body);
        assert_eq!(contract.parse(&rendered).as_ref(), Ok(&answer), "{rendered}");
        let (first, second) = text.split_at(text.floor_char_boundary(text.len() / 2));
        let mut reader = StreamedAnswer::only(AnswerPart::Body, format);
        let shown = reader.push(first) + &reader.push(second);
        assert!(shown.is_empty() || shown == answer.body, "{shown:?} was shown of {:?}", answer.body);
    }
}

/// A script: it is read, or has faults that stand in it.
pub fn script(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(faults) = Script::read(&Source::new("script.yaml", text)) {
        faults_stand_in(text, &faults);
    }
}

/// A recording: it is read, or has faults that stand in it.
pub fn recording(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(faults) = Cassette::read("recording.jsonl", text) {
        faults_stand_in(text, &faults);
    }
}

fn faults_stand_in(text: &str, faults: &[Diagnostic]) {
    assert!(!faults.is_empty(), "refused without a reason");
    for fault in faults {
        assert!(text.get(fault.span.range()).is_some(), "a fault stands outside of its file: {fault:?}");
    }
}

/// What stands in a file beside the folder of the tools.
const SECRET: &str = "what no tool may show or change";

/// The arguments of a tool call, to each tool for files: they are refused, or the call ends with a text of bounded
/// length, and nothing outside of the tools' folder is read or changed.
pub fn tool_arguments(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let outside = tempfile::tempdir().expect("a folder");
    let (secret, inside) = (outside.path().join("secret"), outside.path().join("inside"));
    std::fs::create_dir_all(inside.join("notes")).expect("a folder");
    std::fs::write(&secret, SECRET).expect("a file");
    let everything = || vec![PathBuf::from(".")];
    let access = Access { read: everything(), write: everything(), ..Access::default() };
    let workspace = Arc::new(Workspace::open(&inside, access).expect("a workspace"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for tool in file_tools(&workspace) {
        let Ok(arguments) = Offer::new(Arc::clone(&tool), None).read(text) else { continue };
        drop(tool.effect(&arguments));
        std::fs::write(inside.join("notes/tides.md"), "low water\nhigh water\n").expect("a file");
        if let Ok(result) = runtime.block_on(tool.run(arguments, &Invocation::new("fuzz"))) {
            assert!(result.text.len() <= STORED_MAX_BYTES, "{} bytes", result.text.len());
            assert!(!result.text.contains(SECRET), "a tool left its folder");
        }
    }
    assert_eq!(std::fs::read_to_string(&secret).ok().as_deref(), Some(SECRET), "a tool changed what is outside");
    let names = std::fs::read_dir(outside.path()).map(Iterator::count);
    assert_eq!(names.ok(), Some(2), "a tool wrote outside of its folder");
}

#[cfg(test)]
mod tests {
    #[test]
    fn answers() {
        rondo_fuzz::run("answer", &[], super::answer);
    }

    #[test]
    fn streams() {
        rondo_fuzz::run("stream", &[], super::stream);
    }

    #[test]
    fn scripts() {
        rondo_fuzz::run(
            "script",
            &["workflows/review-loop/script.yaml", "tests/fixtures/lanes/script.yaml"],
            super::script,
        );
    }

    #[test]
    fn recordings() {
        rondo_fuzz::run("recording", &[], super::recording);
    }

    #[test]
    fn arguments_of_tools() {
        rondo_fuzz::run("tool_arguments", &[], super::tool_arguments);
    }
}
