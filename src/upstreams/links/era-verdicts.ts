import { readFileSync } from 'node:fs';
import { makeFilePrivate } from '../../lib/fs/private-files.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import { findMember, readRawValue, readShape, readStringValue } from '../../protocol/json/scan.ts';
import { type Message, readErrorCode, readMessage } from '../../protocol/message.ts';
import { modernVersion } from '../../protocol/versions.ts';
import type { ServerDefinition } from '../definition.ts';

type EraVerdict = 'modern' | 'handshake';

/**
 * The reason why a verdict may be wrong: the server did not answer the probe in time or was killed (`silence`), or anything
 * else (`answer`), such as an exit or an error of a proxy.
 */
export type EraDoubt = 'silence' | 'answer';

/** The eras that servers speak, found out once and remembered. */
export interface EraVerdicts {
  get(server: string): EraVerdict | undefined;
  /** As `get`, but without doubtful verdicts. */
  getCertain(server: string): EraVerdict | undefined;
  /** True when the configuration names the era of the server. Nothing that a server answers changes it then. */
  isConfigured(server: string): boolean;
  /** Sets a verdict. One with a doubt expires soon and is not stored. A configured era stays. */
  set(server: string, verdict: EraVerdict, doubt?: EraDoubt): void;
  /** Notes that a server has accepted a handshake of Ambit's own. */
  confirmHandshake(server: string): void;
  /** Makes a remembered verdict unknown, so that the server is asked again. False when it was found out just now. */
  forget(server: string): boolean;
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
  readonly doubt?: EraDoubt | undefined;
  /** The last verdict that was not doubtful, while this one is. */
  readonly before?: EraVerdict | undefined;
}

const doubtMs = 60_000;
/**
 * The time for which a server that answers no probe counts as one of the handshake era, once it has accepted a handshake. A
 * slow server that speaks both eras is asked again then. A server that is always silent costs one long probe in this time.
 */
const acceptedMs = 10 * 60_000;
/** A server may learn the new era with its next release. */
const rememberMs = 7 * 24 * 3600_000;
/** The time in which a server is not asked again: a client may cause errors with every call. */
const settledMs = 10_000;

/** `onChanged` hears of a remembered era that turned out wrong, or may be wrong if there is a doubt. */
export function createEraVerdicts(
  file?: string,
  onChanged: (server: string, was: EraVerdict, now: EraVerdict, doubt?: EraDoubt) => void = () => {},
): EraVerdicts {
  const verdicts = new Map<string, StoredVerdict>(file === undefined ? [] : loadVerdicts(file));
  const definitions = new Map<string, string>();

  function save(): void {
    if (file === undefined) return;
    const found = [...verdicts].filter(
      ([, { definition, until, doubt }]) => definition !== undefined && doubt === undefined && until > Date.now(),
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

  function isConfigured(server: string): boolean {
    return verdicts.get(server)?.until === Number.POSITIVE_INFINITY;
  }

  function findVerdict(server: string): EraVerdict | undefined {
    const known = verdicts.get(server);
    return known !== undefined && known.until > Date.now() ? known.verdict : undefined;
  }

  function findCertain(server: string): EraVerdict | undefined {
    return verdicts.get(server)?.doubt === undefined ? findVerdict(server) : undefined;
  }

  function setVerdictFor(server: string, verdict: EraVerdict, doubt?: EraDoubt, holdsMs = doubtMs): void {
    if (isConfigured(server)) return;
    const known = verdicts.get(server);
    const before = lastCertain(known);
    const definition = definitions.get(server) ?? '';
    const transport = verdict === 'handshake' ? known?.transport : undefined;
    if (doubt !== undefined) {
      verdicts.set(server, { verdict, until: Date.now() + holdsMs, definition, transport, doubt, before });
      if (known?.verdict === before && before !== undefined && before !== verdict)
        onChanged(server, before, verdict, doubt);
      return;
    }
    verdicts.set(server, { verdict, until: Date.now() + rememberMs, definition, transport });
    save();
    if (before !== undefined && before !== verdict) onChanged(server, before, verdict);
  }

  return {
    get: findVerdict,
    getCertain: findCertain,
    isConfigured,
    set: (server, verdict, doubt) => setVerdictFor(server, verdict, doubt),
    confirmHandshake(server) {
      const known = verdicts.get(server);
      // A handshake without a probe proves nothing, as the server may speak both eras. Nor does one against a proof.
      if (known === undefined || findCertain(server) !== undefined) return;
      // A server that ends over each probe would be started twice for it again and again, so this verdict is certain. One
      // that was modern until now may have crashed for another reason.
      const isLasting = known?.doubt !== 'silence' && lastCertain(known) !== 'modern';
      setVerdictFor(server, 'handshake', isLasting ? undefined : 'silence', acceptedMs);
    },
    forget(server) {
      const known = verdicts.get(server);
      if (known === undefined) return true;
      if (isConfigured(server) || known.until > Date.now() + rememberMs - settledMs) return false;
      verdicts.set(server, { ...known, until: 0, doubt: 'answer', before: lastCertain(known) });
      return true;
    },
    applyDefinition,
    usesSse: (server) => findVerdict(server) === 'handshake' && verdicts.get(server)?.transport === 'sse',
    setSse(server, usesSse) {
      // The transport exists only in the handshake era. A server that has given it up may be modern by now.
      setVerdictFor(server, 'handshake', usesSse ? undefined : 'answer');
      const known = verdicts.get(server);
      if (known !== undefined) verdicts.set(server, { ...known, transport: usesSse ? 'sse' : undefined });
      save();
    },
    applyDefinitions(servers) {
      for (const { name, era, definitionHash } of servers) applyDefinition(name, era, definitionHash);
    },
  };
}

/**
 * Judges the answer to `server/discover`. Only a list of versions that contains 2026-07-28 proves a modern server: servers
 * of some SDKs answer with older versions only. Undefined for the errors of modern servers that have no list.
 */
function judgeEra(answer: Message): EraVerdict | undefined {
  const code = readErrorCode(answer);
  if (code === '-32020' || code === '-32021') return undefined;
  return readSupportedVersions(answer)?.includes(modernVersion) === true ? 'modern' : 'handshake';
}

/** Reads the versions that a discover result or the error −32022 lists; undefined where there is no list. */
export function readSupportedVersions(answer: Message): readonly unknown[] | undefined {
  const { bytes, result, error } = answer;
  let list = findMember(result?.shape, 'supportedVersions');
  if (readErrorCode(answer) === '-32022') {
    const data = findMember(error?.shape, 'data');
    list = data === undefined ? undefined : findMember(readShape(bytes, data), 'supported');
  }
  const versions: unknown = list === undefined ? undefined : JSON.parse(readRawValue(bytes, list));
  return Array.isArray(versions) ? versions : undefined;
}

/**
 * Sets the verdict that follows from the answer to a probe; `answer` is undefined where there was none. Returns true for a
 * modern server. An error without a list proves a modern server only if it has refused the handshake, too: then it is
 * already held for modern.
 */
export function setVerdict(
  verdicts: EraVerdicts,
  server: string,
  answer: Message | undefined,
  doubt: EraDoubt | undefined,
): boolean {
  const judged = answer === undefined ? 'handshake' : judgeEra(answer);
  const era = judged ?? verdicts.get(server) ?? 'handshake';
  verdicts.set(server, era, era === 'modern' ? undefined : (doubt ?? (judged === undefined ? 'answer' : undefined)));
  return era === 'modern';
}

/** The answers of a server over HTTP that rejects a request without executing it. */
export const rejectingStatuses: ReadonlySet<number> = new Set([400, 404, 405, 406, 415, 422]);
const maxRejectionBytes = 1000;
/** The messages of the SDKs for a request before `initialize`. */
const uninitialized = /\b(?:not (?:yet )?(?:been )?initiali[sz]ed|(?:before|during) (?:session )?initiali[sz]ation)\b/i;

/**
 * True for an answer that a server of the handshake era gives to a modern call that it did not execute: an HTTP error, or an
 * error with status 200 which says that there was no `initialize`. The text alone proves nothing, so the era is found out
 * again before the call is sent once more.
 */
export function isRejection(status: number, bytes: Buffer): boolean {
  if (status >= 400) return rejectingStatuses.has(status) && mayBeOtherEra(readMessage(bytes));
  // Most answers are excluded here, without reading them.
  if (bytes.length > maxRejectionBytes || !bytes.includes('nitiali')) return false;
  const { error } = readMessage(bytes);
  const text = error && readStringValue(bytes, findMember(error.shape, 'message'));
  return text !== undefined && uninitialized.test(text);
}

/** False for an error that shows that the server is modern. */
function mayBeOtherEra(answer: Message): boolean {
  const code = readErrorCode(answer) ?? '';
  return !['-32020', '-32021'].includes(code) && readSupportedVersions(answer)?.includes(modernVersion) !== true;
}

function lastCertain(known: StoredVerdict | undefined): EraVerdict | undefined {
  if (known === undefined || known.before !== undefined) return known?.before;
  return known.doubt === undefined && known.until > Date.now() ? known.verdict : undefined;
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
