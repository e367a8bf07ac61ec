import { setTimeout as delay } from 'node:timers/promises';

const firstMs = 100;
const mostMs = 10_000;

/** A server that keeps crashing is started again ever more slowly; one good answer forgives it. */
export function createBackoff(): { wait(): Promise<void>; failed(): void; succeeded(): void } {
  let failures = 0;
  let notBefore = 0;
  return {
    async wait() {
      const ms = notBefore - Date.now();
      if (ms > 0) await delay(ms);
    },
    failed() {
      failures++;
      // The first crash costs nothing: most servers come back at once.
      notBefore = failures < 2 ? 0 : Date.now() + Math.min(mostMs, firstMs * 2 ** (failures - 2));
    },
    succeeded() {
      failures = 0;
      notBefore = 0;
    },
  };
}
