// The server counts places in a source in bytes of UTF-8, the editor in UTF-16 units.

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Converts places of one text. */
export class ByteMap {
  private readonly bytes: Uint8Array;
  private readonly isPlain: boolean;

  constructor(readonly text: string) {
    this.bytes = encoder.encode(text);
    // In a text of ASCII both are the same.
    this.isPlain = this.bytes.length === text.length;
  }

  /** The unit at a byte. */
  toUnit(byte: number): number {
    const end = Math.max(0, Math.min(byte, this.bytes.length));
    return this.isPlain ? end : decoder.decode(this.bytes.subarray(0, end)).length;
  }

  /** The byte at a unit. */
  toByte(unit: number): number {
    return this.isPlain ? unit : encoder.encode(this.text.slice(0, unit)).length;
  }
}
