import type { Governance } from '../../context/for-models/governance.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { createSessions } from '../../sessions/sessions.ts';
import { openMemoryStore } from '../../stores/memory/memory-store.ts';
import type { SessionStore } from '../../stores/store.ts';
import { aloneOnStdio, type StdioSessions } from './alone-on-stdio.ts';
import type { House } from './entrance.ts';
import { createListeners, type Listeners } from './listeners.ts';
import { createNamedSessions } from './named-session.ts';
import type { ServerSessionsOptions } from './options.ts';
import { ownGovernance } from './own-governance.ts';
import { type OwnTools, ownTools } from './own-tools.ts';
import type { Settings } from './settings.ts';
import { type EndReason, factsOf, type SessionFacts } from './shown-session.ts';
import { createUnderWay, type UnderWay } from './under-way.ts';

export interface OpenHouse extends House {
  readonly stdio: StdioSessions;
  readonly underWay: UnderWay;
  readonly tools: OwnTools | undefined;
  readonly governance: Governance | undefined;
  close(): Promise<void>;
}

export interface SessionEvents {
  readonly opened: Listeners<[SessionFacts]>;
  readonly ended: Listeners<[SessionFacts, EndReason]>;
  readonly restricted: Listeners<[SessionFacts]>;
}

export function createEvents(): SessionEvents {
  return { opened: createListeners(), ended: createListeners(), restricted: createListeners() };
}

/** Everything that lives as long as the layer does. */
export async function openHouse(
  options: ServerSessionsOptions,
  settings: Settings,
  events: SessionEvents,
): Promise<OpenHouse> {
  const store = await storeOf(options, settings);
  const quotas = options.quotas ?? {};
  const now = options.context?.now;
  const sessions = createSessions({ store, bounds: settings.bounds, quotas: () => quotas, ...(now && { now }) });
  const underWay = createUnderWay();
  sessions.onOpened((session) => events.opened.tell(factsOf(session)));
  sessions.onRestricted((session) => events.restricted.tell(factsOf(session)));
  sessions.onEnded((session, reason) => {
    underWay.end(session.id, reason);
    if (reason !== 'unloaded') events.ended.tell(factsOf(session), reason);
  });
  const stdio = aloneOnStdio({ sessions, settings });
  const governance = options.governance === undefined ? undefined : ownGovernance(options.governance, store);
  return {
    settings,
    store,
    sessions,
    stdio,
    underWay,
    tools: options.tools === true ? ownTools({ sessions, store }, governance?.contextOf) : undefined,
    governance,
    named: createNamedSessions(sessions, store),
    principal: options.principal,
    async close() {
      await governance?.close();
      await stdio.close();
      await sessions.close();
      if (options.store === undefined) await store.close();
    },
  };
}

async function storeOf(options: ServerSessionsOptions, settings: Settings): Promise<SessionStore> {
  try {
    return (await options.store) ?? (await ownStore(settings.storeDir));
  } catch (cause) {
    throw isAmbitError(cause) ? cause : new AmbitError('STORE_UNAVAILABLE', { cause });
  }
}

async function ownStore(directory: string | undefined): Promise<SessionStore> {
  if (directory === undefined) return openMemoryStore();
  // Most servers need no other store: its drivers are loaded where they are used.
  const { openStore } = await import('../../stores/open-store.ts');
  return openStore({ kind: 'sqlite' }, directory);
}
