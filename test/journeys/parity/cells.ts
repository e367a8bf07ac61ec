import { proof } from '../../proof.ts';

/** One combination of the subject of the tests, the SDK of its server, and the transport and era of its client. */
export interface Cell {
  readonly subject: 'gateway' | 'library';
  readonly sdk: 'v1' | 'v2';
  readonly transport: 'stdio' | 'http';
  readonly era: 'modern' | 'handshake';
}

const subjects = ['gateway', 'library'] as const;
const sdks = ['v1', 'v2'] as const;
const transports = ['stdio', 'http'] as const;
const eras = ['modern', 'handshake'] as const;

/** All combinations, except a modern client of a v1 server without a gateway: v1 does not speak that era. */
const all: Cell[] = subjects
  .flatMap((subject) => sdks.map((sdk) => ({ subject, sdk })))
  .flatMap((cell) => transports.map((transport) => ({ ...cell, transport })))
  .flatMap((cell) => eras.map((era) => ({ ...cell, era })))
  .filter(({ subject, sdk, era }) => subject === 'gateway' || sdk === 'v2' || era === 'handshake');

/** Every pair of two values is in one of these. */
const pairwise: Cell[] = [
  { subject: 'gateway', sdk: 'v1', transport: 'stdio', era: 'modern' },
  { subject: 'gateway', sdk: 'v2', transport: 'http', era: 'handshake' },
  { subject: 'library', sdk: 'v2', transport: 'http', era: 'modern' },
  { subject: 'library', sdk: 'v1', transport: 'http', era: 'handshake' },
  { subject: 'library', sdk: 'v1', transport: 'stdio', era: 'handshake' },
  { subject: 'library', sdk: 'v2', transport: 'stdio', era: 'modern' },
];

export const cells: readonly Cell[] = proof ? all : pairwise;

/** The pairs of values that no cell has. */
export function findMissingPairs(chosen: readonly Cell[]): string[] {
  const listPairs = (cell: Cell) => {
    const values = Object.entries(cell).map(([name, value]) => `${name}=${value}`);
    return values.flatMap((one, i) => values.slice(i + 1).map((other) => `${one} ${other}`));
  };
  const covered = new Set(chosen.flatMap(listPairs));
  return [...new Set(all.flatMap(listPairs))].filter((pair) => !covered.has(pair));
}
