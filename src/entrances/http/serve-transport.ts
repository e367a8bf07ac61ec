import type { IncomingMessage, ServerResponse } from 'node:http';
import { AmbitError } from '../../errors.ts';
import { emptyJournalDraft } from '../../gateway/exchange.ts';
import { composeError } from '../../protocol/compose-message.ts';
import { modernVersion } from '../../protocol/versions.ts';
import { getCredential } from './admit-caller.ts';
import { createAnswer } from './answer.ts';
import { type HttpParts, recordRefusal } from './http-parts.ts';
import { dropBody } from './read-body.ts';
import { refuseCaller, sendReply } from './serve-post.ts';

/** Serves GET and DELETE /mcp/{server}: the stream and the end of a handshake-era transport session. */
export async function serveTransport(
  { gateway, admitCaller, answers }: HttpParts,
  server: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const answer = createAnswer(request, response, gateway.metrics.httpRefused);
  const caller = await admitCaller(request, response);
  if (caller instanceof AmbitError) {
    refuseCaller(gateway, server, request, response, answer, caller);
    return;
  }
  answer.limitUnread(answers.open(caller.key));
  dropBody(request, response, caller.isStranger);
  const transportId = request.headers['mcp-session-id'];
  const version = request.headers['mcp-protocol-version'];
  const refuse = (status: number, message: string, headers?: Readonly<Record<string, string>>) => {
    recordRefusal(gateway, request, { event: 'method', status, code: '-32000', detail: message, ...caller.names });
    answer.finish(composeError('null', -32000, message), status, headers);
  };
  if (typeof transportId !== 'string' || version === modernVersion) {
    refuse(405, 'Method not allowed: this needs a transport session', { allow: 'POST' });
    return;
  }
  const intent = request.method === 'GET' ? 'stream' : 'goodbye';
  if (intent === 'stream' && answer.channel.isGone()) {
    refuse(406, 'Not Acceptable: the client must accept text/event-stream');
    return;
  }
  const result = await gateway.handleTransport({
    entrance: 'http',
    era: 'handshake',
    server,
    credential: getCredential(request),
    transportId,
    entry: emptyJournalDraft(),
    intent,
    channel: answer.channel,
  });
  if (result.kind === 'refused') {
    sendReply(gateway, server, request, answer, { ...result, kind: 'message' });
  } else if (result.kind === 'gone') answer.finishEmpty(200);
  else answer.startStream();
}
