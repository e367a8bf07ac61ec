// node bench/injection.js: what it costs to tell ten servers about their session. Needs a build.
import { pathToFileURL } from 'node:url';
import { injectSessionContext } from '../dist/index.js';

const goalMs = 1;
const servers = Object.fromEntries(
  Array.from({ length: 10 }, (_, i) => [
    `server-${i}`,
    { command: 'node', args: ['server.js'], env: { A: 'a', B: 'b', C: 'c', HOME_OF: `/srv/${i}` } },
  ]),
);
const context = {
  sessionId: '0123456789abcdef0123456789abcdef',
  workspaceId: 'my-project',
  trustLevel: 'sandboxed',
  userId: 'ada',
  agentId: 'coder',
  workspacePath: '/srv/projects/my-project',
  jwks: JSON.stringify({ keys: [{ kty: 'OKP', crv: 'Ed25519', kid: 'k1', x: 'x'.repeat(43) }] }),
};

// The first one is what a gateway pays that has just started; the median is what it pays from then on.
export function measureInjection(rounds = 2000) {
  const times = Array.from({ length: rounds }, () => {
    const began = performance.now();
    const injected = injectSessionContext(servers, context, { prefixes: ['AMBIT', 'PARACHUTE'] });
    const took = performance.now() - began;
    if (injected['server-9'].env.PARACHUTE_TRUST_LEVEL !== 'sandboxed') throw new Error('nothing was injected');
    return took;
  });
  const [firstMs] = times;
  const sorted = times.toSorted((a, b) => a - b);
  return {
    servers: 10,
    rounds,
    firstMs,
    medianMs: sorted[rounds / 2],
    p99Ms: sorted[Math.floor(rounds * 0.99)],
    goalMs,
  };
}

export function injectionLine({ servers: count, firstMs, medianMs, p99Ms, goalMs: goal }) {
  const [first, median, p99] = [firstMs, medianMs, p99Ms].map((ms) => `${ms.toFixed(3)} ms`);
  const verdict = medianMs < goal ? 'reached' : 'not reached';
  return `Context for ${count} servers: median ${median}, p99 ${p99}, the first ${first}; goal < ${goal} ms: ${verdict}`;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) console.log(injectionLine(measureInjection()));
