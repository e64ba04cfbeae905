// Runs in every fresh context before any expression: removes globals that expressions do not have. Kept short, because
// parsing it takes time.
(() => {
  'use strict';
  const kept = [
    'undefined', 'globalThis', 'NaN', 'Infinity', 'Object', 'Array', 'String', 'Number', 'Boolean', 'Date', 'Math',
    'JSON', 'RegExp', 'Error', 'dedent',
  ];
  const define = Object.defineProperty;

  // Code is never created from strings: the four function constructors refuse, wherever they are reached from.
  const refuse = function Function() {
    throw new Error('code from text is not evaluated');
  };
  for (const sample of [function () {}, function* () {}, async function () {}, async function* () {}]) {
    const prototype = Object.getPrototypeOf(sample);
    define(prototype, 'constructor', { value: refuse, writable: false, configurable: false });
  }
  define(refuse, 'prototype', { value: Object.getPrototypeOf(function () {}) });

  for (const name of Object.getOwnPropertyNames(globalThis)) {
    if (!kept.includes(name)) delete globalThis[name];
  }
  delete Math.random;
})()
