import type { IncomingMessage, ServerResponse } from 'node:http';
import { AmbitError } from '../../errors.ts';
import { emptyJournalDraft } from '../../gateway/exchange.ts';
import type { TransportRequest } from '../../gateway/stages/handle-transport.ts';
import { composeError } from '../../protocol/compose-message.ts';
import { modernVersion } from '../../protocol/versions.ts';
import { getCredential } from './admit-caller.ts';
import { createAnswer } from './answer.ts';
import { type HttpParts, recordRefusal } from './http-parts.ts';
import { dropBody } from './read-body.ts';
import { isStandingEventId } from './resumable-streams.ts';
import { refuseCaller, sendReply } from './serve-post.ts';

/** Serves GET and DELETE /mcp/{server}: the stream and the end of a handshake-era transport session. */
export async function serveTransport(
  parts: HttpParts,
  server: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { gateway, admitCaller, answers, streams } = parts;
  const answer = createAnswer(request, response, parts);
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
  const isGet = request.method === 'GET';
  const lastEventId = isGet ? readLastEventId(request) : undefined;
  const resumed = lastEventId === undefined ? undefined : streams.find(lastEventId);
  // A client whose standing stream is no longer known gets a new one. A request's stream cannot begin again.
  const resumes = resumed !== undefined || (lastEventId !== undefined && !isStandingEventId(lastEventId));
  const intent = isGet ? (resumes ? 'resume' : 'stream') : 'goodbye';
  if (isGet && answer.channel.isGone()) {
    refuse(406, 'Not Acceptable: the client must accept text/event-stream');
    return;
  }
  const arrived: TransportRequest = {
    entrance: 'http',
    era: 'handshake',
    server,
    credential: getCredential(request),
    transportId,
    entry: emptyJournalDraft(),
    intent,
    channel: answer.channel,
  };
  if (intent === 'stream') answer.waitFor(arrived);
  const result = await gateway.handleTransport(arrived);
  if (result.kind === 'refused') sendReply(gateway, server, request, answer, { ...result, kind: 'message' });
  else if (result.kind === 'gone') answer.finishEmpty(200);
  else if (result.kind === 'streaming') answer.startStream();
  else if (result.kind === 'resuming') {
    if (resumed?.stream.belongsTo(result) !== true) {
      refuse(400, 'Bad Request: the stream of this Last-Event-ID is not available; the request may have had an effect');
      return;
    }
    answer.startStream();
    resumed.stream.continueOn(answer, resumed.after);
  }
}

function readLastEventId({ headers }: IncomingMessage): string | undefined {
  const value = headers['last-event-id'];
  return Array.isArray(value) ? value.join(', ') : value;
}
