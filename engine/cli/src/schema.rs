use std::path::PathBuf;

use super::{Exit, Failure, Output, init, output_file, working_folder};

/// Print the JSON Schema of workflow files
#[derive(Debug, clap::Args)]
pub struct SchemaArgs {
    /// Write it to a file, by default the one that the first line of a new workflow names; an earlier schema is replaced
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "workflow.schema.json")]
    write: Option<PathBuf>,
}

pub fn schema(args: &SchemaArgs, output: &mut Output) -> Result<Exit, Failure> {
    let schema = rondo::protocol::workflow::schema::schema();
    let Some(file) = &args.write else { return output.write(schema.as_bytes()).map(|()| Exit::Done) };
    let path = working_folder()?.join(file);
    if path.symlink_metadata().is_ok() {
        let opening = |text: &str| text.lines().take(3).map(str::to_owned).collect::<Vec<_>>();
        let is_schema =
            path.is_file() && std::fs::read_to_string(&path).is_ok_and(|earlier| opening(&earlier) == opening(&schema));
        if !is_schema {
            let message = format!("{} exists and is not such a schema; nothing was written", file.display());
            return Err(output_file::refused(message).with_hint("give another name: `rondo schema --write FILE`"));
        }
        std::fs::remove_file(&path).map_err(output_file::failed(file))?;
    }
    init::write_new(&path, &schema)?;
    output.text(&format!("{}\n", file.display())).map(|()| Exit::Done)
}
