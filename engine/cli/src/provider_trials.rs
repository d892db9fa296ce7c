//! `rondo doctor --ask`: what each configured provider says to a few tiny requests.

use rondo::host::resources::Resources;
use rondo::host::trial::{Feature, Trial, TrialFault, Verdict, trial};
use rondo::protocol::object::Dollars;
use rondo::settings::Settings;
use rondo::settings::trust::Kind;

use super::doctor::{Finding, table};
use super::settings_files::SettingsFiles;
use super::{EventOf, Failure, Output, consent, runtime};

/// Asks the providers in force that can be asked, one after the other, and shows each.
pub fn ask(files: &SettingsFiles, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    let usable = settings.providers.iter().filter(|(_, provider)| provider.is_usable());
    let names: Vec<&str> = usable.map(|(name, _)| name.as_str()).collect();
    let mut told = Vec::from_iter(unagreed(files, settings)?);
    if names.is_empty() {
        told.push(Finding::fault("providers", "none has a key or an address: nothing is asked"));
    }
    for finding in told {
        output.show(&finding, || table(std::slice::from_ref(&finding)))?;
    }
    if names.is_empty() {
        return Ok(());
    }
    let asked = names.join(", ");
    output.tell(&format!("asking {asked}: up to three tiny requests each, which cost a few tokens\n"));
    let resources = Resources::of(settings);
    let runtime = runtime()?;
    for name in names {
        let trial = runtime.block_on(trial(settings, &resources, name));
        output.show(&EventOf { event: "provider", of: &trial }, || table(&findings(&trial)))?;
    }
    Ok(())
}

/// The providers of a project that nobody agreed to: they are not in force, and not asked.
fn unagreed(files: &SettingsFiles, settings: &Settings) -> Result<Option<Finding>, Failure> {
    if consent::counts(files, &files.without_asking()?) {
        return Ok(None);
    }
    let asks = files.asks().into_iter().filter(|ask| ask.kind == Kind::Provider);
    let names = asks.map(|ask| ask.name).collect::<Vec<_>>().join(", ");
    let file = settings.file.as_deref().map_or_else(String::new, |file| file.display().to_string());
    let told = format!("{names}, as {file} has them: nobody agreed to it; `rondo trust` shows it");
    Ok((!names.is_empty()).then(|| Finding::fault("not asked", told)))
}

fn findings(trial: &Trial) -> Vec<Finding> {
    let of = |what: &str, value: String| Finding::new(format!("provider.{} {what}", trial.provider), value);
    let Trial { protocol, base_url, model, usage, reports_cached, response_format, cost_usd, .. } = trial;
    let place = format!("{protocol} at {base_url}");
    let answers = if let Some(fault) = &trial.fault {
        let reached = match trial.reachable {
            Some(true) => "it answers, and refuses: ",
            Some(false) => "it cannot be reached: ",
            None => "",
        };
        reached.to_owned() + &told(fault)
    } else {
        let whole = trial.whole_ms.unwrap_or_default();
        let first = trial.first_event_ms.map_or_else(String::new, |first| format!("first event after {first} ms, "));
        format!("{first}whole after {whole} ms")
    };
    let is_fault = trial.fault.is_some();
    let mut findings = vec![Finding { from: Some(place), is_fault, ..of("answers", answers) }];
    findings.extend(model.as_ref().map(|model| {
        let from = trial.is_model_listed.then(|| "the first that it lists; no setting names one".to_owned());
        Finding { from, ..of("model", model.clone()) }
    }));
    if is_fault {
        return findings;
    }
    let counted = usage.as_ref().map(|usage| {
        let cached = if *reports_cached { "reported" } else { "not reported" };
        let (prompt, output) = (usage.prompt_tokens, usage.output_tokens);
        format!("known: {prompt} in, {} cached, {output} out; cached tokens are {cached}", usage.cached_tokens)
    });
    findings.push(of("usage", counted.unwrap_or_else(|| "not known: it does not tell its tokens".to_owned())));
    let (value, is_fault) = feature(&trial.schema, "held", "not held: the answer does not fit");
    let from = Some(format!("response_format {response_format}"));
    findings.push(Finding { from, is_fault, ..of("schema", value) });
    let (value, is_fault) = feature(&trial.tools, "called", "not called, although it was told to");
    findings.push(Finding { is_fault, ..of("tools", value) });
    findings.extend(cost_usd.map(|cost| of("cost", Dollars(cost).to_string())));
    findings
}

/// What a feature is told as, and whether it prevents a run that uses it.
fn feature(feature: &Feature, yes: &str, no: &str) -> (String, bool) {
    let told = match feature.verdict {
        Verdict::Failed => {
            return (format!("failed: {}", feature.fault.as_ref().map(told).unwrap_or_default()), true);
        }
        Verdict::Yes => yes,
        Verdict::No => no,
        Verdict::Cut => "not known: the answer was cut at its ceiling of tokens",
        Verdict::NotAsked => "not sent",
    };
    (told.to_owned(), false)
}

fn told(fault: &TrialFault) -> String {
    let TrialFault { code, message, hint } = fault;
    let hint = hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
    format!("{code}: {message}{hint}")
}
