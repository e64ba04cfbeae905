//! Quotas of users: model calls and the sandbox's time are counted while runs use them, and every use can be looked up.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::effect::{GenerateReply, GenerateRequest};
use flowloom_core::error::StepFailure;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{BoxFuture, Clock as _, EffectContext, EffectFuture, Model, Price};
use flowloom_runtime::journal::Journal as _;
use flowloom_runtime::memory_quota::MemoryUsage;
use flowloom_sandbox::{SandboxMeter, TimeReservation};
use flowloom_store::{DailyUsage, QUOTA_TABLE, Quota, QuotaInfo, QuotaWindow, Store, StoreError};
use flowloom_tools::UserFiles;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::config::Config;
use crate::daily_reservations::{DailyReservation, DailyReservations};
use crate::error::AppError;
use crate::user_files::build_user_files;

/// Models whose calls count for the daily quotas of the run's user. A call that begins within the quota is completed.
struct MeteredModel {
    inner: Arc<dyn Model>,
    store: Arc<Store>,
    reservations: Arc<DailyReservations>,
}

/// Counts the calls of models, if a daily quota of tokens or dollars is set for anyone.
pub(crate) fn meter_model(
    inner: Arc<dyn Model>,
    store: &Arc<Store>,
    reservations: &Arc<DailyReservations>,
) -> Arc<dyn Model> {
    match [Quota::Tokens, Quota::Cost].iter().any(|quota| store.quotas().is_limited(*quota)) {
        true => Arc::new(MeteredModel { inner, store: store.clone(), reservations: reservations.clone() }),
        false => inner,
    }
}

impl MeteredModel {
    /// Reserves an upper bound of the call's tokens and cost. Fails with `QuotaExceeded`, or with `PriceUnknown` if a quota of
    /// dollars cannot be enforced for the model.
    async fn reserve_call(&self, user: &str, request: &GenerateRequest) -> Result<DailyReservation, StepFailure> {
        let (model, price) = (&request.model, self.inner.find_price(&request.model));
        let has_cost_quota = self.store.quotas().find_limit(user, Quota::Cost).is_some();
        if has_cost_quota && price.is_none() {
            let message = format!(
                "the price of {model} is unknown, so the quota usd_per_day cannot be enforced; use a model with a known \
                 price, or ask the operator for a quota of tokens"
            );
            return Err(StepFailure::new(Code::PriceUnknown, message));
        }
        let prompt = request.messages.bound_tokens();
        let answer = request.options.max_tokens.map_or_else(|| self.inner.default_max_tokens(model), u64::from);
        let micro_usd = price.map_or(0, |price| price.compute_cost(prompt, answer));
        let most = DailyUsage { tokens: prompt.saturating_add(answer), micro_usd, ..DailyUsage::default() };
        let measure_left = || {
            let left = |quota| self.store.measure_left(user, quota, 0, SystemClock.now_ms());
            Ok(DailyUsage { tokens: left(Quota::Tokens)?, micro_usd: left(Quota::Cost)?, sandbox_ms: u64::MAX })
        };
        self.reservations.reserve_use(user, most, measure_left).await
    }
}

impl Model for MeteredModel {
    fn resolve(&self, named: Option<&str>) -> Result<String, StepFailure> {
        self.inner.resolve(named)
    }

    fn find_model_name(&self, named: Option<&str>) -> Result<String, StepFailure> {
        self.inner.find_model_name(named)
    }

    fn generate_reply<'a>(
        &'a self,
        request: &'a GenerateRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, GenerateReply> {
        Box::pin(async move {
            let reservation = self.reserve_call(&context.user, request).await?;
            let reply = self.inner.generate_reply(request, context).await?;
            let usage = &reply.usage;
            let used = DailyUsage {
                tokens: usage.input_tokens + usage.output_tokens,
                micro_usd: usage.micro_usd.unwrap_or_default(),
                ..DailyUsage::default()
            };
            reservation.settle_use(used, self.store.add_daily_usage(&context.user, used, SystemClock.now_ms()));
            Ok(reply)
        })
    }

    fn context_window(&self, model: &str) -> u64 {
        self.inner.context_window(model)
    }

    fn count_tokens(&self, model: &str, text: &str) -> u64 {
        self.inner.count_tokens(model, text)
    }

    fn default_max_tokens(&self, model: &str) -> u64 {
        self.inner.default_max_tokens(model)
    }

    fn find_price(&self, model: &str) -> Option<Price> {
        self.inner.find_price(model)
    }
}

/// Time of a user in the sandbox that is stored in one write; less than that is collected.
const STORED_TIME: Duration = Duration::from_secs(1);

/// Counts the time that the sandbox computes for users with a quota of it.
struct StoreMeter {
    store: Arc<Store>,
    collected: Arc<CollectedTimes>,
    reservations: DailyReservations,
}

/// Time of each user that is not stored yet. It is lost with the process.
#[derive(Default)]
struct CollectedTimes(Mutex<HashMap<String, CollectedTime>>);

#[derive(Clone, Copy, Default)]
struct CollectedTime {
    /// Not handed to the store yet.
    kept: Duration,
    /// Being stored.
    storing: Duration,
}

/// Counts the sandbox's time, if a quota of it is set for anyone.
pub(crate) fn build_sandbox_meter(store: &Arc<Store>) -> Option<Arc<dyn SandboxMeter>> {
    let is_limited = store.quotas().is_limited(Quota::SandboxTime);
    let build = || StoreMeter { store: store.clone(), collected: Arc::default(), reservations: Default::default() };
    is_limited.then(|| Arc::new(build()) as _)
}

impl CollectedTimes {
    /// Adds time. Returns the time that is to be stored.
    fn add_time(&self, user: &str, time: Duration) -> Option<Duration> {
        let mut users = self.0.lock();
        let collected = users.entry(user.to_owned()).or_default();
        collected.kept += time;
        if collected.kept < STORED_TIME {
            return None;
        }
        let whole = std::mem::take(&mut collected.kept);
        collected.storing += whole;
        Some(whole)
    }

    /// Forgets time that is stored.
    fn forget_stored(&self, user: &str, time: Duration) {
        let mut users = self.0.lock();
        if let Some(collected) = users.get_mut(user) {
            collected.storing = collected.storing.saturating_sub(time);
            if collected.kept.is_zero() && collected.storing.is_zero() {
                users.remove(user);
            }
        }
    }

    fn read_ms(&self, user: &str) -> u64 {
        self.0.lock().get(user).map_or(0, |time| (time.kept + time.storing).as_millis() as u64)
    }
}

impl fmt::Debug for StoreMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreMeter").finish_non_exhaustive()
    }
}

impl SandboxMeter for StoreMeter {
    fn reserve_time<'a>(
        &'a self,
        user: &'a str,
        longest: Duration,
    ) -> BoxFuture<'a, Result<TimeReservation, StepFailure>> {
        Box::pin(async move {
            if self.store.quotas().find_limit(user, Quota::SandboxTime).is_none() {
                return Ok(Box::new(()) as TimeReservation);
            }
            let most = DailyUsage { sandbox_ms: longest.as_millis() as u64, ..DailyUsage::default() };
            let measure_left = || {
                let (uncounted, now) = (self.collected.read_ms(user), SystemClock.now_ms());
                let sandbox_ms = self.store.measure_left(user, Quota::SandboxTime, uncounted, now)?;
                Ok(DailyUsage { sandbox_ms, tokens: u64::MAX, micro_usd: u64::MAX })
            };
            Ok(Box::new(self.reservations.reserve_use(user, most, measure_left).await?) as TimeReservation)
        })
    }

    fn add_time(&self, user: &str, time: Duration) {
        if self.store.quotas().find_limit(user, Quota::SandboxTime).is_none() {
            return;
        }
        let Some(time) = self.collected.add_time(user, time) else { return };
        let used = DailyUsage { sandbox_ms: time.as_millis() as u64, ..DailyUsage::default() };
        let stored = self.store.add_daily_usage(user, used, SystemClock.now_ms());
        let (collected, user) = (self.collected.clone(), user.to_owned());
        let forget = async move {
            stored.await;
            collected.forget_stored(&user, time);
        };
        // Outside of a runtime the time counts twice until the program ends.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(forget);
        }
    }
}

/// The use of a quota by one user.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaUsage {
    /// Name of the quota.
    pub name: &'static str,
    /// Unit of the amounts.
    pub unit: &'static str,
    /// The amount used; `None` if it is not counted, because no daily quota is set or the user has no files of their own.
    pub used: Option<f64>,
    /// The maximum amount; `None` if there is no limit.
    pub limit: Option<f64>,
    /// When a daily count starts again, in milliseconds since the Unix epoch.
    pub resets_at: Option<u64>,
}

/// Measures what a user uses. Fails if the store cannot be read.
pub async fn measure_user(store: &Arc<Store>, config: &Config, user: &str) -> Result<Vec<QuotaUsage>, AppError> {
    let (measured, files, owner) = (store.clone(), build_user_files(config), user.to_owned());
    // Measuring the size of a user's data and files reads all of them.
    let measure = move || (measure_quotas(&measured, &owner), measure_files(files.as_ref(), &owner));
    let (rows, file_bytes) = tokio::task::spawn_blocking(measure).await?;
    let mut rows = rows?;
    if let Some(row) = rows.iter_mut().find(|row| row.name == Quota::FileBytes.info().name) {
        row.used = file_bytes.map(|bytes| bytes as f64);
    }
    let memories = store.read_memories(&store.owner_of(user)).await?;
    if let Some(row) = rows.iter_mut().find(|row| row.name == Quota::MemoryBytes.info().name) {
        row.used = Some(MemoryUsage::of_memories(&memories).total_bytes() as f64);
        row.limit = Some(store.quotas().find_memory_limit(user, config.limits.memory_bytes) as f64);
    }
    Ok(rows)
}

/// The size of a user's own files; `None` if there are none, or if they cannot be measured.
fn measure_files(files: Option<&UserFiles>, user: &str) -> Option<u64> {
    let measured = files?.measure_bytes(user);
    measured.inspect_err(|error| tracing::warn!(user, %error, "cannot measure the files of a user")).ok().flatten()
}

fn measure_quotas(store: &Store, user: &str) -> Result<Vec<QuotaUsage>, StoreError> {
    let (now, counts_days) = (SystemClock.now_ms(), store.quotas().counts_days_of(user));
    let measure = |info: &QuotaInfo| {
        let is_daily = info.window == QuotaWindow::Day;
        let is_counted = !is_daily || counts_days;
        let used = is_counted.then(|| store.measure_usage(user, info.quota, now)).transpose()?;
        Ok(QuotaUsage {
            name: info.name,
            unit: info.unit,
            used: used.map(|amount| info.to_unit(amount)),
            limit: store.quotas().find_limit(user, info.quota).map(|amount| info.to_unit(amount)),
            resets_at: info.window_end(now).filter(|_| is_daily),
        })
    };
    QUOTA_TABLE.iter().map(measure).collect()
}
