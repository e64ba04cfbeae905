// Runs once in every fresh context, before any expression is seen. Takes away what expressions do not have, and gives
// back a function that sets the clock and the chance of one evaluation.
(() => {
  'use strict';
  const kept = [
    'undefined', 'globalThis', 'NaN', 'Infinity', 'Object', 'Array', 'String', 'Number', 'Boolean', 'Date', 'Math',
    'JSON', 'RegExp', 'Error', 'dedent',
  ];
  const define = Object.defineProperty;

  // Code is made from strings nowhere: the four constructors of functions refuse, wherever they are reached from.
  const refuse = function Function() {
    throw new Error('code from text is not evaluated');
  };
  for (const sample of [function () {}, function* () {}, async function () {}, async function* () {}]) {
    const prototype = Object.getPrototypeOf(sample);
    define(prototype, 'constructor', { value: refuse, writable: false, configurable: false });
  }
  define(refuse, 'prototype', { value: Object.getPrototypeOf(function () {}) });

  const RealDate = Date;
  let now = 0;
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

  // sfc32
  const state = [0, 0, 0, 1];
  const next = () => {
    const [a, b, c, d] = state;
    const sum = (((a + b) | 0) + d) | 0;
    state[3] = (d + 1) | 0;
    state[0] = b ^ (b >>> 9);
    state[1] = (c + (c << 3)) | 0;
    state[2] = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  };
  define(Math, 'random', {
    value: function random() {
      return ((next() >>> 6) * 134217728 + (next() >>> 5)) / 9007199254740992;
    },
    writable: true,
    configurable: true,
  });

  // As the npm package ts-dedent.
  const dedent = (template, ...values) => {
    const strings = typeof template === 'string' ? [template] : [...template];
    strings[strings.length - 1] = strings[strings.length - 1].replace(/\r?\n([\t ]*)$/, '');
    const indents = [];
    for (const text of strings) {
      for (const match of text.match(/\n([\t ]+|(?!\s).)/g) ?? []) {
        indents.push(match.match(/[\t ]/g)?.length ?? 0);
      }
    }
    if (indents.length) {
      const pattern = new RegExp(`\n[\t ]{${Math.min(...indents)}}`, 'g');
      strings.forEach((text, i) => { strings[i] = text.replace(pattern, '\n'); });
    }
    strings[0] = strings[0].replace(/^\r?\n/, '');
    let result = strings[0];
    values.forEach((value, i) => {
      const indent = result.match(/(?:^|\n)( *)$/)?.[1] ?? '';
      const inserted = typeof value === 'string' && value.includes('\n') ? value.split('\n').join(`\n${indent}`) : value;
      result += inserted + strings[i + 1];
    });
    return result;
  };
  define(globalThis, 'dedent', { value: dedent, writable: true, configurable: true });

  for (const name of Object.getOwnPropertyNames(globalThis)) {
    if (!kept.includes(name)) delete globalThis[name];
  }

  return (time, high, low) => {
    now = time;
    state[0] = 0;
    state[1] = high | 0;
    state[2] = low | 0;
    state[3] = 1;
    for (let i = 0; i < 12; i++) next();
  };
})()
