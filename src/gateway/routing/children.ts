import { randomUUID } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import { type Message, readMessage } from '../../protocol/message.ts';
import type { Session } from '../../sessions/session.ts';
import { placeOf } from '../../sessions/session-views.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import { ownCall } from '../../upstreams/links/bridge/ask-upstream.ts';
import type { Caller, Callers } from '../../upstreams/links/caller.ts';
import type { Link } from '../../upstreams/links/link.ts';
import type { Links } from '../../upstreams/links/links.ts';
import { allServers } from './for-all.ts';
import { quietLink } from './quiet-link.ts';

/** A handshake-era client of all servers: behind it, a client of each server it has used. */
export interface Composite extends Link {
  readonly initialize: Message;
  /** On behalf of the session as it is at this call; since the handshake it may have been narrowed. */
  child(parent: Caller, server: ServerDefinition, session: Session): Promise<Caller>;
  readonly children: ReadonlyMap<string, Promise<Caller>>;
  /** The level the client asked for, told to servers as they come. */
  logLevel: string | undefined;
}

export function createComposite(opener: Session, initialize: Message, links: Links, callers: Callers): Composite {
  const children = new Map<string, Promise<Caller>>();
  const { id: sessionId, workspaceId } = opener;
  const quiet = quietLink({ sessionId, place: placeOf(opener), server: allServers, era: 'handshake' });

  async function open(parent: Caller, server: ServerDefinition, session: Session): Promise<Caller> {
    const acting = { session, correlationId: randomUUID() };
    const call = { ...ownCall('initialize', '{}'), acting, message: initialize, cancelOnGone: false };
    const { link, version, reply } = await links.handshake(session, server, call);
    if (version === undefined) {
      const words = reply.kind === 'message' ? reply.bytes.toString().slice(0, 200) : '';
      throw new AmbitError('UPSTREAM_FAILED', { what: `The server "${server.name}" refused the handshake: ${words}` });
    }
    const child = callers.open({ sessionId, workspaceId, server: server.name, version, link, initialize, parent });
    const initialized = readMessage(Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}'));
    link.notify({ ...call, message: initialized, caller: child });
    if (child.stream !== undefined) link.listen(child);
    if (composite.logLevel !== undefined) {
      const level = ownCall('logging/setLevel', JSON.stringify({ level: composite.logLevel }));
      await link.request({ ...level, caller: child, cancelOnGone: false }).catch(() => {});
    }
    return child;
  }

  const composite: Composite = {
    ...quiet,
    initialize,
    children,
    logLevel: undefined,
    child(parent, server, session) {
      const known = children.get(server.name);
      if (known !== undefined) {
        return known.then((child) => {
          if (!links.isRetired(child.link, sessionId)) return child;
          // The server was described anew: the client is introduced to what there is now, once.
          if (children.get(server.name) === known) {
            children.delete(server.name);
            callers.forget(child);
          }
          return composite.child(parent, server, session);
        });
      }
      const opening = open(parent, server, session);
      children.set(server.name, opening);
      opening.catch(() => {
        // A server that failed once may work the next time.
        if (children.get(server.name) === opening) children.delete(server.name);
      });
      return opening;
    },
    detach(caller) {
      quiet.detach(caller);
      for (const child of children.values()) child.then(callers.end, () => {});
      children.clear();
    },
    listen() {
      for (const child of children.values())
        child.then(
          (each) => each.link.listen(each),
          () => {},
        );
    },
  };
  return composite;
}
