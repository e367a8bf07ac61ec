import { setImmediate as othersHadTheirTurn } from 'node:timers/promises';

/** Others wait no longer than this. */
const longestMs = 5;

/** Returns what lets others have their turn, once this has kept them waiting. To be called often. */
export function createGiveWay(): () => Promise<void> {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < longestMs) return;
    await othersHadTheirTurn();
    began = performance.now();
  };
}
