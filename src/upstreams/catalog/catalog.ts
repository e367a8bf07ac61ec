import { createHash } from 'node:crypto';
import { isAmbitError } from '../../errors.ts';
import { within } from '../../within.ts';
import type { ServerDefinition } from '../definition.ts';
import type { CatalogFile, KeptOffer } from './catalog-file.ts';
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
export type Vet = (
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
   * own from then on, in the place it stands: another session's process may not have changed.
   */
  changed(server: string, place?: string): void;
  /** The session has ended, and with it what was its own. */
  forget(sessionId: string): void;
  /** Forgets the lists of owners that are gone: users that were removed, workspaces that are no longer configured. */
  forgetOwners(isGone: (owner: ListOwner) => boolean): void;
  /** The server is another now, or gone: nothing that was known of it holds. */
  describedAnew(server: string): void;
  /**
   * Returns how to stop listening. `byOurselves` is a change that the server has not announced itself: it is described
   * anew, or an answer came after the list it was meant for.
   */
  onChange(listener: (server: string, byOurselves: boolean) => void): () => void;
}

/** A server that is being asked. */
interface Asking {
  readonly offer: Promise<Offer>;
  readonly owner: ListOwner;
  isAbandoned: boolean;
}

const freshMs = 5 * 60_000;
/** An answer must go out within 10 s, whatever one server does. */
const deadlineMs = 5000;
/** A server that failed is asked again after a while, so that the lists of the others do not wait for it each time. */
const failureMs = 15_000;

/** Lists are as many as there are owners, and as long as servers make them. */
const mostOffers = 2000;
const mostCharacters = 32 * 1024 * 1024;

/** A login that is wanted comes with the link for whoever asked: nobody else may be given that. */
function isForOneUser(error: unknown): boolean {
  return isAmbitError(error) && error.code === 'LOGIN_REQUIRED';
}

export function createCatalog(file: Pick<CatalogFile, 'load' | 'save'>, vet: Vet): Catalog {
  const offers = file.load();
  let characters = [...offers.values()].reduce((sum, { offer }) => sum + sizeOf(offer), 0);
  /** Keys whose offer is out of date, each with a number of its own. */
  const stale = new Map<string, number>();
  let changes = 0;
  /** The servers whose lists are a session's own, by place. */
  const own = new Map<string, Set<string>>();
  const asking = new Map<string, Asking>();
  const failed = new Map<string, { readonly error: Error; readonly until: number }>();
  const listeners = new Set<(server: string, byOurselves: boolean) => void>();

  function drop(key: string): void {
    const known = offers.get(key);
    if (known === undefined) return;
    offers.delete(key);
    characters -= sizeOf(known.offer);
  }

  /** Those that were fetched longest ago go first. */
  function keep(key: string, kept: KeptOffer): void {
    drop(key);
    offers.set(key, kept);
    characters += sizeOf(kept.offer);
    for (const oldest of offers.keys()) {
      if (oldest === key || (offers.size <= mostOffers && characters <= mostCharacters)) break;
      drop(oldest);
    }
    save();
  }

  /** What is one session's own is not written down. */
  function save(): void {
    file.save(new Map([...offers].filter(([key, { owner }]) => key.split(' ').length === 2 && !owner.sessionId)));
  }

  /** An answer that is still under way is not kept either. */
  function dropWhere(fits: (key: string, kept: Pick<KeptOffer, 'owner'>) => boolean): void {
    for (const [key, asked] of asking) if (fits(key, asked)) asked.isAbandoned = true;
    const found = [...offers].filter(([key, kept]) => fits(key, kept)).map(([key]) => key);
    for (const key of found) {
      drop(key);
      stale.delete(key);
    }
    if (found.length > 0) save();
  }

  function refresh(key: string, owner: ListOwner, ask: AskServer): Promise<Offer> {
    const running = asking.get(key);
    if (running !== undefined) return running.offer;
    const change = stale.get(key);
    const fetching: Promise<Offer> = fetchOffer(ask)
      .then((offer) => {
        failed.delete(key);
        const [name = '', , place] = key.split(' ');
        // Its session may have gone while the server was asked: nobody would forget it then.
        if (place !== undefined && !isOwn(place, name)) return offer;
        if (asked.isAbandoned) return offer;
        keep(key, { offer, owner });
        // A change announced meanwhile may not be in the answer.
        if (stale.get(key) === change) stale.delete(key);
        return offer;
      })
      .finally(() => asking.delete(key));
    const asked: Asking = { offer: fetching, owner, isAbandoned: false };
    asking.set(key, asked);
    fetching.catch(() => {});
    return fetching;
  }

  function noteFailure(key: string, error: Error): void {
    failed.delete(key);
    failed.set(key, { error, until: Date.now() + failureMs });
    for (const oldest of failed.keys()) {
      if (failed.size <= mostOffers) break;
      failed.delete(oldest);
    }
  }

  async function listed(server: ServerDefinition, offer: Offer): Promise<Listed> {
    const { tools, withheld } = await vet(server, offer);
    const shown = tools === offer.tools ? offer : { ...offer, tools };
    return { server, offer: shown, withheld, reason: undefined, failure: undefined };
  }

  async function missing(server: ServerDefinition, known: Offer | undefined, failure: Error): Promise<Listed> {
    if (known !== undefined) return listed(server, known);
    return { server, offer: undefined, withheld: [], reason: reasonOf(failure), failure };
  }

  function isOwn(place: string | undefined, server: string): boolean {
    return place !== undefined && own.get(place)?.has(server) === true;
  }

  function tell(server: string, byOurselves: boolean): void {
    for (const listener of [...listeners]) listener(server, byOurselves);
  }

  return {
    async look(server, { capabilities, owner, place, ask }) {
      const shared = keyOf(server, capabilities, owner);
      const key = isOwn(place, server.name) ? `${shared} ${place}` : shared;
      const known = offers.get(key)?.offer;
      if (known !== undefined && !stale.has(key)) {
        // Old news are told at once, and looked after meanwhile.
        if (Date.now() - known.at > freshMs) refresh(key, owner, ask).catch(() => {});
        return listed(server, known);
      }
      const failure = failed.get(key);
      if (failure !== undefined && Date.now() < failure.until) return missing(server, known, failure.error);
      const byAnother = asking.has(key);
      try {
        const refreshed = refresh(key, owner, ask).catch((error) => {
          if (byAnother && isForOneUser(error)) return fetchOffer(ask);
          throw error;
        });
        return await listed(server, await within(refreshed, deadlineMs));
      } catch (error) {
        if (isForOneUser(error)) return missing(server, known, error as Error);
        noteFailure(key, error as Error);
        asking.get(key)?.offer.then(
          () => tell(server.name, true),
          () => {},
        );
        return missing(server, known, error as Error);
      }
    },
    changed(server, place) {
      if (place !== undefined) own.set(place, (own.get(place) ?? new Set()).add(server));
      for (const key of [...offers.keys(), ...asking.keys()]) {
        const concerned = place === undefined || key.endsWith(` ${place}`);
        if (concerned && key.startsWith(`${server} `)) stale.set(key, ++changes);
      }
      for (const key of [...failed.keys()]) if (key.startsWith(`${server} `)) failed.delete(key);
      tell(server, false);
    },
    forget(sessionId) {
      const isOfSession = (place: string) => place === sessionId || place.startsWith(`${sessionId}/`);
      for (const place of [...own.keys()]) if (isOfSession(place)) own.delete(place);
      for (const known of [stale, failed]) {
        for (const key of [...known.keys()]) if (isOfSession(key.split(' ')[2] ?? '')) known.delete(key);
      }
      dropWhere((key, { owner }) => isOfSession(key.split(' ')[2] ?? '') || owner.sessionId === sessionId);
    },
    forgetOwners(isGone) {
      dropWhere((_, { owner }) => isGone(owner));
    },
    describedAnew(server) {
      for (const known of [stale, failed]) {
        for (const key of [...known.keys()]) if (key.startsWith(`${server} `)) known.delete(key);
      }
      dropWhere((key) => key.startsWith(`${server} `));
      tell(server, true);
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The key holds all that decides what a server says of itself, and whose it is. */
function keyOf(server: ServerDefinition, capabilities: string, owner: ListOwner): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([server.definitionHash, capabilities, owner.key]))
    .digest('hex');
  return `${server.name} ${hash}`;
}

function sizeOf({ tools, prompts, templates }: Offer): number {
  return [tools, prompts, templates].flat().reduce((sum, text) => sum + text.length, 0);
}
