import type { IncomingMessage, ServerResponse } from 'node:http';
import { blankEntry } from '../../gateway/exchange.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { modernVersion } from '../../wire/versions.ts';
import { createAnswer } from './answer.ts';
import { credentialOf } from './credential.ts';
import { fault, finish } from './post.ts';

/** GET and DELETE /mcp/{server}: the handshake era's stream and goodbye. The modern era has neither. */
export async function serveVisit(
  gateway: Gateway,
  server: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  request.resume();
  const answer = createAnswer(request, response, gateway.metrics.httpRefused);
  const transportId = request.headers['mcp-session-id'];
  const version = request.headers['mcp-protocol-version'];
  if (typeof transportId !== 'string' || version === modernVersion) {
    fault(answer, 405, 'null', -32000, 'Method not allowed: this needs a transport session', { allow: 'POST' });
    return;
  }
  const intent = request.method === 'GET' ? 'stream' : 'goodbye';
  if (intent === 'stream' && answer.channel.isGone()) {
    fault(answer, 406, 'null', -32000, 'Not Acceptable: the client must accept text/event-stream');
    return;
  }
  const visited = await gateway.visit({
    entrance: 'http',
    era: 'handshake',
    server,
    credential: credentialOf(request),
    transportId,
    entry: blankEntry(),
    intent,
    channel: answer.channel,
  });
  if (visited.kind === 'refused') {
    finish(gateway, server, request, answer, { ...visited, kind: 'message' });
  } else if (visited.kind === 'gone') answer.empty(200);
  else answer.stream();
}
