import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { within } from '../../lib/async/timeout.ts';
import { withLock } from '../../lib/fs/file-lock.ts';
import { keepPrivate } from '../../lib/fs/private-files.ts';
import type { ListOwner } from './list-owner.ts';
import type { Offer } from './offer.ts';

export interface KeptOffer {
  readonly offer: Offer;
  readonly owner: ListOwner;
}

/** Says which offers are meant. */
export type Fits = (key: string, owner: ListOwner) => boolean;

export interface CatalogFile {
  load(): Map<string, KeptOffer>;
  put(key: string, kept: KeptOffer): void;
  /** Also of those that other processes have put there. */
  remove(fits: Fits): void;
  /** Writes what is still unwritten; from then on nothing is. */
  close(): Promise<void>;
}

/** True where it changed anything. */
type Change = (offers: Map<string, KeptOffer>) => boolean;

const mostOffers = 500;
/** Each change reads and writes the whole file, so long lists are asked for again after a restart instead. */
const longestOffer = 1024 * 1024;
const mostCharacters = 16 * 1024 * 1024;
/** Characters of up to three bytes each. */
const mostBytes = 3 * mostCharacters;
/** Nobody says when a user of an identity provider is gone. */
const longestMs = 7 * 24 * 3_600_000;
const gatherMs = 200;
const closingMs = 2000;

/**
 * The catalog on disk, so that a restart need not start every server. A server may have made its lists from a tenant's
 * files: the file lies in the data directory, which only its owner can read, and each list is given to its owner only.
 * Several processes may use one data directory. Each adds and removes what it means to, and so brings nothing back that
 * another has removed.
 */
export function catalogFile(path: string): CatalogFile {
  let changes: Change[] = [];
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();
  let closed = false;

  function load(): Map<string, KeptOffer> {
    try {
      keepPrivate(path);
      if (statSync(path).size > mostBytes) return new Map();
      const kept = JSON.parse(readFileSync(path, 'utf8')) as [string, Partial<KeptOffer> | null][];
      return new Map(kept.filter((entry): entry is [string, KeptOffer] => isKeptOffer(entry[1])));
    } catch {
      return new Map();
    }
  }

  function change(): void {
    const meant = changes;
    changes = [];
    const offers = load();
    const changed = meant.map((each) => each(offers));
    if (!changed.includes(true)) return;
    const beside = `${path}.${process.pid}.tmp`;
    try {
      rmSync(beside, { force: true });
      writeFileSync(beside, textOf(offers), { flag: 'wx', mode: 0o600 });
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
    if (changes.length > 0) writing = writing.then(() => withLock(path, change)).catch(() => {});
  }

  function note(meant: Change): void {
    if (closed) return;
    changes.push(meant);
    timer ??= setTimeout(write, gatherMs).unref();
  }

  return {
    load,
    put: (key, kept) =>
      note((offers) => {
        const wasThere = offers.delete(key);
        if (JSON.stringify(kept).length > longestOffer) return wasThere;
        offers.set(key, kept);
        return true;
      }),
    remove: (fits) =>
      note((offers) => {
        const found = [...offers].filter(([key, { owner }]) => fits(key, owner));
        for (const [key] of found) offers.delete(key);
        return found.length > 0;
      }),
    close() {
      closed = true;
      write();
      // A lock that a killed process left behind must not hold up the end. What is not removed now is at the next start.
      return within(writing, closingMs).catch(() => {});
    },
  };
}

/** The youngest, as many as there is room for. */
function textOf(offers: ReadonlyMap<string, KeptOffer>): string {
  const texts: string[] = [];
  let characters = 0;
  for (const entry of [...offers].slice(-mostOffers).reverse()) {
    const text = JSON.stringify(entry);
    characters += text.length + 1;
    if (characters > mostCharacters) break;
    texts.push(text);
  }
  return `[${texts.reverse().join(',')}]`;
}

function isKeptOffer(kept: Partial<KeptOffer> | null | undefined): boolean {
  const offer = kept?.offer as Partial<Offer> | undefined;
  const lists = [offer?.tools, offer?.prompts, offer?.templates];
  const isOffer =
    typeof offer?.at === 'number' && Date.now() - offer.at < longestMs && lists.every((list) => Array.isArray(list));
  return isOffer && typeof kept?.owner?.key === 'string' && typeof kept.owner.userId === 'string';
}
