//! Models of the program that embeds rondo.
//!
//! An answer has the form that its role's contract asks for, which stands at the end of the system text: unless the role
//! wants JSON, a status and fields between lines of `---`, and a text. One that has not is repaired by another request.
//!
//! ```
//! use rondo::model;
//!
//! let echo = model::from_fn(|call| {
//!     let sent = call.conversation.len();
//!     Ok(format!("---\nstatus: done\n---\n\nI was sent {sent} messages."))
//! });
//! let builder = rondo::Rondo::builder().in_memory().model("default", echo);
//! # drop(builder);
//! ```

pub use futures_util::future::BoxFuture;
pub use rondo_agent_kit::model::{Completion, Deltas, Model};
pub use rondo_protocol::call::{Fault, FaultClass, ModelAnswer, ModelCall};
pub use rondo_protocol::message::{Message, Part, ToolUse};
pub use rondo_protocol::object::{Finish, ModelReply, Usage};

/// A model that is a function: it answers with a text, and costs nothing.
pub fn from_fn<F>(answer: F) -> FromFn<F>
where
    F: Fn(&ModelCall) -> Result<String, Fault> + Send + Sync,
{
    FromFn(answer)
}

/// See [`from_fn`].
pub struct FromFn<F>(F);

impl<F> Model for FromFn<F>
where
    F: Fn(&ModelCall) -> Result<String, Fault> + Send + Sync,
{
    fn complete<'a>(&'a self, call: &'a ModelCall, _: &'a dyn Deltas) -> Completion<'a> {
        let answer =
            (self.0)(call).map(|text| ModelAnswer { reply: ModelReply::said(text), usage: None, cost_usd: None });
        Box::pin(std::future::ready(answer))
    }

    fn is_paid(&self) -> bool {
        false
    }
}
