import { AmbitError } from '../../../errors.ts';
import type { Channel } from '../../../protocol/channel.ts';
import { type JsonMember, readRawValue } from '../../../protocol/json/scan.ts';
import { type Message, readMessage, relatedTaskKey } from '../../../protocol/message.ts';
import type { ServerDefinition } from '../../definition.ts';
import { type Caller, maxPushes } from '../caller.ts';
import type { Link, OnServerMessage, UpstreamCall } from '../link.ts';
import { createPendingCalls } from '../relay/pending-calls.ts';
import { pushKinds } from '../relay/questions.ts';
import { type Binding, bindToSession } from '../relay/towards-upstream.ts';

interface QuestionParts {
  readonly server: ServerDefinition;
  readonly binding: Binding;
  /** Takes the server's questions, as it takes the messages of any other server. */
  readonly onServerMessage: OnServerMessage;
}

/**
 * Asks the client all questions of a server, or none when one cannot be asked. When one fails, the others are given up.
 * Returns the members of `inputResponses`.
 */
export type AskClient = (
  call: UpstreamCall,
  bytes: Buffer,
  questions: readonly JsonMember[],
  task?: QuestionedTask,
) => Promise<string[]>;

/** The task that questions belong to. */
interface QuestionedTask {
  /** The server's id of the task. */
  readonly id: string;
  /** Gives the questions up. */
  readonly signal: AbortSignal;
}

interface PendingQuestion {
  answered(message: Message): void;
  failed(error: Error): void;
}

interface ServerQuestion {
  readonly method: string;
  readonly params?: object;
}

/** A question names its target itself, so it needs no pending calls. */
const noCalls = createPendingCalls();

/** The questions of a modern server to a handshake-era client. Each is a request through the pipeline. */
export function createClientQuestions({ server, binding, onServerMessage }: QuestionParts, bridge: () => Link) {
  const waiting = new Map<string, PendingQuestion>();
  let count = 0;

  const ask: AskClient = async (call, bytes, members, task) => {
    const { caller } = call;
    if (members.length === 0) return [];
    if (caller === undefined) throw new AmbitError('CLIENT_UNREACHABLE');
    if (caller.pushes.size + members.length > maxPushes) throw new AmbitError('OVERLOADED');
    const all = members.map((member) => JSON.parse(readRawValue(bytes, member)) as unknown);
    if (!all.every(isServerQuestion)) throw new AmbitError('CLIENT_UNREACHABLE');
    const names = new Set<string>();
    const giveUp = () => {
      for (const name of names) waiting.get(name)?.failed(new AmbitError('CLIENT_UNREACHABLE'));
    };
    task?.signal.addEventListener('abort', giveUp, { once: true });
    try {
      const asked = all.map((question) => {
        const name = `"ambit ${++count}"`;
        names.add(name);
        return askOne(call, caller, name, task === undefined ? question : relateToTask(question, task.id));
      });
      const answers = await Promise.all(asked);
      return answers.map((text, at) => `${JSON.stringify(members[at]?.key)}:${text}`);
    } finally {
      task?.signal.removeEventListener('abort', giveUp);
      for (const name of names) waiting.delete(name);
      for (const [id, { link, upstreamId }] of [...caller.pushes]) {
        if (link === bridge() && names.has(upstreamId)) caller.pushes.delete(id);
      }
    }
  };

  /** Asks through the pipeline of server messages. `name` is the id of the question towards the bridge. */
  function askOne(call: UpstreamCall, caller: Caller, name: string, question: ServerQuestion): Promise<string> {
    const { method, params = {} } = question;
    const text = `{"jsonrpc":"2.0","id":${name},"method":${JSON.stringify(method)},"params":${JSON.stringify(params)}}`;
    return new Promise<string>((resolve, reject) => {
      waiting.set(name, {
        answered(message) {
          if (message.result !== undefined) resolve(readRawValue(message.bytes, message.result));
          else
            reject(
              new AmbitError('UPSTREAM_FAILED', { what: 'The client could not answer the request of the server.' }),
            );
        },
        failed: reject,
      });
      const target = {
        channel: findClientChannel(call, caller),
        caller,
        binding: bindToSession(binding, caller.sessionId),
      };
      onServerMessage({
        upstream: server,
        link: bridge(),
        message: readMessage(Buffer.from(text)),
        target,
        pending: noCalls,
        callers: [],
        binding,
        call: undefined,
        respond: () => reject(new AmbitError('CLIENT_UNREACHABLE')),
      }).catch(reject);
    });
  }

  return {
    ask,
    answer(name: string, message: Message): void {
      const asked = waiting.get(name);
      waiting.delete(name);
      asked?.answered(message);
    },
    failAll(): void {
      for (const asked of waiting.values()) asked.failed(new AmbitError('CLIENT_UNREACHABLE'));
      waiting.clear();
    },
  };
}

/** Adds the server's id of the task that a question belongs to. The pipeline of server messages seals it. */
function relateToTask({ method, params = {} }: ServerQuestion, taskId: string): ServerQuestion {
  const { _meta } = params as { readonly _meta?: unknown };
  const others = typeof _meta === 'object' && !Array.isArray(_meta) ? _meta : {};
  return { method, params: { ...params, _meta: { ...others, [relatedTaskKey]: { taskId } } } };
}

function isServerQuestion(value: unknown): value is ServerQuestion {
  const { method, params = {} } = (value ?? {}) as { readonly method?: unknown; readonly params?: unknown };
  const isAsked = typeof method === 'string' && pushKinds.has(method);
  return isAsked && typeof params === 'object' && params !== null && !Array.isArray(params);
}

function findClientChannel(call: UpstreamCall, caller: Caller): Channel {
  if (!call.channel.isGone()) return call.channel;
  if (caller.stream !== undefined && !caller.stream.isGone()) return caller.stream;
  throw new AmbitError('CLIENT_UNREACHABLE');
}
