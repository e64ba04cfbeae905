// `Date` with the clock of the evaluation. Runs only for expressions that name it; others have no `Date`.
(RealDate, now) => {
  'use strict';
  const define = Object.defineProperty;
  const FixedDate = function Date(...parts) {
    if (!new.target) return new RealDate(now).toString();
    return parts.length === 0 ? new RealDate(now) : new RealDate(...parts);
  };
  define(FixedDate, 'length', { value: 7 });
  define(FixedDate, 'prototype', { value: RealDate.prototype, writable: false });
  define(RealDate.prototype, 'constructor', { value: FixedDate, writable: true, configurable: true });
  for (const [name, value] of [['now', () => now], ['parse', RealDate.parse], ['UTC', RealDate.UTC]]) {
    define(FixedDate, name, { value, writable: true, configurable: true });
  }
  define(globalThis, 'Date', { value: FixedDate, writable: true, configurable: true });
}
