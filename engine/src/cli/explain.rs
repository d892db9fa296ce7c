//! `rondo explain`: the page of a code.

use rondo_protocol::diagnostic::{Code, nearest};

use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;

/// Print the page of a diagnostic code
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// The code, such as RN0101; without one, every code with its title
    code: Option<String>,
}

pub fn explain(args: &ExplainArgs, output: &mut Output) -> Result<Exit, Failure> {
    let Some(wanted) = &args.code else {
        for code in Code::ALL {
            output.text(&format!("{code}  {}\n", code.title()))?;
        }
        return Ok(Exit::Done);
    };
    let Some(code) = Code::find(wanted) else {
        let shown: String = wanted.chars().take(40).collect();
        let failure = Failure::new(Code::UnknownCode, format!("there is no code {shown:?}"));
        let near = nearest(wanted, Code::ALL.iter().map(|code| code.as_str()));
        return Err(match near {
            Some(near) => failure.with_hint(format!("did you mean {near}? `rondo explain` lists all codes")),
            None => failure.with_hint("`rondo explain` lists all codes"),
        });
    };
    output.text(code.page())?;
    Ok(Exit::Done)
}
