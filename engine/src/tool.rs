//! Tools of the program that embeds rondo.
//!
//! ```
//! use rondo::tool::{self, Effect};
//!
//! #[derive(serde::Deserialize, rondo::schemars::JsonSchema)]
//! #[schemars(crate = "rondo::schemars")]
//! struct Word {
//!     /// The word.
//!     word: String,
//! }
//!
//! let reverse = tool::from_fn("reverse", "Turns a word around.", |Word { word }| async move {
//!     word.chars().rev().collect::<String>()
//! });
//! let builder = rondo::Rondo::builder().tool(reverse.effect(Effect::Pure));
//! # drop(builder);
//! ```

use std::fmt::Display;
use std::marker::PhantomData;

use futures_util::future::BoxFuture;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::{Value, canonical};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

pub use rondo_agent_kit::tool::{Content, Error, InDoubt, Invocation, Origin, Spec, Tool};
pub use rondo_protocol::call::Effect;
pub use rondo_protocol::file::File;

/// A tool that is an async function of its arguments. Its schema, which models see, is that of their type, with the
/// comments of its fields as descriptions.
///
/// Unless [`effect`](FromFn::effect) says otherwise, a call counts as one with effects beyond files: it is journaled
/// before it is made, never answered by a cache, and in doubt after a crash.
pub fn from_fn<A, F, R>(name: &str, description: &str, run: F) -> FromFn<A, F, R>
where
    A: DeserializeOwned + JsonSchema,
    F: Fn(A) -> R + Send + Sync + 'static,
    R: Future<Output: Output> + Send + 'static,
{
    let spec = Spec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: rondo_agent_kit::tool::schema_of::<A>(),
        origin: Origin::Program,
    };
    FromFn { spec, effect: Effect::External, in_doubt: InDoubt::Ask, run, types: PhantomData }
}

/// See [`from_fn`].
pub struct FromFn<A, F, R> {
    spec: Spec,
    effect: Effect,
    in_doubt: InDoubt,
    run: F,
    types: PhantomData<fn(A) -> R>,
}

impl<A, F, R> FromFn<A, F, R> {
    /// What its calls do.
    #[must_use]
    pub fn effect(self, effect: Effect) -> Self {
        Self { effect, ..self }
    }

    /// What happens on resume with a call of which nobody knows whether it had its effect.
    #[must_use]
    pub fn in_doubt(self, in_doubt: InDoubt) -> Self {
        Self { in_doubt, ..self }
    }
}

impl<A, F, R> Tool for FromFn<A, F, R>
where
    A: DeserializeOwned,
    F: Fn(A) -> R + Send + Sync + 'static,
    R: Future<Output: Output> + Send + 'static,
{
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn effect(&self, _: &Value) -> Effect {
        self.effect.clone()
    }

    fn declared_effect(&self) -> Effect {
        self.effect.clone()
    }

    fn in_doubt(&self) -> InDoubt {
        self.in_doubt
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        let arguments = canonical::from_value(arguments);
        let running = arguments.map(|arguments| (self.run)(arguments));
        Box::pin(async move {
            match running {
                Ok(running) => running.await.into_result(),
                Err(error) => Err(Error::new(Code::ToolArguments, error.to_string())),
            }
        })
    }
}

/// What a function that is a tool may return: a text, a JSON value, a file, a [`Content`] with a text and files, or a
/// result of one of them, whose error the model that called it reads. Files are held to `[files]` of the settings.
pub trait Output {
    /// The content of the result, or the error.
    ///
    /// # Errors
    /// The function's own.
    fn into_result(self) -> Result<Content, Error>;
}

impl Output for Content {
    fn into_result(self) -> Result<Content, Error> {
        Ok(self)
    }
}

impl Output for File {
    fn into_result(self) -> Result<Content, Error> {
        Ok(self.into())
    }
}

impl Output for String {
    fn into_result(self) -> Result<Content, Error> {
        Ok(self.into())
    }
}

impl Output for &str {
    fn into_result(self) -> Result<Content, Error> {
        Ok(self.to_owned().into())
    }
}

impl Output for serde_json::Value {
    fn into_result(self) -> Result<Content, Error> {
        Ok(self.to_string().into())
    }
}

impl<T: Output, E: Display> Output for Result<T, E> {
    fn into_result(self) -> Result<Content, Error> {
        self.map_err(|error| Error::new(Code::ToolFailed, error.to_string()))?.into_result()
    }
}
