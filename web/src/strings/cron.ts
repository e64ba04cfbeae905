// The texts of schedules: when they are due.

/** A number with its unit. */
const every = (count: number, one: string, many: string) =>
  count === 1 ? `Every ${one}` : `Every ${count} ${many}`;

export const cron = {
  when: "When",
  choices: {
    hourly: "Every hour",
    daily: "Every day",
    weekdays: "Monday to Friday",
    weekly: "Every week",
    monthly: "On the first of every month",
    own: "Cron expression",
  },
  time: "Time",
  minute: "Minute of the hour",
  day: "Day",
  dayNames: ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"],
  monthNames: [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
  ],
  mondayToFriday: "Monday to Friday",
  fields: {
    second: "second",
    minute: "minute",
    hour: "hour",
    date: "day of the month",
    month: "month",
    weekday: "day of the week",
  },
  wrongCount: (count: number) =>
    `A cron expression has five fields, separated by spaces: minute, hour, day of the month, month, day of the week. This one has ${count}.`,
  wrongField: (field: string, given: string, from: number, to: number) =>
    `“${given}” is not valid for the ${field}, which is a number from ${from} to ${to}, or * for every.`,
  everyMinute: "Every minute",
  everyMinutes: (count: number) => every(count, "minute", "minutes"),
  everyHours: (count: number, minute: string) => `${every(count, "hour", "hours")}, at minute ${minute}`,
  hourlyAt: (minute: string) => `Every hour at minute ${minute}`,
  at: (times: string) => `At ${times}`,
  everyDay: "every day",
  onDays: (days: string) => `${days.includes(" to ") ? "from" : "on"} ${days}`,
  onDates: (dates: string) => `on day ${dates} of the month`,
  inMonths: (months: string) => `in ${months}`,
  range: (from: string, to: string) => `${from} to ${to}`,
  and: (first: string, last: string) => `${first} and ${last}`,
  inputs: "Inputs",
  edit: (id: string) => `Edit ${id}`,
  save: "Save schedule",
  withInputs: (inputs: string) => `with ${inputs}`,
};
