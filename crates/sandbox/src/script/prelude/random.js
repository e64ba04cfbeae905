// `Math.random` from a seed. Runs only for expressions that name it.
(high, low) => {
  'use strict';
  // sfc32
  const state = [0, high | 0, low | 0, 1];
  const next = () => {
    const [a, b, c, d] = state;
    const sum = (((a + b) | 0) + d) | 0;
    state[3] = (d + 1) | 0;
    state[0] = b ^ (b >>> 9);
    state[1] = (c + (c << 3)) | 0;
    state[2] = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  };
  Object.defineProperty(Math, 'random', {
    value: function random() {
      return ((next() >>> 6) * 134217728 + (next() >>> 5)) / 9007199254740992;
    },
    writable: true,
    configurable: true,
  });
  for (let i = 0; i < 12; i++) next();
}
