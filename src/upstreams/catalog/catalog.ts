import { createHash } from 'node:crypto';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import type { Era } from '../../protocol/channel.ts';
import type { ServerDefinition } from '../definition.ts';
import { withoutServerWords } from '../links/upstream-errors.ts';
import type { CachedOffer, CatalogFile, ListOwner, OfferFilter } from './catalog-file.ts';
import { type AskServer, describeFailure, fetchOffer, type Offer, type OpenAskAs } from './offer.ts';

export interface ServerListing {
  readonly server: ServerDefinition;
  readonly offer: Offer | undefined;
  /** Tools that exist but may not be shown or called. */
  readonly withheld: readonly string[];
  /** The reason why there is no offer. */
  readonly reason: string | undefined;
  readonly failure: Error | undefined;
}

/** Selects the tools of a server that may be shown. */
export type PinnedToolFilter = (
  server: ServerDefinition,
  offer: Offer,
  query: Pick<CatalogQuery, 'capabilities' | 'askAs'> & Partial<Pick<CatalogQuery, 'owner'>>,
) => Promise<{ readonly tools: readonly string[]; readonly withheld: readonly string[] }>;

/** A question for the lists of a server, on behalf of one session. */
export interface CatalogQuery {
  /** The era of the client: a bridge to a server of the other era translates its lists. */
  readonly era: Era;
  readonly capabilities: string;
  readonly owner: ListOwner;
  /** The key of the session and its workspace. */
  readonly scopeKey?: string;
  readonly ask: AskServer;
  /** Asks as a client with other capabilities, whose tools are approved together with those of the first client. */
  readonly askAs?: OpenAskAs;
}

export interface Catalog {
  /** Lists what a server offers. The server is asked once, however many sessions of one owner ask together. */
  list(server: ServerDefinition, query: CatalogQuery): Promise<ServerListing>;
  /** Returns what a server offered when it was last asked, without asking it. */
  knownOffer(server: ServerDefinition, query: Omit<CatalogQuery, 'ask'>): Offer | undefined;
  /** Returns all stored lists of a server. Each belongs to its owner, so they are for operators only. */
  storedOffers(server: string): readonly CachedOffer[];
  /**
   * Marks the lists of a server as changed, after it said so. If the process belongs to one session, the lists are that
   * session's own from then on: the process of another session may not have changed. A shared process speaks for the
   * owners of its sessions' lists, and for no others.
   */
  markChanged(server: string, speaker: ChangeScope): void;
  /** Forgets the lists of a session that has ended. */
  forgetSession(sessionId: string): void;
  /** Forgets the lists of owners that are gone: users that were removed, workspaces that are no longer configured. */
  forgetOwners(isGone: (owner: ListOwner, server: string) => boolean): void;
  owners(): ListOwner[];
  /** Forgets all lists of a server that is gone or has a new definition. */
  invalidate(server: string): void;
  /** Adds a listener and returns the function that removes it. */
  onChange(listener: (change: ListChange) => void): () => void;
}

/** The lists that a change is about: those of one session in its workspace, or of the owners with these keys. */
type ChangeScope = { readonly scopeKey: string } | { readonly owners: ReadonlySet<string> };

interface ListChange {
  readonly server: string;
  /** True when the server did not announce the change: it has a new definition, or answered after its deadline. */
  readonly isOwnNotice: boolean;
  /** True for the sessions that may hear of the change; no others may. */
  concerns(owner: ListOwner, scopeKey: string): boolean;
}

/** A request for the lists of a server that has not been answered yet. */
interface OfferRequest {
  readonly offer: Promise<Offer>;
  readonly owner: ListOwner;
  /** The key of the session that asks and its workspace. */
  readonly scopeKey: string | undefined;
  isAbandoned: boolean;
}

interface ListFailure {
  readonly error: Error;
  readonly until: number;
  readonly owner: ListOwner;
  readonly scopeKey: string | undefined;
}

const freshMs = 5 * 60_000;
/** The time that one server gets. Claude Code gives up on a list of tools after 5 s, and the first start of a package takes longer. */
const deadlineMs = 4000;
/** The time before a failed server is asked again, so that the lists of the others do not wait for it each time. */
const failureMs = 15_000;

/** The number of lists grows with the owners, and their length is up to the servers. */
const maxOffers = 2000;
const maxCharacters = 32 * 1024 * 1024;

export function createCatalog(file: Omit<CatalogFile, 'close'>, filterPinned: PinnedToolFilter): Catalog {
  const { offers, dropOffer, storeOffer } = createOfferStore(file);
  /** The keys of outdated offers, each with the number of its change. */
  const stale = new Map<string, number>();
  let changes = 0;
  /** The servers whose lists belong to one session, by the key of that session. */
  const ownLists = new Map<string, Set<string>>();
  const requests = new Map<string, OfferRequest>();
  const failures = new Map<string, ListFailure>();
  const listeners = new Set<(change: ListChange) => void>();

  /** Forgets the offers that fit, and the answers to open requests for them. */
  function forgetInMemory(fits: OfferFilter): void {
    for (const [key, asked] of requests) if (fits(key, asked.owner)) asked.isAbandoned = true;
    for (const [key, { owner }] of [...failures]) if (fits(key, owner)) failures.delete(key);
    for (const [key, { owner }] of [...offers]) {
      if (!fits(key, owner)) continue;
      dropOffer(key);
      stale.delete(key);
    }
  }

  function forgetEverywhere(fits: OfferFilter): void {
    forgetInMemory(fits);
    file.remove(fits);
  }

  function refreshOffer(key: string, { era, owner, scopeKey, ask }: CatalogQuery): Promise<Offer> {
    const running = requests.get(key);
    if (running !== undefined) return running.offer;
    const change = stale.get(key);
    const fetching: Promise<Offer> = fetchOffer(ask, era)
      .then((offer) => {
        failures.delete(key);
        const [name = '', , of] = key.split(' ');
        // The session may have ended meanwhile. Nobody would forget its lists then.
        if (of !== undefined && !hasOwnLists(of, name)) return offer;
        if (asked.isAbandoned) {
          stale.delete(key);
          return offer;
        }
        storeOffer(key, { offer, owner });
        // A change announced meanwhile may not be in the answer.
        if (stale.get(key) === change) stale.delete(key);
        return offer;
      })
      .finally(() => requests.delete(key));
    const asked: OfferRequest = { offer: fetching, owner, scopeKey, isAbandoned: false };
    requests.set(key, asked);
    fetching.catch(() => {});
    return fetching;
  }

  function noteFailure(key: string, failure: ListFailure): void {
    failures.delete(key);
    failures.set(key, failure);
    for (const oldest of failures.keys()) {
      if (failures.size <= maxOffers) break;
      failures.delete(oldest);
    }
  }

  function hasOwnLists(scopeKey: string | undefined, server: string): boolean {
    return scopeKey !== undefined && ownLists.get(scopeKey)?.has(server) === true;
  }

  function notifyListeners(change: ListChange): void {
    for (const listener of [...listeners]) listener(change);
  }

  function findKey(server: ServerDefinition, query: Omit<CatalogQuery, 'ask'>): string {
    const shared = offerKey(server, query);
    return hasOwnLists(query.scopeKey, server.name) ? `${shared} ${query.scopeKey}` : shared;
  }

  return {
    knownOffer: (server, query) => offers.get(findKey(server, query))?.offer,
    storedOffers: (server) => selectOffers(offers, server),
    async list(server, query) {
      const { owner, scopeKey, ask } = query;
      const key = findKey(server, query);
      const known = offers.get(key)?.offer;
      if (known !== undefined && !stale.has(key)) {
        // An old list is returned at once and refreshed in the background.
        if (Date.now() - known.at > freshMs) refreshOffer(key, query).catch(() => {});
        return toListing(filterPinned, server, known, query);
      }
      const failure = failures.get(key);
      if (failure !== undefined && Date.now() < failure.until) {
        return toFailedListing(filterPinned, server, known, query, failureFor(scopeKey, owner, failure));
      }
      const byAnother = requests.get(key);
      try {
        const refreshed = refreshOffer(key, query).catch((error) => {
          if (byAnother !== undefined && isLoginRequired(error)) return fetchOffer(ask, query.era);
          throw error;
        });
        return await toListing(filterPinned, server, await withTimeout(refreshed, deadlineMs), query);
      } catch (error) {
        if (isLoginRequired(error)) return toFailedListing(filterPinned, server, known, query, error as Error);
        const failing = { error: error as Error, scopeKey: byAnother === undefined ? scopeKey : byAnother.scopeKey };
        noteFailure(key, { ...failing, owner, until: Date.now() + failureMs });
        requests.get(key)?.offer.then(
          () => notifyListeners({ server: server.name, isOwnNotice: true, concerns: ({ key }) => key === owner.key }),
          () => {},
        );
        return toFailedListing(filterPinned, server, known, query, failureFor(scopeKey, owner, failing));
      }
    },
    markChanged(server, speaker) {
      const isOfOne = 'scopeKey' in speaker;
      if (isOfOne) ownLists.set(speaker.scopeKey, (ownLists.get(speaker.scopeKey) ?? new Set()).add(server));
      const isMeant = (key: string, owner: ListOwner) =>
        key.startsWith(`${server} `) &&
        (isOfOne ? key.endsWith(` ${speaker.scopeKey}`) : speaker.owners.has(owner.key));
      for (const [key, { owner }] of [...offers, ...requests]) if (isMeant(key, owner)) stale.set(key, ++changes);
      for (const [key, { owner }] of [...failures]) if (isMeant(key, owner)) failures.delete(key);
      notifyListeners({
        server,
        isOwnNotice: false,
        concerns: (owner, scopeKey) => (isOfOne ? scopeKey === speaker.scopeKey : speaker.owners.has(owner.key)),
      });
    },
    forgetSession(sessionId) {
      const isOfSession = (scopeKey: string) => scopeKey === sessionId || scopeKey.startsWith(`${sessionId}/`);
      for (const scopeKey of [...ownLists.keys()]) if (isOfSession(scopeKey)) ownLists.delete(scopeKey);
      for (const key of [...stale.keys()]) if (isOfSession(key.split(' ')[2] ?? '')) stale.delete(key);
      // Lists of one session are never in the file.
      forgetInMemory((key, owner) => isOfSession(key.split(' ')[2] ?? '') || owner.sessionId === sessionId);
    },
    forgetOwners(isGone) {
      forgetEverywhere((key, owner) => isGone(owner, key.split(' ')[0] ?? ''));
    },
    owners: () => [...offers.values(), ...requests.values(), ...failures.values()].map(({ owner }) => owner),
    invalidate(server) {
      for (const key of [...stale.keys()]) if (key.startsWith(`${server} `)) stale.delete(key);
      forgetEverywhere((key) => key.startsWith(`${server} `));
      notifyListeners({ server, isOwnNotice: true, concerns: () => true });
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Selects the offers of one server. */
export function selectOffers(offers: ReadonlyMap<string, CachedOffer>, server: string): readonly CachedOffer[] {
  return [...offers].flatMap(([key, cached]) => (key.startsWith(`${server} `) ? [cached] : []));
}

/** Keeps the offers in memory and on disk, and drops those that were fetched longest ago when there are too many. */
function createOfferStore(file: Pick<CatalogFile, 'load' | 'put'>) {
  const offers = file.load();
  let characters = [...offers.values()].reduce((sum, { offer }) => sum + countCharacters(offer), 0);

  function dropOffer(key: string): void {
    const known = offers.get(key);
    if (known === undefined) return;
    offers.delete(key);
    characters -= countCharacters(known.offer);
  }

  function storeOffer(key: string, cached: CachedOffer): void {
    dropOffer(key);
    offers.set(key, cached);
    characters += countCharacters(cached.offer);
    for (const oldest of offers.keys()) {
      if (oldest === key || (offers.size <= maxOffers && characters <= maxCharacters)) break;
      dropOffer(oldest);
    }
    if (isPersisted(key, cached.owner)) file.put(key, cached);
  }

  return { offers: offers as ReadonlyMap<string, CachedOffer>, dropOffer, storeOffer };
}

async function toListing(
  filterPinned: PinnedToolFilter,
  server: ServerDefinition,
  offer: Offer,
  query: CatalogQuery,
): Promise<ServerListing> {
  const { tools, withheld } = await filterPinned(server, offer, query);
  const shown = tools === offer.tools ? offer : { ...offer, tools };
  return { server, offer: shown, withheld, reason: undefined, failure: undefined };
}

async function toFailedListing(
  filterPinned: PinnedToolFilter,
  server: ServerDefinition,
  known: Offer | undefined,
  query: CatalogQuery,
  failure: Error,
): Promise<ServerListing> {
  if (known !== undefined) return toListing(filterPinned, server, known, query);
  return { server, offer: undefined, withheld: [], reason: describeFailure(failure), failure };
}

/** True for an error that holds a login link for one user, which no other may get. */
function isLoginRequired(error: unknown): boolean {
  return isAmbitError(error) && error.code === 'LOGIN_REQUIRED';
}

/** Hides the error text from other sessions: a server may quote what one session told it, and so may its stderr. */
function failureFor(
  scopeKey: string | undefined,
  owner: ListOwner,
  failure: Pick<ListFailure, 'error' | 'scopeKey'>,
): Error {
  if (failure.scopeKey === scopeKey) return failure.error;
  if (owner.userId !== '') return withoutServerWords(failure.error);
  return new AmbitError('UPSTREAM_FAILED', { what: 'The server did not answer the request for its lists.' });
}

/** The key of an offer: the definition of the server, the era and capabilities of the client, and the owner. */
function offerKey(server: ServerDefinition, { era, capabilities, owner }: Omit<CatalogQuery, 'ask'>): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([server.definitionHash, era, capabilities, owner.key]))
    .digest('hex');
  return `${server.name} ${hash}`;
}

/** False for lists of one session, and for lists that may repeat a credential: those are not written to disk. */
function isPersisted(key: string, { sessionId, hasCredentials }: ListOwner): boolean {
  return key.split(' ').length === 2 && sessionId === undefined && hasCredentials === undefined;
}

function countCharacters({ tools, prompts, templates }: Offer): number {
  return [tools, prompts, templates].flat().reduce((sum, text) => sum + text.length, 0);
}
