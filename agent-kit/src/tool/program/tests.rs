use std::collections::BTreeMap;

use super::*;
use crate::sandbox::process::ProcessSettings;

const SCHEMA: &str = r#"{"type":"object","properties":{"file":{"type":"string"},"names":{"type":"array"},"deep":{}}}"#;

fn settings(argv: &[&str], effect: EffectWord, paths: &[&str]) -> ProgramSettings {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    ProgramSettings {
        pinned: crate::pinned::Pinned::default(),
        name: "check".to_owned(),
        description: "Checks.".to_owned(),
        argv: texts(argv),
        schema: Some(SCHEMA.to_owned()),
        effect,
        paths: texts(paths),
        working_dir: WorkingDir::workspace(),
        timeout: Duration::from_secs(5),
        output_max_bytes: 1000,
        in_doubt: InDoubt::Retry,
    }
}

fn program(settings: ProgramSettings) -> Result<Program, InvalidProgram> {
    let processes = Processes::new(ProcessSettings {
        launcher: PathBuf::new(),
        workspace: PathBuf::new(),
        read: Vec::new(),
        write: vec![PathBuf::from(".")],
        hidden: Vec::new(),
        read_only: Vec::new(),
        protected: Vec::new(),
        ceilings: crate::sandbox::process::Limits::default(),
        sandbox: true,
        env: BTreeMap::new(),
    });
    Program::new(settings, Arc::new(processes))
}

fn value(text: &str) -> Value {
    canonical::from_slice(text.as_bytes()).unwrap()
}

fn command(argv: &[&str], arguments: &str) -> Result<Command, Error> {
    let invocation = Invocation::new("key");
    program(settings(argv, EffectWord::Reads, &[])).unwrap().command(&value(arguments), &invocation)
}

fn filled(argv: &[&str], arguments: &str) -> Vec<String> {
    command(argv, arguments).unwrap().argv
}

#[test]
fn an_element_that_is_an_argument_becomes_it() {
    assert_eq!(filled(&["lint", "{file}"], r#"{"file":"a b; rm -rf $HOME"}"#), ["lint", "a b; rm -rf $HOME"]);
    assert_eq!(filled(&["lint", "{names}"], r#"{"names":["a","b c",3]}"#), ["lint", "a", "b c", "3"]);
    assert_eq!(filled(&["lint", "{names}"], r#"{"names":[]}"#), ["lint"]);
    assert_eq!(filled(&["lint", "{deep}"], r#"{"deep":{"b":1,"a":true}}"#), ["lint", r#"{"a":true,"b":1}"#]);
}

#[test]
fn an_argument_within_an_element_is_replaced_by_its_text() {
    let arguments = r#"{"file":"x","deep":7}"#;
    assert_eq!(filled(&["t", "--file={file}:{deep}", "{{{file}}}"], arguments), ["t", "--file=x:7", "{x}"]);
}

#[test]
fn an_element_with_an_absent_argument_is_left_out() {
    assert_eq!(filled(&["t", "{file}", "--file={file}", "end"], "{}"), ["t", "end"]);
    assert_eq!(filled(&["t", "{file}"], r#"{"file":null}"#), ["t"]);
}

#[test]
fn a_value_cannot_pass_as_an_option() {
    for (argv, arguments) in [
        (&["git", "log", "{file}"], r#"{"file":"--output=/etc/x"}"#),
        (&["git", "log", "{names}"], r#"{"names":["a","-x"]}"#),
        (&["git", "log", "{file}.txt"], r#"{"file":"-"}"#),
    ] {
        let error = command(argv, arguments).unwrap_err();
        assert_eq!(error.code, Code::ToolArguments);
        assert!(error.message.contains("read as an option"), "{}", error.message);
    }
    assert_eq!(filled(&["git", "--author={file}"], r#"{"file":"-x"}"#), ["git", "--author=-x"]);
}

#[test]
fn a_call_carries_its_arguments_and_its_key() {
    let command = command(&["t"], r#"{"file":"x","deep":[1]}"#).unwrap();
    assert_eq!(command.stdin, br#"{"deep":[1],"file":"x"}"#);
    assert_eq!(command.env.get("RONDO_IDEMPOTENCY_KEY").map(String::as_str), Some("key"));
}

#[test]
fn what_is_declared_wrongly_is_told() {
    let fault = |argv: &[&str]| program(settings(argv, EffectWord::Pure, &[])).unwrap_err();
    assert_eq!(fault(&[]), InvalidProgram::NoProgram);
    assert_eq!(fault(&["{file}"]), InvalidProgram::ProgramFromArgument);
    let unknown = InvalidProgram::UnknownArgument { text: "-x{fiel}".to_owned(), name: "fiel".to_owned() };
    assert_eq!(fault(&["t", "-x{fiel}"]), unknown);
    assert_eq!(fault(&["t", "a}b"]), InvalidProgram::Braces { text: "a}b".to_owned() });
    assert_eq!(fault(&["t", "{file"]), InvalidProgram::Braces { text: "{file".to_owned() });
    for schema in ["{", r#"{"type":"string"}"#, r#"{"type":"object","properties":{"a":{"type":"txt"}}}"#, "[]"] {
        let settings = ProgramSettings { schema: Some(schema.to_owned()), ..settings(&["t"], EffectWord::Pure, &[]) };
        assert!(matches!(program(settings).unwrap_err(), InvalidProgram::Schema(_)), "{schema}");
    }
    let settings = ProgramSettings { schema: None, ..settings(&["t", "{file}"], EffectWord::Pure, &[]) };
    assert!(matches!(program(settings).unwrap_err(), InvalidProgram::UnknownArgument { .. }));
}

#[test]
fn the_effect_is_what_was_declared() {
    let arguments = value(r#"{"file":"a.rs"}"#);
    let effect = |word, paths: &[&str]| program(settings(&["t"], word, paths)).unwrap().effect(&arguments);
    assert_eq!(effect(EffectWord::Pure, &["x"]), Effect::Pure);
    assert_eq!(effect(EffectWord::Reads, &[]), Effect::Reads(vec![".".to_owned()]));
    let paths = vec!["src/a.rs".to_owned(), "b".to_owned()];
    assert_eq!(effect(EffectWord::Writes, &["src/{file}", "b"]), Effect::Writes(paths));
    assert_eq!(effect(EffectWord::External, &[]), Effect::External);
}

#[test]
fn what_may_be_written_follows_from_the_effect() {
    let arguments = value(r#"{"file":"a.rs"}"#);
    let access = |word, paths: &[&str]| program(settings(&["t"], word, paths)).unwrap().access(&arguments).unwrap();
    assert_eq!(access(EffectWord::Pure, &["x"]), Access::Read);
    assert_eq!(access(EffectWord::Reads, &["x"]), Access::Read);
    assert_eq!(access(EffectWord::Writes, &["out/{file}"]), Access::Paths(vec![PathBuf::from("out/a.rs")]));
    assert_eq!(access(EffectWord::Writes, &[]), Access::Write);
    assert_eq!(access(EffectWord::External, &[]), Access::Write);
    let up = value(r#"{"file":"../x"}"#);
    let error = program(settings(&["t"], EffectWord::Writes, &["{file}"])).unwrap().access(&up).unwrap_err();
    assert_eq!(error.code, Code::ToolArguments);
}

#[test]
fn another_exit_code_than_0_is_an_error_with_the_output() {
    let finished = |exit| Finished { output: "said".to_owned(), exit };
    assert_eq!(outcome(finished(Exit::Code(0))), Ok("said".to_owned()));
    let failed = outcome(finished(Exit::Code(101))).unwrap_err();
    assert_eq!(failed.to_string(), "error RN1622: exit code 101\nsaid");
    let ended = outcome(finished(Exit::Signal(25))).unwrap_err();
    assert_eq!((ended.code, ended.output.as_str()), (Code::ProgramSignalled, "said"));
}
