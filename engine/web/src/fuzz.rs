//! The bodies of requests, for cargo-fuzz and its seeded twin.

use super::changes::{AnswerRequest, ForkBody, ResumeRequest};
use super::model::chat::ChatRequest;
use super::starting::StartRequest;

/// A body, as that of each request in turn.
pub fn body(input: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<ChatRequest>(input) {
        request.messages.iter().for_each(|message| drop(message.text()));
    }
    let _ = serde_json::from_slice::<StartRequest>(input);
    let _ = serde_json::from_slice::<ResumeRequest>(input);
    let _ = serde_json::from_slice::<AnswerRequest>(input);
    let _ = serde_json::from_slice::<ForkBody>(input);
}

#[cfg(test)]
mod tests {
    #[test]
    fn bodies_of_requests() {
        rondo_fuzz::run("body", &[], super::body);
    }
}
