import type { UserPrincipal } from '../../identity/principal.ts';
import type { Reply } from '../../protocol/channel.ts';
import { memberOf } from '../../protocol/json/scan.ts';
import type { RequestPace } from '../../sessions/request-rate.ts';
import type { Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import { type Arrived, blankEntry, type Identified } from '../exchange.ts';
import { atCursor, isResult, listForms, mergedList, nextCursor } from '../lists/merge-lists.ts';
import { otherOutlooks } from '../lists/outlooks.ts';
import type { SessionsOfUsers } from '../sessions/sessions-of-users.ts';
import { type AroundStage, type Next, widen } from '../stage.ts';

export interface ListOptions extends Pick<SessionsOfUsers, 'defaultFor'> {
  readonly sessions: Sessions;
  readonly pace: RequestPace;
  workspaceMeant(principal: UserPrincipal, message: Arrived['message']): string | undefined;
}

type Asked = Identified<Arrived>;

const mostPages = 50;
const lists = /^(?:server\/discover|(?:tools|prompts|resources|resources\/templates)\/list)$/;

/**
 * Shows a user what any of the user's sessions could use, whichever session the request means: in the modern era lists
 * vary with the credential only. Looking through a session is not a use of it.
 */
export function listForUser(options: ListOptions): AroundStage<Asked, unknown, Reply> {
  const { sessions } = options;

  /** All pages of one session's list, as they came; the refusal where it is refused. */
  async function pagesOf<Here extends Asked>(
    exchange: Here,
    looksAs: Session,
    next: Next<Here, Reply>,
  ): Promise<Reply[]> {
    const pages: Reply[] = [];
    let { message } = exchange;
    for (let cursor: string | undefined; pages.length < mostPages; ) {
      if (cursor !== undefined) message = atCursor(message, cursor);
      const page = await next({ ...exchange, message, looksAs, entry: blankEntry() });
      pages.push(page);
      cursor = listForms.has(message.method) ? nextCursor(page) : undefined;
      if (cursor === undefined) break;
    }
    return pages;
  }

  async function gathered<Here extends Asked>(
    exchange: Here,
    principal: UserPrincipal,
    next: Next<Here, Reply>,
  ): Promise<Reply> {
    const { message, entry } = exchange;
    const own = await options.defaultFor(principal, options.workspaceMeant(principal, message));
    const others = await otherOutlooks(sessions, principal, own);
    entry.sessionId = own.id;
    const form = listForms.get(message.method);
    // A cursor is of a list that was not gathered.
    const plain = others.length === 0 || memberOf(message.params?.shape, 'cursor') !== undefined;
    if (plain) return next(widen(exchange, { looksAs: own }));
    const found = await Promise.allSettled([own, ...others].map((session) => pagesOf(exchange, session, next)));
    const pages = found.flatMap((each) => (each.status === 'fulfilled' ? each.value : [])).filter(isResult);
    const [first, ...rest] = pages;
    // All were refused: the refusal of the default session is returned.
    if (first === undefined) return next(widen(exchange, { looksAs: own }));
    return form === undefined ? first : mergedList(first, rest, form);
  }

  return {
    name: 'listForUser',
    refuses: ['QUOTA_EXCEEDED', 'SESSION_LIMIT', 'STORE_UNAVAILABLE'],
    around(exchange, next) {
      const { principal, era, message } = exchange;
      if (principal.kind !== 'user' || era !== 'modern' || !lists.test(message.method)) return next(exchange);
      options.pace.take(`user ${principal.userId}`);
      return gathered(exchange, principal, next);
    },
  };
}
