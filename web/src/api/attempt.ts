// Keys of requests that may be sent twice: the server performs those with the same key once.

/** A random key. `crypto.randomUUID` exists only over https and on this machine, this also over plain http. */
export function createAttemptKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The header of a request that is sent once. */
export function attemptHeader(key = createAttemptKey()): { "Idempotency-Key": string } {
  return { "Idempotency-Key": key };
}
