//! Quotas of users: model calls and the sandbox's time are counted while runs use them, and every use can be looked up.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::effect::{GenerateReply, GenerateRequest};
use flowloom_core::error::StepFailure;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{Clock as _, EffectContext, EffectFuture, Model, Price};
use flowloom_runtime::journal::Journal as _;
use flowloom_runtime::memory_quota::MemoryUsage;
use flowloom_sandbox::SandboxMeter;
use flowloom_store::{DailyUsage, QUOTA_TABLE, Quota, QuotaExceeded, QuotaInfo, QuotaWindow, Store, StoreError};

use crate::engines::App;
use crate::error::AppError;

/// Models whose calls count for the daily quotas of the run's user. A call that begins within the quota is completed.
struct MeteredModel {
    inner: Arc<dyn Model>,
    store: Arc<Store>,
}

/// Counts the calls of models, if a daily quota of tokens or dollars is set for anyone.
pub(crate) fn meter_model(inner: Arc<dyn Model>, store: &Arc<Store>) -> Arc<dyn Model> {
    match [Quota::Tokens, Quota::Cost].iter().any(|quota| store.quotas().is_limited(*quota)) {
        true => Arc::new(MeteredModel { inner, store: store.clone() }),
        false => inner,
    }
}

impl MeteredModel {
    /// Fails with `QuotaExceeded`, or with `PriceUnknown` if a quota of dollars cannot be enforced for the model.
    fn check_call(&self, user: &str, model: &str) -> Result<(), StepFailure> {
        let has_cost_quota = self.store.quotas().find_limit(user, Quota::Cost).is_some();
        if has_cost_quota && self.inner.find_price(model).is_none() {
            let message = format!(
                "the price of {model} is unknown, so the quota usd_per_day cannot be enforced; use a model with a known \
                 price, or ask the operator for a quota of tokens"
            );
            return Err(StepFailure::new(Code::PriceUnknown, message));
        }
        Ok(self.store.check_quotas(user, &[Quota::Tokens, Quota::Cost], SystemClock.now_ms())?)
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
            self.check_call(&context.user, &request.model)?;
            let reply = self.inner.generate_reply(request, context).await?;
            let usage = &reply.usage;
            let used = DailyUsage {
                tokens: usage.input_tokens + usage.output_tokens,
                micro_usd: usage.micro_usd.unwrap_or_default(),
                ..DailyUsage::default()
            };
            self.store.add_daily_usage(&context.user, used, SystemClock.now_ms());
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

/// Time of a user in the sandbox that is stored at once; less than that is collected.
const STORED_TIME: Duration = Duration::from_secs(1);

/// Counts the time that the sandbox computes for users with a quota of it.
struct StoreMeter {
    store: Arc<Store>,
    /// Time that is not stored yet. It is lost with the process.
    collected: Mutex<HashMap<String, Duration>>,
}

/// Counts the sandbox's time, if a quota of it is set for anyone.
pub(crate) fn build_sandbox_meter(store: &Arc<Store>) -> Option<Arc<dyn SandboxMeter>> {
    let is_limited = store.quotas().is_limited(Quota::SandboxTime);
    is_limited.then(|| Arc::new(StoreMeter { store: store.clone(), collected: Mutex::default() }) as _)
}

impl StoreMeter {
    /// Adds to the collected time. Returns what is to be stored.
    fn collect_time(&self, user: &str, time: Duration) -> Option<Duration> {
        let mut collected = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        let total = collected.get(user).copied().unwrap_or_default() + time;
        if total >= STORED_TIME {
            collected.remove(user);
            return Some(total);
        }
        collected.insert(user.to_owned(), total);
        None
    }

    fn collected_ms(&self, user: &str) -> u64 {
        let collected = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        collected.get(user).map_or(0, |time| time.as_millis() as u64)
    }
}

impl fmt::Debug for StoreMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreMeter").finish_non_exhaustive()
    }
}

impl SandboxMeter for StoreMeter {
    fn check_user(&self, user: &str) -> Result<(), StepFailure> {
        let (quota, now) = (Quota::SandboxTime, SystemClock.now_ms());
        let Some(limit) = self.store.quotas().find_limit(user, quota) else { return Ok(()) };
        let used = self.store.measure_usage(user, quota, now)? + self.collected_ms(user);
        if used < limit {
            return Ok(());
        }
        let until = quota.info().window_end(now);
        Err(StoreError::Quota(QuotaExceeded { user: user.to_owned(), quota, used, limit, until }).into())
    }

    fn add_time(&self, user: &str, time: Duration) {
        if self.store.quotas().find_limit(user, Quota::SandboxTime).is_none() {
            return;
        }
        if let Some(time) = self.collect_time(user, time) {
            let used = DailyUsage { sandbox_ms: time.as_millis() as u64, ..DailyUsage::default() };
            self.store.add_daily_usage(user, used, SystemClock.now_ms());
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
    /// What is used; `None` if it is not counted because no daily quota is set.
    pub used: Option<f64>,
    /// What may be used; `None` if that is not limited.
    pub limit: Option<f64>,
    /// When a daily count starts again, in milliseconds since the Unix epoch.
    pub resets_at: Option<u64>,
}

/// Measures what a user uses.
pub async fn measure_user(app: &App, user: &str) -> Result<Vec<QuotaUsage>, AppError> {
    let (store, owner) = (app.store.clone(), user.to_owned());
    // Measuring the size of a user's data reads all of it.
    let mut rows = tokio::task::spawn_blocking(move || measure_quotas(&store, &owner)).await??;
    let memories = app.store.read_memories(&app.store.owner_of(user)).await?;
    if let Some(row) = rows.iter_mut().find(|row| row.name == Quota::MemoryBytes.info().name) {
        row.used = Some(MemoryUsage::of_memories(&memories).total_bytes() as f64);
        row.limit = Some(app.store.quotas().find_memory_limit(user, app.config.limits.memory_bytes) as f64);
    }
    Ok(rows)
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
