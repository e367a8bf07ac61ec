// node bench/stores.js [--quick]: what a lookup and a refresh cost in each session store, side by side in one run, and
// whether that stays so when there are many sessions. Needs a build.
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { medians } from './measure.js';
import { run, start, stop, waitFor } from './processes.js';
import { plotStores } from './stores-plot.js';

const load = fileURLToPath(new URL('store-load.js', import.meta.url));
const sizes = [1000, 10_000, 100_000];

export async function measureStores({ quick = false } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-bench-stores-'));
  const redis = await startRedis(folder);
  const stores = [{ kind: 'memory' }, { kind: 'sqlite' }, ...(redis === undefined ? [] : [{ kind: 'redis' }])];
  const job = { times: quick ? 2000 : 10_000, atOnce: 16 };
  try {
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      for (const store of stores) {
        console.error(`round ${round + 1}, store ${store.kind}`);
        const place = store.kind === 'redis' ? redis.url : join(folder, `${store.kind}-${round}.db`);
        // The memory store evicts what is too much: it is bounded by design, and has nothing to be flat about.
        const few = store.kind === 'memory' ? sizes.slice(0, 1) : sizes;
        await redis?.empty();
        const input = JSON.stringify({ kind: store.kind, place, sizes: few, ...job });
        const said = await run(process.execPath, ['--expose-gc', load], { input, timeoutMs: 600_000 });
        store.rounds = [...(store.rounds ?? []), JSON.parse(said)];
      }
    }
  } finally {
    await redis?.close();
    rmSync(folder, { recursive: true, force: true });
  }
  return stores.map(({ kind, rounds }) => ({ kind, figures: condensed(rounds) }));
}

// The median of each number, for each size.
function condensed(rounds) {
  return rounds[0].map((_, index) => {
    const same = rounds.map((round) => round[index]);
    const rates = ['lookup', 'refresh', 'lookups', 'refreshes'].map((name) => [
      name,
      medians(same.map((figures) => figures[name])),
    ]);
    const { size, residentMb } = medians(same.map(({ size, residentMb }) => ({ size, residentMb })));
    return { size, residentMb, ...Object.fromEntries(rates) };
  });
}

async function startRedis(folder) {
  const program = ['redis-server', 'valkey-server'].map(onPath).find((found) => found !== undefined);
  if (program === undefined) {
    console.error('neither redis-server nor valkey-server is on PATH: measured without');
    return undefined;
  }
  const socket = join(folder, 'redis.sock');
  const server = start(program, ['--port', '0', '--unixsocket', socket, '--save', '', '--dir', folder]);
  // Redis says "at <path>", Valkey "unix".
  const ready = await waitFor(server, () => /ready to accept connections (?:at|unix)/i.test(server.stdout));
  if (!ready) throw new Error(`redis did not get ready: ${server.stderr}`);
  const { Redis } = await import('ioredis');
  const client = new Redis(socket);
  return {
    url: `unix://${socket}`,
    empty: () => client.flushall(),
    async close() {
      client.disconnect();
      await stop(server);
    },
  };
}

function onPath(name) {
  const places = (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, name));
  return places.find((file) => {
    try {
      accessSync(file, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

const rateColumns = [
  ['store', 8],
  ['lookups/s', 10],
  ['16 at once', 10],
  ['refreshes/s', 11],
  ['16 at once', 10],
];
const flatColumns = [
  ['store', 8],
  ['sessions', 8],
  ['lookup µs', 9],
  ['× of 1000', 9],
  ['refresh µs', 10],
  ['× of 1000', 9],
  ['memory MB', 9],
];

export function storesTable(stores) {
  const rates = stores.map(({ kind, figures: [first] }) => [
    kind,
    ...[first.lookup, first.lookups, first.refresh, first.refreshes].map(({ perSecond }) => perSecond.toFixed(0)),
  ]);
  const flat = stores.flatMap(({ kind, figures }) =>
    figures.length === 1
      ? []
      : figures.map(({ size, lookup, refresh, residentMb }) => [
          kind,
          size,
          lookup.p50Us.toFixed(1),
          (lookup.p50Us / figures[0].lookup.p50Us).toFixed(2),
          refresh.p50Us.toFixed(1),
          (refresh.p50Us / figures[0].refresh.p50Us).toFixed(2),
          residentMb.toFixed(0),
        ]),
  );
  return [
    'Session stores, 1000 sessions. Refresh: admit with a place and a limit, and release.',
    aligned(rateColumns, rates),
    '',
    'The same with more sessions, one at a time: p50, and the memory of the process that asks.',
    aligned(flatColumns, flat),
  ].join('\n');
}

function aligned(columns, rows) {
  const line = (cells) =>
    cells
      .map((cell, index) =>
        index === 0 ? String(cell).padEnd(columns[0][1]) : String(cell).padStart(columns[index][1]),
      )
      .join('  ');
  return [columns.map(([title]) => title), columns.map(([, width]) => '─'.repeat(width)), ...rows].map(line).join('\n');
}

export function writeStoresPlot(stores, folder, subtitle) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'stores.svg'), plotStores(stores, { subtitle }));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const stores = await measureStores({ quick: process.argv.includes('--quick') });
  writeStoresPlot(stores, fileURLToPath(new URL('results/', import.meta.url)), `Node ${process.version}`);
  console.log(storesTable(stores));
}
