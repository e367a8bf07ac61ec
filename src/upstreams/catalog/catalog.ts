import { createHash } from 'node:crypto';
import { isAmbitError } from '../../errors.ts';
import { within } from '../../within.ts';
import type { ServerDefinition } from '../definition.ts';
import type { CatalogFile } from './catalog-file.ts';
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

export interface Catalog {
  /** What a server offers to clients with these capabilities; asked at most once however many want to know. */
  look(server: ServerDefinition, capabilities: string, ask: AskServer, place?: string): Promise<Listed>;
  /**
   * The server said that its lists have changed. Where a session's own process says so, the lists are that session's
   * own from then on, in the place it stands: another session's process may not have changed.
   */
  changed(server: string, place?: string): void;
  /** The session has ended, and with it what was its own. */
  forget(sessionId: string): void;
  /** The server is another now, or gone: nothing that was known of it holds. */
  describedAnew(server: string): void;
  /**
   * Returns how to stop listening. `byOurselves` is a change that the server has not announced itself: it is described
   * anew, or an answer came after the list it was meant for.
   */
  onChange(listener: (server: string, byOurselves: boolean) => void): () => void;
}

const freshMs = 5 * 60_000;
/** An answer must go out within 10 s, whatever one server does. */
const deadlineMs = 5000;
/** A server that failed is asked again after a while, so that the lists of the others do not wait for it each time. */
const failureMs = 15_000;

/** A login that is wanted comes with the link for whoever asked: nobody else may be given that. */
function isForOneUser(error: unknown): boolean {
  return isAmbitError(error) && error.code === 'LOGIN_REQUIRED';
}

export function createCatalog(file: Pick<CatalogFile, 'load' | 'save'>, vet: Vet): Catalog {
  const offers = file.load();
  /** Keys whose offer is out of date, each with a number of its own. */
  const stale = new Map<string, number>();
  let changes = 0;
  /** The servers whose lists are a session's own, by place. */
  const own = new Map<string, Set<string>>();
  const asking = new Map<string, Promise<Offer>>();
  const failed = new Map<string, { readonly error: Error; readonly until: number }>();
  const listeners = new Set<(server: string, byOurselves: boolean) => void>();

  function refresh(key: string, ask: AskServer): Promise<Offer> {
    const running = asking.get(key);
    if (running !== undefined) return running;
    const change = stale.get(key);
    const fetching = fetchOffer(ask)
      .then((offer) => {
        failed.delete(key);
        const [name = '', , place] = key.split(' ');
        // Its session may have gone while the server was asked: nobody would forget it then.
        if (place !== undefined && !isOwn(place, name)) return offer;
        offers.set(key, offer);
        // A change announced meanwhile may not be in the answer.
        if (stale.get(key) === change) stale.delete(key);
        file.save(new Map([...offers].filter(([each]) => each.split(' ').length === 2)));
        return offer;
      })
      .finally(() => asking.delete(key));
    asking.set(key, fetching);
    fetching.catch(() => {});
    return fetching;
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
    async look(server, capabilities, ask, place) {
      const shared = keyOf(server, capabilities);
      const key = isOwn(place, server.name) ? `${shared} ${place}` : shared;
      const known = offers.get(key);
      if (known !== undefined && !stale.has(key)) {
        // Old news are told at once, and looked after meanwhile.
        if (Date.now() - known.at > freshMs) refresh(key, ask).catch(() => {});
        return listed(server, known);
      }
      const failure = failed.get(key);
      if (failure !== undefined && Date.now() < failure.until) return missing(server, known, failure.error);
      const byAnother = asking.has(key);
      try {
        const refreshed = refresh(key, ask).catch((error) => {
          if (byAnother && isForOneUser(error)) return fetchOffer(ask);
          throw error;
        });
        return await listed(server, await within(refreshed, deadlineMs));
      } catch (error) {
        if (isForOneUser(error)) return missing(server, known, error as Error);
        failed.set(key, { error: error as Error, until: Date.now() + failureMs });
        asking.get(key)?.then(
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
      for (const known of [offers, stale, failed]) {
        for (const key of [...known.keys()]) if (isOfSession(key.split(' ')[2] ?? '')) known.delete(key);
      }
    },
    describedAnew(server) {
      for (const known of [offers, stale, failed]) {
        for (const key of [...known.keys()]) if (key.startsWith(`${server} `)) known.delete(key);
      }
      tell(server, true);
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Offers are shared by all sessions, so the key holds all that decides what a server says of itself. */
function keyOf(server: ServerDefinition, capabilities: string): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([server.definitionHash, capabilities]))
    .digest('hex');
  return `${server.name} ${hash}`;
}
