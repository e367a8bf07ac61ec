import type { UserPrincipal } from '../../identity/principal.ts';
import type { FinalReply } from '../../protocol/channel.ts';
import { applyEdits, removeMembers, replaceValue } from '../../protocol/json/edit.ts';
import { findMember, readElements, readRawValue, readStringValue, scanEntry } from '../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../protocol/message.ts';
import type { RequestRateLimit } from '../../sessions/request-rate.ts';
import type { Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import { isWithinCeiling } from '../../sessions/trust-bounds.ts';
import type { UserSessions } from '../../sessions/user-sessions.ts';
import type { SessionRecord } from '../../stores/record.ts';
import { type Exchange, emptyJournalDraft, type IdentifiedExchange } from '../exchange.ts';
import { type AroundStage, addToExchange, type Next } from '../stage.ts';

/** More sessions hardly ever add anything to a list. */
const maxAccessKinds = 8;

/** The member that holds the entries of a list, and the member that identifies an entry. */
interface ListForm {
  readonly member: string;
  readonly name: string;
}

/** The lists that can be merged. Resources belong to one session and cannot. */
const listForms: ReadonlyMap<string, ListForm> = new Map([
  ['tools/list', { member: 'tools', name: 'name' }],
  ['prompts/list', { member: 'prompts', name: 'name' }],
  ['resources/templates/list', { member: 'resourceTemplates', name: 'uriTemplate' }],
]);

interface ListForUserOptions extends Pick<UserSessions, 'defaultFor'> {
  readonly sessions: Sessions;
  readonly pace: RequestRateLimit;
  chooseWorkspace(principal: UserPrincipal, message: Exchange['message']): string | undefined;
}

type UserRequest = IdentifiedExchange<Exchange>;

const maxPages = 50;
const listMethods = /^(?:server\/discover|(?:tools|prompts|resources|resources\/templates)\/list)$/;

/**
 * Lists what any session of a user could use. In the modern era a list depends only on the credential. Listing does not
 * count as use of a session.
 */
export function listForUser(options: ListForUserOptions): AroundStage<UserRequest, unknown, FinalReply> {
  const { sessions } = options;

  /** Fetches all pages of one session's list, or the refusal. */
  async function fetchPages<Here extends UserRequest>(
    exchange: Here,
    listAsSession: Session,
    next: Next<Here, FinalReply>,
  ): Promise<FinalReply[]> {
    const pages: FinalReply[] = [];
    let { message } = exchange;
    for (let cursor: string | undefined; pages.length < maxPages; ) {
      if (cursor !== undefined) message = withCursor(message, cursor);
      const page = await next({ ...exchange, message, listAsSession, entry: emptyJournalDraft() });
      pages.push(page);
      cursor = listForms.has(message.method) ? nextCursor(page) : undefined;
      if (cursor === undefined) break;
    }
    return pages;
  }

  async function collectLists<Here extends UserRequest>(
    exchange: Here,
    principal: UserPrincipal,
    next: Next<Here, FinalReply>,
  ): Promise<FinalReply> {
    const { message, entry } = exchange;
    const own = await options.defaultFor(principal, options.chooseWorkspace(principal, message));
    const others = await findDistinctAccess(sessions, principal, own);
    entry.sessionId = own.id;
    const form = listForms.get(message.method);
    // Stages further out see the default session, also if the lists are made with copies of the exchange.
    addToExchange(exchange, { session: own });
    // A cursor belongs to a list that was not merged.
    const plain = others.length === 0 || findMember(message.params?.shape, 'cursor') !== undefined;
    if (plain) return next(addToExchange(exchange, { listAsSession: own }));
    const found = await Promise.allSettled([own, ...others].map((session) => fetchPages(exchange, session, next)));
    const pages = found.flatMap((each) => (each.status === 'fulfilled' ? each.value : [])).filter(isResult);
    const [first, ...rest] = pages;
    // If all are refused, the refusal of the default session is returned.
    if (first === undefined) return next(addToExchange(exchange, { listAsSession: own }));
    return form === undefined ? first : mergeLists(first, rest, form);
  }

  return {
    name: 'listForUser',
    refuses: ['QUOTA_EXCEEDED', 'SESSION_LIMIT', 'STORE_UNAVAILABLE'],
    around(exchange, next) {
      const { principal, era, message } = exchange;
      if (principal.kind !== 'user' || era !== 'modern' || !listMethods.test(message.method)) return next(exchange);
      options.pace.take(`user ${principal.userId}`);
      return collectLists(exchange, principal, next);
    },
  };
}

function nextCursor(reply: FinalReply): string | undefined {
  const page = readPage(reply);
  return page && readStringValue(page.bytes, findMember(page.result?.shape, 'nextCursor'));
}

function isResult(reply: FinalReply): boolean {
  return readPage(reply)?.result !== undefined;
}

function withCursor(message: Message, cursor: string): Message {
  const { params, bytes } = message;
  if (params?.shape === undefined) return message;
  const given = findMember(params.shape, 'cursor');
  const text = JSON.stringify(cursor);
  const edit =
    given === undefined
      ? { start: params.start + 1, end: params.start + 1, text: `"cursor":${text},` }
      : replaceValue(given, text);
  return readMessage(applyEdits(bytes, [edit]));
}

/** Merges pages into the first one: each entry once, unchanged, and no next page. */
function mergeLists(first: FinalReply, others: readonly FinalReply[], { member, name }: ListForm): FinalReply {
  const page = readPage(first);
  const list = findMember(page?.result?.shape, member);
  if (page?.result?.shape === undefined || list === undefined || first.kind !== 'message') return first;
  const entries = new Map<string, string>();
  for (const text of [first, ...others].flatMap((reply) => readEntries(reply, member))) {
    const key = readEntryName(text, name);
    if (!entries.has(key)) entries.set(key, text);
  }
  const edits = [
    replaceValue(list, `[${[...entries.values()].join(',')}]`),
    ...removeMembers(page.result.shape, ({ key }) => key === 'nextCursor'),
  ];
  return { ...first, bytes: applyEdits(page.bytes, edits) };
}

function readPage(reply: FinalReply): Message | undefined {
  return reply.kind === 'message' ? readMessage(reply.bytes) : undefined;
}

function readEntries(reply: FinalReply, member: string): string[] {
  const page = readPage(reply);
  const list = findMember(page?.result?.shape, member);
  return page === undefined || list === undefined
    ? []
    : readElements(page.bytes, list).map((at) => readRawValue(page.bytes, at));
}

function readEntryName(text: string, name: string): string {
  const bytes = Buffer.from(text);
  return readStringValue(bytes, findMember(scanEntry(bytes), name)) ?? text;
}

/** Finds other sessions of a user that may have different access, one for each kind. */
async function findDistinctAccess(sessions: Sessions, principal: UserPrincipal, own: Session): Promise<Session[]> {
  const { userId, ceiling } = principal;
  const kinds = new Map<string, string>([[accessKey(own), own.id]]);
  for (let after: string | null | undefined; after !== null && kinds.size <= maxAccessKinds; ) {
    const page = await sessions.list({ userId }, { limit: 1000, ...(after === undefined ? {} : { after }) });
    for (const record of page.sessions) {
      const kind = accessKey(record);
      if (isWithinCeiling(record, ceiling) && !kinds.has(kind)) kinds.set(kind, record.id);
    }
    after = page.next;
  }
  const ids = [...kinds.values()].slice(1, maxAccessKinds);
  return (await Promise.all(ids.map((id) => sessions.load(id)))).filter((each) => each !== undefined);
}

function accessKey({ trustLevel, workspaceId, agentId, servers, permissions }: Session | SessionRecord): string {
  const lists = [servers ?? undefined, permissions].map((names) => names && [...names].sort());
  return JSON.stringify([trustLevel, workspaceId ?? null, agentId ?? null, ...lists.map((names) => names ?? null)]);
}
