import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { withTimeout } from '../../lib/async/timeout.ts';
import { withLock } from '../../lib/fs/file-lock.ts';
import { makeFilePrivate } from '../../lib/fs/private-files.ts';
import type { Session } from '../../sessions/session.ts';
import type { ServerDefinition } from '../definition.ts';
import type { Offer } from './offer.ts';

/**
 * The owner of lists. A server may derive its tools from files, the user or credentials, so its lists are as private as
 * those.
 */
export interface ListOwner {
  /** Equal for sessions that may be shown the same lists, and for no others. */
  readonly key: string;
  /** Empty where the lists are for everybody. */
  readonly userId: string;
  readonly workspaceId?: string;
  /** Set where the lists are one session's own. */
  readonly sessionId?: string;
  /** True where the server gets a credential of the user. Its lists may repeat it, so they are not stored. */
  readonly hasCredentials?: true;
}

interface ListPrivacy {
  readonly folder: string | undefined;
  /** True when the session shares lists with no other: it has its own folder, or its user is anonymous. */
  readonly isAlone: boolean;
  /** The revision of the user's credentials for the server; empty where there are none. */
  readonly credentials: string;
}

/** Creates the owner of a session's lists. Lists are never shared across trust levels or credentials. */
export function createListOwner(session: Session, server: ServerDefinition, privacy: ListPrivacy): ListOwner {
  const { id, userId, workspaceId, trustLevel } = session;
  const { folder, isAlone, credentials } = privacy;
  const given = credentials === '' ? {} : { hasCredentials: true as const };
  const isProcessShared = server.kind === 'stdio' && server.scope === 'shared';
  if (server.catalog === 'shared' || isProcessShared) {
    const key = JSON.stringify(['shared', trustLevel, credentials]);
    return { key, userId: credentials === '' ? '' : userId, ...given };
  }
  const parts = [userId, workspaceId ?? null, folder ?? null, trustLevel, credentials, isAlone ? id : null];
  return {
    key: JSON.stringify(parts),
    userId,
    ...(workspaceId === undefined ? {} : { workspaceId }),
    ...(isAlone ? { sessionId: id } : {}),
    ...given,
  };
}

export interface CachedOffer {
  readonly offer: Offer;
  readonly owner: ListOwner;
}

export type OfferFilter = (key: string, owner: ListOwner) => boolean;

export interface CatalogFile {
  load(): Map<string, CachedOffer>;
  put(key: string, kept: CachedOffer): void;
  /** Removes the offers that fit, also those of other processes. */
  remove(fits: OfferFilter): void;
  /** Writes the queued updates; later ones are ignored. */
  close(): Promise<void>;
}

/** Changes the offers and returns true when something changed. */
type CatalogUpdate = (offers: Map<string, CachedOffer>) => boolean;

const maxOffers = 500;
/** Longer offers are not stored: each update reads and writes the whole file. */
const maxOfferLength = 1024 * 1024;
const maxCharacters = 16 * 1024 * 1024;
/** A character takes up to three bytes. */
const maxBytes = 3 * maxCharacters;
/** The age limit of an offer: an identity provider does not report users that are gone. */
const maxAgeMs = 7 * 24 * 3_600_000;
const gatherMs = 200;
const closingMs = 2000;

/**
 * Opens the catalog on disk, so that a restart need not start every server. Lists may quote files of a tenant, so the file
 * is private and each list goes to its owner only. Several processes may share the file: each applies its own updates to
 * the current content, and so never restores what another has removed.
 */
export function openCatalogFile(path: string): CatalogFile {
  let queued: CatalogUpdate[] = [];
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();
  let isClosed = false;

  function load(): Map<string, CachedOffer> {
    try {
      makeFilePrivate(path);
      if (statSync(path).size > maxBytes) return new Map();
      const kept = JSON.parse(readFileSync(path, 'utf8')) as [string, Partial<CachedOffer> | null][];
      return new Map(kept.filter((entry): entry is [string, CachedOffer] => isCachedOffer(entry[1])));
    } catch {
      return new Map();
    }
  }

  function applyUpdates(): void {
    const updates = queued;
    queued = [];
    const offers = load();
    const changed = updates.map((each) => each(offers));
    if (!changed.includes(true)) return;
    const beside = `${path}.${process.pid}.tmp`;
    try {
      rmSync(beside, { force: true });
      writeFileSync(beside, serializeOffers(offers), { flag: 'wx', mode: 0o600 });
      renameSync(beside, path);
    } catch {
      // A file that may still hold removed lists must not stay. The lists are fetched again.
      rmSync(beside, { force: true });
      rmSync(path, { force: true });
    }
  }

  function write(): void {
    clearTimeout(timer);
    timer = undefined;
    if (queued.length > 0) writing = writing.then(() => withLock(path, applyUpdates)).catch(() => {});
  }

  function schedule(update: CatalogUpdate): void {
    if (isClosed) return;
    queued.push(update);
    timer ??= setTimeout(write, gatherMs).unref();
  }

  return {
    load,
    put: (key, kept) =>
      schedule((offers) => {
        const wasThere = offers.delete(key);
        if (JSON.stringify(kept).length > maxOfferLength) return wasThere;
        offers.set(key, kept);
        return true;
      }),
    remove: (fits) =>
      schedule((offers) => {
        const found = [...offers].filter(([key, { owner }]) => fits(key, owner));
        for (const [key] of found) offers.delete(key);
        return found.length > 0;
      }),
    close() {
      isClosed = true;
      write();
      // The lock of a killed process must not delay the shutdown. The next start removes what is left.
      return withTimeout(writing, closingMs).catch(() => {});
    },
  };
}

/** Serializes the newest offers, as many as fit. */
function serializeOffers(offers: ReadonlyMap<string, CachedOffer>): string {
  const texts: string[] = [];
  let characters = 0;
  for (const entry of [...offers].slice(-maxOffers).reverse()) {
    const text = JSON.stringify(entry);
    characters += text.length + 1;
    if (characters > maxCharacters) break;
    texts.push(text);
  }
  return `[${texts.reverse().join(',')}]`;
}

function isCachedOffer(kept: Partial<CachedOffer> | null | undefined): boolean {
  const offer = kept?.offer as Partial<Offer> | undefined;
  const lists = [offer?.tools, offer?.prompts, offer?.templates];
  const isOffer =
    typeof offer?.at === 'number' && Date.now() - offer.at < maxAgeMs && lists.every((list) => Array.isArray(list));
  return isOffer && typeof kept?.owner?.key === 'string' && typeof kept.owner.userId === 'string';
}
