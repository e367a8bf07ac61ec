import { type Message, MessageError, readMessage } from '../../../protocol/message.ts';
import { type EraVerdicts, setVerdict } from '../era-verdicts.ts';
import { discoverParams, unsupportedModernError } from '../handshake.ts';
import { readAnswer } from './read-answer.ts';
import type { HttpDialect } from './send-call.ts';
import { addToken, modernHeaders, type Remote, sendRequest } from './send-request.ts';

/** Creates the dialect of MCP 2026-07-28. Only the era of the upstream is remembered between requests. */
export function createModernDialect(server: Remote, verdicts: EraVerdicts, maxBytes: number): HttpDialect {
  let probing: Promise<void> | undefined;
  return {
    era: 'modern',
    async prepare() {
      if (verdicts.getCertain(server.name) === 'modern') return;
      if (verdicts.get(server.name) !== 'handshake') {
        probing ??= probeEra(server, verdicts, maxBytes).finally(() => {
          probing = undefined;
        });
        await probing;
      }
      if (verdicts.get(server.name) === 'handshake') throw unsupportedModernError();
    },
    headers: modernHeaders,
    inspect: async () => false,
    onCompleted() {},
    streamHeaders: () => ({}),
    openEventStream() {},
    close() {},
  };
}

/** Asks which era the upstream speaks. A refused connection says nothing about it and fails the call. */
async function probeEra(server: Remote, verdicts: EraVerdicts, maxBytes: number): Promise<void> {
  const { params, token } = server.attacher.attachToParams('server/discover', discoverParams);
  const body = Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":${params}}`);
  const question = readMessage(body);
  const headers = addToken(modernHeaders(question, { name: '', taskId: undefined }, {}), token);
  const response = await sendRequest(server, 'POST', headers, body, server.timeoutMs).response;
  const status = response.statusCode ?? 0;
  let answer: Message | undefined;
  try {
    await readAnswer(response, {
      server: server.name,
      maxBytes,
      onMessage(message) {
        answer = message;
        return message.kind === 'response';
      },
    });
  } catch (error) {
    if (error instanceof MessageError || !response.complete) throw error;
  }
  setVerdict(verdicts, server.name, answer, isDoubtful(status, answer) ? 'answer' : undefined);
}

/** True for an answer that says little about the server: a login page, or one of an overloaded proxy. */
function isDoubtful(status: number, answer: Message | undefined): boolean {
  if (status >= 500 || [401, 403, 407, 408, 425, 429].includes(status)) return true;
  return answer === undefined && (status < 400 || status === 404 || status === 410);
}
