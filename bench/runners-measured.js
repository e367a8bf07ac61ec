// Every runner this machine has, each with the limits it has by itself and with less.
import { createBwrapRunner } from '../build/sandbox/bwrap/bwrap.js';
import { createContainerRunner } from '../build/sandbox/container/container.js';
import { createLimiter } from '../build/sandbox/limits/limiter.js';
import { createPlainRunner } from '../build/sandbox/plain/plain.js';

export async function runnersToMeasure(options) {
  const wanted = [
    ['bwrap', createBwrapRunner(options), true],
    ['bwrap', createBwrapRunner({ ...options, limiter: createLimiter([]) })],
    ['container', createContainerRunner(options), true],
    ['container', createContainerRunner({ ...options, limitsByEngine: false })],
  ];
  const results = [{ name: 'plain', by: 'none', runner: createPlainRunner(options), isUsual: true, rounds: [] }];
  for (const [name, runner, isUsual = false] of wanted) {
    try {
      const { limits } = await runner.probe();
      results.push({ name, by: limits.memoryMb, runner, isUsual, rounds: [] });
    } catch (error) {
      console.error(`${name} is left out: ${error.message}`);
    }
  }
  // Where the kernel keeps no limits, the usual is what is measured beside it.
  return results.filter(
    (each, index) => results.findIndex(({ name, by }) => name === each.name && by === each.by) === index,
  );
}
