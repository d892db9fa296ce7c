//! `rondo bench`: what steps, lanes and threads cost on this machine, each beside a reference measured in the same run.
//!
//! It measures workflows made for it, or one of the user's with its script. Nothing is asked of a model and nothing stays:
//! the stores are made beside the one that the settings name, so that they lie on the same device, and are removed.

mod plot;

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::plot::{Plot, Sample};
use super::input::{InputArgs, inputs};
use super::person::consent_by;
use super::table::{Column, Table};
use super::{Exit, Failure, Output, StoreArgs, Style, json, json_line, output_file};
use futures_util::future::try_join_all;
use parking_lot::Mutex;
use rondo::model::{Fault, FaultClass, from_fn};
use rondo::protocol::diagnostic::Code;
use rondo::protocol::event::Durability;
use rondo::settings::{Flags, folder_of};
use rondo::{NewRun, Rondo, Value};

/// What each answer says: about as much as a short chat turn.
const BODY: &str = "The tide leaves the pool twice a day, and what lives in it has learnt to wait. Limpets clamp down, \
anemones fold in, and the crab goes under the weed. When the water comes back the pool is a garden again within minutes, \
and nobody who passes at low tide would guess how much of it was there all along, shut tight and wet.";

/// About what the write-ahead log takes for one step.
const RAW_BYTES: usize = 2_600;

/// A role in a lane for each item, 64 at once, and one that joins them.
const FAN_OUT: &str = include_str!("bench/lanes.yaml");

/// Each durability, its word, and what a step with it is compared with.
const DURABILITIES: [(Durability, &str, Option<&str>); 3] = [
    (Durability::Sync, "sync", Some("append and sync")),
    (Durability::Log, "log", Some("append")),
    (Durability::Memory, "memory", None),
];

const MIN_STEPS: u64 = 10;

const RUNS: u64 = 20;

/// Of how many steps before a size the median counts.
const WINDOW: usize = 1_000;

/// At least what a cached answer takes.
const ENTRY_BYTES: u64 = 4_096;

/// How many points a plot has for each tenfold of its axis.
const POINTS: [u64; 3] = [1, 2, 5];

/// Measure what steps, lanes and threads cost on this machine
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct BenchArgs {
    /// Measure whole threads of this workflow, which answers from script.yaml in its folder, in place of made-up ones
    #[arg(conflicts_with_all = ["steps", "lanes", "entries", "plots"])]
    workflow: Option<String>,
    #[command(flatten)]
    input: InputArgs,
    /// Steps of a thread
    #[arg(long, value_name = "COUNT", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    steps: u64,
    /// Threads that run at once
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    threads: u64,
    /// Lanes of one thread
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(3..=10_000))]
    lanes: u64,
    /// Entries of a response cache, for its plot
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(10..=10_000_000), requires = "plots")]
    entries: u64,
    /// Draw cost, memory and bytes of a step against the number of steps, lanes, threads and cache entries, as SVG in this
    /// folder
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    reference: Option<(&'static str, f64)>,
}

pub fn bench(args: &BenchArgs, output: &mut Output) -> Result<Exit, Failure> {
    let store = args.store.folder()?;
    let beside = Some(folder_of(&store)).filter(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let place =
        tempfile::Builder::new().prefix(".rondo-bench-").tempdir_in(beside).map_err(output_file::failed(beside))?;
    let bench = Bench { place: place.path() };
    let runtime = super::runtime()?;
    if args.workflow.is_none() && args.input.is_given() {
        let failure = Failure::new(Code::UnknownInput, "inputs are those of a workflow, and none is named");
        return Err(failure.with_hint("rondo bench WORKFLOW -i KEY=VALUE measures threads of it"));
    }
    let figures = runtime.block_on(async {
        match &args.workflow {
            Some(name) => bench.of_workflow(name, args, output).await,
            None => Box::pin(bench.of_machine(args, output)).await,
        }
    })?;
    if output.is_json() {
        for Figure { name, value, unit, reference } in figures {
            let (reference, reference_value) = reference.unzip();
            output.line(&json_line!("figure", name, value, unit, reference, reference_value))?;
        }
    } else {
        let table =
            Table::new([Column::new("figure"), Column::new("measured").right(), Column::new("in the same run")]);
        let rows: Vec<[String; 3]> = figures.iter().map(Figure::cells).collect();
        output.text(&table.text(&rows, Style::stdout().columns()))?;
    }
    Ok(Exit::Done)
}

impl Figure {
    fn cells(&self) -> [String; 3] {
        let shown = |value: f64| if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") };
        let reference = self.reference.map(|(name, value)| {
            format!("{} {} {name}: {:.2} x", shown(value), self.unit, self.value / value.max(f64::MIN_POSITIVE))
        });
        [self.name.clone(), format!("{} {}", shown(self.value), self.unit), reference.unwrap_or_default()]
    }
}

struct Bench<'a> {
    place: &'a Path,
}

/// The times of steps, and of a raw append within each, so that both meet the same device at the same time.
struct Times {
    steps: Vec<Duration>,
    raw: Vec<Duration>,
    samples: Vec<Sample>,
    /// The sizes of which no sample was taken yet.
    sizes: VecDeque<u64>,
    left: Option<Instant>,
    durability: Durability,
    file: File,
    store: PathBuf,
}

impl Times {
    /// A call was made: ends the step before it.
    fn called(&mut self) -> std::io::Result<()> {
        self.steps.extend(self.left.map(|left| left.elapsed()));
        // As a write-ahead log does.
        if self.durability != Durability::Memory {
            let began = Instant::now();
            self.file.write_all(&[7; RAW_BYTES])?;
            if self.durability == Durability::Sync {
                self.file.sync_data()?;
            }
            self.raw.push(began.elapsed());
        }
        let so_far = self.steps.len();
        if let Some(size) = self.sizes.pop_front_if(|size| usize::try_from(*size).is_ok_and(|size| size <= so_far + 1))
        {
            let mut window =
                self.steps.get((so_far / 2).max(so_far.saturating_sub(WINDOW))..).unwrap_or_default().to_vec();
            window.sort();
            self.samples.push(Sample::of(size, size, quantile_us(&window, 0.5), &self.store)?);
        }
        self.left = Some(Instant::now());
        Ok(())
    }
}

impl Bench<'_> {
    async fn of_machine(&self, args: &BenchArgs, output: &Output) -> Result<Vec<Figure>, Failure> {
        let mut figures = vec![own_start()?];
        let mut of_thread = Vec::new();
        for (durability, word, raw) in DURABILITIES {
            output.tell(&format!("{} steps, {word}\n", args.steps));
            let Times { mut steps, raw: mut appends, samples, .. } = self.steps(args.steps, durability).await?;
            for times in [&mut steps, &mut appends] {
                times.sort();
            }
            for (share, of) in [(0.5, "p50"), (0.9, "p90")] {
                let reference = raw.map(|name| (name, quantile_us(&appends, share)));
                let (name, value) = (format!("step, {word}, {of}"), quantile_us(&steps, share));
                figures.push(Figure { name, value, unit: "us", reference });
            }
            if durability == Durability::Sync {
                of_thread = samples;
            }
        }
        output.tell(&format!("{} threads at once\n", args.threads));
        let a_second = |sample: Sample| 1e6 / sample.step_us;
        let reference = Some(("one thread", a_second(self.threads(1, args.steps).await?)));
        let value = a_second(self.threads(args.threads, args.steps).await?);
        figures.push(Figure { name: format!("{} threads, sync", args.threads), value, unit: "steps/s", reference });
        output.tell(&format!("{} lanes\n", args.lanes));
        let ms = |sample: Sample| sample.step_us * float(args.lanes) / 1e3;
        let (name, value) = (format!("{} lanes of a thread, sync", args.lanes), ms(self.lanes(args.lanes).await?));
        let reference = Some(("as many steps one by one", ms(self.threads(1, args.lanes).await?)));
        figures.push(Figure { name, value, unit: "ms", reference });
        if let Some(folder) = &args.plots {
            self.plots(args, folder, of_thread, output).await?;
        }
        Ok(figures)
    }

    async fn of_workflow(&self, name: &str, args: &BenchArgs, output: &Output) -> Result<Vec<Figure>, Failure> {
        let mut times = Vec::new();
        for (durability, word, _) in DURABILITIES {
            output.tell(&format!("{RUNS} threads of {name}, {word}\n"));
            let rondo = self.folder_of_user(durability, output)?;
            let mut of_threads = Vec::new();
            for _ in 0..RUNS {
                let new = from_script(&rondo, name, &args.input)?;
                of_threads.push(timed(run(new)).await?);
            }
            rondo.close().await;
            of_threads.sort();
            times.push((word, of_threads));
        }
        let in_memory = times.last().map_or(0.0, |(_, times)| quantile_us(times, 0.5));
        let mut figures = Vec::new();
        for (word, times) in &times {
            for (share, of) in [(0.5, "p50"), (0.9, "p90")] {
                let (name, value) = (format!("a thread, {word}, {of}"), quantile_us(times, share) / 1e3);
                let reference = (*word != "memory").then_some(("p50 in memory", in_memory / 1e3));
                figures.push(Figure { name, value, unit: "ms", reference });
            }
        }
        output.tell(&format!("{} threads of {name} at once\n", args.threads));
        let rondo = self.folder_of_user(Durability::Sync, output)?;
        // The first one opens the store.
        run(from_script(&rondo, name, &args.input)?).await?;
        let runs = (0..args.threads).map(|_| from_script(&rondo, name, &args.input).map(run));
        let runs = runs.collect::<Result<Vec<_>, _>>()?;
        let elapsed = timed(try_join_all(runs)).await?;
        rondo.close().await;
        let value = float(args.threads) / elapsed.as_secs_f64();
        let alone = times.first().map_or(0.0, |(_, times)| 1e6 / quantile_us(times, 0.5));
        let (name, reference) =
            (format!("{} threads at once, sync", args.threads), Some(("one after the other", alone)));
        figures.push(Figure { name, value, unit: "threads/s", reference });
        Ok(figures)
    }

    fn folder_of_user(&self, durability: Durability, output: &Output) -> Result<Rondo, Failure> {
        let store = self.folder()?.join("store");
        let flags = Flags { store: Some(store), durability: Some(durability), set: Vec::new() };
        let builder = super::builder(&flags, consent_by(false, output), None)?;
        if durability == Durability::Memory { builder.in_memory() } else { builder }.open_now()
    }

    fn folder(&self) -> Result<PathBuf, Failure> {
        Ok(tempfile::Builder::new().tempdir_in(self.place).map_err(output_file::failed(self.place))?.keep())
    }

    /// An engine over a new store, with the store's folder. It has each answer from `answer`.
    async fn rondo(
        &self,
        durability: Durability,
        answer: impl Fn() -> std::io::Result<String> + Send + Sync + 'static,
    ) -> Result<(Rondo, PathBuf), Failure> {
        let model = from_fn(move |_| {
            let broken = |error: std::io::Error| Fault::new(Code::WriteFailed, FaultClass::Store, error.to_string());
            let body = answer().map_err(broken)?;
            Ok(format!("---\nstatus: done\n---\n\n{body}"))
        });
        let folder = self.folder()?;
        let store = folder.join("store");
        let flags = Flags { store: Some(store.clone()), durability: Some(durability), set: Vec::new() };
        let builder = Rondo::builder().folder(folder).model("default", model).flags(flags);
        let rondo = if durability == Durability::Memory { builder.in_memory() } else { builder }.open().await?;
        Ok((rondo, store))
    }

    async fn durable(&self) -> Result<(Rondo, PathBuf), Failure> {
        self.rondo(Durability::Sync, || Ok(BODY.to_owned())).await
    }

    /// The steps of one thread, and the appends within them.
    async fn steps(&self, steps: u64, durability: Durability) -> Result<Times, Failure> {
        let file = File::create(self.folder()?.join("raw")).map_err(output_file::failed(self.place))?;
        let (store, sizes) = (PathBuf::new(), sizes(steps).into());
        let times = Times {
            steps: Vec::new(),
            raw: Vec::new(),
            samples: Vec::new(),
            sizes,
            left: None,
            durability,
            file,
            store,
        };
        let times = Arc::new(Mutex::new(times));
        let of_calls = Arc::clone(&times);
        let answer = move || of_calls.lock().called().map(|()| BODY.to_owned());
        let (rondo, store) = self.rondo(durability, answer).await?;
        times.lock().store = store;
        run(two_roles(&rondo, steps, "")?).await?;
        rondo.close().await;
        drop(rondo);
        let measured = Arc::into_inner(times).map(Mutex::into_inner);
        measured.ok_or_else(|| Failure::new(Code::Interrupted, "a thread that has ended still asks its model"))
    }

    /// Durable threads at once that share `steps`.
    async fn threads(&self, threads: u64, steps: u64) -> Result<Sample, Failure> {
        let each = (steps / threads).max(MIN_STEPS);
        let (rondo, store) = self.durable().await?;
        let runs = (0..threads).map(|_| two_roles(&rondo, each, "").map(run)).collect::<Result<Vec<_>, _>>()?;
        let elapsed = timed(try_join_all(runs)).await?;
        closed(rondo, &store, threads, threads * each, elapsed).await
    }

    async fn lanes(&self, lanes: u64) -> Result<Sample, Failure> {
        let (rondo, store) = self.durable().await?;
        let items = (0..lanes).map(|nth| Value::from(format!("{nth}: {BODY}"))).collect();
        let new = rondo.workflow_text("bench.yaml", FAN_OUT)?.input("items", Value::List(items));
        let elapsed = timed(run(new)).await?;
        closed(rondo, &store, lanes, lanes, elapsed).await
    }

    /// Steps of a thread whose answers all lie in a response cache, which holds as many.
    async fn entries(&self, entries: u64) -> Result<Sample, Failure> {
        let said = AtomicU64::new(0);
        let answer = move || Ok(format!("{}: {BODY}", said.fetch_add(1, Ordering::Relaxed)));
        let (rondo, store) = self.rondo(Durability::Log, answer).await?;
        let hook = format!("hooks: [{{ use: response_cache, entries: {entries}, bytes: {} }}]", entries * ENTRY_BYTES);
        run(two_roles(&rondo, entries, &hook)?).await?;
        let elapsed = timed(run(two_roles(&rondo, entries, &hook)?)).await?;
        closed(rondo, &store, entries, entries, elapsed).await
    }

    async fn plots(
        &self,
        args: &BenchArgs,
        folder: &Path,
        of_thread: Vec<Sample>,
        output: &Output,
    ) -> Result<(), Failure> {
        std::fs::create_dir_all(folder).map_err(output_file::failed(folder))?;
        let (mut by_lanes, mut by_threads, mut by_entries) = (Vec::new(), Vec::new(), Vec::new());
        for lanes in sizes(args.lanes) {
            by_lanes.push(self.lanes(lanes).await?);
        }
        for threads in sizes(args.threads) {
            by_threads.push(self.threads(threads, args.steps).await?);
        }
        for entries in sizes(args.entries) {
            output.tell(&format!("{entries} cache entries\n"));
            by_entries.push(self.entries(entries).await?);
        }
        for (file, title, axis, samples) in [
            ("steps.svg", "A durable step of a thread", "steps of the thread", of_thread),
            ("lanes.svg", "A durable step in a lane", "lanes of the thread", by_lanes),
            ("threads.svg", "A durable step among threads", "threads", by_threads),
            ("entries.svg", "A step that a cache answers, log", "entries of the cache", by_entries),
        ] {
            output_file::write(&folder.join(file), Plot { title, axis, samples }.svg().as_bytes())?;
        }
        output.tell(&format!("wrote steps.svg, lanes.svg, threads.svg and entries.svg to {}\n", folder.display()));
        Ok(())
    }
}

/// How long this program takes to start and end, beside one that does nothing.
fn own_start() -> Result<Figure, Failure> {
    let own = std::env::current_exe().map_err(output_file::failed(Path::new("rondo")))?;
    let times = |program: &Path| {
        let run = |_| {
            let began = Instant::now();
            let status = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.map(|_| began.elapsed())
        };
        let mut times = (0..RUNS).map(run).collect::<std::io::Result<Vec<_>>>()?;
        times.sort();
        Ok(quantile_us(&times, 0.5) / 1e3)
    };
    let value = times(&own).map_err(output_file::failed(&own))?;
    let reference = times(Path::new("true")).ok().map(|ms| ("a program that does nothing", ms));
    Ok(Figure { name: "rondo --version".to_owned(), value, unit: "ms", reference })
}

/// Closes what `steps` steps were measured with. Memory and bytes are those of before.
async fn closed(rondo: Rondo, store: &Path, size: u64, steps: u64, elapsed: Duration) -> Result<Sample, Failure> {
    let step_us = elapsed.as_secs_f64() * 1e6 / float(steps);
    let sample = Sample::of(size, steps, step_us, store).map_err(output_file::failed(store));
    rondo.close().await;
    sample
}

async fn run(new: NewRun) -> Result<(), Failure> {
    new.start().await?.end().await?.result().map(drop)
}

fn from_script(rondo: &Rondo, name: &str, input: &InputArgs) -> Result<NewRun, Failure> {
    let new = rondo.workflow(name)?.offline();
    let workflow = &new.loaded().checked.workflow;
    let Value::Object(input) = inputs(input, workflow, name)?.first(workflow)? else { return Ok(new) };
    Ok(input.into_iter().fold(new, |new, (name, value)| new.input(&name, value)))
}

async fn timed<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<Duration, Failure> {
    let began = Instant::now();
    Box::pin(work).await?;
    Ok(began.elapsed())
}

/// Two roles that answer each other until there are so many steps, at least three, with such hooks.
fn two_roles(rondo: &Rondo, steps: u64, hooks: &str) -> Result<NewRun, Failure> {
    let (by_a, by_b) = (steps / 2, (steps - 1) / 2);
    let text = format!(
        r#"
rondo: 1
name: bench
roles:
  a: {{ system: You are a., history: none, context: outputs }}
  b: {{ system: You are b., history: none, context: outputs }}
graph:
  start: {{ to: a, prompt: Begin. }}
  a: {{ done: {{ to: b, prompt: "Go on with this: {{{{ body }}}}", max: {by_a}, on_max: {{ to: end }} }} }}
  b: {{ done: {{ to: a, prompt: "Go on with that: {{{{ body }}}}", max: {by_b}, on_max: {{ to: end }} }} }}
limits: {{ steps: {steps} }}
{hooks}
"#
    );
    rondo.workflow_text("bench.yaml", &text)
}

/// 10, 20, 50, 100 and so on, up to `most`.
fn sizes(most: u64) -> Vec<u64> {
    let tens = (1..).map(|exponent| 10_u64.pow(exponent)).take_while(|ten| *ten <= most);
    let mut sizes: Vec<u64> =
        tens.flat_map(|ten| POINTS.map(|times| ten * times)).filter(|size| *size <= most).collect();
    if sizes.last() != Some(&most) {
        sizes.push(most);
    }
    sizes
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn float(number: u64) -> f64 {
    number as f64
}

/// The microseconds below which `share` of `sorted` lies.
fn quantile_us(sorted: &[Duration], share: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let index = (sorted.len().saturating_sub(1) as f64 * share) as usize;
    sorted.get(index).copied().unwrap_or_default().as_secs_f64() * 1e6
}
