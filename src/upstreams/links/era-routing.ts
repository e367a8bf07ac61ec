import type { FinalReply } from '../../protocol/channel.ts';
import { EraError } from '../../protocol/protocol-error.ts';
import type { Session } from '../../sessions/session.ts';
import type { ServerDefinition } from '../definition.ts';
import { type EraVerdicts, isRejection, rejectingStatuses } from './era-verdicts.ts';
import { refusedHandshakeError } from './handshake.ts';
import type { BaseLink, Link, UpstreamCall } from './link.ts';
import { type SpareProcess, SpareProcessError } from './stdio/link-process.ts';
import { NotMcpError } from './upstream-errors.ts';

interface EraRoutingOptions {
  readonly verdicts: EraVerdicts;
  /** Reads the session and the server as they are now; throws when the session may not use the server. */
  requireAccess(session: Session, server: string): { readonly session: Session; readonly server: ServerDefinition };
  getModernLink(session: Session, server: ServerDefinition, spare?: SpareProcess): Link;
  getBridgedLink(session: Session, server: ServerDefinition, call: UpstreamCall, spare?: SpareProcess): Link;
}

/** Sends the calls of modern clients to servers whose era may be unknown, or remembered wrongly. */
export function createEraRouting({ verdicts, requireAccess, getModernLink, getBridgedLink }: EraRoutingOptions) {
  /** Sends a modern call to a server that is modern or of unknown era, and over a bridge when it is not modern. */
  function requestDetectingEra(session: Session, server: ServerDefinition, call: UpstreamCall): Promise<FinalReply> {
    const link = getModernLink(session, server);
    // A process speaks one era from its start, and this one has proved to be modern.
    if (link.isReady?.() === true) return link.request(call);
    const onEraError = (error: unknown) => {
      // No call reaches a server before its era is known, so the call can be sent over the bridge.
      if (error instanceof EraError) return requestAsHandshake(session, server, call, spareOf(error));
      throw error;
    };
    if (server.kind === 'stdio') return link.request(call).catch(onEraError);
    return requestCheckingEra(link, server.name, call).catch(onEraError);
  }

  /**
   * Sends a modern call over HTTP, where a server may change its era at any time. If the server rejects the call as a
   * server of the handshake era does, its era is found out again. Throws an EraError if it is no longer modern.
   */
  async function requestCheckingEra(link: Link, server: string, call: UpstreamCall): Promise<FinalReply> {
    try {
      const reply = await link.request(call);
      if (reply.kind !== 'message' || !isRejection(reply.status ?? 200, reply.bytes)) return reply;
      if (!verdicts.forget(server)) return reply;
      await probeAgain(link);
      return reply;
    } catch (error) {
      const isRejected = error instanceof NotMcpError && rejectingStatuses.has(error.httpStatus);
      if (isRejected && verdicts.forget(server)) await probeAgain(link);
      throw error;
    }
  }

  /** Sends a modern call over a bridge, and to the modern link if the server refuses the handshake. */
  function requestAsHandshake(
    opener: Session,
    { name }: ServerDefinition,
    call: UpstreamCall,
    spare?: SpareProcess,
  ): Promise<FinalReply> {
    const { session, server } = requireAccess(opener, name);
    return getBridgedLink(session, server, call, spare)
      .request(call)
      .catch((error: unknown) => {
        if (error instanceof EraError) return requestAfterRefusal(session, server, call, spareOf(error));
        throw error;
      });
  }

  /** Sends a modern call to a server that has refused the handshake: it may be modern now. */
  async function requestAfterRefusal(
    opener: Session,
    { name }: ServerDefinition,
    call: UpstreamCall,
    spare: SpareProcess | undefined,
  ): Promise<FinalReply> {
    const { session, server } = requireAccess(opener, name);
    try {
      verdicts.set(name, 'modern', 'answer');
      return await getModernLink(session, server, spare).request(call);
    } catch (error) {
      throw error instanceof EraError ? refusedHandshakeError(undefined, server) : error;
    }
  }

  return { requestDetectingEra, requestAsHandshake };
}

/** Finds out the era again. A server that cannot be asked now leaves the question open. */
async function probeAgain(link: Link & Partial<Pick<BaseLink, 'ready'>>): Promise<void> {
  await link.ready?.().catch((error: unknown) => {
    if (error instanceof EraError) throw error;
  });
}

function spareOf(error: EraError): SpareProcess | undefined {
  return error instanceof SpareProcessError ? error.spare : undefined;
}
