// A workflow or a version of it, as addresses and people write it: `NAME`, or `NAME@2`.

export type Side = { workflow: string; version?: number };

export function parseSide(text: string): Side {
  const found = /^(.+)@([1-9]\d*)$/.exec(text);
  return found ? { workflow: found[1] ?? "", version: Number(found[2]) } : { workflow: text };
}

export function writeSide({ workflow, version }: Side): string {
  return version === undefined ? workflow : `${workflow}@${version}`;
}
