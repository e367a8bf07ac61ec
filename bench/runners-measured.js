// Every runner this machine has, each with the limits it has by itself and with less.
import { createBwrapRunner } from '../build/sandbox/bwrap/bwrap.js';
import { createContainerRunner } from '../build/sandbox/container/container.js';
import { createLimiter } from '../build/sandbox/limits/limiter.js';
import { createPlainRunner } from '../build/sandbox/plain/plain.js';

/** Nothing is kept: what the other figures are held against. */
const unbounded = {
  inForce: async () => ({ memoryMb: 'none' }),
  bound: async () => ({
    wrapInside: (program) => [...program],
    wrapOutside: (command, args) => ({ command, args, env: {} }),
    admit: async () => {},
    check: () => undefined,
    refusals: () => undefined,
    release: () => {},
  }),
};

export async function runnersToMeasure(options) {
  const wanted = [
    ['bwrap', createBwrapRunner(options), true],
    ['bwrap', createBwrapRunner({ ...options, limiter: createLimiter([]) })],
    ['bwrap', createBwrapRunner({ ...options, limiter: unbounded })],
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
