import { readFileSync } from 'node:fs';
import { makeFilePrivate } from '../../lib/fs/private-files.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import type { ServerDefinition } from '../definition.ts';

type EraVerdict = 'modern' | 'handshake';

/** The eras that servers speak, found out once and remembered. */
export interface EraVerdicts {
  get(server: string): EraVerdict | undefined;
  /** As `get`, but without doubtful verdicts. */
  getCertain(server: string): EraVerdict | undefined;
  /** Sets a verdict. A `doubtful` one expires soon and is not stored. */
  set(server: string, verdict: EraVerdict, doubtful?: boolean): void;
  /** Applies a new definition: a configured era holds, and a verdict for another definition is dropped. */
  applyDefinition(server: string, era: 'auto' | EraVerdict, definitionHash: string): void;
  applyDefinitions(servers: Iterable<EraDefinition>): void;
  /** True for a server that was found to speak HTTP+SSE, which only the handshake era has. */
  usesSse(server: string): boolean;
  setSse(server: string, usesSse: boolean): void;
}

type EraDefinition = Pick<ServerDefinition, 'name' | 'era' | 'definitionHash'>;

interface StoredVerdict {
  readonly verdict: EraVerdict;
  readonly until: number;
  /** The hash of the definition it was found out for; undefined for a configured era. */
  readonly definition: string | undefined;
  readonly transport?: 'sse' | undefined;
}

const doubtMs = 60_000;
/** A server may learn the new era with its next release. */
const rememberMs = 7 * 24 * 3600_000;

export function createEraVerdicts(file?: string): EraVerdicts {
  const verdicts = new Map<string, StoredVerdict>(file === undefined ? [] : loadVerdicts(file));
  const definitions = new Map<string, string>();

  function save(): void {
    if (file === undefined) return;
    const found = [...verdicts].filter(
      ([, { definition, until }]) => definition !== undefined && until - Date.now() > doubtMs,
    );
    try {
      writeAtomically(file, JSON.stringify(found));
    } catch {
      // An era that is not stored is found out again.
    }
  }

  function applyDefinition(server: string, era: 'auto' | EraVerdict, definition: string): void {
    definitions.set(server, definition);
    if (era !== 'auto') {
      verdicts.set(server, { verdict: era, until: Number.POSITIVE_INFINITY, definition: undefined });
    } else if (verdicts.get(server)?.definition !== definition) verdicts.delete(server);
  }

  function findVerdict(server: string, atLeastMs: number): EraVerdict | undefined {
    const known = verdicts.get(server);
    return known !== undefined && known.until - Date.now() > atLeastMs ? known.verdict : undefined;
  }

  return {
    get: (server) => findVerdict(server, 0),
    getCertain: (server) => findVerdict(server, doubtMs),
    set(server, verdict, doubtful = false) {
      const until = Date.now() + (doubtful ? doubtMs : rememberMs);
      const transport = verdict === 'handshake' ? verdicts.get(server)?.transport : undefined;
      verdicts.set(server, { verdict, until, definition: definitions.get(server) ?? '', transport });
      if (!doubtful) save();
    },
    applyDefinition,
    usesSse: (server) => findVerdict(server, 0) === 'handshake' && verdicts.get(server)?.transport === 'sse',
    setSse(server, usesSse) {
      const until = Date.now() + rememberMs;
      const definition = definitions.get(server) ?? '';
      const known = verdicts.get(server) ?? { until, definition };
      verdicts.set(server, { ...known, verdict: 'handshake', transport: usesSse ? 'sse' : undefined });
      save();
    },
    applyDefinitions(servers) {
      for (const { name, era, definitionHash } of servers) applyDefinition(name, era, definitionHash);
    },
  };
}

function loadVerdicts(file: string): [string, StoredVerdict][] {
  try {
    makeFilePrivate(file);
    const kept = new Map(JSON.parse(readFileSync(file, 'utf8')) as [string, StoredVerdict | null][]);
    return [...kept].filter((entry): entry is [string, StoredVerdict] => typeof entry[1]?.definition === 'string');
  } catch {
    return [];
  }
}
