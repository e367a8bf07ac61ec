import { createHash } from 'node:crypto';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { within } from '../../lib/async/within.ts';
import type { ServerDefinition } from '../definition.ts';
import type { CachedOffer, CatalogFile, OfferFilter } from './catalog-file.ts';
import type { ListOwner } from './list-owner.ts';
import { type AskServer, fetchOffer, type Offer, reasonOf } from './offer.ts';

export interface Listed {
  readonly server: ServerDefinition;
  readonly offer: Offer | undefined;
  /** Tools that exist but may not be shown or called. */
  readonly withheld: readonly string[];
  /** Why there is no offer. */
  readonly reason: string | undefined;
  readonly failure: Error | undefined;
}

/** Which of a server's tools may be shown. */
export type PinnedToolFilter = (
  server: ServerDefinition,
  offer: Offer,
) => Promise<{ readonly tools: readonly string[]; readonly withheld: readonly string[] }>;

/** On whose behalf a server is asked what it offers. */
export interface Looking {
  /** How the client described itself. */
  readonly capabilities: string;
  readonly owner: ListOwner;
  /** The session, where it stands. */
  readonly place?: string;
  readonly ask: AskServer;
}

export interface Catalog {
  /** What a server offers; asked at most once however many of one owner want to know. */
  look(server: ServerDefinition, looking: Looking): Promise<Listed>;
  /**
   * The server said that its lists have changed. Where a session's own process says so, the lists are that session's
   * own from then on, in the place it stands: another session's process may not have changed. Where several sessions
   * share the process, it speaks for the owners of their lists, and for no others.
   */
  changed(server: string, speaker: ChangeScope): void;
  /** The session has ended, and with it what was its own. */
  forget(sessionId: string): void;
  /** Forgets the lists of owners that are gone: users that were removed, workspaces that are no longer configured. */
  forgetOwners(isGone: (owner: ListOwner, server: string) => boolean): void;
  /** Whose lists are kept. */
  owners(): ListOwner[];
  /** The server is another now, or gone: nothing that was known of it holds. */
  describedAnew(server: string): void;
  /** Returns how to stop listening. */
  onChange(listener: (change: ListChange) => void): () => void;
}

/** For whom a process speaks: for one session, where it stands; or for the owners with these keys. */
export type ChangeScope = { readonly place: string } | { readonly owners: ReadonlySet<string> };

export interface ListChange {
  readonly server: string;
  /** The server has not announced it itself: it is described anew, or an answer came after the list it was meant for. */
  readonly byOurselves: boolean;
  /** Nobody else may hear of it. */
  concerns(owner: ListOwner, place: string): boolean;
}

/** A server that is being asked. */
interface OfferRequest {
  readonly offer: Promise<Offer>;
  readonly owner: ListOwner;
  /** The session that asks, where it stands. */
  readonly place: string | undefined;
  isAbandoned: boolean;
}

interface ListFailure {
  readonly error: Error;
  readonly until: number;
  readonly owner: ListOwner;
  readonly place: string | undefined;
}

const freshMs = 5 * 60_000;
/** An answer must go out within 10 s, whatever one server does. */
const deadlineMs = 5000;
/** A server that failed is asked again after a while, so that the lists of the others do not wait for it each time. */
const failureMs = 15_000;

/** Lists are as many as there are owners, and as long as servers make them. */
const maxOffers = 2000;
const maxCharacters = 32 * 1024 * 1024;

/** A login that is wanted comes with the link for whoever asked: nobody else may be given that. */
function isLoginRequired(error: unknown): boolean {
  return isAmbitError(error) && error.code === 'LOGIN_REQUIRED';
}

/** What a server says when it fails may be made of what one session told it, also where its lists are for everybody. */
function failureFor(place: string | undefined, owner: ListOwner, failure: Pick<ListFailure, 'error' | 'place'>): Error {
  if (owner.userId !== '' || failure.place === place) return failure.error;
  return new AmbitError('UPSTREAM_FAILED', { what: 'The server could not be asked what it offers.' });
}

export function createCatalog(file: Omit<CatalogFile, 'close'>, filterPinned: PinnedToolFilter): Catalog {
  const offers = file.load();
  let characters = [...offers.values()].reduce((sum, { offer }) => sum + countCharacters(offer), 0);
  /** Keys whose offer is out of date, each with a number of its own. */
  const stale = new Map<string, number>();
  let changes = 0;
  /** The servers whose lists are a session's own, by place. */
  const ownLists = new Map<string, Set<string>>();
  const requests = new Map<string, OfferRequest>();
  const failures = new Map<string, ListFailure>();
  const listeners = new Set<(change: ListChange) => void>();

  function dropOffer(key: string): void {
    const known = offers.get(key);
    if (known === undefined) return;
    offers.delete(key);
    characters -= countCharacters(known.offer);
  }

  /** Those that were fetched longest ago go first. */
  function storeOffer(key: string, kept: CachedOffer): void {
    dropOffer(key);
    offers.set(key, kept);
    characters += countCharacters(kept.offer);
    for (const oldest of offers.keys()) {
      if (oldest === key || (offers.size <= maxOffers && characters <= maxCharacters)) break;
      dropOffer(oldest);
    }
    if (isPersisted(key, kept.owner)) file.put(key, kept);
  }

  /** An answer that is still under way is not kept either. */
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

  function refreshOffer(key: string, { owner, place, ask }: Looking): Promise<Offer> {
    const running = requests.get(key);
    if (running !== undefined) return running.offer;
    const change = stale.get(key);
    const fetching: Promise<Offer> = fetchOffer(ask)
      .then((offer) => {
        failures.delete(key);
        const [name = '', , of] = key.split(' ');
        // Its session may have gone while the server was asked: nobody would forget it then.
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
    const asked: OfferRequest = { offer: fetching, owner, place, isAbandoned: false };
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

  async function toListing(server: ServerDefinition, offer: Offer): Promise<Listed> {
    const { tools, withheld } = await filterPinned(server, offer);
    const shown = tools === offer.tools ? offer : { ...offer, tools };
    return { server, offer: shown, withheld, reason: undefined, failure: undefined };
  }

  async function toFailedListing(server: ServerDefinition, known: Offer | undefined, failure: Error): Promise<Listed> {
    if (known !== undefined) return toListing(server, known);
    return { server, offer: undefined, withheld: [], reason: reasonOf(failure), failure };
  }

  function hasOwnLists(place: string | undefined, server: string): boolean {
    return place !== undefined && ownLists.get(place)?.has(server) === true;
  }

  function notifyListeners(change: ListChange): void {
    for (const listener of [...listeners]) listener(change);
  }

  return {
    async look(server, looking) {
      const { capabilities, owner, place, ask } = looking;
      const shared = offerKey(server, capabilities, owner);
      const key = hasOwnLists(place, server.name) ? `${shared} ${place}` : shared;
      const known = offers.get(key)?.offer;
      if (known !== undefined && !stale.has(key)) {
        // Old news are told at once, and looked after meanwhile.
        if (Date.now() - known.at > freshMs) refreshOffer(key, looking).catch(() => {});
        return toListing(server, known);
      }
      const failure = failures.get(key);
      if (failure !== undefined && Date.now() < failure.until) {
        return toFailedListing(server, known, failureFor(place, owner, failure));
      }
      const byAnother = requests.get(key);
      try {
        const refreshed = refreshOffer(key, looking).catch((error) => {
          if (byAnother !== undefined && isLoginRequired(error)) return fetchOffer(ask);
          throw error;
        });
        return await toListing(server, await within(refreshed, deadlineMs));
      } catch (error) {
        if (isLoginRequired(error)) return toFailedListing(server, known, error as Error);
        const failing = { error: error as Error, place: byAnother === undefined ? place : byAnother.place };
        noteFailure(key, { ...failing, owner, until: Date.now() + failureMs });
        requests.get(key)?.offer.then(
          () => notifyListeners({ server: server.name, byOurselves: true, concerns: ({ key }) => key === owner.key }),
          () => {},
        );
        return toFailedListing(server, known, failureFor(place, owner, failing));
      }
    },
    changed(server, speaker) {
      const isOfOne = 'place' in speaker;
      if (isOfOne) ownLists.set(speaker.place, (ownLists.get(speaker.place) ?? new Set()).add(server));
      const isMeant = (key: string, owner: ListOwner) =>
        key.startsWith(`${server} `) && (isOfOne ? key.endsWith(` ${speaker.place}`) : speaker.owners.has(owner.key));
      for (const [key, { owner }] of [...offers, ...requests]) if (isMeant(key, owner)) stale.set(key, ++changes);
      for (const [key, { owner }] of [...failures]) if (isMeant(key, owner)) failures.delete(key);
      notifyListeners({
        server,
        byOurselves: false,
        concerns: (owner, place) => (isOfOne ? place === speaker.place : speaker.owners.has(owner.key)),
      });
    },
    forget(sessionId) {
      const isOfSession = (place: string) => place === sessionId || place.startsWith(`${sessionId}/`);
      for (const place of [...ownLists.keys()]) if (isOfSession(place)) ownLists.delete(place);
      for (const key of [...stale.keys()]) if (isOfSession(key.split(' ')[2] ?? '')) stale.delete(key);
      // None of it is in the file.
      forgetInMemory((key, owner) => isOfSession(key.split(' ')[2] ?? '') || owner.sessionId === sessionId);
    },
    forgetOwners(isGone) {
      forgetEverywhere((key, owner) => isGone(owner, key.split(' ')[0] ?? ''));
    },
    owners: () => [...offers.values(), ...requests.values(), ...failures.values()].map(({ owner }) => owner),
    describedAnew(server) {
      for (const key of [...stale.keys()]) if (key.startsWith(`${server} `)) stale.delete(key);
      forgetEverywhere((key) => key.startsWith(`${server} `));
      notifyListeners({ server, byOurselves: true, concerns: () => true });
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The key holds all that decides what a server says of itself, and whose it is. */
function offerKey(server: ServerDefinition, capabilities: string, owner: ListOwner): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([server.definitionHash, capabilities, owner.key]))
    .digest('hex');
  return `${server.name} ${hash}`;
}

/** What is one session's own is not written down, nor what may repeat a credential. */
function isPersisted(key: string, { sessionId, hasCredentials }: ListOwner): boolean {
  return key.split(' ').length === 2 && sessionId === undefined && hasCredentials === undefined;
}

function countCharacters({ tools, prompts, templates }: Offer): number {
  return [tools, prompts, templates].flat().reduce((sum, text) => sum + text.length, 0);
}
