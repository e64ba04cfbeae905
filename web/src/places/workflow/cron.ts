// Cron expressions for people: frequent ones are chosen from a list, and each is described in words.
import { t } from "../../strings";

/** When a schedule is due, as it is chosen. */
export type Choice = "hourly" | "daily" | "weekdays" | "weekly" | "monthly" | "own";

/** A choice with its time of day, and the expression of an own one. */
export type When = { choice: Choice; time: string; day: number; cron: string };

export const CHOICES: readonly Choice[] = ["hourly", "daily", "weekdays", "weekly", "monthly", "own"];

/** The expression of a choice. */
export function toCron({ choice, time, day, cron }: When): string {
  const [hour = 0, minute = 0] = time.split(":").map(Number);
  switch (choice) {
    case "hourly":
      return `${minute} * * * *`;
    case "daily":
      return `${minute} ${hour} * * *`;
    case "weekdays":
      return `${minute} ${hour} * * 1-5`;
    case "weekly":
      return `${minute} ${hour} * * ${day}`;
    case "monthly":
      return `${minute} ${hour} 1 * *`;
    case "own":
      return cron.trim();
  }
}

/** The choice that has this expression. */
export function toWhen(cron: string): When {
  const own: When = { choice: "own", time: "06:00", day: 1, cron };
  const found = /^(\d{1,2}) (\d{1,2}|\*) (\*|1) \* (\*|1-5|[0-6])$/.exec(cron.trim());
  if (!found) return own;
  const [, minute = "0", hour = "*", date, weekday = "*"] = found;
  const time = `${(hour === "*" ? "0" : hour).padStart(2, "0")}:${minute.padStart(2, "0")}`;
  const when = (choice: Choice, day = 1): When => ({ choice, time, day, cron });
  if (Number(minute) > 59 || Number(hour) > 23) return own;
  if (hour === "*") return date === "*" && weekday === "*" ? when("hourly") : own;
  if (date === "1") return weekday === "*" ? when("monthly") : own;
  if (weekday === "*") return when("daily");
  return weekday === "1-5" ? when("weekdays") : when("weekly", Number(weekday));
}

type FieldRange = { name: string; from: number; to: number; names?: readonly string[] };

const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"] as const;
const DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"] as const;

const SECONDS: FieldRange = { name: t.cron.fields.second, from: 0, to: 59 };
const FIELDS: readonly FieldRange[] = [
  { name: t.cron.fields.minute, from: 0, to: 59 },
  { name: t.cron.fields.hour, from: 0, to: 23 },
  { name: t.cron.fields.date, from: 1, to: 31 },
  { name: t.cron.fields.month, from: 1, to: 12, names: MONTHS },
  { name: t.cron.fields.weekday, from: 0, to: 7, names: DAYS },
];

/** The error in an expression; undefined if there is none, or if only the server can detect it. */
export function findCronProblem(cron: string): string | undefined {
  const parts = cron.trim().split(/\s+/);
  if (cron.trim().startsWith("@")) return undefined;
  if (parts.length < 5 || parts.length > 6) return t.cron.wrongCount(cron.trim() === "" ? 0 : parts.length);
  const ranges = parts.length === 6 ? [SECONDS, ...FIELDS] : FIELDS;
  for (const [at, part] of parts.entries()) {
    const range = ranges[at];
    if (range && !isField(part, range)) return t.cron.wrongField(range.name, part, range.from, range.to);
  }
  return undefined;
}

function isField(part: string, range: FieldRange): boolean {
  return part.split(",").every((one) => {
    // Last days, nth weekdays and the like are rare; the server knows them.
    if (/[LW#?+]/i.test(one) && !/^[A-Z]{3}/i.test(one)) return true;
    const [values = "", step, ...more] = one.split("/");
    if (more.length > 0 || (step !== undefined && !/^[1-9]\d*$/.test(step))) return false;
    if (values === "*") return true;
    const ends = values.split("-").map((text) => toNumber(text, range));
    const [first, last = first] = ends;
    return ends.length <= 2 && first !== undefined && last !== undefined && first <= last;
  });
}

function toNumber(text: string, { from, to, names }: FieldRange): number | undefined {
  const named = names?.indexOf(text.toUpperCase() as never) ?? -1;
  const number = named >= 0 ? named + (from === 1 ? 1 : 0) : /^\d+$/.test(text) ? Number(text) : Number.NaN;
  return number >= from && number <= to ? number : undefined;
}

/** An expression in words; undefined if there are no simple ones. */
export function describeCron(cron: string): string | undefined {
  if (findCronProblem(cron) !== undefined) return undefined;
  const parts = cron.trim().split(/\s+/);
  if (parts.length !== 5) return undefined;
  const [minute = "", hour = "", date = "", month = "", weekday = ""] = parts;
  const time = describeTime(minute, hour);
  // That something happens every hour needs no day.
  const isDaily = isNumber(minute) && hour !== "*" && !hour.includes("/");
  const day = date === "*" && weekday === "*" && !isDaily ? "" : describeDay(date, weekday);
  const months = month === "*" ? "" : describeList(month, t.cron.monthNames, 1);
  if (time === undefined || day === undefined || months === undefined) return undefined;
  return [time, day, months && t.cron.inMonths(months)].filter(Boolean).join(" ");
}

function describeTime(minute: string, hour: string): string | undefined {
  const every = /^\*\/(\d+)$/.exec(minute)?.[1];
  if (hour === "*") {
    if (minute === "*") return t.cron.everyMinute;
    if (every) return t.cron.everyMinutes(Number(every));
    return isNumber(minute) ? t.cron.hourlyAt(minute.padStart(2, "0")) : undefined;
  }
  if (!isNumber(minute)) return undefined;
  const hours = /^\*\/(\d+)$/.exec(hour)?.[1];
  if (hours) return t.cron.everyHours(Number(hours), minute.padStart(2, "0"));
  const times = hour.split(",").map((one) => (isNumber(one) ? `${one}:${minute.padStart(2, "0")}` : ""));
  return times.includes("") ? undefined : t.cron.at(joinList(times));
}

function describeDay(date: string, weekday: string): string | undefined {
  if (date === "*" && weekday === "*") return t.cron.everyDay;
  if (date === "*") {
    if (weekday.toUpperCase() === "MON-FRI") return t.cron.onDays(t.cron.mondayToFriday);
    const days = describeList(weekday, t.cron.dayNames, 0);
    return days === undefined ? undefined : t.cron.onDays(days);
  }
  if (weekday !== "*") return undefined;
  const dates = describeList(date, undefined, 0);
  return dates === undefined ? undefined : t.cron.onDates(dates);
}

/** Numbers and ranges, with their names if there are any. */
function describeList(
  field: string,
  names: readonly string[] | undefined,
  first: number,
): string | undefined {
  const nameOf = (text: string) => {
    if (!isNumber(text)) return undefined;
    return names ? names[(Number(text) - first) % names.length] : text;
  };
  const parts = field.split(",").map((one) => {
    const ends = one.split("-").map(nameOf);
    const [from, to] = ends;
    if (ends.includes(undefined)) return undefined;
    return ends.length === 1 ? from : t.cron.range(from ?? "", to ?? "");
  });
  return parts.includes(undefined) ? undefined : joinList(parts as string[]);
}

function joinList(parts: readonly string[]): string {
  return parts.length < 2 ? parts.join("") : t.cron.and(parts.slice(0, -1).join(", "), parts.at(-1) ?? "");
}

function isNumber(text: string): boolean {
  return /^\d+$/.test(text);
}
