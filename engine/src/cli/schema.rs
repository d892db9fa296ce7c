//! `rondo schema`: the JSON Schema of workflow files, for editors.

use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;

/// Print the JSON Schema of workflow files
#[derive(Debug, clap::Args)]
pub struct SchemaArgs {}

pub fn schema(_args: &SchemaArgs, output: &mut Output) -> Result<Exit, Failure> {
    output.write(rondo_protocol::workflow::schema::schema().as_bytes())?;
    Ok(Exit::Done)
}
