import { AmbitError } from '../../errors.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { type Command, type Invocation, jsonFlag, readFlag, requirePositional, UsageError } from '../command.ts';
import { controlRequest, type GatewayStream, isUnreachable, openGatewayStream } from '../io/control-request.ts';
import { formatLocalTime, printData, renderDuration, renderTable, shortenEnd, writeLine } from '../io/output.ts';
import { type ListedSession, readLiveSessions } from './session.ts';

const say = (line: string) => void process.stderr.write(`ambit: ${escapeControls(line)}\n`);

/** A session with the sessions that it opened. */
interface SessionNode extends Omit<ListedSession, 'children'> {
  readonly children: SessionNode[];
}

export const sessionTree: Command = {
  operands: '[ID]',
  help: 'List live sessions as a tree of parents and children',
  flags: { json: jsonFlag },
  async run(invocation) {
    const reference = invocation.positionals.length === 0 ? undefined : requirePositional(invocation, 'ID');
    const top = reference === undefined ? undefined : await findSessionId(invocation, reference);
    const roots = growTree(await readLiveSessions(invocation), top);
    // It has ended meanwhile.
    if (top !== undefined && roots.length === 0) throw new AmbitError('SESSION_NOT_FOUND');
    if (roots.length === 0) say('No live sessions. Create one with "ambit session create".');
    if (roots.length > 0 || invocation.flags.json === true) printData(invocation, roots, () => renderTree(roots));
    return undefined;
  },
};

async function findSessionId(invocation: Invocation, id: string): Promise<string> {
  return (await controlRequest(invocation, 'GET /api/v1/sessions/{id}', { id })).id;
}

/**
 * Grows the trees of sessions, in the order of the list; with `top`, only the tree from that session down. A session
 * whose parent is not in the list is a root.
 */
export function growTree(sessions: readonly ListedSession[], top?: string): SessionNode[] {
  const nodes = new Map(sessions.map((session) => [session.id, { ...session, children: [] as SessionNode[] }]));
  const parents = new Map<SessionNode, SessionNode>();
  const roots: SessionNode[] = [];
  for (const node of nodes.values()) {
    const parent = node.parentId === null ? undefined : nodes.get(node.parentId);
    let above = parent;
    while (above !== undefined && above !== node) above = parents.get(above);
    // A damaged store could name a session as a parent of its own parent.
    if (parent === undefined || above === node) roots.push(node);
    else {
      parents.set(node, parent);
      parent.children.push(node);
    }
  }
  if (top === undefined) return roots;
  const start = nodes.get(top);
  return start === undefined ? [] : [start];
}

/** Renders trees as a table. The columns for agent, workspace and task are left out if no session has one. */
export function renderTree(roots: readonly SessionNode[]): string {
  const rows = [...listRows(roots)];
  const isUsed = (field: 'agentId' | 'workspaceId' | 'task') => rows.some(([, node]) => node[field] !== null);
  const [hasAgents, hasWorkspaces, hasTasks] = [isUsed('agentId'), isUsed('workspaceId'), isUsed('task')];
  return renderTable(
    ['SESSION', 'USER', 'AGENT', 'WORKSPACE', 'TRUST', 'IDLE', 'TASK'],
    rows.map(([branch, node]) => [
      `${branch}${node.name ?? shortenId(node.id)}`,
      node.userId,
      hasAgents ? (node.agentId ?? '-') : '',
      hasWorkspaces ? (node.workspaceId ?? '-') : '',
      node.trustLevel,
      renderDuration(node.lastActiveAt),
      hasTasks ? (node.task ?? '-') : '',
    ]),
    { keepWidth: ['SESSION', 'TRUST', 'IDLE'], states: ['TRUST'] },
  );
}

/** Deeper branches lose their beginning, so that the name stays in sight. */
const maxBranchLength = 15;

/** Lists sessions from the top down, each with the branch that leads to it. */
function* listRows(nodes: readonly SessionNode[], indent?: string): Generator<readonly [string, SessionNode]> {
  for (const [i, node] of nodes.entries()) {
    const isLast = i === nodes.length - 1;
    const branch = indent === undefined ? '' : `${indent}${isLast ? '└─ ' : '├─ '}`;
    yield [branch.length > maxBranchLength ? `…${branch.slice(1 - maxBranchLength)}` : branch, node];
    yield* listRows(node.children, indent === undefined ? '' : `${indent}${isLast ? '   ' : '│  '}`);
  }
}

function shortenId(id: string): string {
  return id.slice(0, 8);
}

const eventsRequest = { method: 'GET', path: '/api/v1/events', body: undefined };

/** An event as the stream has it. Later gateways may send further types and members. */
interface WatchedEvent {
  readonly type: string;
  readonly at: string;
  readonly reason?: string;
  /** Only the id when the store has forgotten the session. */
  readonly session?: Partial<ListedSession> & Pick<ListedSession, 'id'>;
}

export const sessionWatch: Command = {
  help: 'Show events of sessions as they happen',
  flags: {
    session: { type: 'string', value: 'ID', help: 'Only this session and the sessions below it' },
    json: { type: 'boolean', help: 'Print the events as they are, one JSON object per line' },
  },
  async run(invocation) {
    if (readFlag(invocation, 'session') === '') throw new UsageError('--session is empty');
    const stream = await openGatewayStream(invocation, eventsRequest).catch(explainMissingGateway);
    const interruption = awaitInterruption();
    try {
      // Output that nobody reads now must not keep an interrupted command waiting.
      await Promise.race([watchEvents(invocation, stream), interruption.happened]);
    } finally {
      interruption.close();
      stream.close();
    }
    return undefined;
  },
};

function explainMissingGateway(error: unknown): never {
  if (!isUnreachable(error)) throw error;
  throw new AmbitError('GATEWAY_UNREACHABLE', {
    what: 'No gateway is running, and only a running gateway sends events.',
    hint: 'Start one with "ambit serve". "ambit session tree" shows the sessions of the store without it.',
  });
}

function awaitInterruption(): { readonly happened: Promise<void>; close(): void } {
  const signals = ['SIGINT', 'SIGTERM'] as const;
  let resolve = () => {};
  const happened = new Promise<void>((done) => {
    resolve = done;
  });
  for (const signal of signals) process.once(signal, resolve);
  return {
    happened,
    close() {
      for (const signal of signals) process.off(signal, resolve);
    },
  };
}

/** Prints events until nobody reads them any more. Throws when the gateway has ended. */
async function watchEvents(invocation: Invocation, { events, readerGone }: GatewayStream): Promise<void> {
  const kin = createKin(invocation);
  // The stream is open already, so that no event is missed between the list and the stream.
  await kin.read();
  say('watching; Ctrl-C ends this');
  for await (const { data } of events) {
    const event = JSON.parse(data) as WatchedEvent;
    if (event.type === 'lost') await kin.read();
    if (kin.learn(event)) await writeLine(invocation, event, renderEvent(event, kin.nameOf));
  }
  if (readerGone.aborted) return;
  throw new AmbitError('GATEWAY_UNREACHABLE', {
    what: 'The gateway has ended.',
    hint: 'Start one with "ambit serve", then watch again.',
  });
}

/** The names of sessions, which events lack about parents, and the sessions whose events are wanted. */
interface Kin {
  /** Reads the live sessions, as far as they are needed. */
  read(): Promise<void>;
  /** Learns from an event. Returns whether it is wanted. */
  learn(event: WatchedEvent): boolean;
  nameOf(id: string): string;
}

/** Names that were learnt first are forgotten first. */
const maxNames = 10_000;

function createKin(invocation: Invocation): Kin {
  const reference = readFlag(invocation, 'session');
  const names = new Map<string, string>();
  const wanted = new Set<string>();
  let top: string | undefined;

  function rememberName(id: string, name: string | null | undefined): void {
    if (name === null || name === undefined) return;
    names.set(id, name);
    if (names.size > maxNames) names.delete(names.keys().next().value as string);
  }

  return {
    async read() {
      if (reference === undefined && invocation.flags.json === true) return;
      if (reference !== undefined) top ??= await findSessionId(invocation, reference);
      const sessions = await readLiveSessions(invocation);
      for (const { id, name } of sessions) rememberName(id, name);
      if (top === undefined) return;
      for (const [, { id }] of listRows(growTree(sessions, top))) wanted.add(id);
    },

    learn({ session }) {
      if (session === undefined) return true;
      rememberName(session.id, session.name);
      if (top === undefined || wanted.has(session.id)) return true;
      if (!session.parentId || !wanted.has(session.parentId)) return false;
      wanted.add(session.id);
      return true;
    },

    nameOf: (id) => names.get(id) ?? shortenId(id),
  };
}

/** Renders an event in one line of a terminal. Other output is not shortened, because programs read it. */
export function renderEvent(
  event: WatchedEvent,
  nameOf: (id: string) => string = shortenId,
  columns = process.stdout.isTTY ? process.stdout.columns : 0,
): string {
  const { type, at, session, reason, ...more } = event;
  const { id, name, parentId, userId, agentId, workspaceId, trustLevel, task } = session ?? {};
  const subject = id === undefined ? [] : [name ? `${name} (${shortenId(id)})` : shortenId(id)];
  const details: Readonly<Record<string, unknown>> = {
    reason: reason === type ? undefined : reason,
    'child of': parentId ? nameOf(parentId) : undefined,
    user: userId,
    agent: agentId,
    workspace: workspaceId,
    trust: type === 'restricted' ? trustLevel : undefined,
    ...more,
    task,
  };
  const shown = Object.entries(details)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([field, value]) => `${field} ${typeof value === 'string' ? value : JSON.stringify(value)}`);
  const words = type === 'lost' ? ['some events are missing; list the sessions with "ambit session tree"'] : shown;
  const parts = [formatLocalTime(new Date(at)).slice(11), type, ...subject, words.join(', ')];
  const line = parts.filter((part) => part !== '').join(' ');
  return columns > 0 ? shortenEnd(line, columns) : escapeControls(line);
}
