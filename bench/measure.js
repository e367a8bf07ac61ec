// Runs the load against one fresh start of a subject and condenses the rounds.
import { fileURLToPath } from 'node:url';
import { run } from './processes.js';

const load = fileURLToPath(new URL('load.js', import.meta.url));

// Peers get half the calls: they take several times as long for each, and rates do not depend on the number.
export async function measureOnce(subject, { sessions, warmup, calls, pinned }) {
  const { target, close } = await subject.open({ sessions, pinned });
  try {
    const job = { target, sessions, warmup, calls: subject.peer ? calls / 2 : calls };
    return JSON.parse(await run(process.execPath, [load], { input: JSON.stringify(job), pinned }));
  } finally {
    await close();
  }
}

export function medians(rounds) {
  const keys = Object.keys(rounds[0]);
  return Object.fromEntries(keys.map((key) => [key, median(rounds.map((round) => round[key]))]));
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return sorted.length % 2 ? sorted[Math.floor(middle)] : (sorted[middle - 1] + sorted[middle]) / 2;
}
