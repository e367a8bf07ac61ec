import { AmbitError, isAmbitError } from '../../errors.ts';
import type { UserPrincipal } from '../../identity/principal.ts';
import { asTokenSays } from '../../sessions/session-views.ts';
import type { Arrived, InSession } from '../exchange.ts';
import { type AroundStage, widen } from '../stage.ts';
import type { Visit } from '../visit.ts';

type Token = NonNullable<UserPrincipal['token']>;

const longestTimer = 2_147_483_647;

/**
 * Narrows the session to the permissions of the user's access token. A refusal for which only a scope is missing names
 * the scope, so that the client can ask for it. Streams close when the token expires.
 */
export function applyTokenScopes<Out>(): AroundStage<InSession<Arrived> | InSession<Visit>, unknown, Out> {
  return {
    name: 'applyTokenScopes',
    refuses: ['INSUFFICIENT_SCOPE'],
    isNeeded: ({ principal }) => principal === 'user',
    async around(exchange, next) {
      const token = exchange.principal.kind === 'user' ? exchange.principal.token : undefined;
      if (token === undefined) return next(exchange);
      endWith(token, exchange);
      const session = asTokenSays(exchange.session, token.permissions);
      try {
        return await next(widen(exchange, { session }));
      } catch (error) {
        throw missingScopes(error, token) ?? error;
      }
    },
  };
}

/** Closes listen streams when the token expires. Running calls finish. */
function endWith({ until }: Token, exchange: InSession<Arrived> | InSession<Visit>): void {
  if (!isListenStream(exchange)) return;
  const { channel } = exchange;
  const timer = setTimeout(() => channel.close(), Math.min(Math.max(0, until - Date.now()), longestTimer)).unref();
  channel.onGone(() => clearTimeout(timer));
}

/** Tells whether the request opens a stream that listens, rather than one for a single answer. */
export function isListenStream(exchange: InSession<Arrived> | InSession<Visit>): boolean {
  return 'intent' in exchange ? exchange.intent === 'stream' : exchange.message.method === 'subscriptions/listen';
}

/** Undefined where a further scope would not help. */
function missingScopes(error: unknown, { scopes, permissions }: Token): AmbitError | undefined {
  if (!isAmbitError(error) || error.code !== 'PERMISSION_DENIED' || error.needs === undefined) return undefined;
  const { brought, governed } = permissions;
  const missing = error.needs.filter((name) => !brought.includes(name));
  if (missing.length === 0 || !missing.every((name) => Object.hasOwn(governed, name))) return undefined;
  const needed = error.needs.flatMap((name) => governed[name] ?? []);
  return new AmbitError('INSUFFICIENT_SCOPE', {
    what: `${error.message} The access token does not bring it.`,
    scopes: [...new Set([...scopes, ...needed])],
    ...(error.rule === undefined ? {} : { rule: error.rule }),
  });
}
