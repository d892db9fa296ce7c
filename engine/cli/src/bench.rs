//! `rondo bench`: what steps, lanes and threads cost on this machine, each beside a reference measured in the same run.
//!
//! Nothing is asked of a model and nothing stays: the stores are made beside the one that the settings name, so that they
//! lie on the same device, and are removed.

mod plot;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rondo::model::from_fn;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::event::Durability;
use rondo::{Rondo, Value};

use self::plot::Plot;
use super::table::{Column, Table};
use super::{Exit, Failure, Output, StoreArgs, Style, json, json_line};

/// What each answer says: about as much as a short chat turn.
const BODY: &str = "The tide leaves the pool twice a day, and what lives in it has learnt to wait. Limpets clamp down, \
anemones fold in, and the crab goes under the weed. When the water comes back the pool is a garden again within minutes, \
and nobody who passes at low tide would guess how much of it was there all along, shut tight and wet.";

/// About what the write-ahead log takes for one step.
const RAW_BYTES: usize = 2_600;

/// How many lanes work at once.
const LANES_AT_ONCE: u64 = 64;

/// How many points a plot has for each tenfold of its axis.
const POINTS: [u64; 3] = [1, 2, 5];

/// Measure what steps, lanes and threads cost on this machine
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct BenchArgs {
    /// Steps of a thread
    #[arg(long, value_name = "COUNT", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    steps: u64,
    /// Threads that run at once
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    threads: u64,
    /// Lanes of one thread
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    lanes: u64,
    /// Draw the figures against the number of steps, lanes and threads, as SVG in this folder
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

/// A measured figure, and what it is compared with.
struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    reference: Option<(&'static str, f64)>,
}

pub fn bench(args: &BenchArgs, output: &mut Output) -> Result<Exit, Failure> {
    let beside = args.store.folder()?;
    let beside = beside.parent().filter(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let place =
        tempfile::Builder::new().prefix(".rondo-bench-").tempdir_in(beside).map_err(|error| no_place(&error))?;
    let bench = Bench { place: place.path() };
    let runtime = super::runtime()?;
    let mut figures = Vec::new();
    for durability in [Durability::Sync, Durability::Log, Durability::Memory] {
        output.tell(&format!("{} steps, {}\n", args.steps, word(durability)));
        figures.extend(runtime.block_on(bench.steps(args.steps, durability))?);
    }
    output.tell(&format!("{} threads at once\n", args.threads));
    let alone = runtime.block_on(bench.threads(1, args.steps))?;
    let each = (args.steps / args.threads).max(10);
    let rate = runtime.block_on(bench.threads(args.threads, each))?;
    let reference = Some(("one thread", alone));
    figures.push(Figure { name: format!("{} threads, sync", args.threads), value: rate, unit: "steps/s", reference });
    output.tell(&format!("{} lanes\n", args.lanes));
    figures.push(runtime.block_on(bench.lanes(args.lanes))?);
    if let Some(folder) = &args.plots {
        runtime.block_on(bench.plots(args, folder, output))?;
    }
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

fn no_place(error: &std::io::Error) -> Failure {
    Failure::new(Code::WriteFailed, format!("no folder can be made for the stores that are measured: {error}"))
}

fn word(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        Durability::Log => "log",
        Durability::Memory => "memory",
    }
}

impl Figure {
    fn cells(&self) -> [String; 3] {
        let shown = |value: f64| match value {
            value if value >= 100.0 => format!("{value:.0}"),
            value => format!("{value:.1}"),
        };
        let reference = self.reference.map(|(name, value)| {
            format!("{} {} {name}: {:.2} x", shown(value), self.unit, self.value / value.max(f64::MIN_POSITIVE))
        });
        [self.name.clone(), format!("{} {}", shown(self.value), self.unit), reference.unwrap_or_default()]
    }
}

/// Where stores are made.
struct Bench<'a> {
    place: &'a Path,
}

/// When calls began, and how long a raw append took within each.
#[derive(Default)]
struct Paired {
    left: Option<Instant>,
    steps: Vec<Duration>,
    raw: Vec<Duration>,
}

impl Bench<'_> {
    /// An engine over a new store. `paired` gets the time of each step, and of a raw append of as many bytes within it, so
    /// that both meet the same device at the same time.
    async fn rondo(&self, durability: Durability, paired: Option<Arc<Mutex<Paired>>>) -> Result<Rondo, Failure> {
        let folder = tempfile::Builder::new().tempdir_in(self.place).map_err(|error| no_place(&error))?.keep();
        let mut raw = OpenOptions::new().create(true).append(true).open(folder.join("raw")).ok();
        let raw = Mutex::new(raw.take().filter(|_| paired.is_some()));
        let model = from_fn(move |_| {
            if let Some(paired) = &paired {
                let mut paired = paired.lock();
                let step = paired.left.map(|left| left.elapsed());
                paired.steps.extend(step);
                let appended = raw.lock().as_mut().and_then(|file| append(file, durability));
                paired.raw.extend(appended);
                paired.left = Some(Instant::now());
            }
            Ok(format!("---\nstatus: done\n---\n\n{BODY}"))
        });
        let builder = Rondo::builder().folder(&folder).model("default", model);
        let builder = match durability {
            Durability::Memory => builder.in_memory(),
            _ => builder
                .settings(&format!("[store]\ndurability = \"{}\"\n", word(durability)))
                .store(folder.join("store")),
        };
        builder.open().await
    }

    /// The times of steps of one thread.
    async fn steps(&self, steps: u64, durability: Durability) -> Result<Vec<Figure>, Failure> {
        let paired: Arc<Mutex<Paired>> = Arc::default();
        let rondo = self.rondo(durability, Some(Arc::clone(&paired))).await?;
        run(&rondo, &two_roles(steps), Value::empty_object()).await?;
        rondo.close().await;
        drop(rondo);
        let mut paired = paired.lock();
        paired.steps.sort();
        paired.raw.sort();
        let raw = match durability {
            Durability::Sync => Some("append and sync"),
            Durability::Log => Some("append"),
            Durability::Memory => None,
        };
        let mut figures = Vec::new();
        for (share, of) in [(0.5, "p50"), (0.9, "p90")] {
            let reference = raw.map(|name| (name, micros(quantile(&paired.raw, share))));
            let (name, value) = (format!("step, {}, {of}", word(durability)), micros(quantile(&paired.steps, share)));
            figures.push(Figure { name, value, unit: "us", reference });
        }
        Ok(figures)
    }

    /// How many durable steps a second so many threads make together.
    async fn threads(&self, threads: u64, steps: u64) -> Result<f64, Failure> {
        let rondo = self.rondo(Durability::Sync, None).await?;
        let workflow = two_roles(steps);
        let began = Instant::now();
        let runs = (0..threads).map(|_| run(&rondo, &workflow, Value::empty_object()));
        futures_util::future::try_join_all(runs).await?;
        let rate = float(threads * steps) / began.elapsed().as_secs_f64();
        rondo.close().await;
        Ok(rate)
    }

    /// The time of lanes with a visit each, beside as many steps on the trunk.
    async fn lanes(&self, lanes: u64) -> Result<Figure, Failure> {
        let mut times = [0.0; 2];
        let items = (0..lanes).map(|nth| Value::from(format!("{nth}: {BODY}"))).collect();
        let input = Value::from_iter([("items", Value::List(items))]);
        let workflows = [(fan_out(), input), (two_roles(lanes), Value::empty_object())];
        for (time, (workflow, input)) in times.iter_mut().zip(workflows) {
            let rondo = self.rondo(Durability::Sync, None).await?;
            let began = Instant::now();
            run(&rondo, &workflow, input).await?;
            *time = began.elapsed().as_secs_f64() * 1e3;
            rondo.close().await;
        }
        let [value, trunk] = times;
        let reference = Some(("as many steps one by one", trunk));
        Ok(Figure { name: format!("{lanes} lanes of a thread, sync"), value, unit: "ms", reference })
    }

    /// Draws what a step costs against the number of steps, lanes and threads.
    async fn plots(&self, args: &BenchArgs, folder: &Path, output: &Output) -> Result<(), Failure> {
        let unwritable = |error: std::io::Error| {
            Failure::new(Code::WriteFailed, format!("{} cannot be written: {error}", folder.display()))
        };
        std::fs::create_dir_all(folder).map_err(unwritable)?;
        let (mut by_steps, mut by_lanes, mut by_threads) = (Vec::new(), Vec::new(), Vec::new());
        for steps in sizes(args.steps) {
            let measured = self.steps(steps, Durability::Sync).await?;
            by_steps.extend(measured.first().map(|figure| (steps, figure.value)));
        }
        for lanes in sizes(args.lanes) {
            by_lanes.push((lanes, self.lanes(lanes).await?.value * 1e3 / float(lanes)));
        }
        for threads in sizes(args.threads) {
            let each = (args.steps / threads).max(10);
            by_threads.push((threads, 1e6 / self.threads(threads, each).await?));
        }
        for (file, plot) in [
            ("steps.svg", Plot { title: "A durable step of a thread", axis: "steps of the thread", points: by_steps }),
            ("lanes.svg", Plot { title: "A durable step in a lane", axis: "lanes of the thread", points: by_lanes }),
            ("threads.svg", Plot { title: "A durable step among threads", axis: "threads", points: by_threads }),
        ] {
            std::fs::write(folder.join(file), plot.svg()).map_err(unwritable)?;
        }
        output.tell(&format!("wrote steps.svg, lanes.svg and threads.svg to {}\n", folder.display()));
        Ok(())
    }
}

/// Appends as a write-ahead log does. Returns how long it took.
fn append(file: &mut File, durability: Durability) -> Option<Duration> {
    let began = Instant::now();
    file.write_all(&[7; RAW_BYTES]).ok()?;
    if durability == Durability::Sync {
        file.sync_data().ok()?;
    }
    Some(began.elapsed())
}

async fn run(rondo: &Rondo, workflow: &str, input: Value) -> Result<(), Failure> {
    let mut new = rondo.workflow_text("bench.yaml", workflow)?;
    if let Value::Object(members) = input {
        for (name, value) in members {
            new = new.input(&name, value);
        }
    }
    new.start().await?.end().await?.result().map(drop)
}

/// Two roles that answer each other.
fn two_roles(steps: u64) -> String {
    format!(
        r#"
rondo: 1
name: bench
roles:
  a: {{ system: You are a., history: none, context: outputs }}
  b: {{ system: You are b., history: none, context: outputs }}
graph:
  start: {{ to: a, prompt: Begin. }}
  a: {{ done: {{ to: b, prompt: "Go on with this: {{{{ body }}}}", max: {steps}, on_max: {{ to: end }} }} }}
  b: {{ done: {{ to: a, prompt: "Go on with that: {{{{ body }}}}", max: {turns}, on_max: {{ to: end }} }} }}
limits: {{ steps: {steps} }}
"#,
        turns = (steps / 2).max(1) - 1
    )
}

/// A role in a lane for each item, and one that joins them.
fn fan_out() -> String {
    format!(
        r#"
rondo: 1
name: bench
input: {{ items: {{ type: array, items: {{ type: string }} }} }}
roles:
  a: {{ system: You are a., context: none }}
  join: {{ system: You are the join., context: none }}
graph:
  start:
    each: input.items
    parallel: {LANES_AT_ONCE}
    to: a
    prompt: "Go on with this: {{{{ item }}}}"
    join: {{ to: join, prompt: "{{{{ branches | length }}}} parts" }}
  a: {{ done: {{ to: join }} }}
  join: {{ done: {{ to: end }} }}
limits: {{ steps: 20000 }}
"#
    )
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

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn float(number: u64) -> f64 {
    number as f64
}

/// The value below which `share` of `sorted` lies.
fn quantile(sorted: &[Duration], share: f64) -> Duration {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let index = (sorted.len().saturating_sub(1) as f64 * share) as usize;
    sorted.get(index).copied().unwrap_or_default()
}
