//! What settings describe and a process needs once: clients of providers, printed keys, servers of tools.
//!
//! Threads with the same settings share one set, whichever started them. It is gone when the last of them has ended and
//! [`IDLE`] has passed. Each member is made when it is first needed; who waits for one that hangs holds up nobody else.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rondo_agent_kit::mcp::Server;
use rondo_agent_kit::model::http::{HttpModel, HttpSettings};
use rondo_agent_kit::redact::{Redactor, Secret};
use rondo_protocol::diagnostic::Code;
use rondo_settings::{Provider, Settings};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::key_command;
use super::tooling::{self, NoServer};
use crate::failure::Failure;

/// How long resources are kept that nobody uses.
pub const IDLE: Duration = Duration::from_mins(5);

/// The sets of this process that are in use.
static IN_USE: Mutex<Vec<Weak<Resources>>> = Mutex::new(Vec::new());

/// The resources of threads that have these settings.
pub struct Resources {
    settings: Settings,
    /// What commands printed, by provider.
    keys: Attempts<String, Secret, Failure>,
    clients: Mutex<BTreeMap<String, Arc<HttpModel>>>,
    servers: Attempts<ServerKey, Arc<Server>, NoServer>,
}

/// A server, and what of a run changes how it is started.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ServerKey {
    name: String,
    /// Whether it starts only when one of its tools is called.
    is_replay: bool,
    /// What a server in a sandbox may not write.
    held: Vec<std::path::PathBuf>,
}

impl Resources {
    /// The set for these settings: the one in use, or a new one.
    pub fn of(settings: &Settings) -> Arc<Self> {
        // Which files a workflow holds, and which model a role has for one run, changes none of them.
        let settings = Settings { held: Vec::new(), models: BTreeMap::new(), ..settings.clone() };
        let mut in_use = IN_USE.lock();
        in_use.retain(|set| set.strong_count() > 0);
        if let Some(known) = in_use.iter().filter_map(Weak::upgrade).find(|known| known.settings == settings) {
            return known;
        }
        let (keys, clients, servers) = (Attempts::default(), Mutex::default(), Attempts::default());
        let made = Arc::new(Self { settings, keys, clients, servers });
        in_use.push(Arc::downgrade(&made));
        made
    }

    /// Has the commands print the keys of these providers that have one and have not printed yet.
    ///
    /// # Cancel safety
    /// A command ends with the last caller that waits for it.
    pub(crate) async fn read_keys(&self, providers: impl Iterator<Item = &str>) -> Result<(), Failure> {
        for name in providers {
            let Some(provider) = self.settings.providers.get(name) else { continue };
            if provider.key_command.is_some() {
                let printing = || key_command::printed_key(name, provider, &self.settings);
                self.keys.get(name.to_owned(), printing).await?;
            }
        }
        Ok(())
    }

    /// Removes every known key from text that enters a thread, also those that were printed.
    pub fn redactor(&self) -> Redactor {
        let printed = self.keys.known().into_values().map(|key| (key.name, key.value));
        let stated = self.settings.secrets.iter().map(|secret| (secret.name.clone(), secret.value.clone()));
        Redactor::new(stated.chain(printed))
    }

    pub(crate) fn client(&self, name: &str) -> Result<Arc<HttpModel>, Failure> {
        if let Some(client) = self.clients.lock().get(name) {
            return Ok(Arc::clone(client));
        }
        let missing = || Failure::new(Code::NoProvider, format!("there is no provider {name}"));
        let provider = self.settings.providers.get(name).ok_or_else(missing)?;
        let printed = self.keys.known().remove(name);
        let is_lasting = printed.is_some() || provider.key_command.is_none();
        let client = Arc::new(connect(name, provider, printed)?);
        // Without its key, it is there to be asked about and for nothing else.
        if is_lasting {
            self.clients.lock().insert(name.to_owned(), Arc::clone(&client));
        }
        Ok(client)
    }

    /// A server of the settings, started unless the run is a replay. `settings` are those of the run that needs it. Also
    /// returns notices for whoever had it started.
    ///
    /// # Cancel safety
    /// A server that is starting ends with the last caller that waits for it.
    pub async fn server(
        &self,
        name: &str,
        is_replay: bool,
        settings: &Settings,
    ) -> Result<(Arc<Server>, Vec<String>), NoServer> {
        let is_confined = settings.mcp.get(name).is_some_and(|mcp| mcp.sandbox.is_some());
        let held = if is_confined { settings.held.clone() } else { Vec::new() };
        let key = ServerKey { name: name.to_owned(), is_replay, held };
        let notices = Mutex::new(Vec::new());
        let starting = || async {
            if is_replay {
                return tooling::replay_server(name, settings).map(Arc::new).map_err(NoServer::Refused);
            }
            let (server, told) = tooling::started(name, settings).await?;
            *notices.lock() = told;
            Ok(Arc::new(server))
        };
        let server = self.servers.get(key, starting).await?;
        Ok((server, notices.into_inner()))
    }
}

fn connect(name: &str, provider: &Provider, printed: Option<Secret>) -> Result<HttpModel, Failure> {
    let is_lacking = |(header, _): &(&String, &String)| !provider.header_keys.contains_key(*header);
    if let Some((header, variable)) = provider.headers_env.iter().find(is_lacking) {
        let message = format!("provider {name}: the header {header} has its value in {variable}, which is not set");
        return Err(Failure::new(Code::NoProvider, message).with_hint(format!("set {variable}")));
    }
    let headers = provider.headers.iter().map(|(header, value)| (header, header, value));
    let of_variables = provider.headers_env.iter();
    let of_variables =
        of_variables.filter_map(|(name, variable)| Some((name, variable, provider.header_keys.get(name)?)));
    let headers = headers
        .chain(of_variables)
        .map(|(header, name, value)| (header.clone(), Secret { name: name.clone(), value: value.clone() }));
    HttpModel::new(HttpSettings {
        name: name.to_owned(),
        headers: headers.collect(),
        query: provider.query.clone().into_iter().collect(),
        protocol: provider.protocol.value,
        base_url: provider.base_url.value.clone(),
        api_key: printed.or_else(|| provider.key.clone()),
        connect_timeout: Duration::from_millis(provider.connect_timeout_ms.value),
        idle_timeout: Duration::from_millis(provider.idle_timeout_ms.value),
        total_timeout: provider.total_timeout_ms.as_ref().map(|total| Duration::from_millis(total.value)),
        prompt_cache: provider.prompt_cache.value,
        prompt_cache_retention: provider.prompt_cache_retention.as_ref().map(|time| time.value),
        ..HttpSettings::default()
    })
    .map_err(|error| Failure::new(Code::NoProvider, format!("provider {name}: {error}")))
}

/// Keeps resources for a while after the last thread that used them, for the next one.
#[derive(Clone, Default)]
pub struct Keeper(Arc<Mutex<Vec<Kept>>>);

struct Kept {
    resources: Arc<Resources>,
    used_at: Instant,
}

impl Keeper {
    /// Keeps these until nobody else has used them for [`IDLE`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn keep(&self, resources: &Arc<Resources>) {
        let mut kept = self.0.lock();
        let used_at = Instant::now();
        if let Some(known) = kept.iter_mut().find(|known| Arc::ptr_eq(&known.resources, resources)) {
            known.used_at = used_at;
            return;
        }
        kept.push(Kept { resources: Arc::clone(resources), used_at });
        if kept.len() > 1 {
            return;
        }
        let kept = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(IDLE / 10).await;
                let Some(kept) = kept.upgrade() else { return };
                let mut kept = kept.lock();
                release(&mut kept, Instant::now());
                if kept.is_empty() {
                    return;
                }
            }
        });
    }
}

/// Releases what nobody has used for long enough at `now`.
fn release(kept: &mut Vec<Kept>, now: Instant) {
    for known in kept.iter_mut().filter(|known| Arc::strong_count(&known.resources) > 1) {
        known.used_at = now;
    }
    kept.retain(|known| now.duration_since(known.used_at) < IDLE);
}

/// Values that take time to make, by key. Those who ask for one at the same time wait for the same attempt and share its
/// outcome; what failed is tried again by the next who asks.
struct Attempts<K, T, E>(Mutex<BTreeMap<K, Attempt<T, E>>>);

type Attempt<T, E> = Arc<OnceCell<Result<T, E>>>;

impl<K, T, E> Default for Attempts<K, T, E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone, T: Clone, E: Clone> Attempts<K, T, E> {
    /// # Cancel safety
    /// If the caller that makes it goes away, another one that waits makes it.
    async fn get<F: Future<Output = Result<T, E>>>(&self, key: K, make: impl FnOnce() -> F) -> Result<T, E> {
        let attempt = Arc::clone(self.0.lock().entry(key.clone()).or_default());
        let outcome = attempt.get_or_init(make).await.clone();
        if outcome.is_err() {
            let mut attempts = self.0.lock();
            if attempts.get(&key).is_some_and(|current| Arc::ptr_eq(current, &attempt)) {
                attempts.remove(&key);
            }
        }
        outcome
    }

    fn known(&self) -> BTreeMap<K, T> {
        let attempts = self.0.lock();
        let made = |(key, attempt): (&K, &Attempt<T, E>)| Some((key.clone(), attempt.get()?.as_ref().ok()?.clone()));
        attempts.iter().filter_map(made).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn those_who_ask_at_once_share_one_attempt_and_what_failed_is_tried_again() {
        let (attempts, count) = (Attempts::<&str, usize, &str>::default(), AtomicUsize::new(0));
        let make = || async {
            tokio::task::yield_now().await;
            match count.fetch_add(1, Ordering::SeqCst) {
                0 => Err("it failed"),
                tries => Ok(tries),
            }
        };
        let both = tokio::join!(attempts.get("a", make), attempts.get("a", make));
        assert_eq!(both, (Err("it failed"), Err("it failed")));
        assert!(attempts.known().is_empty());
        let both = tokio::join!(attempts.get("a", make), attempts.get("a", make));
        assert_eq!((both, attempts.known().len()), ((Ok(1), Ok(1)), 1));
    }

    #[tokio::test]
    async fn one_that_hangs_holds_up_nobody_else_and_is_taken_over() {
        let attempts = Attempts::<&str, usize, &str>::default();
        let hanging = attempts.get("a", std::future::pending);
        tokio::select! {
            biased;
            _ = hanging => panic!("it hangs"),
            made = attempts.get("b", || async { Ok(2) }) => assert_eq!(made, Ok(2)),
        }
        assert_eq!(attempts.get("a", || async { Ok(1) }).await, Ok(1));
    }

    #[test]
    fn what_nobody_uses_is_kept_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let files = super::super::settings_files::of_user_for(folder.path().to_owned()).unwrap();
        let settings = files.without_asking().unwrap();
        let resources = Resources::of(&settings);
        assert!(Arc::ptr_eq(&resources, &Resources::of(&settings)), "equal settings have one set");
        let used_at = Instant::now();
        let mut kept = vec![Kept { resources: Arc::clone(&resources), used_at }];
        release(&mut kept, used_at + IDLE * 2);
        assert_eq!(kept.len(), 1, "a thread uses it");
        drop(resources);
        release(&mut kept, used_at + IDLE * 2 + IDLE / 2);
        assert_eq!(kept.len(), 1, "the next thread finds it");
        let known = Arc::downgrade(&kept[0].resources);
        release(&mut kept, used_at + IDLE * 3);
        assert!(kept.is_empty() && known.upgrade().is_none());
    }
}
