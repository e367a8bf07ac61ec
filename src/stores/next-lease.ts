import { randomBytes } from 'node:crypto';

const here = randomBytes(8).toString('hex');
let count = 0;

/** A name for a place, never given twice by anyone. It proves nothing, so it need not be hard to guess. */
export function nextLease(): string {
  count++;
  return `${here}.${count.toString(36)}`;
}
