import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { within } from '../../lib/async/within.ts';
import { withLock } from '../../lib/fs/file-lock.ts';
import { keepPrivate } from '../../lib/fs/private-files.ts';
import type { ListOwner } from './list-owner.ts';
import type { Offer } from './offer.ts';

export interface CachedOffer {
  readonly offer: Offer;
  readonly owner: ListOwner;
}

/** Says which offers are meant. */
export type OfferFilter = (key: string, owner: ListOwner) => boolean;

export interface CatalogFile {
  load(): Map<string, CachedOffer>;
  put(key: string, kept: CachedOffer): void;
  /** Also of those that other processes have put there. */
  remove(fits: OfferFilter): void;
  /** Writes what is still unwritten; from then on nothing is. */
  close(): Promise<void>;
}

/** True where it changed anything. */
type CatalogUpdate = (offers: Map<string, CachedOffer>) => boolean;

const maxOffers = 500;
/** Each change reads and writes the whole file, so long lists are asked for again after a restart instead. */
const maxOfferLength = 1024 * 1024;
const maxCharacters = 16 * 1024 * 1024;
/** Characters of up to three bytes each. */
const maxBytes = 3 * maxCharacters;
/** Nobody says when a user of an identity provider is gone. */
const maxAgeMs = 7 * 24 * 3_600_000;
const gatherMs = 200;
const closingMs = 2000;

/**
 * The catalog on disk, so that a restart need not start every server. A server may have made its lists from a tenant's
 * files: the file lies in the data directory, which only its owner can read, and each list is given to its owner only.
 * Several processes may use one data directory. Each adds and removes what it means to, and so brings nothing back that
 * another has removed.
 */
export function catalogFile(path: string): CatalogFile {
  let queued: CatalogUpdate[] = [];
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();
  let isClosed = false;

  function load(): Map<string, CachedOffer> {
    try {
      keepPrivate(path);
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
      // A catalog that cannot be kept is asked for again. One that may hold what had to go is none.
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
      // A lock that a killed process left behind must not hold up the end. What is not removed now is at the next start.
      return within(writing, closingMs).catch(() => {});
    },
  };
}

/** The youngest, as many as there is room for. */
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
