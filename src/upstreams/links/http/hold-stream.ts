import type { Readable } from 'node:stream';

const holders = new WeakMap<Readable, Set<string>>();

/** Stops a stream for one reason. It flows again when the last reason to hold it is gone. */
export function holdStream(stream: Readable, reason: string): void {
  const reasons = holders.get(stream) ?? new Set();
  holders.set(stream, reasons.add(reason));
  stream.pause();
}

/** Takes one reason to hold a stream away. */
export function releaseStream(stream: Readable, reason: string): void {
  const reasons = holders.get(stream);
  if (reasons?.delete(reason) && reasons.size === 0) stream.resume();
}

/** Whether a stream is held for this reason. */
export function isHeld(stream: Readable, reason: string): boolean {
  return holders.get(stream)?.has(reason) ?? false;
}
