// `dedent`, as the npm package ts-dedent. Runs only for expressions that name it.
() => {
  'use strict';
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
  Object.defineProperty(globalThis, 'dedent', { value: dedent, writable: true, configurable: true });
}
