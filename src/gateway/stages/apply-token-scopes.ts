import { AmbitError, isAmbitError } from '../../errors.ts';
import type { UserPrincipal } from '../../identity/principal.ts';
import { withTokenPermissions } from '../../sessions/narrowed-sessions.ts';
import { type AroundStage, addToExchange } from '../stage.ts';
import type { SessionRequest } from './handle-transport.ts';

type AccessToken = NonNullable<UserPrincipal['token']>;

const maxTimerMs = 2_147_483_647;

/**
 * Narrows the session to the permissions of the user's access token. A refusal for which only a scope is missing names
 * the scope, so that the client can ask for it. Streams close when the token expires.
 */
export function applyTokenScopes<Out>(): AroundStage<SessionRequest, unknown, Out> {
  return {
    name: 'applyTokenScopes',
    refuses: ['INSUFFICIENT_SCOPE'],
    isNeeded: ({ principal }) => principal === 'user',
    async around(exchange, next) {
      const token = exchange.principal.kind === 'user' ? exchange.principal.token : undefined;
      if (token === undefined) return next(exchange);
      closeAtExpiry(token, exchange);
      const session = withTokenPermissions(exchange.session, token.permissions);
      try {
        return await next(addToExchange(exchange, { session }));
      } catch (error) {
        throw createScopeError(error, token) ?? error;
      }
    },
  };
}

/** Closes listen streams when the token expires. Running calls finish. */
function closeAtExpiry({ until }: AccessToken, exchange: SessionRequest): void {
  if (!isListenStream(exchange)) return;
  const { channel } = exchange;
  const timer = setTimeout(() => channel.close(), Math.min(Math.max(0, until - Date.now()), maxTimerMs)).unref();
  channel.onGone(() => clearTimeout(timer));
}

/** Tells whether the request opens a stream that listens, rather than one for a single answer. */
export function isListenStream(exchange: SessionRequest): boolean {
  return 'intent' in exchange
    ? exchange.intent === 'stream' || exchange.intent === 'resume'
    : exchange.message.method === 'subscriptions/listen';
}

/** Creates the error that names the missing scopes. Undefined if more scopes would not help. */
function createScopeError(error: unknown, { scopes, permissions }: AccessToken): AmbitError | undefined {
  if (!isAmbitError(error) || error.code !== 'PERMISSION_DENIED' || error.needs === undefined) return undefined;
  const { brought, governed } = permissions;
  const missing = error.needs.filter((name) => !brought.includes(name));
  if (missing.length === 0 || !missing.every((name) => Object.hasOwn(governed, name))) return undefined;
  const needed = error.needs.flatMap((name) => governed[name] ?? []);
  return new AmbitError('INSUFFICIENT_SCOPE', {
    what: `${error.message} The access token does not grant it.`,
    scopes: [...new Set([...scopes, ...needed])],
    ...(error.rule === undefined ? {} : { rule: error.rule }),
  });
}
