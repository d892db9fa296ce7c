//! Tools whose arguments are a Rust type.

use futures_util::future::BoxFuture;
use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::{Value, canonical};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;

use super::{Content, Error, Invocation, Origin, Spec, Tool};

/// A tool that is part of rondo.
pub trait BuiltIn: Send + Sync {
    /// Its arguments. The doc comments of the fields are their descriptions for the model.
    type Arguments: DeserializeOwned + JsonSchema + Send;

    const NAME: &'static str;
    const DESCRIPTION: &'static str;

    fn effect(&self, arguments: &Self::Arguments) -> Effect;

    /// As [`Tool::declared_effect`].
    fn declared_effect(&self) -> Effect {
        Effect::External
    }

    fn run<'a>(
        &'a self,
        arguments: Self::Arguments,
        invocation: &'a Invocation,
    ) -> BoxFuture<'a, Result<Content, Error>>;
}

/// A [`BuiltIn`] as a [`Tool`].
pub struct Typed<T> {
    spec: Spec,
    tool: T,
}

impl<T: BuiltIn> Typed<T> {
    pub fn new(tool: T) -> Self {
        Self { spec: spec::<T>(), tool }
    }
}

/// The JSON Schema of arguments of a type, for a model to read.
pub fn schema_of<A: JsonSchema>() -> String {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<A>();
    // The rest of the schema is of no use to a model.
    schema.remove("$schema");
    schema.remove("title");
    schema.to_value().to_string()
}

/// The spec of a built-in tool, without the tool.
pub fn spec<T: BuiltIn>() -> Spec {
    Spec {
        name: T::NAME.to_owned(),
        description: T::DESCRIPTION.to_owned(),
        parameters: schema_of::<T::Arguments>(),
        origin: Origin::BuiltIn,
    }
}

fn typed<A: DeserializeOwned>(arguments: Value) -> Result<A, Error> {
    canonical::from_value(arguments).map_err(|error| Error::new(Code::ToolArguments, error.to_string()))
}

impl<T: BuiltIn> Tool for Typed<T> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn effect(&self, arguments: &Value) -> Effect {
        // Arguments that the type rejects are refused before anything is done with them; until then the worst effect is
        // assumed.
        typed(arguments.clone()).map_or(Effect::External, |arguments| self.tool.effect(&arguments))
    }

    fn declared_effect(&self) -> Effect {
        self.tool.declared_effect()
    }

    fn run<'a>(&'a self, arguments: Value, invocation: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(async move { self.tool.run(typed(arguments)?, invocation).await })
    }
}
