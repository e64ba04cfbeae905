// Times, sizes and amounts for people, in the viewer's zone.

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

const times = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const shortTimes = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});
const ages = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });
const numbers = new Intl.NumberFormat();
const shortNumbers = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

export function formatTime(at: number): string {
  return times.format(at);
}

export function formatShortTime(at: number): string {
  return shortTimes.format(at);
}

export function formatAge(at: number, now = Date.now()): string {
  const seconds = Math.round((at - now) / 1000);
  const size = Math.abs(seconds);
  if (size < 60) return ages.format(seconds, "second");
  if (size < 3600) return ages.format(Math.round(seconds / 60), "minute");
  if (size < 86_400) return ages.format(Math.round(seconds / 3600), "hour");
  return ages.format(Math.round(seconds / 86_400), "day");
}

export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < MINUTE_MS) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min ${Math.round((ms % MINUTE_MS) / 1000)} s`;
  return `${Math.floor(ms / HOUR_MS)} h ${Math.round((ms % HOUR_MS) / MINUTE_MS)} min`;
}

export function formatNumber(number: number): string {
  return numbers.format(number);
}

/** A number of bytes, in the unit that fits. */
export function formatBytes(bytes: number): string {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let size = bytes;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit++;
  }
  return `${unit === 0 ? numbers.format(size) : size.toPrecision(3)} ${units[unit]}`;
}

/** An amount of a quota with its unit. The unit of a count is in the name of the quota. */
export function formatAmount(amount: number, unit: string): string {
  switch (unit) {
    case "bytes":
      return formatBytes(amount);
    case "seconds":
      return formatDuration(amount * 1000);
    case "dollars":
      return formatCost(amount * 1e6);
    default:
      return numbers.format(amount);
  }
}

export function formatShortNumber(number: number): string {
  return shortNumbers.format(number);
}

/** An amount in millionths of a US dollar. Small amounts keep two digits that say something. */
export function formatCost(microUsd: number): string {
  const usd = microUsd / 1e6;
  if (usd === 0) return "$0";
  return usd >= 0.1 ? `$${usd.toFixed(2)}` : `$${usd.toPrecision(2)}`;
}

/** The end of an id, which differs most between runs of the same time. */
export function shortenId(id: string): string {
  return id.slice(-8);
}
