/** One JSON-RPC message as a client's transport sent or delivered it. */
export interface LoggedMessage {
  readonly way: 'sent' | 'received';
  readonly message: {
    readonly id?: string | number;
    readonly method?: string;
    readonly params?: Readonly<Record<string, unknown>>;
    readonly error?: { readonly code: number };
  };
}

export interface TransportLike {
  onmessage?: unknown;
  send: unknown;
}

/**
 * Keeps what passes a connected transport. The SDKs drop a progress notification that arrives in one chunk with the
 * answer, so only the transport knows whether all of them came.
 */
export function logWire(transport: TransportLike): LoggedMessage[] {
  const log: LoggedMessage[] = [];
  const receive = transport.onmessage as (message: LoggedMessage['message'], extra?: unknown) => void;
  const send = (transport.send as (message: LoggedMessage['message'], options?: unknown) => unknown).bind(transport);
  transport.onmessage = (message: LoggedMessage['message'], extra?: unknown) => {
    log.push({ way: 'received', message });
    receive(message, extra);
  };
  transport.send = (message: LoggedMessage['message'], options?: unknown) => {
    log.push({ way: 'sent', message });
    return send(message, options);
  };
  return log;
}

/** The progress received for one request, in order; a client has no use for what comes after the answer. */
export function findProgress(log: readonly LoggedMessage[], requestId: string | number | undefined) {
  const before: { progress: unknown; total: unknown }[] = [];
  const afterAnswer: unknown[] = [];
  let answered = false;
  for (const { way, message } of log) {
    if (way === 'sent') continue;
    if (message.method === undefined && message.id === requestId) answered = true;
    if (message.method !== 'notifications/progress' || message.params?.progressToken !== requestId) continue;
    const { progress, total } = message.params as Record<string, unknown>;
    if (answered) afterAnswer.push(progress);
    else before.push({ progress, total });
  }
  return { before, afterAnswer };
}

/** Messages no client could place: answers to nothing, answers given twice, pushes under an id used before. */
export function findStrayMessages(log: readonly LoggedMessage[]): LoggedMessage['message'][] {
  const waiting = new Set<string | number>();
  const pushed = new Set<string | number>();
  const found: LoggedMessage['message'][] = [];
  for (const { way, message } of log) {
    const { id, method } = message;
    if (way === 'sent') {
      if (id !== undefined && method !== undefined) waiting.add(id);
    } else if (id !== undefined && method === undefined) {
      if (!waiting.delete(id)) found.push(message);
    } else if (id !== undefined) {
      if (pushed.has(id)) found.push(message);
      pushed.add(id);
    } else if (method === 'notifications/progress') {
      if (!waiting.has(message.params?.progressToken as number)) found.push(message);
    }
  }
  return found;
}
