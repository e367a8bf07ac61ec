import { AmbitError } from '../../errors.ts';
import { anonymousUser } from '../../identity/principal.ts';
import type { Session } from '../../sessions/session.ts';
import type { HttpServer, ServerDefinition } from '../definition.ts';
import type { Refusal } from '../links/http/send.ts';
import type { Carrying } from './carry-credentials.ts';
import { isForOneUser } from './credential.ts';
import { readChallenge } from './logins/challenge.ts';
import type { Logins } from './logins/logins.ts';

type Values = Readonly<Record<string, string>>;

/** What goes to servers over HTTP for a session's user: credentials that were given, else the token of a login. */
export interface CarryingLogins extends Omit<Carrying, 'headers'> {
  headers(session: Session, server: HttpServer): Values | Promise<Values>;
  /** True when the user's token is another now; throws LOGIN_REQUIRED when only the user can help. */
  refused(session: Session, server: HttpServer, refusal: Refusal): Promise<boolean>;
}

export interface CarryingLoginsOptions {
  readonly carrying: Carrying;
  /** Undefined where nobody is given anything. */
  readonly logins: Logins | undefined;
  readonly isApproved: (server: ServerDefinition) => boolean;
  /** Where the user's browser may log in to a server, if anywhere. */
  readonly linkFor: (userId: string, server: string) => Promise<string | undefined>;
}

const header = 'authorization';

export function carryLogins({ carrying, logins, isApproved, linkFor }: CarryingLoginsOptions): CarryingLogins {
  /** The logins, where this server may be given the user's. */
  function keptFor({ userId }: Session, server: ServerDefinition): Logins | undefined {
    if (logins === undefined || userId === anonymousUser || server.kind !== 'http' || !isForOneUser(server)) {
      return undefined;
    }
    return isApproved(server) ? logins : undefined;
  }

  async function required({ userId }: Session, server: HttpServer, why: string): Promise<AmbitError> {
    const link = await linkFor(userId, server.name);
    const command = `ambit login ${server.name} --user ${quoted(userId)}`;
    return new AmbitError('LOGIN_REQUIRED', {
      ...(link === undefined ? {} : { link }),
      what: `The server "${server.name}" ${why}.`,
      hint:
        link === undefined
          ? `Ask the user to run this command, then try again: ${command}`
          : `Ask the user to open this link in a browser, then try again: ${link}`,
    });
  }

  return {
    ...carrying,
    headers(session, server) {
      const given = carrying.headers(session, server);
      if (given[header] !== undefined) return given;
      const token = keptFor(session, server)?.token(session.userId, server);
      const joined = (found: string | undefined): Values =>
        found === undefined ? given : { ...given, [header]: `Bearer ${found}` };
      return token instanceof Promise ? token.then(joined) : joined(token);
    },

    concerns: (session, server) =>
      carrying.concerns(session, server) || keptFor(session, server)?.has(session.userId, server.name) === true,

    revision(session, server) {
      const given = carrying.revision(session, server);
      const login = keptFor(session, server)?.revision(session.userId, server.name) ?? '';
      return login === '' ? given : JSON.stringify([given, session.userId, login]);
    },

    async refused(session, server, { status, challenge: text, carried }) {
      const kept = keptFor(session, server);
      if (kept === undefined || carrying.headers(session, server)[header] !== undefined) return false;
      const challenge = readChallenge(text);
      const token = carried[header]?.replace(/^Bearer /, '');
      if (status === 403) {
        if (challenge?.error !== 'insufficient_scope' || token === undefined) return false;
        await kept.want(session.userId, server.name, challenge.scopes);
        // What it wants stands on the page of the authorization server; its words here would read like Ambit's own.
        throw await required(session, server, 'wants more than its user has agreed to');
      }
      if (token === undefined) {
        const isFixed = Object.keys(server.headers).some((name) => name.toLowerCase() === header);
        // Without a word of bearer tokens it may want something that no login brings.
        if (isFixed || (challenge === undefined && server.oauth === undefined)) return false;
        throw await required(session, server, 'wants its user to log in there');
      }
      if ((await kept.replace(session.userId, server, token, challenge)) !== undefined) return true;
      throw await required(session, server, 'no longer accepts the login of its user');
    },
  };
}

/** As a shell takes it. */
function quoted(text: string): string {
  return /^[\w@.+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
