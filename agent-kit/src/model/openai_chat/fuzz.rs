//! The body of a streamed reply, for cargo-fuzz and its seeded twin.

#![expect(clippy::missing_panics_doc, reason = "a check says what it expects by failing")]

use super::OpenAiChat;
use crate::model::http::sse;
use crate::model::protocol::{Protocol as _, unreadable};
use crate::model::{test_call, test_outgoing};
use crate::redact::Redactor;

const MAX_REPLY_BYTES: usize = 1 << 16;

/// The bytes of a streamed reply: however they are cut into chunks, they become the same reply, or none.
pub fn stream(input: &[u8]) {
    let (first, second) = input.split_at(input.len() / 2);
    assert_eq!(read(&[input]), read(&[first, second]), "a reply that depends on its chunks");
}

/// The reply, the texts shown of it, or why it cannot be read, as text.
fn read(chunks: &[&[u8]]) -> String {
    let mut reader = sse::Reader::new(MAX_REPLY_BYTES, MAX_REPLY_BYTES);
    let mut assembly = OpenAiChat.assembly(MAX_REPLY_BYTES);
    let (mut events, mut shown) = (Vec::new(), String::new());
    for chunk in chunks {
        let read = reader.push(chunk, &mut events);
        for event in events.drain(..) {
            match assembly.take(&event, &Redactor::default()) {
                Ok(text) => shown += &text,
                Err(fault) => return format!("{fault:?}"),
            }
        }
        if let Err(fault) = read {
            return fault.message;
        }
    }
    format!("{shown:?} {:?}", assembly.complete(&test_outgoing(&test_call()), unreadable("incomplete".to_owned())))
}
