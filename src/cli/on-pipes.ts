import type { Config } from '../config/schema.ts';
import { serveStdio } from '../entrances/stdio/serve-stdio.ts';
import { openGateway } from '../gateway/gateway.ts';
import { type Flag, type Invocation, text, UsageFault } from './command.ts';
import { followSession, keptSession } from './follow-session.ts';
import { logLevelFlag, logOf } from './log-level.ts';
import type { Places } from './places.ts';
import { trustOf } from './trust-flag.ts';

export const sessionFlags: Readonly<Record<string, Flag>> = {
  workspace: { type: 'string', value: 'W', help: 'where it works' },
  trust: { type: 'string', value: 'T', help: 'direct or sandboxed' },
  session: { type: 'string', value: 'ID', help: 'a session of the gateway, instead of a new one' },
  'log-level': logLevelFlag,
};

/** One session for whoever started us, on stdin and stdout, until they leave or ask us to end. */
export async function serveOnPipes(
  invocation: Invocation,
  places: Places,
  config: Config,
  server: string,
  credentials = true,
): Promise<number> {
  const trustLevel = trustOf(invocation);
  const workspaceId = text(invocation, 'workspace');
  const reference = text(invocation, 'session');
  if (reference !== undefined && (trustLevel ?? workspaceId) !== undefined) {
    throw new UsageFault('--session has its own workspace and trust; leave out --workspace and --trust');
  }
  const kept = reference === undefined ? undefined : await keptSession(invocation, reference);
  // From here on there is something to clear up: a signal must not find us without a handler.
  const told = signalled();
  const gateway = await openGateway({ ...places, config, log: logOf(invocation), credentials });
  const following = kept === undefined ? undefined : followSession(invocation, gateway, kept);
  try {
    const sessionId =
      kept?.id ??
      gateway.openSession({
        ...(workspaceId === undefined ? {} : { workspaceId }),
        ...(trustLevel === undefined ? {} : { trustLevel }),
      }).session.id;
    const { stdin: input, stdout: output } = process;
    const serving = serveStdio({ gateway, server, sessionId, input, output });
    await Promise.race([serving, told, ...(following === undefined ? [] : [following.ended])]);
    return 0;
  } finally {
    following?.close();
    await gateway.close();
    process.stdin.destroy();
  }
}

function signalled(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, () => resolve());
  });
}
