import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { keepPrivate } from '../../private-files.ts';
import type { ListOwner } from './list-owner.ts';
import type { Offer } from './offer.ts';

export interface KeptOffer {
  readonly offer: Offer;
  readonly owner: ListOwner;
}

export interface CatalogFile {
  load(): Map<string, KeptOffer>;
  save(offers: ReadonlyMap<string, KeptOffer>): void;
  /** Writes what is still unwritten; from then on nothing is. */
  close(): void;
}

const mostOffers = 500;
/** Nobody says when a user of an identity provider is gone. */
const longestMs = 7 * 24 * 3_600_000;

/**
 * The catalog on disk, so that a restart need not start every server. A server may have made its lists from a tenant's
 * files: the file lies in the data directory, which only its owner can read, and each list is given to its owner only.
 */
export function catalogFile(path: string): CatalogFile {
  let unwritten: ReadonlyMap<string, KeptOffer> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  function write(): void {
    const offers = unwritten;
    unwritten = undefined;
    if (offers === undefined) return;
    // Several processes may use the same data directory.
    const beside = `${path}.${process.pid}.tmp`;
    try {
      rmSync(beside, { force: true });
      writeFileSync(beside, JSON.stringify([...offers].slice(-mostOffers)), { flag: 'wx', mode: 0o600 });
      renameSync(beside, path);
    } catch {
      // A catalog that cannot be kept is asked for again.
    }
  }

  return {
    load() {
      try {
        keepPrivate(path);
        const kept = JSON.parse(readFileSync(path, 'utf8')) as [string, Partial<KeptOffer> | null][];
        return new Map(kept.filter((entry): entry is [string, KeptOffer] => isKeptOffer(entry[1])));
      } catch {
        return new Map();
      }
    },
    save(offers) {
      if (closed) return;
      unwritten = offers;
      clearTimeout(timer);
      timer = setTimeout(write, 200).unref();
    },
    close() {
      closed = true;
      clearTimeout(timer);
      write();
    },
  };
}

function isKeptOffer(kept: Partial<KeptOffer> | null | undefined): boolean {
  const offer = kept?.offer as Partial<Offer> | undefined;
  const lists = [offer?.tools, offer?.prompts, offer?.templates];
  const isOffer =
    typeof offer?.at === 'number' && Date.now() - offer.at < longestMs && lists.every((list) => Array.isArray(list));
  return isOffer && typeof kept?.owner?.key === 'string' && typeof kept.owner.userId === 'string';
}
